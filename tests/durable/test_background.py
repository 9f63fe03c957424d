"""Snapshots in the background: the run continues, and every end of it leaves a right folder."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import CheckpointError, Circuit, Run, count
from dbsp.data.interner import Interner
from dbsp.durable import Store
from dbsp.durable.array_frames import json_texts
from dbsp.durable.background import BackgroundWork, rest
from dbsp.durable.interner_file import restore_values, values_piece
from dbsp.durable.manifest import Manifest, read_manifest
from dbsp.durable.snapshots import Snapshots
from dbsp.errors import CheckpointWarning
from tests.crashes import Ended, count_operations, ends_after
from tests.harness import views
from tests.profiles import examples


def counting() -> Circuit:
    circuit = Circuit("counting")
    circuit.output("out", circuit.input("a", s=str, kind="set").group_by("s").agg(n=count()))
    return circuit


def started(folder: Path, every: Any = 1, background: bool = True) -> Run:
    return counting().start(checkpoint=Store(folder, snapshot_every=every, sync=False, background=background))


def store_of(run: Run) -> Store:
    assert isinstance(run.log, Store)
    return run.log


def step(run: Run) -> None:
    run.step({"a": [(f"value {run.tick}",)]})


def expected(ticks: int) -> dict[str, Any]:
    return {"out": {(f"value {tick}", 1): 1 for tick in range(ticks)}}


def snapshot_tick(folder: Path) -> int:
    manifest = read_manifest(folder / "manifest.json")
    assert manifest is not None
    return manifest.tick


@contextlib.contextmanager
def held() -> Iterator[threading.Event]:
    """Hold every snapshot before its first file until the event is set."""
    release = threading.Event()
    genuine = Snapshots.write

    def write(*args: Any) -> Any:
        assert release.wait(60)
        return genuine(*args)

    with mock.patch.object(Snapshots, "write", write):
        try:
            yield release
        finally:
            release.set()


def reopened(folder: Path, ticks: int) -> None:
    """Open the folder and expect so many ticks."""
    run = started(folder)
    assert (run.tick, views(run)) == (ticks, expected(ticks))
    store_of(run).close()


# --- the run continues --------------------------------------------------------------------------


def test_ticks_go_on_while_a_snapshot_is_written(tmp_path: Path) -> None:
    run = started(tmp_path, every=3)
    with held() as release:
        for _ in range(10):
            step(run)
        assert views(run) == expected(10)
        assert snapshot_tick(tmp_path) == 0
        assert sorted(path.name for path in (tmp_path / "journal").glob("*.ticks")) == ["1.ticks", "4.ticks"]
        release.set()
        store_of(run).wait()
    # The snapshot is of the tick at which it began, and the journal continues exactly there.
    assert snapshot_tick(tmp_path) == 3
    step(run)
    store_of(run).close()
    assert snapshot_tick(tmp_path) == 10
    reopened(tmp_path, 11)


def test_a_snapshot_has_the_state_of_its_tick(tmp_path: Path) -> None:
    run = started(tmp_path, every=4)
    with held() as release:
        for _ in range(5):
            step(run)
        for tick in range(4):
            run.step({"a": {(f"value {tick}",): -1}})
        run.scope.traces[0].compact()
        release.set()
        store_of(run).close()
    # Without the ticks after it, the folder is one of a process that ended then.
    (tmp_path / "journal" / "5.ticks").unlink()
    (tmp_path / "journal" / "latest").unlink()
    with pytest.warns(CheckpointWarning, match="latest is missing"):
        reopened(tmp_path, 4)


def test_old_journals_are_removed_after_the_snapshot_is_durable(tmp_path: Path) -> None:
    run = started(tmp_path, every=2)
    genuine = Manifest.write
    seen: list[list[str]] = []

    def write(manifest: Manifest, folder: Path, *args: Any) -> None:
        seen.append(sorted(path.name for path in (folder / "journal").glob("*.ticks")))
        genuine(manifest, folder, *args)

    with mock.patch.object(Manifest, "write", write):
        for _ in range(9):
            step(run)
            store_of(run).wait()
    assert len(seen) == 8
    for before, after in zip(seen[::2], seen[1::2], strict=True):
        assert set(before) <= set(after)
    assert len(list((tmp_path / "journal").glob("*.ticks"))) <= 3
    store_of(run).close()
    reopened(tmp_path, 9)


# --- errors of the thread -------------------------------------------------------------------------


def failing(error: BaseException) -> Any:
    return mock.patch.object(Snapshots, "write", mock.Mock(side_effect=error))


def test_the_next_tick_raises_the_error_and_the_one_after_tries_again(tmp_path: Path) -> None:
    run = started(tmp_path, every=2)
    for _ in range(2):
        step(run)
    with failing(CheckpointError("cannot write it: No space left on device", code="checkpoint-write")):
        step(run)
        store_of(run).wait()
    with pytest.raises(CheckpointError, match=r"No space left on device \[checkpoint-write\]"):
        step(run)
    assert views(run) == expected(3)
    step(run)
    store_of(run).wait()
    assert snapshot_tick(tmp_path) == 3
    store_of(run).close()
    reopened(tmp_path, 4)


def test_close_warns_of_a_snapshot_that_failed(tmp_path: Path) -> None:
    run = started(tmp_path, every=2)
    for _ in range(2):
        step(run)
    with failing(CheckpointError("cannot write it", code="checkpoint-write")):
        step(run)
        with pytest.warns(CheckpointWarning, match="cannot write it; nothing is lost, since the journal has"):
            store_of(run).close()
    reopened(tmp_path, 3)


def test_a_snapshot_now_replaces_one_that_failed(tmp_path: Path) -> None:
    run = started(tmp_path, every=2)
    for _ in range(2):
        step(run)
    with failing(CheckpointError("cannot write it", code="checkpoint-write")):
        step(run)
        store_of(run).wait()
    run.snapshot()
    assert snapshot_tick(tmp_path) == 3
    step(run)
    store_of(run).close()


def test_no_more_threads(tmp_path: Path) -> None:
    run = started(tmp_path, every=2)
    for _ in range(2):
        step(run)
    none_left = RuntimeError("can't start new thread")
    with (
        mock.patch.object(threading.Thread, "start", side_effect=none_left),
        pytest.raises(CheckpointError) as caught,
    ):
        step(run)
    assert str(caught.value) == (
        f"cannot write a snapshot of {tmp_path} in the background: can't start new thread; open the folder "
        "with Store(folder, background=False) [checkpoint-write]"
    )
    step(run)
    store_of(run).close()
    assert snapshot_tick(tmp_path) == 2
    reopened(tmp_path, 3)


# --- waiting --------------------------------------------------------------------------------------


def waits(action: Callable[[], object], release: threading.Event) -> bool:
    """Whether an action ends only after the snapshot that is held."""
    ended = []
    thread = threading.Thread(target=lambda: (action(), ended.append(time.monotonic())))
    thread.start()
    thread.join(0.05)
    released = time.monotonic()
    release.set()
    thread.join(60)
    return ended[0] >= released


@pytest.mark.parametrize("action", ["close", "snapshot", "replan"])
def test_an_action_waits(tmp_path: Path, action: str) -> None:
    run = started(tmp_path, every=2)
    store = store_of(run)
    actions: dict[str, Callable[[], object]] = {
        "close": store.close,
        "snapshot": run.snapshot,
        "replan": lambda: run.replan(counting().circuit("physical")),
    }
    with held() as release:
        for _ in range(3):
            step(run)
        assert waits(actions[action], release)
    assert snapshot_tick(tmp_path) == (3 if action == "snapshot" else 2)
    store.close()
    reopened(tmp_path, 3)


def test_work_that_somebody_waits_for_does_not_rest(tmp_path: Path) -> None:
    def work() -> int:
        for _ in range(100):
            begin = time.perf_counter()
            while time.perf_counter() - begin < 0.0003:
                pass
            rest()
        return clock.sleep.call_count

    # The name in that module only: other threads of this process may sleep as well.
    with mock.patch("dbsp.durable.background.time", wraps=time) as clock:
        patient = BackgroundWork(tmp_path, work)
        patient.start()
        while not patient.done:
            time.sleep(0.001)
        alone = patient.result
        hurried = BackgroundWork(tmp_path, work)
        hurried.hurried = True
        clock.sleep.reset_mock()
        hurried.start()
        hurried.wait()
    assert alone > 50
    assert hurried.result == 0


# --- the end of the process, of the run, and of the thread ----------------------------------------


def test_a_forked_child_does_not_wait_and_does_not_write(tmp_path: Path) -> None:
    run = started(tmp_path, every=2)
    with held() as release:
        for _ in range(3):
            step(run)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    step(run)
                except CheckpointError as error:
                    store_of(run).close()
                    code = 0 if error.code == "checkpoint-in-use" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        release.set()
        store_of(run).wait()
    step(run)
    store_of(run).close()
    reopened(tmp_path, 4)


SCRIPT = """
import sys, time
from pathlib import Path
from unittest import mock
from dbsp.durable.snapshots import Snapshots
from tests.durable.test_background import started, step

