"""Recordings of random programs, in every mode of recursion."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Run

from ..harness import apply, deltas_of
from ..random_datalog import INPUTS, programs
from ..reference import Z
from ..strategies import Tick
from .test_tick_recording import CHANGES, check_streams, integrals_from_scratch


@pytest.mark.usefixtures("every_recursion")
@settings(max_examples=3)
@given(programs(), CHANGES, st.integers(0, 3))
def test_every_stream_equals_an_evaluation_from_scratch(text: str, changes: list[Tick], place: int) -> None:
    graph = dbsp.compile(text).circuit("physical")
    run, plain = Run(graph), Run(graph)
    recording = run.record()
    inputs: dict[str, Z] = {name: {} for name in INPUTS}
    states: list[dict[str, Z]] = [{}]
    for tick in [{}, *changes]:
        assert deltas_of(run.step(tick)) == deltas_of(plain.step(tick))
        apply(inputs, tick, INPUTS)
        states.append(integrals_from_scratch(Run(graph), inputs))
    check_streams(recording, states, place)
