"""What subscriptions need of the program of a run: its relations, and the circuits of queries.

A relation of the program is a stream of the running circuit if that circuit computes all of its
rows. Rewritings remove relations and restrict others to the rows that the outputs need; these are
computed by circuits of their own while somebody follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dbsp.circuit.graph import Node
from dbsp.compiler.datalog.circuits.lowering_context import relation_schema
from dbsp.compiler.datalog.meaning.checked import CheckedProgram, Rule
from dbsp.compiler.datalog.rewrites.demand import demand_name
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.program_planner import PlannableProgram, ProgramPlanner
from dbsp.data.schema import Schema
from dbsp.runtime.live_graph import LiveGraph, LiveQuery, Source

REMEMBERED = 1_000
"""The number of texts of queries that a run remembers."""


class CompiledProgram(PlannableProgram, Protocol):
    """The part of a `Program` that subscriptions need."""

    @property
    def checked(self) -> CheckedProgram: ...


class SubscribedProgram:
    """The relations of the program of a run, and the circuits of queries over them."""

    def __init__(self, program: CompiledProgram, max_iterations: int) -> None:
        self._compiled = program
        self._read: dict[str, LiveQuery] = {}
        """Queries by their texts: many subscribers ask the same."""
        self._max_iterations = max_iterations

    @property
    def _checked(self) -> CheckedProgram:
        return self._compiled.checked

    def has_relation(self, name: str) -> bool:
        """Return whether the program has a relation of this name.

        Raises InputError for an unknown name.
        """
        if name in self._checked.relations:
            return True
        if name.replace(".", "_").isidentifier():
            from dbsp.compiler.why.question import expect_relation

            expect_relation(name, self._checked.relations)
        return False

    def columns_of(self, source: Source) -> Schema:
        """Return the columns of a relation."""
        return relation_schema(self._checked.relations[str(source.name)])

    def stratum_of(self, name: str) -> tuple[str, ...]:
        """Return the relations that are computed together with this one."""
        strata = self._checked.strata
        return next((each.relations for each in strata if name in each.relations), (name,))

    def query_of(self, text: str) -> LiveQuery:
        """Read a query. Raises CompileError, and InputError if it numbers its rows."""
        found = self._read.get(text)
        if found is None:
            from dbsp.compiler.subscribed_query import read_query  # most runs have no subscriptions

            query = read_query(self._checked, text)
            given = relation_schema(query.form.given)
            if len(self._read) >= REMEMBERED:
                self._read.clear()
            found = self._read[text] = LiveQuery(query.form, query.constants, given, query.columns)
        return found

    def query_graph(self, query: LiveQuery) -> LiveGraph:
        """Return the circuit of the form of a query."""
        from dbsp.compiler.subscribed_circuits import query_graph
        from dbsp.compiler.subscribed_query import QueryForm

        if not isinstance(query.form, QueryForm):
            raise AssertionError("expected a query that this program has read")
        return query_graph(self._checked, query.form, self._max_iterations)

    def relation_graph(self, name: str) -> LiveGraph:
        """Return the circuit of a relation that the running circuit lacks. Raises InputError."""
        from dbsp.compiler.subscribed_circuits import relation_graph

        return relation_graph(self._checked, name, self._max_iterations)

    def trace_graph(self, source: Source, order: Sequence[int]) -> LiveGraph:
        """Return the circuit that keeps a source sorted."""
        from dbsp.compiler.subscribed_circuits import trace_graph

        return trace_graph(self.columns_of(source), order, source)

    # --- relations that the running circuit computes ----------------------------------------------

    def node_of(self, run: Any, source: Source) -> Node | None:
        """Return the node of the running circuit that emits the rows of a source, if it has one."""
        name = str(source.name)
        port = run.input_ports.get(name)
        if source.kind == "input":
            return None if port is None else port.node
        if name in run.output_ports:
            found: Node = run.output_ports[name].node.inputs[0].node
            return found
        rules = _rules_for(name, self._checked)
        if port is not None and not rules and self._checked.relations[name].is_plain:
            inserted: Node = port.node
            return inserted
        stream = run.graph.named.get(name)
        columns = self.columns_of(source)
        if stream is None or (port is not None and stream.node is port.node):
            return None  # the stream of an input lacks the rows that rules derive for it
        if stream.schema.types != columns.types or not self._is_whole(run, name, rules):
            return None
        node: Node = stream.node
        return node

    def _is_whole(self, run: Any, name: str, rules: Sequence[Rule]) -> bool:
        """Return whether the running circuit computes all rows of a relation, not only needed ones.

        `demand` and `specialise` restrict a relation under its name.
        """
        program: PlannableProgram = self._compiled
        if isinstance(run.planner, ProgramPlanner):
            if run.planner.is_unknown:
                return False  # its plans do not say what its circuit restricts
            program = run.planner.program
        rewritten = program.rewritten
        if demand_name(name) in rewritten.relations:
            return False
        present = _rules_for(name, rewritten)
        return bool(present) and all(
            _constant_in(present, column) in (None, _constant_in(rules, column))
            for column in range(self._checked.relations[name].arity)
        )


def _rules_for(name: str, program: CheckedProgram) -> list[Rule]:
    return [rule for rule in program.rules if rule.head.relation == name]


def _constant_in(rules: Sequence[Rule], column: int) -> syntax.Constant | None:
    """Return the constant that all rules have in a column of their heads, if there is one."""
    found = {rule.head.arguments[column] for rule in rules}
    first = next(iter(found), None)
    return first if len(found) == 1 and isinstance(first, syntax.Constant) else None
