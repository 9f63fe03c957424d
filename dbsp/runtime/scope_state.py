"""The state of one scope: the traces and tables of each node, their commit and their rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from dbsp.circuit.graph import Graph, Node
from dbsp.data.types import Type
from dbsp.errors import CheckpointError, CircuitError, InvariantError, expect_present
from dbsp.lazy_dataclass import dataclass
from dbsp.state.journal import Journalled
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.state_table import StateTable
from dbsp.state.trace import Trace
from dbsp.state.trace_limit import TraceLimit

MERGE_FUEL = 4096
"""The rows that a trace may merge after every tick."""

MERGE_FACTOR = 32
"""The additional rows that a trace may merge for each row that the tick added to it. Merging keeps
up at this rate, since a row takes part in a few merges with sorted runs up to
`dbsp.state.merging_stack.RATIO` times as large as its own."""

State: TypeAlias = "Trace | StateTable[Any, Any]"
"""A trace or a table that a scope keeps for a step between ticks."""


@dataclass(frozen=True)
class NestedCarriedState:
    """The properties that a nested scope takes over, besides its traces and tables."""

    journal: list[Journalled]
    timed: bool


@dataclass(frozen=True)
class CarriedState:
    """The state that a new scope takes over from an old one instead of starting empty.

    See `dbsp.runtime.transplant`.
    """

    journal: list[Journalled] = field(default_factory=list)
    """The journal to which the traces and tables of the old scope write."""
    states: Mapping[Node, Sequence[State]] = field(default_factory=dict)
    """By node of the new graph, the states to take over, in the order of its step's requests."""
    nested: Mapping[Graph, NestedCarriedState] = field(default_factory=dict)
    """By nested graph of the new graph, the properties that its scope takes over."""


class ScopeState:
    """The traces and tables of one scope by node, and the journal of the tick.

    A step gets its state while it is created; the state belongs to the node `starting`.
    """

    __slots__ = ("budget", "by_node", "carried", "first_tick", "journal", "limits", "starting", "unmerged")

    def __init__(self, nodes: Sequence[Node], carried: CarriedState, budget: MemoryBudget | None) -> None:
        self.carried = carried
        self.budget = budget
        """The memory that the traces may use; None without a limit."""
        self.journal = carried.journal
        """The state that this tick has changed."""
        self.by_node: dict[Node, list[State]] = {}
        """The states of each node, in the order in which its step got them."""
        self.starting: Node | None = None
        """The node whose step is being created."""
        self.first_tick = True
        self.limits: list[TraceLimit] = []
        """The traces that forget rows."""
        self.unmerged: set[Trace] = {
            state
            for node in nodes
            for state in carried.states.get(node, ())
            if isinstance(state, Trace) and state.merging
        }
        """The traces whose runs `merge` has to merge."""

    def new_trace(self, width: int, types: tuple[Type, ...] | None) -> Trace:
        """Return a trace of rows of `width` columns for the node whose step is being created."""
        if types is not None and len(types) != width:
            raise InvariantError(f"expected the types of {width} columns, got {len(types)}")
        states, carried = self._of_starting()
        trace: State = Trace(width, self.journal, self.budget) if carried is None else carried[len(states)]
        if not isinstance(trace, Trace) or trace.width != width:
            raise InvariantError(f"expected to take over a trace of {width} columns, got {trace!r}")
        trace.types = types
        states.append(trace)
        return trace

    def new_table(self) -> StateTable[Any, Any]:
        """Return a table for the node whose step is being created."""
        states, carried = self._of_starting()
        table: State = StateTable(self.journal) if carried is None else carried[len(states)]
        if not isinstance(table, StateTable):
            raise InvariantError(f"expected to take over a table, got {table!r}")
        states.append(table)
        return table

    def _of_starting(self) -> tuple[list[State], Sequence[State] | None]:
        """Return the states of the starting node so far, and all states that it takes over."""
        if self.starting is None:
            raise CircuitError(
                "a step must get its traces and tables in Operator.start, not later", code="scope-misuse"
            )
        return self.by_node.setdefault(self.starting, []), self.carried.states.get(self.starting)

    def commit(self) -> None:
        """Make all changes of this tick final. If this is interrupted, call it again."""
        for state in self.journal:
            state.commit()
            if isinstance(state, Trace) and state.due:
                self.unmerged.add(state)
        self.first_tick = False
        self.journal.clear()

    def rollback(self) -> None:
        """Restore every state to the end of the previous tick. If interrupted, call it again."""
        for state in self.journal:
            state.rollback()
        self.journal.clear()

    def rewind(self, first_tick: bool) -> None:
        """Continue after the traces and tables have returned to a savepoint."""
        self.journal.clear()
        self.first_tick = first_tick
        # Merges that were in progress have been dropped.
        self.unmerged.update(
            [state for states in self.by_node.values() for state in states if isinstance(state, Trace)]
        )

    def merge(self) -> None:
        """Merge committed sorted runs within the merge budget of a tick, and drop forgotten rows.

        Neither changes what later ticks return, so a merge without enough memory, or without room
        for its file, is dropped; the next tick starts it again.
        """
        for limit in self.limits:
            try:
                limit.apply()
            except (MemoryError, CheckpointError) as error:
                self._drop_merge(limit.trace, error)
        for trace in list(self.unmerged):
            try:
                trace.maintain(MERGE_FUEL + MERGE_FACTOR * trace.grown)
            except (MemoryError, CheckpointError) as error:
                self._drop_merge(trace, error)
                continue
            trace.grown = 0
            if not trace.merging:
                self.unmerged.discard(trace)

    def _drop_merge(self, trace: Trace, error: MemoryError | CheckpointError) -> None:
        """Repair a trace after a merge for which there was no room."""
        trace.repair()
        if isinstance(error, CheckpointError):
            expect_present(self.budget, "the limit of a trace with files").fail(error)
