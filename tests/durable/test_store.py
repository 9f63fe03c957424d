"""Durable runs: after the process ends at any point, a run on the same folder continues."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import (
    ArgumentError,
    CheckpointError,
    Circuit,
    DbspError,
    IterationLimitError,
    Run,
    col,
    count,
)
from dbsp.durable import Store, atomic_files
from dbsp.runtime.scope import Scope
from tests.crashes import Ended, count_operations, ends_after
from tests.harness import deltas_of, views
from tests.profiles import examples, sampled
from tests.random_plans import Plan, build, changes, outputs, plans
from tests.strategies import Tick

CLOSURE = """
    .decl edge(x: symbol, y: symbol)
    .input edge
    edge("a", "b").
    .decl path(x: symbol, y: symbol)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    .decl reach(x: symbol, n: number)
    .output reach
    reach(x, n) :- edge(x, _), n = count : { path(x, _) }.
"""


def ended(run: Run) -> None:
    """Stop a run as the end of its process does: nothing more is written, and the lock is free."""
    assert isinstance(run.log, Store)
    run.log.close()


def opened(folder: Path, every: int = 3) -> Store:
    return Store(folder, snapshot_every=every, sync=False, background=False)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(plans(), outputs, changes(max_ticks=8), st.integers(1, 4), st.data())
def test_a_run_continues_after_any_end(
    plan: Plan, out: list[int], sequence: list[Tick], every: int, data: st.DataObject
) -> None:
    def circuit() -> Circuit:
        return build(plan, out, 40)

    whole = circuit().start()
    with tempfile.TemporaryDirectory() as folder:
        run = circuit().start(checkpoint=opened(Path(folder), every))
        for number, tick in enumerate(sequence):
            try:
                expected = deltas_of(whole.step(tick))
            except IterationLimitError:
                with pytest.raises(IterationLimitError):
                    run.step(tick)
                continue
            assert deltas_of(run.step(tick, label=number)) == expected
            if data.draw(st.booleans()):
                ended(run)
                run = circuit().start(checkpoint=opened(Path(folder), every))
                assert run.tick == whole.tick
                assert run.log is not None and run.log.label == number
                assert views(run) == views(whole)
                assert run.log.result is not None
                assert deltas_of(run.log.result) == expected
        ended(run)


def test_time_dependent_state_is_kept(tmp_path: Path) -> None:
    def circuit() -> Circuit:
        circuit = Circuit("windows")
        seen = circuit.input("seen", at=int, v=int)
        split = seen.watermark("at", 2)
        windows = split.on_time.window("at", 5)
        groups = windows.group_by("window_end")
        final = groups.final(split.watermark, closes="window_end", n=count(), total=col("v").sum())
        circuit.output("final", final)
        circuit.output("late", split.late)
        circuit.output("before", seen.delay())
        circuit.output("changed", seen.integrate().differentiate())
        return circuit

    chance = random.Random(5)
    whole = circuit().start()
    for tick in range(40):
        run = circuit().start(checkpoint=opened(tmp_path, 4))
        rows = {(tick + chance.randrange(-4, 3), chance.randrange(3)): 1}
        assert deltas_of(run.step({"seen": rows})) == deltas_of(whole.step({"seen": rows}))
        assert views(run) == views(whole)
        ended(run)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["query", "incremental", "physical", "distributed"])
def test_every_stage(tmp_path: Path, stage: str) -> None:
    program = dbsp.compile(CLOSURE)
    whole = program.start(stage=stage)
    for tick in range(10):
        run = program.start(stage=stage, checkpoint=opened(tmp_path))
        assert run.tick == whole.tick == tick + 1  # the facts were the first tick
        edges = {(f"n{tick % 4}", f"n{(tick * 3) % 5}"): 1 if tick % 3 else -1}
        assert deltas_of(run.step({"edge": edges})) == deltas_of(whole.step({"edge": edges}))
        ended(run)


def test_all_kinds_of_values(tmp_path: Path) -> None:
    def circuit() -> Circuit:
        circuit = Circuit("values")
        a = circuit.input("a", s=str, o=object, f=float, b=bytes)
        circuit.output("out", a.map(s=col("s").str.upper(), o=col("o"), f=col("f"), b=col("b")).distinct())
        return circuit

    rows: list[tuple[Any, ...]] = [
        ("x", (1, ("y", 2.5)), 0.5, b"\0"),
        ("\udc80", frozenset({1, "z"}), float("nan"), b""),
        ("", None.__class__.__name__, -0.0, b"abc"),
    ]
    whole = circuit().start()
    for row in (*rows, *rows):
        run = circuit().start(checkpoint=opened(tmp_path, 2))
        run.step({"a": {row: 1}})
        whole.step({"a": {row: 1}})
        ended(run)
    again = circuit().start(checkpoint=tmp_path)
    assert repr(views(again)) == repr(views(whole))  # NaN is not equal to itself
    ended(again)


def test_a_failed_tick_leaves_no_trace(tmp_path: Path) -> None:
    def circuit() -> Circuit:
        circuit = Circuit("ratio")
        a = circuit.input("a", x=int)
        circuit.output("out", a.map(y=12 // col("x")))
        return circuit

    run = circuit().start(checkpoint=tmp_path)
    run.step({"a": {(3,): 1}})
    with pytest.raises(DbspError):
        run.step({"a": {(0,): 1}})
    ended(run)
    run = circuit().start(checkpoint=tmp_path)
    assert run.tick == 1
    assert views(run) == {"out": {(4,): 1}}
    ended(run)


def failing_at(number: int, monkeypatch: pytest.MonkeyPatch, after: bool) -> Callable[[], int]:
    """Make the write of that number fail: after half of it, as on a full disk, or after all."""
    written = 0
    genuine = atomic_files.write_all

    def write(descriptor: int, content: Any) -> None:
        nonlocal written
        written += 1
        if written == number and not after:
            genuine(descriptor, memoryview(content).cast("B")[: len(memoryview(content).cast("B")) // 2])
            raise OSError(28, "No space left on device")
        genuine(descriptor, content)
        if written == number:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("dbsp.durable.atomic_files.write_all", write)
    monkeypatch.setattr("dbsp.durable.tick_journal.write_all", write)
    return lambda: written


@pytest.mark.parametrize("after", [False, True])
def test_a_write_that_fails_undoes_the_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    program = dbsp.compile(CLOSURE)
    for number in (1 + place for place in sampled(59)):
        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            count_ = failing_at(number, patch, after)
            whole, run = program.start(), None
            refused = 0
            tick = 0
            while tick < 6:
                edge = {"edge": {(f"n{tick}", f"n{tick + 1}"): 1}}
                try:
                    if run is None:
                        run = program.start(checkpoint=opened(folder, 2))
                    given = deltas_of(run.step(edge))
                except CheckpointError as error:
                    assert error.code == "checkpoint-write"
                    refused += 1
                    if run is not None:
                        assert views(run) == views(whole)
                    assert refused <= number
                    continue
                assert given == deltas_of(whole.step(edge))
                tick += 1
            assert refused == (count_() >= number)
        assert run is not None
        ended(run)
        again = program.start(checkpoint=opened(folder))
        assert again.tick == whole.tick
        assert views(again) == views(whole)
        assert not list(folder.rglob(".*"))
        ended(again)


def counting() -> Circuit:
    circuit = Circuit("counting")
    circuit.output("out", circuit.input("a", x=int).group_by("x").agg(n=count()))
    return circuit


def test_a_tick_whose_journal_write_fails_is_not_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write fails when all is written, and the process ends before the next try."""
    run = counting().start(checkpoint=opened(tmp_path, 50))
    run.step({"a": [(1,)]})
    failing_at(1, monkeypatch, after=True)
    with pytest.raises(
        CheckpointError, match=r"cannot write tick 2 to .*; the tick was rolled back \[checkpoint-write\]"
    ):
        run.step({"a": [(2,)]})
    ended(run)
    again = counting().start(checkpoint=opened(tmp_path, 50))
    assert again.tick == 1
    assert views(again) == {"out": {(1, 1): 1}}
    ended(again)


