"""Updates of runs with a checkpoint: the folder is that of the old program or of the new one."""

from __future__ import annotations

import builtins
import contextlib
import errno
import gc
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.faults import Injector
from dbsp import CheckpointError, CircuitError, DbspError, Run
from dbsp.compiler.program import Program
from dbsp.durable import DeltaLog, Store
from dbsp.durable.folder_report import verify_folder
from tests.compiler.test_program_update import changed, compiled, fresh, row_changes, with_facts
from tests.crashes import Ended, count_operations, ends_after
from tests.harness import deltas_of, views
from tests.profiles import examples, sampled
from tests.random_edits import versions

GRAPH = """
    .decl edge(x: number, y: symbol) .input edge
    .decl back(y: symbol, x: number) .input back
    .decl path(x: number, z: number) .output path
    path(x, z) :- edge(x, y), back(y, z).
    path(x, z) :- path(x, y), path(y, z).
    .decl far(x: number) .output far
"""
OLD = GRAPH + "far(z) :- path(1, z)."
NEW = GRAPH + 'far(x) :- path(x, 3). edge(9, "nine"). back("nine", 3).'
THIRD = GRAPH.replace(".output path", "") + ".decl n(c: number) .output n n(count : { far(_) }). far(1)."
ROWS: Any = {"edge": [(n, f"v{n}") for n in range(4)], "back": [(f"v{n}", n + 1) for n in range(4)]}
MORE: Any = {"edge": {(3, "v3"): -1, (7, "new value"): 1}, "back": {("new value", 3): 1}}


def closed(run: Run) -> None:
    assert run.log is not None
    run.log.close()


def ended(run: Run) -> None:
    """End a run as a killed process does: nothing more is written."""
    assert isinstance(run.log, Store)
    run.log.wait()
    if run.log._owner is not None:
        run.log._owner.release()


def right(text: str, ticks: list[Any]) -> Run:
    """Return a run of a program without a checkpoint, after these ticks of the old program."""
    run = compiled(OLD).start(ROWS)
    for tick in ticks:
        if isinstance(tick, Program):
            run.update(tick)
        else:
            run.step(tick)
    if text != OLD:
        run.update(compiled(text))
    return run


# --- random programs, random edits, random reopenings ---------------------------------------------

_STORE = {"snapshot_every": [1, 2, 50], "background": [False, True], "keep": [0, 0, 100]}
stores = st.fixed_dictionaries({name: st.sampled_from(found) for name, found in _STORE.items()})
breaks = st.lists(st.sampled_from(["", "", "close", "end", "snapshot"]), min_size=8, max_size=8)


