"""The circuits of subscriptions as the compiler hands them to a run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from dbsp.circuit.graph import Graph, Node
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass


class Source(NamedTuple):
    """What a circuit reads of a run.

    A `relation` has all of its rows, an `input` those that were inserted, without the rows that
    rules derive for it. The `name` of a `node` is a node of the circuit of the run.
    """

    kind: str
    name: str | Node


@dataclass(frozen=True)
class LiveGraph:
    """A physical circuit beside that of the run, which reads traces outside of it."""

    graph: Graph
    reads: Mapping[str, Source]
    """By input of the circuit, what it reads."""
    orders: Sequence[tuple[str, tuple[int, ...]]]
    """The traces that it reads: the input and the column order."""
    output: str
    """Its main output; empty for the circuit of a trace."""
    given: str
    """The input of the constants; empty if it has none."""
    replays: bool
    """Whether it starts by a step over all rows that it reads; else it starts empty."""


@dataclass(frozen=True)
class LiveQuery:
    """A query over the relations of a program; queries of one `form` share a circuit."""

    form: Hashable
    constants: tuple[Any, ...]
    given: Schema
    columns: Schema


class LivePrograms(Protocol):
    """What subscriptions need of the program of a run; its compiler provides it."""

    def node_of(self, run: Any, source: Source) -> Node | None:
        """Return the node of the running circuit that emits the rows of a source, if it has one."""

    def columns_of(self, source: Source) -> Schema:
        """Return the columns of a source."""

    def has_relation(self, name: str) -> bool:
        """Return whether the program has this relation. Raises InputError for no name or query."""

    def query_of(self, text: str) -> LiveQuery:
        """Read a query. Raises CompileError."""

    def query_graph(self, query: LiveQuery) -> LiveGraph:
        """Return the circuit of the form of a query."""

    def relation_graph(self, name: str) -> LiveGraph:
        """Return the circuit of a relation that the running circuit lacks. Raises InputError."""

    def stratum_of(self, name: str) -> tuple[str, ...]:
        """Return the relations that are computed together with this one."""

    def trace_graph(self, source: Source, order: Sequence[int]) -> LiveGraph:
        """Return the circuit that keeps a source sorted."""