def test_the_process_ends_between_any_two_file_operations_of_a_snapshot(tmp_path: Path) -> None:
    def started(folder: Path) -> Run:
        run = counting().start(checkpoint=opened(folder, 50))
        assert isinstance(run.log, Store)
        for tick in range(2):
            run.step({"a": [(tick % 2,)]})
        run.log.snapshot()
        run.step({"a": [(7,)]})
        return run

    run = started(tmp_path / "whole")
    assert run.log is not None
    with ends_after(10**9) as done:
        run.log.snapshot()
    ended(run)
    assert done() > 6
    for end in range(done()):
        folder = tmp_path / str(end)
        run = started(folder)
        assert run.log is not None
        with pytest.raises(Ended), ends_after(end):
            run.log.snapshot()
        ended(run)
        again = counting().start(checkpoint=opened(folder, 50))
        assert again.tick == 3
        assert views(again) == {"out": {(0, 1): 1, (1, 1): 1, (7, 1): 1}}
        again.step({"a": [(5,)]})
        assert isinstance(again.log, Store)
        again.log.snapshot()
        assert not list(folder.rglob(".*"))
        ended(again)
        again = counting().start(checkpoint=opened(folder, 50))
        assert again.tick == 4
        ended(again)


@pytest.mark.crash
def test_the_process_ends_between_any_two_file_operations_of_a_run(tmp_path: Path) -> None:
    """All acknowledged ticks are there again; at most the tick that was being written, too."""
    acknowledged: list[int] = []

    def lived(folder: Path) -> None:
        run = counting().start(checkpoint=opened(folder, 2))
        try:
            while len(acknowledged) < 5:
                run.step({"a": [(len(acknowledged),)]})
                acknowledged.append(run.tick)
        finally:
            assert isinstance(run.log, Store)
            run.log._owner.release()  # type: ignore[union-attr]

    operations = count_operations(lambda: lived(tmp_path / "whole"))
    assert operations > 30
    for end in sampled(operations):
        acknowledged.clear()
        folder = tmp_path / str(end)
        with pytest.raises(Ended), ends_after(end):
            lived(folder)
        gc.collect()  # the run that ended holds the lock if it ended in the constructor
        again = counting().start(checkpoint=opened(folder, 2))
        assert len(acknowledged) <= again.tick <= len(acknowledged) + 1
        assert views(again)["out"] == {(x, 1): 1 for x in range(again.tick)}
        again.step({"a": [(again.tick,)]})
        ended(again)
        again = counting().start(checkpoint=opened(folder, 2))
        assert views(again)["out"] == {(x, 1): 1 for x in range(again.tick)}
        ended(again)


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_an_interrupt_while_a_tick_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """A tick is in the journal exactly if all of it is; what is not a tick is overwritten."""
    run = counting().start(checkpoint=opened(tmp_path, 50))
    run.step({"a": [(1,)]})
    store = run.log
    assert isinstance(store, Store)
    genuine = atomic_files.write_all

    def interrupted(descriptor: int, content: Any) -> None:
        genuine(descriptor, content[: int(len(content) * part)])
        raise KeyboardInterrupt

    store.begin(run)
    staged = run.prepare({"a": [(2,)]})
    with monkeypatch.context() as patch:
        patch.setattr("dbsp.durable.tick_journal.write_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.record(2, staged, run, None)
    assert store.recorded(2) == (part == 1)
    assert not store.recorded(1)
    if part < 1:
        assert run.step({"a": [(3,)]}).number == 2
    ended(run)
    again = counting().start(checkpoint=opened(tmp_path, 50))
    assert again.tick == 2
    assert views(again)["out"] == {(1, 1): 1, (2 if part == 1 else 3, 1): 1}
    ended(again)


def test_what_a_killed_process_left_of_a_tick_is_no_tick(tmp_path: Path) -> None:
    run = counting().start(checkpoint=opened(tmp_path, 50))
    for x in range(3):
        run.step({"a": [(x,)]})
    ended(run)
    path, latest = tmp_path / "journal" / "1.ticks", tmp_path / "journal" / "latest"
    whole, noted = path.read_bytes(), latest.read_bytes()
    run = counting().start(checkpoint=opened(tmp_path, 50))
    run.step({"a": [(9,)]})
    ended(run)
    more = path.read_bytes()
    assert more.startswith(whole)
    for size in range(len(whole), len(more), 7):
        path.write_bytes(more[:size])
        latest.write_bytes(noted)
        run = counting().start(checkpoint=opened(tmp_path, 50))
        assert (run.tick, len(run.view("out"))) == (3, 3)
        ended(run)
        assert path.read_bytes() == whole


def test_a_checkpoint_belongs_to_one_run_and_one_query(tmp_path: Path) -> None:
    program = dbsp.compile(CLOSURE)
    run = program.start(checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}.*checkpoint-in-use"):
        program.start(checkpoint=tmp_path)
    assert run.log is not None
    run.log.snapshot()
    ended(run)
    other = dbsp.compile(CLOSURE + "path(x, x) :- edge(x, _).")
    with pytest.raises(CheckpointError, match=r"another query.* \[checkpoint-other-program\]"):
        other.start(checkpoint=tmp_path)


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="snapshot_every must be at least 1, got 0"):
        Store(tmp_path, snapshot_every=0)
    store = opened(tmp_path)
    with pytest.raises(CheckpointError, match=r"has no run; .* \[run-closed\]"):
        store.snapshot()
    run = counting().start()
    run.step({"a": [(1,)]})
    with pytest.raises(CheckpointError, match=r"got a run at tick 1; .* \[run-already-stepped\]"):
        store.attach(run, "query")
    store.close()
    run = counting().start(checkpoint=tmp_path)
    with pytest.raises(ArgumentError, match=r"label: expected a JSON value, got \{1\}"):
        run.step({"a": [(1,)]}, label={1})
    assert run.tick == 0
    ended(run)