@settings(max_examples=examples(40))
@given(
    versions(3) | versions(3, cyclic=True) | versions(3, kinds=True),
    st.lists(st.lists(row_changes(), min_size=1, max_size=2), min_size=3, max_size=3),
    stores,
    breaks,
)
def test_every_version_equals_a_fresh_start(
    texts: list[str], ticks: Any, options: dict[str, Any], pauses: list[str]
) -> None:
    """Between two ticks the run may be closed, killed or written, and each tick can be opened."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "state"
        waiting = iter(pauses)

        def opened(program: Program) -> Run:
            return program.start(checkpoint=Store(folder, sync=False, **options))

        def pause(run: Run, program: Program) -> Run:
            how = next(waiting)
            event(how or "no pause")
            if how == "snapshot":
                run.snapshot()
            if how not in ("close", "end"):
                return run
            tick, held = run.tick, views(run)
            result = None if run.log is None else run.log.result
            (closed if how == "close" else ended)(run)
            again = opened(program)
            assert (again.tick, views(again)) == (tick, held)
            assert again.log is not None
            if result is not None:
                assert again.log.result is not None
                assert deltas_of(again.log.result) == deltas_of(result)
            return again

        programs = [compiled(text) for text in texts]
        inputs = with_facts(programs[0], None, {})
        run = opened(programs[0])
        past: list[tuple[int, Program, Any]] = [(run.tick, programs[0], views(run))]
        for place, program in enumerate(programs):
            other = run
            if place:
                run = pause(run, programs[place - 1])
                inputs = with_facts(program, programs[place - 1], inputs)
                before, tick = views(run), run.tick
                done = run.update(program)
                other = fresh(program, inputs)
                assert views(run) == views(other), place
                assert deltas_of(done.deltas) == changed(before, views(other)), place
                assert run.tick == done.deltas.number == tick + 1
                past.append((run.tick, program, views(run)))
                run = pause(run, program)
            for changes in ticks[place]:
                result = deltas_of(run.step(changes))
                for name_, weights in changes.items():
                    inputs[name_] |= {row for row, weight in weights.items() if weight > 0}
                    inputs[name_] -= {row for row, weight in weights.items() if weight < 0}
                if place:
                    assert result == deltas_of(other.step(changes)), place
                    assert views(run) == views(other), place
                past.append((run.tick, program, views(run)))
        closed(run)
        assert not verify_folder(folder).problems
        if options["keep"]:
            for tick, program, held in past:
                if tick:  # the folder has no manifest of a run that has not made a tick
                    assert views(program.open(folder, as_of=tick)) == held, tick


# --- kills and full disks -------------------------------------------------------------------------


def states_of(folder: Path) -> dict[str, Any]:
    """Return by program the views of the run in a folder, or the code of the error."""
    found: dict[str, Any] = {}
    for text in (OLD, NEW):
        copy = folder.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        try:
            run = compiled(text).start(checkpoint=Store(copy, sync=False))
        except CheckpointError as error:
            found[text] = error.code
            continue
        found[text] = run.tick, views(run)
        closed(run)
    return found


@pytest.mark.crash
@pytest.mark.parametrize(("keep", "snapshots"), [(0, 50), (10, 1)])
def test_the_process_ends_between_any_two_file_operations(tmp_path: Path, keep: int, snapshots: int) -> None:
    programs = {text: compiled(text) for text in (OLD, NEW)}

    def opened(folder: Path, text: str) -> Run:
        options: Any = {"snapshot_every": snapshots, "background": False, "keep": keep}
        return programs[text].start(ROWS, checkpoint=Store(folder, **options))

    def started(folder: Path) -> Run:
        run = opened(folder, OLD)
        run.step(MORE)
        run.step({"edge": [(3, "v3")]})
        return run

    before = 3, views(right(OLD, [MORE, {"edge": [(3, "v3")]}]))
    after = 4, views(right(NEW, [MORE, {"edge": [(3, "v3")]}]))
    run = started(tmp_path / "whole")
    operations = count_operations(partial(run.update, programs[NEW]))
    ended(run)
    assert operations > 10
    outcomes = []
    for end in sampled(operations):
        folder = tmp_path / str(end)
        run = started(folder)
        # After the decision, only the removal of earlier files is missing.
        with contextlib.suppress(Ended), ends_after(end):
            run.update(programs[NEW])
        ended(run)
        del run
        gc.collect()
        found = states_of(folder)
        outcomes.append(found[NEW] == after)
        other = "checkpoint-other-program"
        expected = {OLD: other, NEW: after} if outcomes[-1] else {OLD: before, NEW: other}
        assert found == expected, end
        text = NEW if outcomes[-1] else OLD
        again = opened(folder, text)
        if text == OLD:
            again.update(programs[NEW])
        again.step({"edge": [(5, "v0")]})
        held = views(again)
        again.snapshot()
        ended(again)
        again = opened(folder, NEW)
        assert (again.tick, views(again)) == (5, held)
        ended(again)
        assert not list(folder.rglob(".*"))
        assert not verify_folder(folder).problems
        if keep:
            assert views(programs[OLD].open(folder, as_of=3)) == before[1]
            assert views(programs[NEW].open(folder, as_of=4)) == after[1]
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) > 5
    assert outcomes.count(True) >= 1


_OPERATIONS = ("mkdir", "rename", "replace", "unlink", "fsync", "fdatasync", "write", "ftruncate")


@contextmanager
def fails_at(count: int, lasting: bool) -> Iterator[Callable[[], int]]:
    """Let the operation `count` that changes files fail for lack of room, or all from it on."""
    done = 0

    def failing(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if threading.current_thread() is not threading.main_thread():
                return genuine(*args, **kwargs)  # the test runner writes, too
            done += 1
            if done == count + 1 or (lasting and done > count):
                raise OSError(errno.ENOSPC, "No space left on device")
            return genuine(*args, **kwargs)

        return operation

    real = builtins.open
    fail = failing(real)

    def opening(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        return (real if mode in ("r", "rb") else fail)(file, mode, *args, **kwargs)

    operations = {name: failing(getattr(os, name)) for name in _OPERATIONS}
    with mock.patch.multiple(os, **operations), mock.patch.object(builtins, "open", opening):
        yield lambda: done


@pytest.mark.crash
@pytest.mark.filterwarnings("ignore::dbsp.errors.CheckpointWarning")
@pytest.mark.parametrize("lasting", [False, True])
def test_a_full_disk_at_any_file_operation(tmp_path: Path, lasting: bool) -> None:
    old, new = compiled(OLD), compiled(NEW)
    run = old.start(ROWS, checkpoint=Store(tmp_path / "whole", snapshot_every=50))
    with fails_at(10**9, lasting) as done:
        run.update(new)
    closed(run)
    before, after = views(right(OLD, [])), views(right(NEW, []))
    more = {program: views(right(text, [MORE])) for program, text in ((old, OLD), (new, NEW))}
    counts = {"failed": 0, "done": 0}
    for at in sampled(done()):
        folder = tmp_path / str(at)
        run = old.start(ROWS, checkpoint=Store(folder, snapshot_every=50))
        run.snapshot()
        with fails_at(at, lasting):
            try:
                run.update(new)
            except CheckpointError as error:
                assert error.code == "checkpoint-write", at
        if run.tick == 1:
            counts["failed"] += 1
            assert views(run) == before
            assert old.identity in (folder / "manifest.json").read_text()
            # It continues, and a kill loses nothing.
            run.step(MORE)
            held = views(run)
            assert held == more[old]
            ended(run)
            run = old.start(checkpoint=folder)
            assert (run.tick, views(run)) == (2, held)
            run.update(new)
            assert views(run) == more[new]
        else:
            counts["done"] += 1
            assert (run.tick, views(run)) == (2, after)
        held = views(run)
        ended(run)
        again = new.start(checkpoint=folder)
        assert views(again) == held
        closed(again)
        assert not verify_folder(folder).problems
    assert counts["failed"] > 5
    assert counts["done"] >= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_sampled_steps(tmp_path: Path) -> None:
    new = compiled(NEW)
    before, after = views(right(OLD, [])), views(right(NEW, []))
    stepped = {OLD: views(right(OLD, [MORE])), NEW: views(right(NEW, []))}
    counts, at = {OLD: 0, NEW: 0}, 100
    while True:
        folder = tmp_path / str(at)
        run = compiled(OLD).start(ROWS, checkpoint=Store(folder, sync=False))
        injector = Injector(KeyboardInterrupt, at, None, False)
        injector.call(lambda run=run: run.update(new))  # type: ignore[misc]
        text = OLD if run.tick == 1 else NEW
        counts[text] += 1
        assert views(run) == (before if text == OLD else after), injector.place
        if text == OLD:
            run.step(MORE)
            assert views(run) == stepped[OLD], injector.place
        held, tick = views(run), run.tick
        ended(run)
        again = compiled(text).start(checkpoint=Store(folder, sync=False))
        assert (again.tick, views(again)) == (tick, held), injector.place
        ended(again)
        if not injector.place:
            break
        at += 2503
    assert counts[OLD] > 5
    assert counts[NEW] > 0


def test_a_manifest_that_cannot_be_read_leaves_the_update_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed rename, only the folder knows whether the update counts."""
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path)
    genuine, read = os.replace, Path.read_bytes

    def renamed(source: Any, target: Any) -> None:
        genuine(source, target)
        if Path(target).name == "manifest.json":
            raise OSError(errno.EIO, "Input/output error")

    def unread(path: Path) -> bytes:
        if path.name == "manifest.json":
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", renamed)
        patch.setattr(Path, "read_bytes", unread)
        with pytest.raises(CheckpointError, match=r"manifest.json.*Input/output error"):
            run.update(compiled(NEW))
        with pytest.raises(CheckpointError, match=r"manifest.json.*Input/output error"):
            run.step(MORE)
    assert run.tick == 2
    assert views(run) == views(right(NEW, []))
    closed(run)
    run = compiled(NEW).start(checkpoint=tmp_path)
    assert run.tick == 2
    closed(run)


