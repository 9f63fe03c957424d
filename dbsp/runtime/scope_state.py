"""The state of one scope: who owns which trace and table, and how a tick ends for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dbsp.circuit.graph import Graph, Node
from dbsp.errors import CircuitError
from dbsp.state.journal import Journalled
from dbsp.state.state_table import StateTable
from dbsp.state.trace import Trace

MERGE_FUEL = 4096
"""Rows that a trace may merge after any tick."""

MERGE_FACTOR = 32
"""Rows more that it may merge for each row the tick added to it: what it takes to keep up, since a
row takes part in a few merges with runs up to `dbsp.state.trace.RATIO` times as large as its own."""

State: TypeAlias = "Trace | StateTable[Any, Any]"
"""What a scope keeps for a step from tick to tick."""


@dataclass(frozen=True)
class NestedCarriedState:
    """What a nested scope takes over, besides its states."""

    journal: list[Journalled]
    timed: bool


@dataclass(frozen=True)
class CarriedState:
    """What a new scope takes over from an old one instead of starting empty.

    See `dbsp.runtime.transplant`.
    """

    journal: list[Journalled] = field(default_factory=list)
    """The journal that the traces and tables of the old scope write to."""
    states: Mapping[Node, Sequence[State]] = field(default_factory=dict)
    """For some nodes of the new graph the states to use, in the order in which the step asks for them."""
    nested: Mapping[Graph, NestedCarriedState] = field(default_factory=dict)
    """For some nested graphs of the new graph what their scopes take over."""


class ScopeState:
    """The traces and tables of one scope by node, and the journal of the tick.

    A step asks for its state while it is made; the state belongs to the node that `starting` names.
    """

    __slots__ = ("_merging", "by_node", "carried", "first_tick", "journal", "starting")

    def __init__(self, nodes: Sequence[Node], carried: CarriedState) -> None:
        self.carried = carried
        self.journal = carried.journal
        """The state that this tick has changed."""
        self.by_node: dict[Node, list[State]] = {}
        """What each node keeps, in the order in which its step asked for it."""
        self.starting: Node | None = None
        """The node whose step is being made."""
        self.first_tick = True
        self._merging: set[Trace] = {
            state
            for node in nodes
            for state in carried.states.get(node, ())
            if isinstance(state, Trace) and state.merging
        }

    @property
    def merging(self) -> bool:
        """Whether merges of own traces continue in the next tick, whatever it changes."""
        return bool(self._merging)

    def new_trace(self, width: int) -> Trace:
        """A trace of rows of `width` columns for the node whose step is being made."""
        states, carried = self._of_starting()
        trace = Trace(width, self.journal) if carried is None else carried[len(states)]
        if not isinstance(trace, Trace) or trace.width != width:
            raise CircuitError(f"expected to take over a trace of {width} columns, got {trace!r}")
        states.append(trace)
        return trace

    def new_table(self) -> StateTable[Any, Any]:
        """A table for the node whose step is being made."""
        states, carried = self._of_starting()
        table: State = StateTable(self.journal) if carried is None else carried[len(states)]
        if not isinstance(table, StateTable):
            raise CircuitError(f"expected to take over a table, got {table!r}")
        states.append(table)
        return table

    def _of_starting(self) -> tuple[list[State], Sequence[State] | None]:
        """What the node being started has asked for so far, and all it takes over from an old scope."""
        if self.starting is None:
            raise CircuitError("a step asks for its traces and tables when it is made, and not later")
        return self.by_node.setdefault(self.starting, []), self.carried.states.get(self.starting)

    def commit(self) -> None:
        """Make everything that this tick did to any state final, then merge runs a little."""
        touched = list(self.journal)
        self.journal.clear()
        for state in touched:
            state.commit()
        self.first_tick = False
        due = self._merging.union(state for state in touched if isinstance(state, Trace))
        for trace in due:
            trace.maintain(MERGE_FUEL + MERGE_FACTOR * trace.grown)
            trace.grown = 0
        self._merging = {trace for trace in due if trace.merging}

    def rollback(self) -> None:
        """Put every state back to where the previous tick left it."""
        for state in self.journal:
            state.rollback()
        self.journal.clear()
