"""The values of a journal, when a run that repeats its ticks makes values that it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dbsp import Circuit, Run, col
from dbsp.durable import Store
from dbsp.errors import CheckpointWarning
from tests.harness import views


def shout() -> Circuit:
    """Make a value for each word."""
    circuit = Circuit("words")
    word = circuit.input("word", word=str)
    circuit.output("loud", word.map(word=col("word"), loud=col("word").str.concat("!")))
    return circuit


def plain() -> Circuit:
    """Make no values."""
    circuit = Circuit("words")
    circuit.output("loud", circuit.input("word", word=str).distinct())
    return circuit


def opened(folder: Path, circuit: Circuit) -> Run:
    """Continue with any circuit, as after a change of the physical circuit without a snapshot."""
    run = circuit.start()
    Store(folder, sync=False, background=False).attach(run, "one query")
    return run


def closed(run: Run) -> None:
    assert isinstance(run.log, Store)
    run.log.close()


def words(*words: str, weight: int = 1) -> dict[str, Any]:
    return {"word": {(word,): weight for word in words}}


def written_with_freed_values(folder: Path) -> dict[str, Any]:
    """Write ticks of which the last one has a freed value that came back; return the views.

    The process ends between freeing and the snapshot.
    """
    run = opened(folder, shout())
    run.step(words("a", "b"))
    run.step(words("a", "b", weight=-1))
    run.step({})
    with patch.object(Store, "snapshot"):
        assert run.compact().values > 0
    run.step(words("b", "c", "d"))
    expected = views(run)
    closed(run)
    return expected


def test_a_snapshot_before_the_first_tick_has_what_the_replay_made(tmp_path: Path) -> None:
    expected = written_with_freed_values(tmp_path)
    run = opened(tmp_path, shout())
    assert views(run) == expected
    run.snapshot()
    closed(run)
    run = opened(tmp_path, shout())
    assert views(run) == expected
    run.step(words("c", "e"))
    expected = views(run)
    closed(run)
    run = opened(tmp_path, shout())
    assert views(run) == expected
    closed(run)


@pytest.mark.parametrize("reopened", [False, True])
def test_the_journal_replaces_such_a_snapshot(tmp_path: Path, reopened: bool) -> None:
    """The ticks after the snapshot have all values that the ticks before it lack."""
    written_with_freed_values(tmp_path)
    run = opened(tmp_path, shout())
    run.snapshot()
    if reopened:
        closed(run)
        run = opened(tmp_path, shout())
    run.step(words("c", "e"))
    run.step(words("b", "f"))
    expected = views(run)
    closed(run)
    (tmp_path / "memory" / "4.json").unlink()
    with pytest.warns(CheckpointWarning, match="replaces it"):
        run = opened(tmp_path, shout())
    assert views(run) == expected
    closed(run)


@pytest.mark.parametrize("first", [shout, plain])
def test_another_circuit_repeats_the_ticks(tmp_path: Path, first: Any) -> None:
    """It gives no id of the journal to another value, or later rows would have wrong values."""
    second = plain if first is shout else shout
    run, history = opened(tmp_path, first()), []
    for tick in (words("a", "b"), words("b", "c")):
        history.append(tick)
        run.step(tick)
    closed(run)
    for circuit, tick in (
        (second, words("a!", "b!", "d")),
        (first, words("a!", "e")),
        (second, words("a!", "e!")),
    ):
        run = opened(tmp_path, circuit())
        history.append(tick)
        run.step(tick)
        closed(run)
    for circuit in (first, second):
        alone = circuit().start()
        for tick in history:
            alone.step(tick)
        run = opened(tmp_path, circuit())
        assert views(run) == views(alone)
        closed(run)


def test_a_folder_has_the_constants_of_its_circuit(tmp_path: Path) -> None:
    """So another circuit, with other constants, reads the same rows."""

    def marked(*marks: str) -> Circuit:
        circuit = Circuit("words")
        word = circuit.input("word", word=str)
        for mark in marks:
            circuit.output(mark, word.filter(col("word") == mark))
        return circuit

    run = opened(tmp_path, marked("x", "y"))
    run.step(words("x", "y", "z"))
    closed(run)
    run = opened(tmp_path, marked("z", "y", "x"))
    assert {name: run.view(name).rows() for name in "xyz"} == {name: [(name,)] for name in "xyz"}
    run.step(words("y", "q"))
    closed(run)
    run = opened(tmp_path, marked("q", "z"))
    assert run.view("q").rows() == [("q",)]
    assert run.view("z").rows() == [("z",)]
    closed(run)