def test_a_checkpoint_of_other_operators(tmp_path: Path) -> None:
    run = counting().start(checkpoint=tmp_path)
    run.step({"a": [(1,)]})
    assert isinstance(run.log, Store)
    run.log.snapshot()
    ended(run)
    circuit = Circuit("other")
    circuit.output("out", circuit.input("a", x=int))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    store = opened(tmp_path)
    with pytest.raises(CheckpointError, match=r"with other operators; .* \[checkpoint-other-program\]"):
        store.attach(circuit.start(), manifest["query"])


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError) as caught:
        counting().start(checkpoint=tmp_path / "file")
    assert str(caught.value) == (
        f"cannot use the folder {tmp_path / 'file'}: Not a directory [checkpoint-write]"
    )


def test_large_runs_are_written_once(tmp_path: Path) -> None:
    circuit = Circuit("large")
    circuit.output("out", circuit.input("a", x=int).distinct())
    run = circuit.start(checkpoint=opened(tmp_path, 1))
    run.step({"a": [(x,) for x in range(20_000)]})
    for x in range(5):
        run.step({"a": {(x,): -1}})
    written = json.loads((tmp_path / "manifest.json").read_text())["snapshot"]["traces"]
    (large,) = {file for runs in written for file in runs if isinstance(file, str)}
    first = (tmp_path / large).stat().st_mtime_ns
    run.step({"a": {(99_999,): 1}})
    run.step()
    assert (tmp_path / large).stat().st_mtime_ns == first
    ended(run)


