"""Recordings of the ticks of a checkpoint equal those that were made while the run stepped."""

from __future__ import annotations

from pathlib import Path

import pytest

import dbsp
from dbsp import CheckpointError, CircuitError
from dbsp.durable import Store

PATHS = """
    .decl edge(x: number, y: number)
    .input edge
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""
TICKS = ([(1, 2), (2, 3)], [(3, 4)], {(2, 3): -1}, [(2, 3), (4, 5)], {(1, 2): -1})


def test_the_past_is_recorded_afterwards(tmp_path: Path) -> None:
    program = dbsp.compile(PATHS)
    run = program.start(checkpoint=Store(tmp_path, keep=100, snapshot_every=2))
    recording = run.record()
    for number, edges in enumerate(TICKS):
        if number == 3:
            with run.transaction() as tx:
                for edge in edges:
                    tx.step({"edge": [edge]})
        else:
            run.step({"edge": edges})
    past = program.open(tmp_path, as_of=4)
    again = past.recording(since=1)
    assert again.ticks == (2, 3, 4)
    for number in again.ticks:
        for name in ("edge", "path"):
            assert again.delta(name, number) == recording.delta(name, number)
            assert again.integral(name, number) == recording.integral(name, number)
        assert again.integral("path", number) == program.open(tmp_path, as_of=number).view("path")
        for path, node in again.streams(number).items():
            if not node.operator.children():
                assert again.delta(path, number) == recording.delta(path, number), node.label
    assert past.recording(since=0, until=2, streams=["path"]).rows == 6
    with pytest.raises(CheckpointError, match="can be opened as of"):
        past.recording(since=0, until=9)
    with pytest.raises(CircuitError, match=r"step: .* was opened as of tick 4, to be read only"):
        past.trace_tick({"edge": [(7, 8)]})
    assert past.trace_tick({"edge": [(7, 8)]}, commit=False).result["path"].rows() == [(7, 8)]
    run.log.close()  # type: ignore[union-attr]