def test_damage_does_not_bring_back_the_old_program(tmp_path: Path) -> None:
    run = compiled(OLD).start(ROWS, checkpoint=Store(tmp_path, keep=100))
    run.snapshot()
    run.step(MORE)
    run.update(compiled(NEW))
    ended(run)
    (tmp_path / "manifest.json").write_text("{}")
    for text in (OLD, NEW):
        with pytest.raises(CheckpointError, match=r"manifest.json.*\[checkpoint-unreadable\]$"):
            compiled(text).start(checkpoint=tmp_path)
        with pytest.raises(CheckpointError, match=r"\[checkpoint-(unreadable|other-program)\]$"):
            compiled(text).open(tmp_path)


def test_a_leftover_of_an_update_is_removed(tmp_path: Path) -> None:
    """The record of an update without its manifest belongs to a process that has ended."""
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path)
    run.step(MORE)
    held = views(run)
    with (
        mock.patch("dbsp.durable.stored_update.Manifest.write", side_effect=Ended),
        mock.patch("dbsp.durable.stored_update.StoredUpdate.withdraw"),
        pytest.raises(Ended),
    ):
        run.update(compiled(NEW))
    ended(run)
    assert (tmp_path / "journal" / "3.ticks").stat().st_size
    assert views(compiled(OLD).open(tmp_path)) == held
    assert not verify_folder(tmp_path).problems
    with pytest.raises(CheckpointError, match=r"is the checkpoint of another query.*-program\]$"):
        compiled(NEW).start(checkpoint=tmp_path)
    run = compiled(OLD).start(checkpoint=tmp_path)
    assert (run.tick, views(run)) == (2, held)
    assert not (tmp_path / "journal" / "3.ticks").exists()
    run.step({"edge": [(5, "v0")]})
    held = views(run)
    closed(run)
    run = compiled(OLD).start(checkpoint=tmp_path)
    assert (run.tick, views(run)) == (3, held)
    closed(run)


