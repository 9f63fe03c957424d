"""Observers of passes: what watches and recordings learn from the scopes of a run.

A *pass* is one step of every node of a scope: a tick at the top level, an iteration in a
fixpoint. Batches are never modified, so an observer keeps the deltas of a pass without a copy. A
scope without observers does one check per pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.runtime.ports import CommitListener

if TYPE_CHECKING:
    from dbsp.runtime.scope import Scope

PassTime = tuple[int, ...]
"""The iteration of each nested scope around a pass, outermost first; empty at the top level."""


class ScopePass:
    """The deltas that the observed nodes of one scope emitted in one pass.

    `part` is the number of the step within a transaction, else 0. `seconds` has the duration of
    the step of each node of the scope, in the order of the graph, if the observer is timed.
    """

    __slots__ = ("deltas", "graph", "part", "seconds", "time")

    def __init__(
        self,
        graph: Graph,
        part: int,
        time: PassTime,
        deltas: Sequence[tuple[Node, Batch]],
        seconds: Sequence[float] | None,
    ) -> None:
        self.graph = graph
        self.part = part
        self.time = time
        self.deltas = deltas
        self.seconds = seconds


class ObservedTick:
    """The passes of one tick, and where they are not the whole change of a stream.

    In `restarted` scopes the passes evaluate the body from scratch. In `converged` scopes the rows
    of later iterations were retracted at once, without a pass. `rows` counts the rows of all
    deltas. If they are too many, the tick is `truncated` and has no deltas.
    """

    __slots__ = ("converged", "passes", "restarted", "rows", "truncated")

    def __init__(self) -> None:
        self.passes: list[ScopePass] = []
        self.restarted: set[Graph] = set()
        self.converged: set[Graph] = set()
        self.rows = 0
        self.truncated = False


class PassObserver(CommitListener):
    """Collects the passes of a tick. A subclass takes them after the commit.

    `timed` requests the duration of each step. `max_rows` bounds the rows of one tick.
    """

    timed = False
    max_rows: float = float("inf")

    def __init__(self) -> None:
        self.pending: ObservedTick | None = None
        """The passes since the latest commit; None before the first pass of a tick."""
        self._part = 0
        self._chosen: dict[Graph, tuple[Scope, Sequence[Step]]] = {}

    def observe(self, scope: Scope) -> None:
        """Observe this scope and those within it from the next tick on, and no other scope."""
        self._chosen.clear()
        if self not in scope.observers:
            scope.observers.append(self)
            scope.listeners.append(self)

    def leave(self, scope: Scope) -> None:
        """Observe this scope no longer."""
        if self in scope.observers:
            scope.observers.remove(self)
            scope.listeners.remove(self)

    def choose(self, scope: Scope) -> Sequence[Step]:
        """Return the steps of a scope whose deltas are to be kept; by default all."""
        return scope.steps

    @abstractmethod
    def take_tick(self, tick: ObservedTick) -> None:
        """Receive a committed tick."""

    # --- called by scopes -------------------------------------------------------------------------

    def end_pass(self, scope: Scope, seconds: Sequence[float] | None) -> None:
        """Keep the deltas of the pass that a scope has just ended."""
        chosen = self._chosen.get(scope.graph)
        if chosen is None or chosen[0] is not scope:  # a restart replaces the scope of a graph
            chosen = self._chosen[scope.graph] = scope, self.choose(scope)
        deltas = [(step.node, step.out) for step in chosen[1] if step.out is not None]
        tick = self.pending
        if tick is None:
            tick = self.pending = ObservedTick()
        for _, batch in deltas:
            tick.rows += len(batch)
        if tick.rows > self.max_rows:
            tick.truncated = True
            tick.passes.clear()
        if not tick.truncated:
            kept = seconds if self.timed else None
            tick.passes.append(ScopePass(scope.graph, self._part, _time_of(scope), deltas, kept))

    def restart(self, outer: Scope, body: Graph) -> None:
        """Discard the passes of a body within this pass of the outer scope, before a restart."""
        tick = self.pending
        if tick is None:
            tick = self.pending = ObservedTick()
        tick.restarted.add(body)
        around = _time_of(outer)
        tick.passes = [
            each
            for each in tick.passes
            if each.part != self._part
            or each.time[: len(around)] != around
            or not _is_within(each.graph, body)
        ]

    def converge(self, scope: Scope) -> None:
        """Note that a scope retracts the rows of all later iterations at once."""
        if self.pending is not None:
            self.pending.converged.add(scope.graph)

    # --- called by the run ------------------------------------------------------------------------

    def notify(self) -> None:
        tick, self.pending, self._part = self.pending, None, 0
        if tick is not None:
            self.take_tick(tick)

    def drop(self) -> None:
        self.pending, self._part = None, 0

    def take(self) -> Batch | None:
        self._part += 1  # the passes stay: a transaction consists of the passes of its parts
        return None

    def give(self, change: Batch | None) -> None:
        """Do nothing: the passes of all parts have been kept."""


def _time_of(scope: Scope) -> PassTime:
    time: PassTime = ()
    while scope.outer is not None:
        time = (scope.iteration, *time)
        scope = scope.outer
    return time


def _is_within(graph: Graph | None, outer: Graph) -> bool:
    while graph is not None and graph is not outer:
        graph = graph.parent
    return graph is not None
