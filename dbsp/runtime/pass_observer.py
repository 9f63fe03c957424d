"""Observers of passes: what watches and recordings learn from the scopes of a run.

A *pass* is one step of every node of a scope: a tick at the top level, an iteration in a
fixpoint. Batches are never modified, so an observer keeps the deltas of a pass without a copy. A
scope without observers does one check per pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.runtime.ports import CommitListener

PassTime = tuple[int, ...]
"""The iteration of each nested scope around a pass, outermost first; empty at the top level."""


class ObservedScope(Protocol):
    """What observers need of a scope (`dbsp.runtime.scope`)."""

    @property
    def graph(self) -> Graph: ...

    @property
    def outer(self) -> ObservedScope | None: ...

    @property
    def steps(self) -> Sequence[Step]: ...

    @property
    def by_node(self) -> Mapping[Node, Step]: ...

    @property
    def iteration(self) -> int: ...

    @property
    def observers(self) -> list[PassObserver]: ...

    @property
    def listeners(self) -> list[CommitListener]: ...


class ScopePass:
    """The deltas that the observed nodes of one scope emitted in one pass.

    `part` is the number of the step within a transaction, else 0. `seconds` has the duration of
    the step of each node of the scope, in the order of the graph, if the observer is timed.
    """

    __slots__ = ("emitted", "graph", "part", "seconds", "time")

    def __init__(
        self,
        graph: Graph,
        part: int,
        time: PassTime,
        emitted: Sequence[Any],
        seconds: Sequence[float] | None,
    ) -> None:
        self.graph = graph
        self.part = part
        self.time = time
        self.emitted = emitted
        """A node, its delta, another node, its delta, and so on: one object instead of many."""
        self.seconds = seconds

    @property
    def deltas(self) -> Iterator[tuple[Node, Batch]]:
        """The nodes that emitted something, with their deltas."""
        return zip(self.emitted[::2], self.emitted[1::2], strict=True)


class ObservedTick:
    """The passes of one tick, and where they are not the whole change of a stream.

    In `restarted` scopes the passes evaluate the body from scratch. In `converged` scopes the rows
    of later iterations were retracted at once, without a pass. `rows` counts the rows of all
    deltas. If they are too many, the tick is `truncated` and has no deltas.
    """

    __slots__ = ("converged", "passes", "restarted", "rows", "truncated")

    def __init__(self) -> None:
        self.passes: list[ScopePass] = []
        self.restarted: frozenset[Graph] = frozenset()
        self.converged: frozenset[Graph] = frozenset()
        self.rows = 0
        self.truncated = False


class PassObserver(CommitListener):
    """Collects the passes of a tick. A subclass takes them at the commit or after it.

    `timed` requests the duration of each step. `max_rows` bounds the rows of one tick.
    """

    notifies: ClassVar[bool] = False

    timed = False
    max_rows: float = float("inf")

    def __init__(self) -> None:
        self.pending: ObservedTick | None = None
        """The passes since the latest commit; None before the first pass of a tick."""
        self._part = 0
        self._chosen: dict[Graph, tuple[ObservedScope, Sequence[Step]]] = {}

    def observe(self, scope: ObservedScope) -> None:
        """Observe this scope and those within it from the next tick on, and no other scope."""
        self._chosen.clear()
        if self not in scope.observers:
            scope.observers.append(self)
            scope.listeners.append(self)

    def leave(self, scope: ObservedScope) -> None:
        """Observe this scope no longer."""
        if self in scope.observers:
            scope.observers.remove(self)
            scope.listeners.remove(self)

    def choose(self, scope: ObservedScope) -> Sequence[Step]:
        """Return the steps of a scope whose deltas are to be kept; by default all."""
        return scope.steps

    def commit_tick(self, number: int) -> None:
        """Receive the tick at its commit. If this is interrupted, the run calls it again."""

    def begin_update(self) -> None:
        """Prepare for an update of the run to another program, which may still be undone."""

    def commit_update(self, number: int) -> None:
        """Receive the commit of an update; if this is interrupted, the run calls it again.

        The passes of its tick do not have the changes of the streams that it has rebuilt.
        """
        self.drop()

    # --- called by scopes -------------------------------------------------------------------------

    def end_pass(self, scope: ObservedScope, seconds: Sequence[float] | None) -> None:
        """Keep the deltas of the pass that a scope has just ended."""
        chosen = self._chosen.get(scope.graph)
        if chosen is None or chosen[0] is not scope:  # a restart replaces the scope of a graph
            chosen = self._chosen[scope.graph] = scope, self.choose(scope)
        emitted: list[Any] = []
        size = 0
        for step in chosen[1]:
            out = step.out
            if out is not None:
                emitted.append(step.node)
                emitted.append(out)
                size += len(out.weights)
        tick = self.pending
        if tick is None:
            tick = self.pending = ObservedTick()
        tick.rows += size
        if tick.rows > self.max_rows:
            tick.truncated = True
            tick.passes.clear()
        if not tick.truncated:
            kept = seconds if self.timed else None
            tick.passes.append(ScopePass(scope.graph, self._part, _time_of(scope), emitted, kept))

    def restart(self, outer: ObservedScope, body: Graph) -> None:
        """Discard the passes of a body within this pass of the outer scope, before a restart."""
        tick = self.pending
        if tick is None:
            tick = self.pending = ObservedTick()
        tick.restarted |= {body}
        around = _time_of(outer)
        tick.passes = [
            each
            for each in tick.passes
            if each.part != self._part
            or each.time[: len(around)] != around
            or not _is_within(each.graph, body)
        ]

    def converge(self, scope: ObservedScope) -> None:
        """Note that a scope retracts the rows of all later iterations at once."""
        if self.pending is not None:
            self.pending.converged |= {scope.graph}

    # --- called by the run ------------------------------------------------------------------------

    def notify(self) -> None:
        """Receive the tick after its commit, if `notifies`."""

    def drop(self) -> None:
        self.pending, self._part = None, 0

    def take(self) -> Batch | None:
        self._part += 1  # the passes stay: a transaction consists of the passes of its parts
        return None

    def give(self, change: Batch | None) -> None:
        """Do nothing: the passes of all parts have been kept."""


def _time_of(scope: ObservedScope) -> PassTime:
    time: PassTime = ()
    inner, outer = scope, scope.outer
    while outer is not None:
        time = (inner.iteration, *time)
        inner, outer = outer, outer.outer
    return time


def _is_within(graph: Graph | None, outer: Graph) -> bool:
    while graph is not None and graph is not outer:
        graph = graph.parent
    return graph is not None
