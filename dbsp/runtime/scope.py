"""Running a graph: steps in a fixed order, once per tick, all or nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.operator import Arranged, Step
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.errors import (
    CircuitError,
    DbspError,
    InvariantError,
    MemoryLimitError,
    ValueOutOfRangeError,
    WeightOverflowError,
    expect_present,
    expect_type,
)
from dbsp.runtime.memory import memory_message
from dbsp.runtime.ports import CommitListener
from dbsp.state.state_table import StateTable
from dbsp.state.trace import Journalled, Trace

MERGE_FUEL = 4096
"""Rows that a trace may merge after any tick."""

MERGE_FACTOR = 32
"""Rows more that it may merge for each row the tick added to it: what it takes to keep up, since a
row takes part in a few merges with runs up to `dbsp.state.trace.RATIO` times as large as its own."""


class WorkBudgetExceeded(Exception):
    """A scope has done more than it may; who allows it has another way to go on."""


class Waiting(Protocol):
    """Rows that wait for a later time within the tick."""

    def rollback(self) -> None: ...


State: TypeAlias = "Trace | StateTable[Any, Any]"
"""What a scope keeps for a step from tick to tick."""


@dataclass(frozen=True)
class NestedCarriedState:
    """What a nested scope takes over, besides its states."""

    journal: list[Journalled]
    timed: bool


@dataclass(frozen=True)
class CarriedState:
    """What a new scope takes over from an old one instead of starting empty (see
    `dbsp.runtime.transplant`)."""

    journal: list[Journalled] = field(default_factory=list)
    """The journal that the traces and tables of the old scope write to."""
    states: Mapping[Node, Sequence[State]] = field(default_factory=dict)
    """For some nodes of the new graph the states to use, in the order in which the step asks for them."""
    nested: Mapping[Graph, NestedCarriedState] = field(default_factory=dict)
    """For some nested graphs of the new graph what their scopes take over."""


class NodeStats:
    """What one node has done since statistics were switched on (see `Scope.observe`)."""

    __slots__ = ("node", "rows_out", "seconds", "steps")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.steps = 0
        self.rows_out = 0
        self.seconds = 0.0


class Scope:
    """The steps of one graph at run time, in schedule order, with what they share.

    The schedule is the order in which the nodes were added: every node comes after its inputs, and
    strict inputs, which close cycles, are read as they were one step before. `now` is the time
    within the tick: the iterations of the nested scopes down to this one, outermost first; it is
    empty at the top level. A nested scope that is not `timed` keeps no iterations: each of them is like
    a tick of its own, and `now` is that of the outer scope.

    Every scope has its own journal; a nested one ends its ticks when the step that holds it is told to.
    """

    def __init__(
        self,
        graph: Graph,
        interner: Interner,
        outer: Scope | None,
        outer_steps: Sequence[Step],
        estate: CarriedState | None = None,
        timed: bool = True,
    ) -> None:
        self.estate = estate or CarriedState()
        self.graph = graph
        self.interner = interner
        self.outer = outer
        self.outer_steps = tuple(outer_steps)
        self.journal: list[Journalled] = self.estate.journal
        self.taps: list[CommitListener] = [] if outer is None else outer.taps
        self.timed = timed and outer is not None
        self.depth: int = 0 if outer is None else outer.depth + self.timed
        self.now = np.zeros(self.depth, np.int64)
        self.iteration = 0
        self.iterations = 0
        """Times a nested scope was iterated in the latest tick it had work in."""
        self.first_tick = True
        self.entering: Sequence[Batch | None] | None = None
        """In a nested scope that is evaluated anew: what enters it, whole, in place of deltas."""
        self.waiting: list[Waiting] = []
        """Where rows wait for later iterations."""
        self.met = 0
        """Matches that joins have found so far, before equal rows were put together,"""
        self.allowance: float = math.inf
        """and how many they may find."""
        self._merging: set[Trace] = {
            state
            for node in graph.nodes
            for state in self.estate.states.get(node, ())
            if isinstance(state, Trace) and state.merging
        }
        self.states: dict[Node, list[State]] = {}
        """What each node keeps, in the order in which its step asked for it."""
        self._starting: Node | None = None
        self.stats: list[NodeStats] | None = None
        self.children: list[Scope] = []
        if outer is not None:
            outer.children.append(self)
        self.by_node: dict[Node, Step] = {}
        for node in graph.nodes:
            self._starting = node
            step = node.operator.start(node, [self.by_node[s.node] for s in node.inputs], self)
            step.node = node
            self.by_node[node] = step
        self._starting = None
        for node in graph.nodes:
            if node.strict:
                self.by_node[node].connect([self.by_node[s.node] for s in node.strict])
        self.steps = list(self.by_node.values())

    @property
    def nested(self) -> bool:
        return self.outer is not None

    def keeper(self, node: Node) -> Step | None:
        """The step that keeps the integral of what a node puts out: its own, or an arrangement of it.

        Of several arrangements it is one in the stream's own column order, if there is one.
        """
        step = self.by_node[node]
        if node.operator.keeps_integral and not isinstance(step, Arranged):
            return step  # an arrangement keeps the integral of its input
        return min(
            (self.by_node[reader] for reader in self._arrangements.get(node, ())),
            key=lambda step: step.node.schema.names != node.schema.names,
            default=None,
        )

    @cached_property
    def _arrangements(self) -> dict[Node, list[Node]]:
        """The nodes that keep a node's stream sorted."""
        found: dict[Node, list[Node]] = {}
        for node, step in self.by_node.items():
            if isinstance(step, Arranged) and node.operator.keeps_integral and len(node.inputs) == 1:
                found.setdefault(node.inputs[0].node, []).append(node)
        return found

    @property
    def traces(self) -> list[Trace]:
        """All traces of this scope and of those within it. A new list each time, as of `tables`."""
        return [state for state in self._all_states() if isinstance(state, Trace)]

    @property
    def tables(self) -> list[StateTable[Any, Any]]:
        """All tables of this scope and of those within it."""
        return [state for state in self._all_states() if isinstance(state, StateTable)]

    @property
    def merging(self) -> bool:
        """Whether merges of own traces go on in the next tick, whatever it changes."""
        return bool(self._merging)

    def _all_states(self) -> Iterator[State]:
        for scope in self.scopes():
            for states in scope.states.values():
                yield from states

    def scopes(self) -> Iterator[Scope]:
        """This scope and all within it."""
        yield self
        for child in self.children:
            yield from child.scopes()

    def new_trace(self, arity: int) -> Trace:
        """A trace of rows of `arity` columns; in a nested scope with the time behind them."""
        mine, kept = self._own_states()
        width = arity + self.depth
        state = Trace(width, self.journal) if kept is None else kept[len(mine)]
        trace = expect_type(state, Trace, f"a trace of {width} columns to take over")
        if trace.width != width:
            raise InvariantError(f"expected a trace of {width} columns to take over, got {trace.width}")
        mine.append(trace)
        return trace

    def new_table(self) -> StateTable[Any, Any]:
        """A dictionary for a step to keep its state in (see `dbsp.state.state_table`)."""
        mine, kept = self._own_states()
        state = StateTable(self.journal) if kept is None else kept[len(mine)]
        table: StateTable[Any, Any] = expect_type(state, StateTable, "a table to take over")
        mine.append(table)
        return table

    def _own_states(self) -> tuple[list[State], Sequence[State] | None]:
        """What the node being started has asked for so far, and all it takes over from an old scope."""
        if self._starting is None:
            raise CircuitError("a step asks for its traces and tables when it is made, and not later")
        return self.states.setdefault(self._starting, []), self.estate.states.get(self._starting)

    def iterate(self, iteration: int) -> None:
        """Set the iteration that the next `run` is for; those of the outer scopes are taken over."""
        self.iteration = iteration
        if self.timed:
            self.now[:-1] = expect_present(self.outer, "an outer scope of a timed scope").now
            self.now[-1] = iteration

    def run(self) -> None:
        """Step every node once, in order."""
        self.run_steps(self.steps)

    def run_steps(self, steps: Sequence[Step]) -> None:
        """Step these, in order; whatever one of them raises names its node."""
        step: Step | None = None
        try:
            if self.stats is None:
                for step in steps:
                    step.step()
            else:
                for step, stats in zip(steps, self.stats, strict=True):
                    started = time.perf_counter()
                    step.step()
                    stats.seconds += time.perf_counter() - started
                    stats.steps += 1
                    if step.out is not None:
                        stats.rows_out += len(step.out)
        except OverflowError as error:
            if step is None:
                raise
            kind, _, text = str(error).partition(": ")
            family = WeightOverflowError if kind == "weight" else ValueOutOfRangeError
            raise family(
                f"{text or kind}; the tick was abandoned and nothing has changed",
                where=step.node.describe(),
            ) from None
        except MemoryError as error:
            error.__traceback__ = None  # it would keep alive what the tick has made so far
            if step is None:
                raise
            raise MemoryLimitError(
                f"{memory_message()}. The tick was abandoned and nothing has changed",
                where=step.node.describe(),
            ) from None
        except DbspError as error:
            if error.where is None and step is not None:
                error.where = step.node.describe()
            raise

    def observe(self, on: bool) -> None:
        """Switch the per-node statistics on or off, nested scopes included."""
        self.stats = [NodeStats(node) for node in self.graph.nodes] if on else None
        for child in self.children:
            child.observe(on)

    def collect(self) -> list[NodeStats]:
        """The statistics of this scope and of those inside it."""
        own = list(self.stats or ())
        return own + [stats for child in self.children for stats in child.collect()]

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

    def forget(self) -> None:
        """Let go of the deltas of the latest tick; the next one makes its own."""
        for step in self.steps:
            step.forget()
        for child in self.children:
            child.forget()

    def release(self) -> None:
        """Let go of all that was kept; nothing can be stepped any more."""
        self.forget()
        for trace in self.traces:
            trace.release()

    def copy_statistics(self, old: Scope, pairs: Mapping[Node, Node]) -> None:
        """Go on counting where an old scope stopped: `pairs` names the old node of a new one.

        Of a scope of the same name also the number of iterations goes on.
        """
        if old.stats is not None:
            counted = {stats.node: stats for stats in old.stats}
            self.stats = [NodeStats(node) for node in self.graph.nodes]
            for mine in self.stats:
                before = counted.get(pairs[mine.node]) if mine.node in pairs else None
                if before is not None:
                    mine.steps, mine.rows_out, mine.seconds = before.steps, before.rows_out, before.seconds
        else:
            self.stats = None
        of_name = {child.graph.name: child for child in old.children}
        for child in self.children:
            before_child = of_name.get(child.graph.name)
            if before_child is None:
                child.observe(old.stats is not None)
            else:
                child.iterations = before_child.iterations
                child.copy_statistics(before_child, pairs)

    def meet(self, matches: int) -> None:
        """Count matches of a join; raises WorkBudgetExceeded when there are more than may be."""
        self.met += matches
        if self.met > self.allowance:
            raise WorkBudgetExceeded

    def rollback(self) -> None:
        """Put every state back to where the previous tick left it."""
        for state in self.journal:
            state.rollback()
        self.journal.clear()
        if self.outer is None:
            for tap in self.taps:
                tap.drop()
