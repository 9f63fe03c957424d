"""A run: what it shows of itself."""

from __future__ import annotations

import pytest

from dbsp import Circuit, WeightOverflowError


def test_a_run_shows_what_it_is() -> None:
    circuit = Circuit("names")
    circuit.output("out", circuit.input("e", x=int).distinct())
    run = circuit.start()
    run.step({"e": {(1,): 2, (3,): 1}})
    assert repr(run) == "<run of 'names': (e) -> (out), 1 ticks, 2 rows kept>"


def test_staged_weights_whose_sum_leaves_int64() -> None:
    circuit = Circuit("staged")
    circuit.output("out", circuit.input("e", x=int).project("x"))
    run = circuit.start()
    for _ in range(2):
        run.input("e").add({(1,): 2**62})
    with pytest.raises(WeightOverflowError, match="relation 'e': the sum of weights leaves int64"):
        run.step()
    assert run.tick == 0
    assert run.step({"e": {(1,): 1}})["out"].to_dict() == {(1,): 1}
