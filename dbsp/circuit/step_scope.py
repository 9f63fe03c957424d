"""The interface of the scope in which a step runs; `dbsp.runtime.scope.Scope` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from dbsp.circuit.shard_link import ShardLink
from dbsp.data.interner import Interner
from dbsp.data.types import Type
from dbsp.kernels.arrays import Codes
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.journal import Journalled
from dbsp.state.state_table import StateTable
from dbsp.state.trace import Trace
from dbsp.state.trace_limit import TraceLimit

T = TypeVar("T")


class StepScope(Protocol):
    """The scope of a step: it owns the state of the step and knows the current time.

    `Operator.start` requests the state; everything else may be read at any time.
    """

    @property
    def interner(self) -> Interner:
        """The dictionary between values and codes."""

    @property
    def link(self) -> ShardLink:
        """The connection to the other shards that run the same circuit."""

    @property
    def nested(self) -> bool:
        """Whether this is the scope of a fixpoint."""

    @property
    def depth(self) -> int:
        """The number of coordinates of a time: of the timed scopes around the step."""

    @property
    def now(self) -> Codes:
        """The time within the tick: the iterations of the timed scopes, outermost first."""

    @property
    def iteration(self) -> int:
        """The iteration of this scope, 0 at the top level."""

    @property
    def first_tick(self) -> bool:
        """Whether no tick has been committed yet."""

    @property
    def journal(self) -> list[Journalled]:
        """The state that this tick changes; a step with its own state appends it once per tick."""

    def new_trace(self, arity: int, types: Sequence[Type] | None = None) -> Trace:
        """Return a new trace of rows of `arity` columns, in a nested scope followed by the time.

        `types` are the types of the columns. Without them, each number that happens to be the id of
        an interned value keeps the value in memory.
        """

    def new_table(self) -> StateTable[Any, Any]:
        """Return a new dictionary for the state of a step (see `dbsp.state.state_table`)."""

    def limit(self, limit: TraceLimit) -> None:
        """Drop the rows below the limit after each tick of this run."""

    def external_traces(self, relation: str) -> ExternalTraces:
        """Return the traces outside of the circuit.

        Raises CircuitError if the run was started without them.
        """

    def shared(self, kind: type[T]) -> T:
        """Return the object of this class that the steps of the scope share."""