CHILD = """
import sys
import dbsp
from dbsp.durable import Store

program = dbsp.compile(open(sys.argv[1]).read())
run = program.start(checkpoint=Store(sys.argv[2], snapshot_every=4, sync=False))
print("began", run.tick, flush=True)
for tick in range(run.tick, int(sys.argv[3])):
    edge = (f"n{tick * 7 % 13}", f"n{tick * 5 % 11}")
    run.step({"edge": {edge: -1 if tick % 4 == 3 else 1}}, label=tick)
    print(tick, flush=True)
"""


@pytest.mark.crash
def test_kill_at_any_moment(tmp_path: Path) -> None:
    """A child process is killed many times; no tick is lost or applied twice."""
    source, folder, ticks = tmp_path / "closure.dl", tmp_path / "state", 120
    source.write_text(CLOSURE)
    chance = random.Random(7)
    kills = 0
    while True:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(source), str(folder), str(ticks)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        allowed = chance.randrange(1, 25)
        last = 0
        for number, line in enumerate(child.stdout):
            # A process may be killed after its last tick and before it prints it.
            last = int(line.split()[1]) - 1 if line.startswith("began") else int(line)
            if number == allowed:
                child.send_signal(signal.SIGKILL)
                kills += 1
                break
        child.stdout.close()
        child.wait()
        if last == ticks - 1:
            break
    assert kills >= 5
    program = dbsp.compile(CLOSURE)
    whole = program.start()
    for tick in range(1, ticks):
        edge = (f"n{tick * 7 % 13}", f"n{tick * 5 % 11}")
        whole.step({"edge": {edge: -1 if tick % 4 == 3 else 1}})
    run = program.start(checkpoint=folder)
    assert run.tick == whole.tick == ticks
    assert views(run) == views(whole)
    ended(run)