# --- what belongs to the checkpoint ---------------------------------------------------------------


def test_the_update_is_a_durable_tick(tmp_path: Path) -> None:
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path)
    run.step(MORE, label={"batch": 7})
    done = run.update(compiled(NEW))
    assert run.log is not None
    assert (run.tick, run.log.label) == (3, {"batch": 7})
    assert run.log.result is done.deltas
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert "manifest.previous.json" not in files
    ended(run)
    with pytest.raises(CheckpointError, match=r"is the checkpoint of another query.*-program\]$"):
        compiled(OLD).start(checkpoint=tmp_path)
    run = compiled(NEW).start(checkpoint=tmp_path)
    assert run.log is not None
    assert run.log.result is not None
    assert (run.tick, run.log.label) == (3, {"batch": 7})
    assert deltas_of(run.log.result) == deltas_of(done.deltas)
    states = {id(state) for state in (*run.scope.traces, *run.scope.tables)}
    again = run.update(compiled("// other text\n" + NEW))
    assert (again.rebuilt, again.dropped, again.replayed_rows) == (0, 0, 0)
    assert states == {id(state) for state in (*run.scope.traces, *run.scope.tables)}
    closed(run)


def test_an_update_writes_only_what_the_edit_reaches(tmp_path: Path) -> None:
    text = """
        .decl a(x: number, y: number) .input a
        .decl b(x: number, y: number) .output b
        b(y, x) :- a(x, y), x > 10.
        .decl c(x: number) .output c
    """
    run = compiled(text + "c(x) :- b(x, _), x > 9990.").start(
        {"a": [(n, n) for n in range(10_000)]}, checkpoint=tmp_path
    )
    run.snapshot()
    runs = {path.name: path.stat().st_ino for path in (tmp_path / "runs").iterdir()}
    assert runs
    run.update(compiled(text + "c(x) :- b(x, _), x > 9995."))
    kept = {path.name: path.stat().st_ino for path in (tmp_path / "runs").iterdir()}
    assert kept == runs
    run.update(compiled(text.replace("x > 10", "x > 11") + "c(x) :- b(x, _), x > 9995."))
    kept = {path.name: path.stat().st_ino for path in (tmp_path / "runs").iterdir()}
    assert kept == runs  # the difference of one row is in the manifest
    held = views(run)
    closed(run)
    run = compiled(text.replace("x > 10", "x > 11") + "c(x) :- b(x, _), x > 9995.").start(checkpoint=tmp_path)
    assert views(run) == held
    closed(run)


