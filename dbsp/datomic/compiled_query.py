"""Compiled queries: the program of a query for its arguments, and the run that evaluates it.

Parsing and compiling take longer than most queries, so both are remembered: programs by the text of
the query and of its rules, the kinds of its arguments, and the schemas of its databases.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datomic.circuits.query_program import FOUND, QueryProgram
from dbsp.compiler.datomic.meaning.query_checks import check_query
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.interner import Interner
from dbsp.data.zset import ZSet
from dbsp.datomic.matched_arguments import MatchedArguments
from dbsp.datomic.query_sources import DatabaseCatalog, SourceTraces, TracedFacts, TuplesCatalog
from dbsp.datomic.relation_counts import RelationCounts
from dbsp.datomic.shared_values import SHARED_INTERNER
from dbsp.diagnostics import ProgramSources
from dbsp.errors import InvariantError
from dbsp.runtime.located_errors import without_rollback
from dbsp.runtime.run import Run
from dbsp.state.external_traces import ExternalTraces

_GROWN = 4
"""A query is planned again when its sources have this many times as many rows, ..."""

_FEW = 1000
"""... and that many more."""

_REMEMBERED = 256
"""The number of programs that an interner's cache keeps."""


@lru_cache(maxsize=1024)
def _parsed_text(text: str) -> tree.Query:
    return parse_query(text)


def parsed(query: Any) -> tree.Query:
    """Return the tree of a query in EDN text or Python data."""
    return _parsed_text(query) if isinstance(query, str) else parse_query(query)


_NO_FACTS = SourceTraces({}, {})


class CompiledQuery:
    """A program and its run; the run keeps nothing between two answers."""

    def __init__(self, program: QueryProgram, interner: Interner) -> None:
        self.program = program
        self._interner = interner
        self._run: Run | None = None
        self._traces: ExternalTraces | None = None
        self._planned_for = 0.0
        """The number of rows of the sources when the run was planned."""
        self._calls = 0

    def start(self, facts: Mapping[str, TracedFacts]) -> tuple[Run, ExternalTraces]:
        """Return a new live run over these facts, and its traces, whose source can be replaced."""
        return self._start(self.program.live_graph, facts)

    def start_answer(
        self, plans: Mapping[int, RulePlan], facts: Mapping[str, TracedFacts]
    ) -> tuple[Run, ExternalTraces]:
        """Return a new run that answers by these plans, and its traces."""
        return self._start(self.program.graph(plans), facts)

    def _start(self, graph: Graph, facts: Mapping[str, TracedFacts]) -> tuple[Run, ExternalTraces]:
        traces = ExternalTraces(SourceTraces(self.program.bases, facts))
        return Run(graph, interner=self._interner, traces=traces), traces

    def plans(self, facts: Mapping[str, TracedFacts]) -> dict[int, RulePlan]:
        """Return the plans of an answer for the current counts of these facts."""
        return self.program.plans(RelationCounts(self.program.bases, facts))

    def answer(self, facts: Mapping[str, TracedFacts], staged: Mapping[str, Any]) -> ZSet:
        """Return the rows of the query over these facts."""
        self._calls += 1
        if self._run is None or self._calls & (self._calls - 1) == 0:
            self._plan(facts)  # at the first call, and then at every doubling of their number
        if self._run is None or self._traces is None:
            raise InvariantError("expected a planned query; this is a defect of dbsp")
        self._traces.source = SourceTraces(self.program.bases, facts)
        try:
            with without_rollback():
                return self._run.preview(staged)[FOUND]
        finally:
            self._traces.source = _NO_FACTS  # a remembered query keeps no database alive

    def _plan(self, facts: Mapping[str, TracedFacts]) -> None:
        """Plan for the current counts, unless the sources have about as many rows as before."""
        counts = RelationCounts(self.program.bases, facts)
        total = counts.total
        if self._run is not None and total <= _GROWN * self._planned_for + _FEW:
            return
        self._run, self._traces = self.start_answer(self.program.plans(counts), facts)
        self._planned_for = total


class QueryCache:
    """The compiled queries of one interner."""

    def __init__(self, interner: Interner) -> None:
        self.interner = interner
        self._known: OrderedDict[tuple[Any, ...], CompiledQuery] = OrderedDict()

    def compiled(
        self,
        query: tree.Query,
        key: Any,
        arguments: MatchedArguments,
        catalogs: Mapping[str, DatabaseCatalog | TuplesCatalog],
        functions: Mapping[str, Callable[..., Any]],
    ) -> CompiledQuery:
        """Return the compiled query for these arguments; `key` stands for its text."""
        rules = arguments.rules
        given = {
            variable.name: arguments.values[at]
            for at, each in enumerate(query.inputs)
            if isinstance(each, tree.BindingInput) and isinstance(each.binding, tree.BindScalar)
            for variable in (each.binding.variable,)
            if variable.name in _aggregate_arguments(query)
        }
        called = {**functions, **arguments.functions}
        identity = (
            key,
            arguments.rules_key,
            tuple(arguments.kinds.items()),
            tuple((name, _identity(catalog)) for name, catalog in catalogs.items()),
            tuple((name, id(function)) for name, function in called.items()),
            tuple((name, repr(value)) for name, value in given.items()),
        )
        found = self._known.get(identity)
        if found is None:
            check_query(query, rules, functions=called)
            program = QueryProgram(
                query,
                () if rules is None else rules.definitions,
                catalogs,
                arguments.kinds,
                texts_of(query, rules),
                functions=called,
                arguments=given,
            )
            found = self._known[identity] = CompiledQuery(program, self.interner)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(identity)
        return found


def _aggregate_arguments(query: tree.Query) -> set[str]:
    return {
        argument.name
        for element in query.find.elements
        if isinstance(element, tree.FindAggregate)
        for argument in element.arguments
        if isinstance(argument, tree.Variable)
    }


def _identity(catalog: DatabaseCatalog | TuplesCatalog) -> Any:
    if isinstance(catalog, DatabaseCatalog):
        return (catalog.is_history, catalog.schema.key)
    return None


def texts_of(query: tree.Query, rules: tree.Rules | None) -> ProgramSources:
    """Return the texts of a query and of its rules."""
    return ProgramSources({**(rules.sources.texts if rules is not None else {}), **query.sources.texts})


@cache
def query_cache() -> QueryCache:
    """Return the compiled queries of the process."""
    return QueryCache(SHARED_INTERNER)