def test_a_program_with_half_of_a_character_in_it(tmp_path: Path) -> None:
    program = dbsp.compile('.decl r(x: symbol)\n.output r\nr("\ud800").\n')
    run = program.start(checkpoint=tmp_path / "run")
    assert run.log is not None
    run.log.snapshot()
    run.log.close()
    assert program.start(checkpoint=tmp_path / "run").view("r").rows() == [("\ud800",)]


def test_a_checkpoint_of_an_earlier_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = dbsp.compile(CLOSURE)
    with monkeypatch.context() as earlier:
        earlier.setattr("dbsp.circuit.graph_json.VERSION", 1)
        store = Store(tmp_path)
        run = program.start(checkpoint=store)
        run.step({"edge": [("a", "b")]})
        store.snapshot()
        store.close()
    with pytest.raises(CheckpointError, match=r"version 1.* start in an empty folder \[checkpoint-version\]"):
        program.start(checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="version 1"):  # the folder is released
        program.start(checkpoint=tmp_path)


def test_a_run_that_nobody_has_any_more_leaves_its_folder(tmp_path: Path) -> None:
    def start() -> Run:
        circuit = Circuit("left")
        circuit.output("out", circuit.input("a", x=int))
        return circuit.start(checkpoint=tmp_path)

    run = start()
    run.step({"a": [(1,)]})
    del run
    again = start()
    assert again.view("out").rows() == [(1,)]
    assert again.log is not None
    again.log.close()


def test_a_run_that_nobody_has_any_more_leaves_no_open_file(tmp_path: Path) -> None:
    program = dbsp.compile(".decl a(x: number) .input a .output a")
    run = program.start(checkpoint=tmp_path)
    run.step({"a": [(1,)]})
    assert open_files(tmp_path)
    del run
    gc.collect()
    assert not open_files(tmp_path)


def open_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open."""
    found = [os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
    return [name for name in found if name.startswith(str(folder))]


def test_an_interrupted_start_leaves_its_folder(tmp_path: Path) -> None:
    program = dbsp.compile(".decl a(x: number) .input a .output a")
    with (
        mock.patch.object(Scope, "run", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        program.start({"a": [(1,)]}, checkpoint=tmp_path)
    again = program.start({"a": [(1,)]}, checkpoint=tmp_path)
    assert (again.tick, again.view("a").rows()) == (1, [(1,)])
    assert again.log is not None
    again.log.close()


@pytest.mark.parametrize("every", [1, 100])
def test_a_snapshot_has_the_result_of_its_tick(tmp_path: Path, every: int) -> None:
    def circuit() -> Circuit:
        circuit = Circuit("result")
        words = circuit.input("words", w=str, o=object, kind="set")
        circuit.output("words", words)
        circuit.output("none", words.filter(col("w") == "never"))
        return circuit

    run = circuit().start(checkpoint=opened(tmp_path, every))
    run.step({"words": [("a", (1, "x")), ("b", 2)]})
    expected = run.step({"words": {("a", (1, "x")): -1, ("ä", 2.5): 1, ("absent", 1): -1}})
    assert run.log is not None
    run.log.snapshot()
    ended(run)
    run = circuit().start(checkpoint=opened(tmp_path, every))
    assert run.log is not None and run.log.result is not None
    found = run.log.result
    assert deltas_of(found) == deltas_of(expected)
    assert found["words"].to_dict() == {("a", (1, "x")): -1, ("ä", 2.5): 1}
    assert (found.number, found.absent, found.present) == (2, expected.absent, expected.present)
    ended(run)