genuine = Snapshots.write
def slow(*args):
    time.sleep(0.3)
    return genuine(*args)

with mock.patch.object(Snapshots, "write", slow):
    run = started(Path(sys.argv[1]), every=2)
    for _ in range(3):
        step(run)
"""


def test_the_end_of_the_interpreter_waits(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], check=True, timeout=120)
    assert snapshot_tick(tmp_path) == 2
    reopened(tmp_path, 3)


def test_a_run_that_nobody_has_any_more_while_its_snapshot_is_written(tmp_path: Path) -> None:
    run = started(tmp_path, every=2)
    with held() as release:
        for _ in range(3):
            step(run)
        del run
        gc.collect()
        other = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from dbsp.durable import Store; Store(sys.argv[1])",
                tmp_path,
            ],
            capture_output=True,
            text=True,
        )
        assert "checkpoint-in-use" in other.stderr  # the thread still writes
        assert waits(lambda: reopened(tmp_path, 3), release)
    assert snapshot_tick(tmp_path) == 2


def interrupted(at: int, call: Callable[[], object]) -> tuple[bool, bool]:
    """Interrupt a call at this event in the modules of checkpoints.

    Returns whether it came to that event, and whether the interrupt ended the call.
    """
    left = at

    def interrupt(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if "/dbsp/durable/" not in frame.f_code.co_filename:
            return interrupt
        left -= event != "exception"
        if left == 0:
            raise KeyboardInterrupt
        return interrupt

    ended = False
    before = sys.gettrace()
    try:
        sys.settrace(interrupt)
        call()
    except KeyboardInterrupt:
        ended = True
    finally:
        sys.settrace(before)
    return left <= 0, ended


def test_an_interrupt_while_files_are_closed_leaves_none_to_close_twice(tmp_path: Path) -> None:
    for at in range(1, 60):
        run = started(tmp_path, every=1)
        store = store_of(run)
        step(run)
        reached, _ = interrupted(at, store._release)
        store.close()
        if not reached:
            break
    assert 3 < at < 59 and views(run) == expected(run.tick)


def test_an_interrupt_at_any_step_of_beginning_a_snapshot(tmp_path: Path) -> None:
    run = started(tmp_path, every=1)
    step(run)
    undone = 0
    for at in range(0, 2_000, 2):
        ticks = run.tick
        reached, ended = interrupted(at, lambda run=run: step(run))  # type: ignore[misc]
        undone += ended and run.tick == ticks
        assert views(run) == expected(run.tick)
        if not reached:
            break
        if at % 30 == 0:
            store_of(run).close()
            reopened(tmp_path, run.tick)
            run = started(tmp_path, every=1)
            step(run)
    assert undone > 20
    store_of(run).close()
    reopened(tmp_path, run.tick)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.crash
def test_the_process_ends_between_any_two_file_operations(tmp_path: Path, background: bool) -> None:
    """All acknowledged ticks are there again; at most the tick that was being written, too."""
    acknowledged = 0

    def lived(folder: Path) -> None:
        nonlocal acknowledged
        run = started(folder, 2, background)
        try:
            while acknowledged < 7:
                step(run)
                acknowledged = run.tick
                if acknowledged % 3 == 0:
                    store_of(run).wait()
        finally:
            store_of(run).wait()
            store_of(run)._owner.release()  # type: ignore[union-attr]

    operations = count_operations(lambda: lived(tmp_path / "whole"))
    assert operations > 50
    for end in range(0, operations, 7):
        acknowledged = 0
        folder = tmp_path / str(end)
        with contextlib.suppress(Ended), ends_after(end):
            lived(folder)
        gc.collect()  # the run that ended holds the lock if it ended in the constructor
        run = started(folder, 2, background)
        assert acknowledged <= run.tick <= acknowledged + 1
        assert views(run) == expected(run.tick)
        step(run)
        ticks = run.tick
        store_of(run).close()
        reopened(folder, ticks)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    st.booleans(),
    st.integers(1, 4),
    st.lists(st.sampled_from(["tick", "tick", "retract", "snapshot", "wait", "reopen"]), max_size=20),
    st.integers(0, 400),
)
def test_any_sequence_and_a_crash(background: bool, every: int, actions: list[str], end: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        rows: list[set[str]] = [set()]
        run: Run | None = None
        with contextlib.suppress(Ended), ends_after(end):
            try:
                run = started(path, every, background)
                for number, action in enumerate(actions):
                    if action in ("tick", "retract"):
                        gone = min(rows[-1], default=None) if action == "retract" else None
                        change = {(f"v{number}",): 1} | ({} if gone is None else {(gone,): -1})
                        rows.append((rows[-1] | {f"v{number}"}) - {gone})  # type: ignore[arg-type]
                        run.step({"a": change})
                    elif action == "snapshot":
                        run.snapshot()
                    elif action == "wait":
                        store_of(run).wait()
                    else:
                        store_of(run).close()
                        run = started(path, every, background)
            finally:
                if run is not None and run.log is not None:
                    store_of(run).wait()
                    store_of(run)._owner.release()  # type: ignore[union-attr]
        del run
        gc.collect()
        again = started(path, every, background)
        assert len(rows) - 2 <= again.tick <= len(rows) - 1
        assert views(again) == {"out": {(value, 1): 1 for value in rows[again.tick]}}
        step(again)
        store_of(again).close()


# --- the parts ------------------------------------------------------------------------------------


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.integers(0, 1000))
def test_a_text_in_parts_is_the_same_text(value: Any, size: int) -> None:
    for whole in (value, [value] * size, {"entries": [[value, size]] * size, "rest": {}}):
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        assert "".join(json_texts(whole)) == text


def test_values_are_written_while_others_are_added(tmp_path: Path) -> None:
    names = Interner()
    for number in range(3_000):
        names.encode((f"text {number}", (number, ("inner", number % 7)), frozenset({(number % 5,)})))
    end = len(names)
    work = BackgroundWork(tmp_path, lambda: values_piece(names, 0, end, False))
    work.start()
    added = 0
    while not work.done:
        names.encode((f"more {added}", (added, ("inner", added))))
        added += 1
    assert work.error is None
    piece, refused = work.result
    assert not refused and added
    again = Interner()
    restore_values(again, piece, False)
    assert again.decode_many(range(end)) == names.decode_many(range(end))
