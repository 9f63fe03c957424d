"""A compiled query: its rules, plans and circuit, and the inputs that its arguments fill.

One circuit answers once and stays live. The datoms are in the indices of the databases, and all
other relations are empty as long as the relation `query` is. Then

    answer  =  the delta of the tick that inserts the row of `query`        (rolled back)
    live    =  the same tick, committed, and one tick for each transaction

by the chain rule of DBSP (arXiv 2203.16684, proposition 3.2): the integral of the circuit's output
after both kinds of ticks is the query over the integrals of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.circuits.external_rows import check_external_rows
from dbsp.compiler.datalog.circuits.lower import lower_relations
from dbsp.compiler.datalog.circuits.lowering_context import LoweringContext
from dbsp.compiler.datalog.circuits.program_report import plans_text
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import (
    CHECKED,
    COMPILER,
    MAX_ITERATIONS,
    CompileContext,
    SourceText,
)
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.plan_rules import plan_rules
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind
from dbsp.compiler.datomic.circuits.answer_strategy import Counts, strategy_for
from dbsp.compiler.datomic.circuits.find_aggregates import aggregated, place_of_sums
from dbsp.compiler.datomic.circuits.query_inputs import QueryInputs
from dbsp.compiler.datomic.meaning.base_relations import BaseRelation, Catalog
from dbsp.compiler.datomic.meaning.checked_rules import CheckedQuery, check_rules
from dbsp.compiler.datomic.meaning.draft_rules import QUERY, RESULT, Parameter
from dbsp.compiler.datomic.meaning.draft_writer import DraftWriter
from dbsp.compiler.datomic.meaning.rule_writer import write_rules
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.diagnostics import ProgramSources
from dbsp.edn.edn_values import Keyword
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.stages.join_strategy import JoinStrategy
from dbsp.operators.streams.builder import Circuit

FOUND = "find"
"""The output of the circuit."""

_UNGUARDED = frozenset(
    ("propagate_constants", "drop_dead", "specialise", "inline_once", "factor", "separate", "share")
)
"""Rewritings that may write rules over sources alone, without the row of `query`."""


class QueryProgram:
    """A query, compiled for the kinds of its arguments."""

    def __init__(
        self,
        query: tree.Query,
        rules: Sequence[tree.RuleDefinition],
        catalogs: Mapping[str, Catalog],
        kinds: Mapping[str, AnyKind | None],
        sources: ProgramSources,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Compile a query that has been checked.

        Args:
            query: the query.
            rules: the definitions of its rules.
            catalogs: what is known of each source, by its name in the query.
            kinds: the kinds of the values of `:in`, by variable; for a collection of tuples, those
                of its columns, by source and position as in `$2 0`.
            sources: the texts of the query and of the rules, for messages.
            functions: the functions of the user, by name or by variable of `:in`.
            arguments: the values of variables of `:in` that are arguments of aggregates.
        """
        self.query = query
        self._functions = dict(functions or {})
        self._arguments = dict(arguments or {})
        columns = [element.variable.name for element in query.find.elements]
        # Without an aggregate, rows that differ in a variable of `:with` alone are one row.
        if query.find.aggregates:
            columns += [variable.name for variable in query.with_]
        self.variables = tuple(dict.fromkeys(columns))
        """The columns of the rows before aggregates: the variables of `:find` and `:with`."""
        self._sources = sources
        report = QueryReport(sources)
        writer = DraftWriter(rules, catalogs, self._functions, report)
        draft = write_rules(writer, query, self.variables)
        if not draft.parameters:
            draft.parameters.append(Parameter("present", 0, is_constant=True))
        self.named: Mapping[tuple[str, Keyword], int] = draft.named
        """The attributes that the clauses name, by source and name."""
        self.inputs = QueryInputs(query, draft)
        found = check_rules(draft, self.inputs.kinds(kinds), (RESULT,), sources)
        self._options = CompileOptions(
            magic=tuple(sorted(draft.on_demand)),
            disabled=_UNGUARDED,
            external=frozenset(found.bases),
            single=frozenset({QUERY}),
        )
        self.bases: Mapping[str, BaseRelation] = found.bases
        """The relations of the sources that the circuit reads, by the name of its input."""
        self.inputs.settle(found)
        self.program = self._rewritten(found)
        self._kinds = found.kinds

    def _rewritten(self, found: CheckedQuery) -> checked.CheckedProgram:
        """Return the program in which relations of which few rows are needed are on demand."""
        text = SourceText("", self.query.file, Sources())
        context = CompileContext.of(text, self._options)
        program: checked.CheckedProgram = COMPILER.run(
            found.program, context, start=CHECKED, until="stratify"
        )
        return guarded(program)

    @cached_property
    def live_plans(self) -> dict[int, RulePlan]:
        """The plans of a live query: one multi-way join per rule, without partial results."""
        policy = Policy(Statistics.none(), Strategy.WCOJ, external=self._options.external)
        return plan_rules(self.program, policy)

    def plans(self, counts: Counts | None = None) -> dict[int, RulePlan]:
        """Return the plans of an answer, for sources with these counts (see `answer_strategy`)."""
        policy = Policy(
            Statistics.none(),
            external=self._options.external,
            decide=lambda conjunction: strategy_for(conjunction, counts),
        )
        return plan_rules(self.program, policy)

    @cached_property
    def live_graph(self) -> Graph:
        """The physical circuit of a live query."""
        return self._physical(self.live_plans, Recursion.INCREMENTAL)

    def graph(self, plans: Mapping[int, RulePlan]) -> Graph:
        """Return the physical circuit of an answer with these plans."""
        return self._physical(plans, Recursion.INSERT_ONLY)

    def _physical(self, plans: Mapping[int, RulePlan], recursion: Recursion) -> Graph:
        graph = self.circuit(plans, recursion).circuit(Stage.PHYSICAL)
        check_external_rows(graph)
        return graph

    def circuit(self, plans: Mapping[int, RulePlan], recursion: Recursion) -> Circuit:
        """Return the query circuit of these plans."""
        circuit = Circuit("query", strategy=JoinStrategy.AS_WRITTEN)  # the plans have chosen the joins
        context = LoweringContext(
            self.program,
            plans,
            circuit,
            MAX_ITERATIONS,
            recursion,
            self._options.external,
        )
        rows = lower_relations(context, self.program)[RESULT]
        columns = {name: f"c{at}" for at, name in enumerate(self.variables)}
        kinds = {name: self._kinds.of_column(RESULT, at) for at, name in enumerate(self.variables)}
        find, functions = self.query.find, self._functions
        with context.at(RESULT, place_of_sums(find, kinds, functions)):
            found = aggregated(rows, find, columns, kinds, functions, self._arguments, self._sources)
            circuit.output(FOUND, found)
        return circuit

    def explain(self, plans: Mapping[int, RulePlan]) -> str:
        """Return the rules and these plans as text."""
        return plans_text(self.program, plans)


def guarded(program: checked.CheckedProgram) -> checked.CheckedProgram:
    """Return the program with the row of `query` in every rule over sources alone.

    A rule for the demand of a relation may have lost it, since it shares no variable.
    """
    derived = {rule.head.relation for rule in program.rules}
    relation = program.relations[QUERY]

    def guard(rule: checked.Rule) -> checked.Rule:
        read = {literal.relation for literal in rule.body if isinstance(literal, syntax.Atom)}
        if QUERY in read or not read.isdisjoint(derived):
            return rule
        arguments = tuple(
            syntax.Variable(f"query#{at}", rule.span, attribute.kind)
            for at, attribute in enumerate(relation.attributes)
        )
        return replace(rule, body=(syntax.Atom(QUERY, arguments, rule.span, rule.span), *rule.body))

    rules = tuple(map(guard, program.rules))
    by_number = {rule.number: rule for rule in rules}
    strata = tuple(
        replace(stratum, rules=tuple(by_number[rule.number] for rule in stratum.rules))
        for stratum in program.strata
    )
    return replace(program, rules=rules, strata=strata)
