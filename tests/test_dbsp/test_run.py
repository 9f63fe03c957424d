"""A run: what it shows of itself."""

from __future__ import annotations

from dbsp import Circuit


def test_a_run_shows_what_it_is() -> None:
    circuit = Circuit("names")
    circuit.output("out", circuit.input("e", x=int).distinct())
    run = circuit.start()
    run.step({"e": {(1,): 2, (3,): 1}})
    assert repr(run) == "<run of 'names': (e) -> (out), 1 ticks, 2 rows kept>"