def test_the_past_is_opened_with_the_program_of_its_tick(tmp_path: Path) -> None:
    old, new = compiled(OLD), compiled(NEW)
    run = old.start(ROWS, checkpoint=Store(tmp_path, keep=100))
    past = {1: views(run)}
    for change in (MORE, new, {"edge": [(3, "v3")]}, old, {"edge": {(0, "v0"): -1}}):
        if isinstance(change, Program):
            run.update(change)
        else:
            run.step(change)
        past[run.tick] = views(run)
    closed(run)
    of = {1: old, 2: old, 3: new, 4: new, 5: old, 6: old}
    for tick, program in of.items():
        opened = program.open(tmp_path, as_of=tick)
        assert (opened.tick, views(opened)) == (tick, past[tick])
        other = new if program is old else old
        with pytest.raises(CheckpointError, match=rf"of another query .* as of tick {tick}: an update.*open"):
            other.open(tmp_path, as_of=tick)
    assert old.open(tmp_path).tick == 6
    assert old.open(tmp_path, as_of=2).history == range(3)
    assert new.open(tmp_path, as_of=3).history == range(3, 5)
    assert old.open(tmp_path, as_of=5).history == range(5, 7)
    with pytest.raises(CheckpointError, match="is the checkpoint of another query"):
        new.open(tmp_path)
    with pytest.raises(CheckpointError, match=r"can be opened as of tick .* got tick 7"):
        old.open(tmp_path, as_of=7)
    last = old.open(tmp_path)
    assert [result.number for result in last.ticks(since=5)] == [6]
    with pytest.raises(CheckpointError, match=r"of another query .* as of tick 3"):
        list(old.open(tmp_path, as_of=2).ticks(since=1, until=3))
    first = dict.fromkeys(past[1]["path"], 1)
    delta = {row: -1 for row in first if row not in past[6]["path"]}
    delta |= {row: 1 for row in past[6]["path"] if row not in first}
    assert last.deltas("path", since=1).to_dict() == delta


def test_a_history_of_few_ticks_ends_the_old_program(tmp_path: Path) -> None:
    old, new = compiled(OLD), compiled(NEW)
    run = old.start(ROWS, checkpoint=Store(tmp_path, keep=2, snapshot_every=1, background=False))
    run.update(new)
    assert views(old.open(tmp_path, as_of=1)) == views(right(OLD, []))
    for n in range(5):
        run.step({"edge": [(20 + n, "v0")]})
    with pytest.raises(CheckpointError, match="is the checkpoint of another query"):
        old.open(tmp_path, as_of=1)
    assert new.open(tmp_path).history.start >= 2
    closed(run)


@pytest.mark.parametrize("background", [False, True])
def test_snapshots_around_an_update(tmp_path: Path, background: bool) -> None:
    old, new = compiled(OLD), compiled(NEW)
    store = Store(tmp_path, snapshot_every=1, background=background)
    run = old.start(ROWS, checkpoint=store)
    run.step(MORE)  # begins a snapshot, for which the update waits
    run.update(new)
    run.step({"edge": [(3, "v3")]})
    run.step({"edge": [(5, "v0")]})
    held = views(run)
    ended(run)
    run = new.start(checkpoint=tmp_path)
    assert (run.tick, views(run)) == (5, held)
    closed(run)


def test_state_beyond_the_memory_limit(tmp_path: Path) -> None:
    rows: Any = {"edge": [(n, f"v{n % 50}") for n in range(3_000)], "back": [("v1", 3), ("v2", 5)]}
    run = compiled(OLD).start(rows, checkpoint=Store(tmp_path, snapshot_every=50), memory_limit=20_000)
    assert list((tmp_path / "spill").iterdir())
    plain = compiled(OLD).start(rows)
    for text in (NEW, THIRD, OLD):
        assert deltas_of(run.update(compiled(text)).deltas) == deltas_of(plain.update(compiled(text)).deltas)
        assert deltas_of(run.step(MORE)) == deltas_of(plain.step(MORE))
        undo = {name: {row: -weight for row, weight in rows.items()} for name, rows in MORE.items()}
        assert deltas_of(run.step(undo)) == deltas_of(plain.step(undo))
        held = views(run)
        assert held == views(plain)
        ended(run)
        run = compiled(text).start(checkpoint=Store(tmp_path, snapshot_every=50), memory_limit=20_000)
        assert views(run) == held
    closed(run)


def test_an_error_of_a_new_rule_leaves_the_folder(tmp_path: Path) -> None:
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path)
    held = views(run)
    for clause in ("far(10 / (z - 2)) :- path(1, z).", 'far(10 / (x - 9)) :- edge(x, _). edge(9, "v0").'):
        with pytest.raises(DbspError, match="division by zero"):
            run.update(compiled(GRAPH + clause))
        assert (run.tick, views(run)) == (1, held)
    run.step(MORE)
    held = views(run)
    ended(run)
    run = compiled(OLD).start(checkpoint=tmp_path)
    assert (run.tick, views(run)) == (2, held)
    closed(run)


