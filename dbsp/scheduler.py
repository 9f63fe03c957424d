"""Running a graph: steps in a fixed order, once per tick, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.errors import DbspError, ValueOutOfRangeError, WeightOverflowError
from dbsp.graph import Graph, Node
from dbsp.interner import Interner
from dbsp.operator import Step
from dbsp.ports import Tap
from dbsp.table import Table
from dbsp.trace import Journalled, Trace

MERGE_FUEL = 4096
"""Rows that a trace may merge after any tick."""

MERGE_FACTOR = 32
"""Rows more that it may merge for each row the tick added to it: what it takes to keep up, since a
row takes part in a few merges with runs up to `dbsp.trace.RATIO` times as large as its own."""


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
    empty at the top level.
    """

    def __init__(
        self, graph: Graph, interner: Interner, outer: Scope | None, outer_steps: Sequence[Step]
    ) -> None:
        self.graph = graph
        self.interner = interner
        self.outer = outer
        self.outer_steps = tuple(outer_steps)
        self.journal: list[Journalled] = [] if outer is None else outer.journal
        self.traces: list[Trace] = [] if outer is None else outer.traces
        self.tables: list[Table[Any, Any]] = [] if outer is None else outer.tables
        self.taps: list[Tap] = [] if outer is None else outer.taps
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.now = np.zeros(self.depth, np.int64)
        self.iteration = 0
        self.iterations = 0
        """Times a nested scope was iterated in the latest tick it had work in."""
        self.first_tick = True
        self._merging: set[Trace] = set()
        self.stats: list[NodeStats] | None = None
        self.children: list[Scope] = []
        if outer is not None:
            outer.children.append(self)
        self.by_node: dict[Node, Step] = {}
        for node in graph.nodes:
            step = node.operator.start(node, [self.by_node[s.node] for s in node.inputs], self)
            step.node = node
            self.by_node[node] = step
        for node in graph.nodes:
            if node.strict:
                self.by_node[node].connect([self.by_node[s.node] for s in node.strict])
        self.steps = list(self.by_node.values())

    @property
    def nested(self) -> bool:
        return self.outer is not None

    def new_trace(self, arity: int) -> Trace:
        """A trace of rows of `arity` columns; in a nested scope with the time behind them."""
        trace = Trace(arity + self.depth, self.journal)
        self.traces.append(trace)
        return trace

    def new_table(self) -> Table[Any, Any]:
        """A dictionary for a step to keep its state in (see `dbsp.table`)."""
        table: Table[Any, Any] = Table(self.journal)
        self.tables.append(table)
        return table

    def iterate(self, iteration: int) -> None:
        """Set the iteration that the next `run` is for; those of the outer scopes are taken over."""
        assert self.outer is not None
        self.iteration = iteration
        self.now[:-1] = self.outer.now
        self.now[-1] = iteration

    def run(self) -> None:
        """Step every node once, in order."""
        step: Step | None = None
        try:
            if self.stats is None:
                for step in self.steps:
                    step.step()
            else:
                for step, stats in zip(self.steps, self.stats, strict=True):
                    started = time.perf_counter()
                    step.step()
                    stats.seconds += time.perf_counter() - started
                    stats.steps += 1
                    if step.out is not None:
                        stats.rows_out += len(step.out)
        except OverflowError as error:
            assert step is not None
            kind, _, text = str(error).partition(": ")
            family = WeightOverflowError if kind == "weight" else ValueOutOfRangeError
            raise family(
                f"{text or kind}; the tick was abandoned and nothing has changed",
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

    def rollback(self) -> None:
        """Put every state back to where the previous tick left it."""
        for state in self.journal:
            state.rollback()
        self.journal.clear()
        for tap in self.taps:
            tap.drop()
