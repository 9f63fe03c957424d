"""Recordings: every delta and every integral, compared with runs that start from scratch."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, CircuitError, InputError, Run, col
from dbsp.runtime.tick_recording import Recording

from ..harness import apply
from ..random_circuits import COLUMNS, build, choices
from ..random_datalog import INPUTS, programs
from ..reference import Z, minus
from ..strategies import Tick, nullable, rows, set_ticks, small, ticks, words

CHANGES = set_ticks({name: rows(*[st.integers(0, 3)] * arity) for name, arity in INPUTS.items()}, 3, 4)
PATHS = """
    .decl edge(x: number, y: number)
    .input edge
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""


def integrals_from_scratch(run: Run, inputs: Mapping[str, Z]) -> dict[str, Z]:
    """Return the integral of every stream of a new run: what it emits for all rows in one tick.

    Inside a scope, this is the sum over the iterations of an evaluation from scratch.
    """
    recording = run.record()
    run.step(inputs)
    return {path: delta.to_dict() for path, delta in recording.deltas().items()}


def check_streams(recording: Recording, states: list[dict[str, Z]], place: int) -> None:
    """Compare all deltas, and the integrals as of one of the ticks."""
    for number, (before, after) in enumerate(zip(states, states[1:], strict=False), 1):
        for path, node in recording.streams(number).items():
            name = f"{path} {node.label} at tick {number}"
            expected = minus(after.get(path, {}), before.get(path, {}))
            assert recording.delta(path, number).to_dict() == expected, name
            if number == place % (len(states) - 1) + 1:
                assert recording.integral(path, number).to_dict() == after.get(path, {}), name


@pytest.mark.usefixtures("every_recursion")
@settings(max_examples=4)
@given(programs(), CHANGES, st.integers(0, 3))
def test_every_stream_equals_an_evaluation_from_scratch(text: str, changes: list[Tick], place: int) -> None:
    program = dbsp.compile(text)
    run, plain = program.start(), program.start()
    recording = run.record()
    inputs: dict[str, Z] = {name: {} for name in INPUTS}
    states: list[dict[str, Z]] = [{}]
    for tick in [{}, *changes]:
        result, expected = run.step(tick), plain.step(tick)
        assert {name: result[name].to_dict() for name in result} == {
            name: expected[name].to_dict() for name in expected
        }
        apply(inputs, tick, INPUTS)
        states.append(integrals_from_scratch(program.start(), inputs))
    check_streams(recording, states, place)
