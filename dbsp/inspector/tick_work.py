"""The work of every operator in each of the last ticks: rows, steps and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dbsp.circuit.graph import Graph, Node
from dbsp.runtime.pass_observer import PassObserver


@dataclass(slots=True)
class NodeWork:
    """The rows that an operator emitted, and the number and the time of its steps."""

    rows: int = 0
    steps: int = 0
    seconds: float = 0.0


@dataclass
class TickWork:
    """The work of one tick, by operator."""

    number: int
    seconds: float
    graph: Graph
    work: dict[Node, NodeWork] = field(default_factory=dict)
    iterations: dict[Graph, int] = field(default_factory=dict)
    """The number of iterations by scope; those that a restart discarded are left out."""


class WorkObserver(PassObserver):
    """Measures the steps of a run, and passes the work of each committed tick on."""

    timed = True

    def __init__(self, graph: Callable[[], Graph], receive: Callable[[TickWork], None]) -> None:
        super().__init__()
        self._graph = graph
        self._receive = receive

    def commit_tick(self, number: int) -> None:
        """Sum the passes of the tick by operator. O(operators and iterations).

        After an interrupt, a second call sums them again, so `receive` may get a tick twice.
        """
        done = TickWork(number, 0.0, self._graph())
        for each in () if self.pending is None else self.pending.passes:
            if each.graph.parent is None:
                done.seconds += sum(each.seconds or ())
            else:
                done.iterations[each.graph] = done.iterations.get(each.graph, 0) + 1
            for node, seconds in zip(each.graph.nodes, each.seconds or (), strict=False):
                work = done.work.get(node)
                if work is None:
                    work = done.work[node] = NodeWork()
                work.steps += 1
                work.seconds += seconds
            for node, batch in each.deltas:
                work = done.work.get(node)
                if work is not None:
                    work.rows += len(batch)
        self._receive(done)
        self.drop()
