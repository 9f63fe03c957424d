"""The work of every operator in each of the last ticks: rows, steps and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.step import Step
from dbsp.runtime.pass_observer import PassObserver, ScopePass
from dbsp.runtime.scope import Scope


@dataclass(slots=True)
class NodeWork:
    """The number and the time of the steps of an operator."""

    steps: int = 0
    seconds: float = 0.0


class TickWork:
    """The work of one tick. It is summed when it is first read, so that ticks stay fast."""

    def __init__(self, number: int, graph: Graph, passes: Sequence[ScopePass]) -> None:
        self.number = number
        self.graph = graph
        self._passes = passes
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


class WorkObserver(PassObserver):
    """Measures the steps of a run, and passes the work of each committed tick on."""

    timed = True

    def __init__(self, graph: Callable[[], Graph], receive: Callable[[TickWork], None]) -> None:
        super().__init__()
        self._graph = graph
        self._receive = receive

    def choose(self, scope: Scope) -> Sequence[Step]:
        return ()  # the recording of the run has the deltas

    def commit_tick(self, number: int) -> None:
        """Pass the work of the tick on. After an interrupt, `receive` may get a tick twice."""
        passes = () if self.pending is None else self.pending.passes
        self._receive(TickWork(number, self._graph(), passes))
        self.drop()
