"""The shared state of the lowering: relations, plans, and the circuit under construction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from dbsp.circuit.program_place import ColumnTypes, ProgramPlace
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.tree.kinds import Kind, type_of
from dbsp.data.schema import Schema
from dbsp.diagnostics import ProgramSources, SourceSpan
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.fixpoint_builder import FixpointBuilder
from dbsp.operators.streams.stream import Stream

Streams: TypeAlias = Mapping[str, Stream]
"""The streams of the relations that rules read, in the program or in one recursion, by name."""

NO_VARIABLES: Mapping[str, str] = {}

TYPE_WORDS = {str(type_of(kind)): kind.value for kind in (Kind.NUMBER, Kind.FLOAT, Kind.SYMBOL)}
"""The types of the engine in the words of Datalog, for columns without a declared type."""


def relation_schema(relation: Relation) -> Schema:
    """Return the columns of a relation with the types of the engine."""
    return Schema(
        tuple(attribute.name for attribute in relation.attributes),
        tuple(type_of(attribute.kind) for attribute in relation.attributes),
    )


class LoweringContext:
    """The program, the plan of every rule by its number, and the circuit under construction."""

    def __init__(
        self,
        program: checked.CheckedProgram,
        plans: Mapping[int, RulePlan],
        circuit: Circuit,
        max_iterations: int,
        recursion: Recursion,
        external: frozenset[str] = frozenset(),
    ) -> None:
        self.relations = program.relations
        self.plans = plans
        self.circuit = circuit
        self.max_iterations = max_iterations
        self.recursion = recursion
        self.external = external
        """The inputs whose rows an index outside of the run keeps."""
        self.given: dict[str, Stream] = {}
        """The streams of the inputs."""
        self.scope: Circuit | FixpointBuilder = circuit
        """Where recursive strata open their scopes."""
        self._sources = program.sources

    def sources(self, relation: str) -> ProgramSources:
        """Return the texts of the program, for messages about a relation or its rules."""
        found = self.relations.get(relation)
        declared = relation if found is None else found.declared
        instance, dot, _ = declared.rpartition(".")
        return replace(self._sources, note=f"in component instance '{instance}'") if dot else self._sources

    def at(
        self,
        relation: str,
        span: SourceSpan | None = None,
        variables: Mapping[str, str] = NO_VARIABLES,
        clause: SourceSpan | None = None,
    ) -> AbstractContextManager[None]:
        """New nodes in the `with` block get the place of the declaration, or of a part of a rule.

        `span` is the place in the rule `clause`, and `variables` has the types of its variables.
        """
        place = span or self.relations[relation].span
        types = self._types(relation, variables)
        return self.circuit.at(ProgramPlace.of(place, self.sources(relation), types, clause))

    def reading(self, relation: str) -> AbstractContextManager[None]:
        """New nodes in the `with` block get the column types of a relation that a rule reads."""
        place = self.circuit.current_source()
        if isinstance(place, ProgramPlace):
            types = self._types(relation, NO_VARIABLES)
            place = ProgramPlace.of(place.span, place.sources, types, place.clause)
        return self.circuit.at(place)

    def _types(self, relation: str, variables: Mapping[str, str]) -> ColumnTypes:
        found = self.relations.get(relation)  # the classes of an equivalence are not declared
        declared = {column.name: column.type_name for column in found.attributes} if found else {}
        return ColumnTypes(declared, variables, TYPE_WORDS)

    def fixpoint(self, name: str) -> FixpointBuilder:
        """Open a scope in the circuit, or in the scope under construction."""
        if isinstance(self.scope, FixpointBuilder):
            return self.scope.fixpoint(name, max_iterations=self.max_iterations)
        return self.scope.fixpoint(name, max_iterations=self.max_iterations, recursion=self.recursion)

    @contextmanager
    def inside(self, scope: FixpointBuilder) -> Iterator[None]:
        """Strata that are lowered in the `with` block open their scopes within this one."""
        self.scope = scope
        try:
            yield
        finally:
            self.scope = self.circuit

    def name(self, relation: str, stream: Stream) -> None:
        """Let runs find the rows of a relation in the integral of this stream.

        Within a scope of several strata, the rows are found in the results of the scope.
        """
        if self.scope is self.circuit:
            self.circuit.named[relation] = stream

    def schema(self, relation: str) -> Schema:
        return relation_schema(self.relations[relation])

    def union(self, name: str, parts: Sequence[Stream]) -> Stream:
        """Return the union of the parts as a set; an empty relation when there are no parts."""
        with self.at(name):
            if not parts:
                return self.circuit.constant([], self.schema(name))
            return parts[0].union(*parts[1:]).distinct()

    @cached_property
    def unit(self) -> Stream:
        """The relation without columns that holds its one row."""
        return self.circuit.constant([()], Schema((), ()))
