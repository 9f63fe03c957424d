"""The past of a checkpoint: which ticks can be opened, and that they are what they were."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import ArgumentError, CheckpointError, Circuit, CircuitError, InputError, IterationLimitError, Run
from dbsp.durable import Store, history
from dbsp.durable.folder_report import verify_folder
from dbsp.durable.folder_state import folder_state
from dbsp.durable.history import history_files, kept_manifests
from dbsp.durable.past_run import PastRun
from dbsp.durable.snapshots import load_snapshot
from dbsp.errors import CheckpointWarning, expect_present
from tests.crashes import Ended, ends_after
from tests.harness import deltas_of, views
from tests.random_plans import Plan, build, changes, outputs, plans
from tests.reference import Z, add, minus
from tests.strategies import Tick

COUNTS = dbsp.compile("""
    .decl visit(user: symbol, page: number)
    .input visit
    .decl visits(user: symbol, n: number)
    .output visits
    visits(u, n) :- visit(u, _), n = count : { visit(u, _) }.
    .decl pages(page: number)
    .output pages
    pages(p) :- visit(_, p).
""")


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    with mock.patch("dbsp.durable.history_window.time", Clock()) as replaced:
        yield replaced


def ended(run: Run) -> None:
    assert isinstance(run.log, Store)
    run.log.close()


def opened(folder: Path, keep: int | str | None, every: int = 3, background: bool = False) -> Store:
    return Store(folder, snapshot_every=every, sync=False, keep=keep, background=background)


def visit(run: Run, number: int) -> dict[str, Z]:
    """Apply a tick with an insertion, and with the deletion of an earlier row; return the views."""
    change = {(f"user{number % 3}", number): 1}
    if number > 4:
        change[(f"user{(number - 4) % 3}", number - 4)] = -1
    run.step({"visit": change}, label=number)
    return views(run)


def written(folder: Path, ticks: int, keep: int | str | None = 100, every: int = 3) -> list[dict[str, Z]]:
    """Write a checkpoint with this number of ticks; return the views as of each."""
    run = COUNTS.start(checkpoint=opened(folder, keep, every))
    seen = [views(run)] + [visit(run, number) for number in range(1, ticks + 1)]
    ended(run)
    return seen


@pytest.mark.slow
@settings(max_examples=10)
@given(plans(), outputs, changes(max_ticks=7), st.data())
def test_every_tick_is_what_it_was(
    plan: Plan, out: list[int], sequence: list[Tick], data: st.DataObject
) -> None:
    circuit = build(plan, out, 40)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = circuit.start(checkpoint=opened(folder, 100, 50))
        seen, results = [views(run)], []
        for tick in sequence:
            try:
                results.append(deltas_of(run.step(tick)))
            except IterationLimitError:
                continue
            seen.append(views(run))
            if data.draw(st.booleans()):
                assert isinstance(run.log, Store)
                run.log.snapshot()
            if data.draw(st.integers(0, 3)) == 0:
                ended(run)
                run = circuit.start(checkpoint=opened(folder, None, 50))
        for tick, expected in enumerate(seen):
            assert views(circuit.open(folder, as_of=tick)) == expected
        past = circuit.open(folder)
        assert past.history == range(len(seen))
        first = data.draw(st.integers(0, len(seen) - 1))
        last = data.draw(st.integers(first, len(seen) - 1))
        for output in circuit.open(folder).outputs:
            change = minus(seen[last][output], seen[first][output])
            assert past.deltas(output, first, last).to_dict() == change
        repeated = list(past.ticks(first, last))
        assert [result.number for result in repeated] == list(range(first + 1, last + 1))
        assert [deltas_of(result) for result in repeated] == results[first:last]
        ended(run)


def test_deltas_by_repetition_and_by_two_views(tmp_path: Path) -> None:
    seen = written(tmp_path, 20)
    past = COUNTS.open(tmp_path, as_of=17)
    for since in range(18):
        for until in {since, min(since + 1, 17), 17}:
            change = minus(seen[until]["visits"], seen[since]["visits"])
            assert past.deltas("visits", since, until).to_dict() == change
    assert past.deltas("visits", 3) == past.deltas("visits", 3, 17)


def test_the_last_ticks_are_kept(tmp_path: Path) -> None:
    seen = written(tmp_path, 40, keep=10)
    past = COUNTS.open(tmp_path)
    assert past.history == range(27, 41)  # the latest snapshot is that of tick 39; it needs tick 29
    assert [tick for tick, _ in history_files(tmp_path)] == [27, 30, 33]
    for tick in past.history:
        run = COUNTS.open(tmp_path, as_of=tick)
        assert (views(run), run.tick, run.label) == (seen[tick], tick, tick or None)


def test_a_duration_is_kept(tmp_path: Path, clock: Clock) -> None:
    run = COUNTS.start(checkpoint=opened(tmp_path, "1 hour"))
    seen = [views(run)]
    for number in range(1, 41):
        clock.now += 600
        seen.append(visit(run, number))
    assert COUNTS.open(tmp_path).time == datetime.fromtimestamp(clock.now, UTC)
    # The latest snapshot, that of tick 39, was written in tick 40, when tick 34 was an hour ago.
    assert COUNTS.open(tmp_path).history[0] == 33
    clock.now += 599
    for tick in COUNTS.open(tmp_path).history:
        at = datetime.fromtimestamp(1_700_000_000 + 600 * tick, UTC)
        for moment in (at, at.astimezone(timezone(timedelta(hours=5))), at + timedelta(seconds=599)):
            assert COUNTS.open(tmp_path, as_of=moment).tick == tick
        assert COUNTS.open(tmp_path, as_of=at.isoformat()).view("visits").to_dict() == seen[tick]["visits"]
        local = datetime.fromtimestamp(at.timestamp()).isoformat()
        assert COUNTS.open(tmp_path, as_of=local).tick == tick
    with pytest.raises(CheckpointError, match="outside-history"):
        COUNTS.open(tmp_path, as_of=datetime.fromtimestamp(1_700_000_000 + 600 * 33 - 1, UTC))
    clock.now += 86_400
    latest = datetime.fromtimestamp(clock.now, UTC)
    assert COUNTS.open(tmp_path, as_of=latest).tick == 40
    with pytest.raises(CheckpointError, match=r"to tick 40 \(.*\), got .*outside-history"):
        COUNTS.open(tmp_path, as_of=latest + timedelta(seconds=1))
    # After a day without ticks, the window is the state of an hour ago, which is that of tick 40.
    for number in range(41, 47):
        visit(run, number)
    assert COUNTS.open(tmp_path).history[0] == 39
    past = COUNTS.open(tmp_path)
    since = datetime.fromtimestamp(1_700_000_000 + 600 * 39, UTC)
    assert [result.number for result in past.ticks(since, latest)] == [40, 41, 42, 43, 44, 45, 46]
    ended(run)


def test_the_time_of_ticks_does_not_decrease(tmp_path: Path, clock: Clock) -> None:
    run = COUNTS.start(checkpoint=opened(tmp_path, 100))
    visit(run, 1)
    began = datetime.fromtimestamp(clock.now, UTC)
    clock.now -= 3600
    visit(run, 2)
    ended(run)
    run = COUNTS.start(checkpoint=opened(tmp_path, 100))
    visit(run, 3)
    assert [COUNTS.open(tmp_path, as_of=tick).time for tick in range(4)] == [began] * 4
    ended(run)


def test_snapshots_of_a_long_history_are_thinned_out(tmp_path: Path) -> None:
    seen = written(tmp_path, 400, keep=192, every=1)
    kept = [tick for tick, _ in history_files(tmp_path)]
    assert len(kept) < 70
    assert kept[0] <= 207 < kept[1]  # the latest snapshot is that of tick 399
    assert all(3 <= later - earlier <= 4 for earlier, later in itertools.pairwise(kept))
    for tick in (207, 208, 333, 400):
        assert views(COUNTS.open(tmp_path, as_of=tick)) == seen[tick]
    named = {path for part in ("small", "memory") for path in (tmp_path / part).iterdir()}
    assert len(named) <= 3 * (len(kept) + 2)


def test_files_outside_the_window_are_removed(tmp_path: Path) -> None:
    written(tmp_path, 60, keep=6)
    kept = [tick for tick, _ in history_files(tmp_path)]
    assert kept == [51]  # that of tick 57 is the current one, that of tick 54 the previous one
    named: set[str] = set()
    for path in [*(tmp_path / "history").iterdir(), *tmp_path.glob("manifest*.json")]:
        named |= json.loads(path.read_text())["snapshot"]["digests"].keys()
    found = {
        f"{part}/{path.name}"
        for part in ("runs", "small", "interned", "memory")
        for path in (tmp_path / part).iterdir()
    }
    assert found == named
    journal = sorted(int(path.stem) for path in (tmp_path / "journal").glob("*.ticks"))
    assert journal[0] == 52


def test_snapshots_share_the_files_of_large_runs(tmp_path: Path) -> None:
    circuit = Circuit("large")
    circuit.output("out", circuit.input("a", x=int, kind="set"))
    run = circuit.start(checkpoint=opened(tmp_path, 100, 1))
    sizes = [0]
    for number in range(1, 25):
        change = {(x,): 1 for x in range(5_000 * number, 5_000 * number + 4_500)}
        change[(5_000 * (number - 1),)] = -1  # the first row of the tick before
        run.step({"a": change})
        sizes.append(len(run.view("out")))
    files = list((tmp_path / "runs").iterdir())
    written = sum(path.stat().st_size for path in files)
    assert written < 8 * 8 * sizes[-1]  # 24 whole states are 12 times as much
    for tick in (1, 7, 22, 24):
        past = circuit.open(tmp_path, as_of=tick)
        assert len(past.view("out")) == sizes[tick]
        assert past.view("out").rows()[:1] == [(5_000 if tick == 1 else 5_001,)]
    past, unverified = circuit.open(tmp_path, as_of=22), circuit.open(tmp_path, as_of=22, verify=False)
    ended(run)
    shutil.rmtree(tmp_path)  # mapped files stay readable
    assert past.view("out") == unverified.view("out")
    assert len(past.view("out")) == sizes[22]


def test_the_setting_stays_until_it_is_changed(tmp_path: Path) -> None:
    written(tmp_path, 12, keep=100)
    run = COUNTS.start(checkpoint=opened(tmp_path, None))
    for number in range(13, 25):
        visit(run, number)
    ended(run)
    assert COUNTS.open(tmp_path).history == range(25)
    run = COUNTS.start(checkpoint=opened(tmp_path, 0))
    for number in range(25, 31):
        visit(run, number)
    ended(run)
    assert COUNTS.open(tmp_path).history[0] == 24
    assert history_files(tmp_path) == []


def test_a_history_begins_when_it_is_asked_for(tmp_path: Path) -> None:
    seen = written(tmp_path, 12, keep=None)
    assert COUNTS.open(tmp_path).history == range(6, 13)
    run = COUNTS.start(checkpoint=opened(tmp_path, 100))
    for number in range(13, 31):
        seen.append(visit(run, number))
    ended(run)
    assert COUNTS.open(tmp_path).history == range(6, 31)
    assert [views(COUNTS.open(tmp_path, as_of=tick)) for tick in range(6, 31)] == seen[6:]


def test_a_replanned_circuit(tmp_path: Path) -> None:
    program = dbsp.compile("""
        .decl a(x: number, y: number) .input a
        .decl b(x: number, y: number) .input b
        .decl c(x: number, y: number) .input c
        .decl o(x: number, z: number) .output o
        o(x, w) :- a(x, y), b(y, z), c(z, w).
    """)
    run = program.start({"a": [(i, 1) for i in range(50)]}, checkpoint=opened(tmp_path, 100, 2))
    seen = [views(run)]
    for number in range(1, 13):
        run.step({"b": [(1, number)], "c": [(number, number + i) for i in range(number)]})
        seen.append(views(run))
        if number % 4 == 0:
            run.replan()
    circuits = {
        json.loads(path.read_text())["snapshot"]["circuit"]
        for path in (tmp_path / "history").iterdir()
        if path.name != "0.json"
    }
    assert len(circuits) > 1
    for tick, expected in enumerate(seen, 1):
        past = program.open(tmp_path, as_of=tick)
        assert views(past) == expected
        assert program.explain(past).startswith("inputs")
    ended(run)


def test_a_transaction_is_one_tick_of_the_past(tmp_path: Path) -> None:
    run = COUNTS.start(checkpoint=opened(tmp_path, 100, 2))
    seen, results = [views(run)], []
    for number in range(1, 9):
        with run.transaction(label=number) as transaction:
            for user in range(3):
                transaction.step({"visit": {(f"user{user}", number): 1, (f"user{user}", number - 2): -1}})
        results.append(deltas_of(transaction.result))
        seen.append(views(run))
    with pytest.raises(ZeroDivisionError), run.transaction() as transaction:
        transaction.step({"visit": [("nobody", 1)]})
        1 / 0  # noqa: B018
    assert [views(COUNTS.open(tmp_path, as_of=tick)) for tick in range(9)] == seen
    past = COUNTS.open(tmp_path)
    assert (past.tick, past.label) == (8, 8)
    assert [deltas_of(result) for result in past.ticks(0)] == results
    ended(run)


@pytest.mark.parametrize("automatic", [True, False])
def test_values_that_were_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, automatic: bool) -> None:
    """Texts come and go, and come back after their ids were freed."""
    if automatic:
        monkeypatch.setattr("dbsp.runtime.compaction.MANY_VALUES", 2)
    run = COUNTS.start(checkpoint=opened(tmp_path, 100, 4))
    seen, freed, before = [views(run)], 0, 0
    for number in range(1, 41):
        change = {(f"user{number % 11}", 1): 1, (f"new{number}", number): 1}
        change |= {(f"user{(number - 3) % 11}", 1): -1, (f"new{number - 2}", number - 2): -1}
        run.step({"visit": change})
        seen.append(views(run))
        freed, before = freed + max(before - len(run.interner), 0), len(run.interner)
        if not automatic and number % 7 == 0:
            freed += run.compact().values
        if number % 9 == 0:
            ended(run)
            run = COUNTS.start(checkpoint=opened(tmp_path, None, 4))
    assert freed
    assert [views(COUNTS.open(tmp_path, as_of=tick)) for tick in range(41)] == seen
    past = COUNTS.open(tmp_path)
    totals: dict[str, Z] = {"visits": {}, "pages": {}}
    for result in past.ticks(0):
        totals = {name: add(total, result[name].to_dict()) for name, total in totals.items()}
        assert totals == seen[result.number]
    for since in (0, 3, 14, 36):
        assert past.deltas("visits", since).to_dict() == minus(seen[40]["visits"], seen[since]["visits"])
    ended(run)
    assert verify_folder(tmp_path).problems == []


# --- a run that is read only ----------------------------------------------------------------------


def test_questions_about_the_past(tmp_path: Path) -> None:
    written(tmp_path, 10)
    past = COUNTS.open(tmp_path, as_of=2)
    assert isinstance(past, PastRun)
    assert repr(past).endswith(", read-only>")
    assert COUNTS.query(past, "visit(u, p), p > 1").rows() == [("user2", 2)]
    assert str(COUNTS.why(past, "pages", (2,))).startswith("pages(2)")
    assert COUNTS.why(past, "pages", (3,)) is None
    assert len(expect_present(past.rows("visit"), "the rows")) == 2
    assert past.asserted("visit").rows() == [("user1", 1), ("user2", 2)]
    staged = past.prepare({"visit": [("user9", 9)]})
    assert past.preview(staged)["pages"].rows() == [(9,)]
    past.compact()
    assert past.view("pages").rows() == [(1,), (2,)]


@pytest.mark.parametrize("name", ["step", "step_staged", "replan", "switch_to", "snapshot", "transaction"])
def test_the_past_does_not_change(tmp_path: Path, name: str) -> None:
    written(tmp_path, 5)
    past = COUNTS.open(tmp_path, as_of=4)
    before = views(past)
    arguments: dict[str, list[Any]] = {
        "step": [{"visit": [("a", 1)]}],
        "step_staged": [{}],
        "switch_to": [None],
    }
    with pytest.raises(CircuitError) as caught:
        getattr(past, name)(*arguments.get(name, []))
    assert str(caught.value) == (
        f"{name}: {tmp_path} was opened as of tick 4, to be read only; start(checkpoint=...) continues "
        "from the latest tick [read-only-run]"
    )
    assert (past.tick, views(past)) == (4, before)


def test_opening_locks_and_writes_nothing(tmp_path: Path) -> None:
    run = COUNTS.start(checkpoint=opened(tmp_path, 100))
    for number in range(1, 8):
        visit(run, number)
    before = folder_state(tmp_path)
    past = COUNTS.open(tmp_path, as_of=5)
    assert len(list(past.ticks(1))) == 4
    assert COUNTS.open(tmp_path).tick == 7
    assert folder_state(tmp_path) == before
    visit(run, 8)
    assert past.tick == 5
    ended(run)
    shutil.rmtree(tmp_path)
    assert len(past.view("pages")) == 4


def test_callbacks_are_not_called_again(tmp_path: Path) -> None:
    calls: list[Any] = []
    circuit = Circuit("observed")
    stream = circuit.input("a", x=int)
    stream.inspect(calls.append)
    circuit.output("out", stream)
    run = circuit.start(checkpoint=opened(tmp_path, 100))
    run.step({"a": [(1,)]})
    assert len(calls) == 1
    assert circuit.open(tmp_path).view("out").rows() == [(1,)]
    assert len(calls) == 1
    ended(run)


@pytest.mark.parametrize("stage", ["query", "incremental"])
def test_other_stages(tmp_path: Path, stage: str) -> None:
    run = COUNTS.start(stage=stage, checkpoint=opened(tmp_path, 100))
    seen = [views(run)] + [visit(run, number) for number in range(1, 8)]
    ended(run)
    assert [views(COUNTS.open(tmp_path, as_of=t, stage=stage)) for t in range(8)] == seen


# --- errors ---------------------------------------------------------------------------------------


def test_moments_outside_the_history(tmp_path: Path, clock: Clock) -> None:
    written(tmp_path, 12, keep=None)
    past = COUNTS.open(tmp_path)
    shown = datetime.fromtimestamp(clock.now).astimezone().isoformat(" ", "milliseconds")
    known = f"{tmp_path} can be opened as of tick 6 ({shown}) to tick 12 ({shown})"
    with pytest.raises(CheckpointError) as caught:
        COUNTS.open(tmp_path, as_of=5)
    assert str(caught.value) == (
        f"{known}, got tick 5; choose a moment in that range; Store(folder, keep=...) keeps more of the "
        "past from now on [outside-history]"
    )
    for refused in (lambda: COUNTS.open(tmp_path, as_of=13), lambda: past.deltas("pages", 7, 13)):
        with pytest.raises(CheckpointError) as caught:
            refused()
        assert str(caught.value) == f"{known}, got tick 13; choose a moment in that range [outside-history]"
    with pytest.raises(CheckpointError, match=r"got 2001-01-01 00:00:00; .* keeps more .*outside-history"):
        COUNTS.open(tmp_path, as_of="2001-01-01")
    with pytest.raises(CheckpointError, match="outside-history"):
        past.ticks(5)


def test_wrong_arguments(tmp_path: Path) -> None:
    written(tmp_path, 5)
    past = COUNTS.open(tmp_path)
    for wrong in (True, 1.5, None):
        with pytest.raises(ArgumentError, match="since: expected a tick, a datetime or the text of one, got"):
            past.ticks(wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r'as_of: expected .* such as "2026-01-31 18:00", got \'soon\''):
        COUNTS.open(tmp_path, as_of="soon")
    with pytest.raises(ArgumentError, match="as_of: expected a time after 1970, got 0001-01-01"):
        COUNTS.open(tmp_path, as_of=datetime.min)
    with pytest.raises(ArgumentError, match="expected since <= until, got tick 3 and tick 2"):
        past.deltas("pages", 3, 2)
    with pytest.raises(InputError, match="page"):
        past.deltas("page", 1, 2)
    for keep in ("1 dey", "", "day", -1, True, 2.5, "-1 day"):
        with pytest.raises(ArgumentError, match="keep: expected a number of ticks, or a duration such as"):
            Store(tmp_path, keep=keep)  # type: ignore[arg-type]
    for keep in ("1 day", "30 min", "90s", "1.5 hours", "2 Weeks", 0, 7):
        Store(tmp_path, keep=keep).close()


def test_folders_that_cannot_be_opened(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with pytest.raises(CheckpointError, match=r"expected a checkpoint in .*state, got no folder"):
        COUNTS.open(folder)
    folder.mkdir()
    with pytest.raises(CheckpointError, match=r"expected a checkpoint in .*state, got other files"):
        COUNTS.open(folder)
    written(folder, 5)
    other = dbsp.compile(".decl visit(user: symbol, page: number) .input visit .output visit")
    with pytest.raises(CheckpointError, match=r"is the checkpoint of another query .*other-program"):
        other.open(folder)


def test_pickled_values_need_permission(tmp_path: Path) -> None:
    circuit = Circuit("objects")
    circuit.output("out", circuit.input("a", x=object))
    store = Store(tmp_path, sync=False, keep=10, allow_pickle=True)
    run = circuit.start(checkpoint=store)
    run.step({"a": [(frozenset({1}),)]})
    ended(run)
    with pytest.raises(CheckpointError, match=r"open it with allow_pickle=True \[checkpoint-pickle\]"):
        circuit.open(tmp_path)
    assert circuit.open(tmp_path, allow_pickle=True).view("out").rows() == [(frozenset({1}),)]


# --- damage and crashes ---------------------------------------------------------------------------


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["flipped", "missing", "other"])
@pytest.mark.parametrize("file", ["history/6.json", "small/6.runs"])
def test_damage_to_the_past_does_not_harm_the_present(tmp_path: Path, file: str, damage: str) -> None:
    seen = written(tmp_path, 20)
    path = tmp_path / file
    if damage == "flipped":
        flip(path)
    elif damage == "missing":
        path.unlink()
    else:
        shutil.copy(path.with_stem("9"), path)
    missing = file.startswith("history") and damage == "missing"  # the same as a snapshot not taken
    assert bool(verify_folder(tmp_path).problems) != missing
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = COUNTS.start(checkpoint=opened(tmp_path, None))
        for number in range(21, 31):
            seen.append(visit(run, number))
        ended(run)
        for tick in (0, 5, 9, 10, 30):
            assert views(COUNTS.open(tmp_path, as_of=tick)) == seen[tick]
    for tick in (6, 7, 8):
        if missing:
            assert views(COUNTS.open(tmp_path, as_of=tick)) == seen[tick]
            continue
        with pytest.warns(
            CheckpointWarning, match=rf"{path.name}.*since the snapshot of tick 3 and the jour"
        ):
            assert views(COUNTS.open(tmp_path, as_of=tick)) == seen[tick]


def test_a_damaged_journal_of_the_past(tmp_path: Path) -> None:
    seen = written(tmp_path, 20)
    flip(tmp_path / "journal" / "7.ticks")
    assert any("7.ticks" in problem for problem in verify_folder(tmp_path).problems)
    run = COUNTS.start(checkpoint=opened(tmp_path, None))
    assert views(run) == seen[20]
    ended(run)
    for tick in (6, 9, 20):
        assert views(COUNTS.open(tmp_path, as_of=tick)) == seen[tick]
    with pytest.raises(CheckpointError, match=r"7\.ticks: tick \d does not match its checksum"):
        COUNTS.open(tmp_path, as_of=8)
    with pytest.raises(CheckpointError, match=r"7\.ticks: tick \d does not match its checksum"):
        list(COUNTS.open(tmp_path).ticks(2, 12))


@pytest.mark.crash
def test_the_process_ends_while_files_are_removed(tmp_path: Path) -> None:
    """After any operation of a snapshot that moves the window, past and present can be opened."""
    seen = written(tmp_path / "first", 19, keep=4)
    seen.append({})
    for count in range(0, 10_000, 2):
        folder = tmp_path / f"{count}"
        shutil.copytree(tmp_path / "first", folder)
        run = COUNTS.start(checkpoint=opened(folder, None, 50))
        seen[20] = visit(run, 20)
        assert isinstance(run.log, Store)
        complete = False
        with ends_after(count):
            try:
                run.log.snapshot()
                complete = True
            except Ended:
                pass
        ended(run)
        past = COUNTS.open(folder)
        assert past.history[0] <= 16
        for tick in (past.history[0], 16, 19, 20):
            assert views(COUNTS.open(folder, as_of=tick)) == seen[tick]
        run = COUNTS.start(checkpoint=opened(folder, None, 50))
        assert views(run) == seen[20]
        visit(run, 21)
        assert isinstance(run.log, Store)
        run.log.snapshot()
        ended(run)
        assert verify_folder(folder).problems == []
        shutil.rmtree(folder)
        if complete:
            assert count > 10
            return
    pytest.fail("the snapshot never ends")


@pytest.mark.crash
def test_the_process_ends_while_a_compacted_state_replaces_the_snapshot_of_its_tick(tmp_path: Path) -> None:
    seen = written(tmp_path / "first", 9, keep=100)
    run = COUNTS.start(checkpoint=opened(tmp_path / "first", None))
    run.snapshot()
    ended(run)
    for count in range(0, 10_000, 3):
        folder = tmp_path / f"{count}"
        shutil.copytree(tmp_path / "first", folder)
        complete = True
        for _ in range(2):  # the second process may find a compacted state
            run = COUNTS.start(checkpoint=opened(folder, None))
            with ends_after(count):
                try:
                    run.compact()
                except Ended:
                    complete = False
            ended(run)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert views(COUNTS.open(folder, as_of=8)) == seen[8]
            run = COUNTS.start(checkpoint=opened(folder, None))
        assert (run.tick, views(run)) == (9, seen[9])
        ended(run)
        shutil.rmtree(folder)
        if complete:
            assert count > 5
            return
    pytest.fail("the snapshot never ends")


@pytest.mark.parametrize("times", [1, 4])
def test_files_vanish_while_they_are_read(tmp_path: Path, times: int) -> None:
    run = COUNTS.start(checkpoint=opened(tmp_path, None, 1))
    seen = [views(run)] + [visit(run, number) for number in range(1, 6)]
    left = times

    def overtaken(*arguments: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            seen.extend(visit(run, len(seen)) for _ in range(4))
        return load_snapshot(*arguments)

    with mock.patch("dbsp.durable.past_ticks.load_snapshot", overtaken), warnings.catch_warnings():
        warnings.simplefilter("error")
        past = COUNTS.open(tmp_path)
    assert left == 0
    assert past.tick == 5 + 4 * times
    assert views(past) == seen[past.tick]
    ended(run)


@pytest.mark.parametrize("after", range(3))
def test_a_manifest_moves_while_the_manifests_are_read(tmp_path: Path, after: int) -> None:
    """It moves from the current one to the previous one to the history, and is never missed."""
    run = COUNTS.start(checkpoint=opened(tmp_path, 50, 1))
    seen = [views(run)] + [visit(run, number) for number in range(1, 4)]
    reads, genuine = 0, history.read_manifest

    def overtaken(path: Path, place: str = "manifest") -> Any:
        nonlocal reads
        found = genuine(path, place)
        if reads == after:
            seen.extend(visit(run, len(seen)) for _ in range(2))
        reads += 1
        return found

    with mock.patch("dbsp.durable.history.read_manifest", overtaken):
        ticks = [manifest.tick for manifest in kept_manifests(tmp_path)[0]]
    assert reads > after
    assert set(range(ticks[-1] + 1)) == set(ticks)
    ended(run)


WRITER = """
import sys
from pathlib import Path
from tests.durable.test_history import COUNTS, opened, visit
folder = Path(sys.argv[1])
run = COUNTS.start(checkpoint=opened(folder, 6, 2, background=True))
for number in range(1, 301):
    visit(run, number)
    if number == 20:
        print("started", flush=True)
"""


def test_reading_while_another_process_writes(tmp_path: Path) -> None:
    expected = COUNTS.start()
    seen = [views(expected)] + [visit(expected, number) for number in range(1, 301)]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        reads, outside = 0, 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            while process.poll() is None:
                past = COUNTS.open(tmp_path)
                assert views(past) == seen[past.tick]
                try:
                    earlier = COUNTS.open(tmp_path, as_of=past.tick - 5)
                    assert views(earlier) == seen[past.tick - 5]
                    change = minus(seen[past.tick]["pages"], seen[past.tick - 4]["pages"])
                    assert past.deltas("pages", past.tick - 4).to_dict() == change
                except CheckpointError as error:
                    assert error.code == "outside-history"
                    outside += 1
                reads += 1
    assert process.returncode == 0
    assert reads > outside
    assert COUNTS.open(tmp_path).tick == 300