def test_a_preview_writes_nothing(tmp_path: Path) -> None:
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    would = run.preview_update(compiled(NEW))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert deltas_of(run.update(compiled(NEW)).deltas) == deltas_of(would.deltas)
    closed(run)


def test_a_function_without_a_name_is_refused(tmp_path: Path) -> None:
    text = """
        .functor twice(x: number): number
        .decl a(x: number) .input a
        .decl b(x: number) .output b
    """
    given: Any = {"functors": {"twice": lambda x: 2 * x}}
    run = dbsp.compile(text + "b(x) :- a(x).", **given).start({"a": [(1,)]}, checkpoint=tmp_path)
    functor = dbsp.compile(text + "b(@twice(x)) :- a(x).", **given)
    done = run.update(functor)
    assert done.deltas["b"].to_dict() == {(1,): -1, (2,): 1}
    closed(run)
    run = functor.start(checkpoint=tmp_path)
    assert run.view("b").rows() == [(2,)]
    closed(run)


def test_subscriptions_follow_a_run_with_a_checkpoint(tmp_path: Path) -> None:
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path)
    subscription = run.subscribe("path(x, z), z > 2")
    rows: Counter[Any] = Counter()
    for text in (NEW, THIRD.replace("path(x, z) :- path(x, y), path(y, z).", ""), OLD):
        run.update(compiled(text))
        for delta in subscription.deltas():
            rows.update(delta.to_dict())
        expected = compiled(text).query(run, "path(x, z), z > 2").to_dict()
        assert {row: weight for row, weight in rows.items() if weight} == expected
    closed(run)


def test_a_delta_log_has_the_tick_of_an_update_once(tmp_path: Path) -> None:
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path / "state")
    log = DeltaLog(tmp_path / "log")
    log.catch_up(run)
    done = run.update(compiled(NEW))
    ended(run)  # before the log has the tick
    run = compiled(NEW).start(checkpoint=tmp_path / "state")
    assert log.catch_up(run)
    assert not log.append(run.tick, done.deltas)
    assert [(tick, delta.to_dict()) for tick, delta in log.deltas("far", after=1)] == [
        (2, done.deltas["far"].to_dict())
    ]
    assert log.view("far").rows() == run.view("far").rows()
    closed(run)


def test_a_run_of_the_past_is_not_updated(tmp_path: Path) -> None:
    closed(compiled(OLD).start(ROWS, checkpoint=tmp_path))
    with pytest.raises(CircuitError, match=r"update: .* was opened as of tick 1.*\[read-only-run\]$"):
        compiled(OLD).open(tmp_path).update(compiled(NEW))


def test_a_refused_manifest_undoes_the_committed_state(tmp_path: Path) -> None:
    run = compiled(OLD).start(ROWS, checkpoint=tmp_path)
    held = views(run)
    failure = CheckpointError("cannot write", code="checkpoint-write")
    with (
        mock.patch("dbsp.durable.stored_update.Manifest.write", side_effect=failure),
        pytest.raises(CheckpointError, match="cannot write"),
    ):
        run.update(compiled(NEW))
    assert (run.tick, views(run)) == (1, held)
    run.step(MORE)
    assert views(run) == views(right(OLD, [MORE]))
    closed(run)


def test_the_last_snapshot_of_the_old_program_stays_in_a_long_history(tmp_path: Path) -> None:
    """An earlier snapshot that is near would do for the ticks of one program only."""
    run = compiled(OLD).start(ROWS, checkpoint=Store(tmp_path, keep=1_000))
    run.snapshot()
    run.step(MORE)
    run.snapshot()
    run.step({"edge": [(3, "v3")]})
    run.snapshot()
    run.update(compiled(NEW))
    closed(run)
    assert (tmp_path / "history" / "3.json").exists()


def test_the_first_snapshot_of_each_program_stays_in_a_long_history(tmp_path: Path) -> None:
    """Snapshots that are near to each other replace each other, but not those of two programs."""
    store = Store(tmp_path, keep=1_000, snapshot_every=1, background=False)
    run = compiled(OLD).start(ROWS, checkpoint=store)
    run.snapshot()
    held = {run.tick: (OLD, views(run))}
    for text in (NEW, OLD):
        run.update(compiled(text))
        held[run.tick] = (text, views(run))
        run.snapshot()
        run.step(MORE)
        held[run.tick] = (text, views(run))
        run.snapshot()
    closed(run)
    for tick, (text, expected) in held.items():
        assert views(compiled(text).open(tmp_path, as_of=tick)) == expected, tick
