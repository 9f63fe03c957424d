"""The work of every operator in each of the last ticks: rows, steps and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsp.circuit.graph import Graph, Node
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.pass_observer import ObservedScope, PassObserver, ScopePass
from dbsp.runtime.recorded_tick import RecordedTick


@dataclass(slots=True)
class NodeWork:
    """The number and the time of the steps of an operator."""

    steps: int = 0
    seconds: float = 0.0


class TickWork:
    """The work of one recorded tick. It is summed when it is first read, so that ticks stay fast.

    A tick with too many rows has no work.
    """

    def __init__(self, tick: RecordedTick) -> None:
        self.number = tick.number
        self.graph = tick.lookup.graph
        self.truncated = tick.observed.truncated
        self._passes: Sequence[ScopePass] = () if self.truncated else tick.passes
        self._work: dict[Node, NodeWork] | None = None
        self._iterations: dict[Graph, int] = {}

    @property
    def work(self) -> dict[Node, NodeWork]:
        """The work by operator. The first access takes O(operators and iterations)."""
        if self._work is None:
            self._work = self._sum()
            self._passes = ()
        return self._work

    @property
    def iterations(self) -> dict[Graph, int]:
        """The number of iterations by scope; those that a restart discarded are left out."""
        if self._work is None:
            self._work = self.work
        return self._iterations

    @property
    def seconds(self) -> float:
        """The time of all steps of the outermost circuit, which includes that of its scopes."""
        return sum(work.seconds for node, work in self.work.items() if node.graph is self.graph)

    def _sum(self) -> dict[Node, NodeWork]:
        found: dict[Node, NodeWork] = {}
        for each in self._passes:
            if each.graph.parent is not None:
                self._iterations[each.graph] = self._iterations.get(each.graph, 0) + 1
            for node, seconds in zip(each.graph.nodes, each.seconds or (), strict=False):
                work = found.get(node)
                if work is None:
                    work = found[node] = NodeWork()
                work.steps += 1
                work.seconds += seconds
        return found


class CommitSignal(PassObserver):
    """Calls back at the commit of every tick. It observes no pass, which would slow ticks."""

    def __init__(self, committed: Callable[[], None]) -> None:
        super().__init__()
        self._committed = committed

    def observe(self, scope: ObservedScope) -> None:
        """Do nothing: a commit concerns the whole run."""

    def leave(self, scope: ObservedScope) -> None:
        """Do nothing."""

    def commit_tick(self, number: int) -> None:
        self._committed()

    def commit_update(self, number: int) -> None:
        self._committed()
