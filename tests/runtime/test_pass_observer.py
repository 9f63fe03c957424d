"""What a restart of a scope discards of the passes so far."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.runtime.pass_observer import ObservedTick, PassObserver, ScopePass


def test_a_restart_discards_the_iterations_that_it_repeats() -> None:
    circuit = Graph("circuit")
    body, other = Graph("body", circuit), Graph("other", circuit)
    inner = Graph("inner", body)
    observer = PassObserver()
    tick = observer.pending = ObservedTick()
    passes = [
        ScopePass(graph, part, time, (), None)
        for graph, part, time in [
            (body, 0, (0,)),
            (circuit, 0, ()),
            (other, 1, (0,)),
            (inner, 1, (0, 0)),
            (body, 1, (0,)),
            (body, 1, (1,)),
        ]
    ]
    tick.passes = passes
    observer.take()
    outer: Any = SimpleNamespace(outer=None, iteration=0)
    observer.restart(outer, body)
    assert tick.passes == passes[:3]
    assert tick.restarted == {body}
