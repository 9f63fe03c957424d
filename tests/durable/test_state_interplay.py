"""All parts of the durable state together: limits, snapshots, freed values, transactions, history.

A run with a checkpoint and a tiny memory limit goes through random operations; a plain run only
applies the ticks. Every delta and every view must be the same, also as of each earlier tick.
"""

from __future__ import annotations

import errno
import gc
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import CheckpointError, Circuit, Run, col, count
from dbsp.durable import Store
from dbsp.durable.folder_report import verify_folder
from dbsp.errors import CheckpointWarning
from tests.crashes import Ended, ends_after
from tests.harness import deltas_of, views
from tests.profiles import PROFILE
from tests.random_circuits import build, choices
from tests.random_datalog import INPUTS, programs
from tests.runtime.test_compaction import SHOP, TERMS, Tick

TINY = 256
"""A limit of so few bytes that nearly every run is in a file."""

EVERYTHING = 10**6
"""So many ticks that all of them stay in the history."""

EXAMPLES = 500 if PROFILE == "long" else 4


def remove_silently(path: Path) -> None:
    """Remove a file; a finalizer calls this, and must not raise even if the process has ended."""
    with suppress(OSError, Ended):
        path.unlink(missing_ok=True)


@contextmanager
def small_sizes() -> Iterator[None]:
    """Treat small runs, tables and interners as large ones."""
    with ExitStack() as stack:
        for name, size in {
            "dbsp.durable.snapshots._LARGE": 2,
            "dbsp.durable.table_pieces.LARGE": 2,
            "dbsp.runtime.compaction.MANY_VALUES": 2,
            "dbsp.runtime.bulk_transaction.MANY": 2,
            "dbsp.kernels.narrow_rows.LARGE": 2,
            "dbsp.state.merging_stack.SMALL": 2,
            "dbsp.state.trace_limit.SMALL": 2,
        }.items():
            stack.enter_context(patch(name, size))
        for module in ("spill_folder", "run_writer", "memory_budget"):
            stack.enter_context(patch(f"dbsp.state.{module}.remove_file", remove_silently))
        yield


@contextmanager
def disk_full(count: int) -> Iterator[None]:
    """Let `count` writes succeed; the later ones fail."""
    left = count

    def failing(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return genuine(*args)

        return write

    with patch.object(os, "write", failing(os.write)), patch.object(os, "replace", failing(os.replace)):
        yield


class Driver:
    """A durable run, and a plain run with the same ticks."""

    def __init__(self, query: Any, folder: Path, draw: Callable[..., Any]) -> None:
        self.query, self.folder, self.draw = query, folder, draw
        self.plain: Run = query.start()
        self.first = self.plain.tick
        """1 if the facts of a program are a tick."""
        self.past = {self.first: views(self.plain)}
        self.deltas: list[dict[str, Any]] = []
        self.run: Run | None = None
        self.open()

    def open(self) -> Run:
        store = Store(
            self.folder,
            snapshot_every=self.draw(st.sampled_from([1, 2, 5, 1000])),
            background=self.draw(st.booleans()),
            verify=self.draw(st.booleans()),
            keep=EVERYTHING,
            sync=False,
        )
        limit = self.draw(st.sampled_from([TINY, TINY, 4096, None]))
        self.run = self.query.start(checkpoint=store, memory_limit=limit)
        assert self.run is not None
        return self.run

    @property
    def open_run(self) -> Run:
        return self.open() if self.run is None else self.run

    # --- ticks ------------------------------------------------------------------------------------

    def apply(self, run: Run, parts: list[Tick], bulk: bool) -> Any:
        if not bulk:
            return run.step(parts[0])
        with run.transaction() as transaction:
            for part in parts:
                transaction.step(part)
        return transaction.result

    def expect(self, parts: list[Tick], bulk: bool) -> dict[str, Any]:
        """Apply a tick to the plain run."""
        delta = deltas_of(self.apply(self.plain, parts, bulk))
        self.deltas.append(delta)
        self.past[self.plain.tick] = views(self.plain)
        return delta

    def tick(self, parts: list[Tick], bulk: bool, full: bool = False) -> None:
        """Apply a tick; with `full`, the disk is full at first."""
        run = self.open_run
        with disk_full(self.draw(st.integers(0, 12))) if full else nullcontext():
            try:
                result = self.apply(run, parts, bulk)
            except CheckpointError:
                result = None
            assert isinstance(run.log, Store)
            run.log.wait()
        for _ in range(3):
            if result is None:  # once for the limit, and once for the snapshot in the background
                self.check()
                with suppress(CheckpointError):
                    result = self.apply(run, parts, bulk)
        assert result is not None
        assert deltas_of(result) == self.expect(parts, bulk)
        assert result.number == self.plain.tick

    def failing(self, parts: list[Tick]) -> None:
        run = self.open_run
        # After a full disk, the limit and the snapshot in the background are reported once each.
        late = (ZeroDivisionError, CheckpointError)
        for errors in (late, late, ZeroDivisionError):
            with pytest.raises(errors), run.transaction() as transaction:
                for part in parts:
                    transaction.step(part)
                raise ZeroDivisionError
            self.check()

    # --- ends of the process ----------------------------------------------------------------------

    def end(self, crash: bool) -> None:
        """End the run: in order, or as if its process were killed while nothing is written."""
        run, self.run = self.run, None
        if run is None:
            return
        store = run.log
        assert isinstance(store, Store)
        if crash:
            with ends_after(self.draw(st.integers(0, 30))):
                store.wait()
            store._release()
        else:
            store.close()

    def killed(self, action: Callable[[Run], Any]) -> Run:
        """End the process within an action; return the run of the next process."""
        run = self.open_run
        store = run.log
        assert isinstance(store, Store)
        with ends_after(self.draw(st.integers(0, 40))):
            with suppress(Ended):
                action(run)
            store.wait()
        store._release()
        del store, run
        assert verify_folder(self.folder).problems == []
        return self.open()

    def killed_tick(self, parts: list[Tick], bulk: bool) -> None:
        """End the process within a tick, which may have become durable."""

        def action(run: Run) -> None:
            with suppress(CheckpointError):  # the disk was full at the end of the tick before
                self.apply(run, parts, bulk)

        run = self.killed(action)
        if run.tick == self.plain.tick + 1:
            delta = self.expect(parts, bulk)
            assert run.log is not None and run.log.result is not None
            assert deltas_of(run.log.result) == delta

    # --- checks -----------------------------------------------------------------------------------

    def check(self) -> None:
        run = self.open_run
        assert run.tick == self.plain.tick
        assert views(run) == self.past[self.plain.tick]

    def check_past(self, tick: int) -> None:
        past = self.query.open(self.folder, as_of=tick)
        assert past.tick == tick and views(past) == self.past[tick]

    def check_all(self) -> None:
        self.check()
        for tick in self.past:
            self.check_past(tick)
        found = self.query.open(self.folder).ticks(since=self.first)
        assert [deltas_of(result) for result in found] == self.deltas
        self.end(crash=False)
        assert verify_folder(self.folder).problems == []
        self.check()
        self.end(crash=False)


ACTIONS = (
    "step", "step", "step", "step", "transaction", "failing", "compact", "snapshot", "replan",
    "close", "kill", "crash_step", "crash_transaction", "crash_compact", "crash_snapshot", "past", "drop",
    "full_step", "full_step", "full_transaction", "full_snapshot",
)  # fmt: skip


def drive(query: Any, ticks: st.SearchStrategy[Tick], data: st.DataObject, replan: bool = True) -> None:
    draw = data.draw
    present: dict[str, dict[Any, int]] = {}

    def parts(most: int = 3) -> list[Tick]:
        """Draw steps that leave no row of a Z-set with a negative weight."""
        found = []
        counts = {name: dict(rows) for name, rows in present.items()}
        for tick in draw(st.lists(ticks, min_size=1, max_size=most)):
            if "account" in tick:  # a change without an order has one row of each key
                of_key = {row[0]: (row, n) for row, n in tick["account"].items()}
                tick["account"] = dict(of_key.values())
            for name, rows in tick.items():
                known = counts.setdefault(name, {})
                tick[name] = {row: n for row, n in rows.items() if n > 0 or known.get(row, 0) + n >= 0}
                for row, n in tick[name].items():
                    known[row] = known.get(row, 0) + n
            found.append(tick)
        pending.append(counts)
        return found

    pending: list[dict[str, dict[Any, int]]] = []
    with tempfile.TemporaryDirectory() as name, small_sizes(), warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        driver = Driver(query, Path(name), draw)
        for action in draw(st.lists(st.sampled_from(ACTIONS), min_size=3, max_size=14)):
            pending.clear()
            before = driver.plain.tick
            match action:
                case "step":
                    driver.tick(parts(1), False)
                case "transaction":
                    driver.tick(parts(), True)
                case "failing":
                    driver.failing(parts())
                case "compact":
                    driver.open_run.compact()
                case "snapshot":
                    driver.open_run.snapshot()
                case "replan":
                    if replan:
                        driver.open_run.replan()
                case "close" | "kill":
                    driver.end(crash=action == "kill")
                case "crash_step":
                    driver.killed_tick(parts(1), False)
                case "crash_transaction":
                    driver.killed_tick(parts(), True)
                case "full_step":
                    driver.tick(parts(1), False, full=True)
                case "full_transaction":
                    driver.tick(parts(), True, full=True)
                case "full_snapshot":
                    with disk_full(draw(st.integers(0, 12))), suppress(CheckpointError):
                        driver.open_run.snapshot()
                case "crash_compact":
                    driver.killed(lambda run: run.compact())
                case "crash_snapshot":
                    driver.killed(lambda run: run.snapshot())
                case "past":
                    driver.check_past(draw(st.sampled_from([*driver.past])))
                case "drop":
                    driver.run = None
                    gc.collect()
            if driver.plain.tick > before:
                present = pending[-1]
            driver.check()
        driver.check_all()


# --- the queries ----------------------------------------------------------------------------------


FRESH = st.integers(0, 999).map("fresh {}".format)
WORDS = st.sampled_from([f"item {number}" for number in range(5)]) | FRESH


def changes(**relations: st.SearchStrategy[Any]) -> st.SearchStrategy[Tick]:
    weights = st.sampled_from([1, 1, -1])
    rows = {name: st.dictionaries(row, weights, max_size=8) for name, row in relations.items()}
    return st.fixed_dictionaries(rows)


def events() -> Circuit:
    circuit = Circuit("events")
    split = circuit.input("event", t=int, who=str).watermark("t", 3)
    circuit.output("recent", split.on_time.recent(split.watermark, "t"))
    windows = split.on_time.window("t", 4, 2).recent(split.watermark, "window_end")
    circuit.output("groups", windows.group_by("window_end", "who").agg(n=count()))
    circuit.output("late", split.late)
    return circuit


def numbered() -> Circuit:
    circuit = Circuit("numbered")
    sale = circuit.input("sale", item=str, buyer=str, kind="set")
    account = circuit.input("account", id=int, name=str, key=["id"])
    circuit.output("numbered", sale.number_rows())
    circuit.output("named", account.join(sale, on=[("name", "buyer")], select=["id", "item"]))
    circuit.output("most", sale.group_by("buyer").agg(n=count(), most=col("item").max()))
    circuit.output("total", account.group_by("name").agg(total=col("id").sum()))
    circuit.output("names", account.map(text=col("name").str.concat("!")).distinct())
    return circuit


SHOPPING = changes(sale=st.tuples(WORDS, WORDS), banned=st.tuples(WORDS))
QUERIES: dict[str, tuple[Callable[[], Any], st.SearchStrategy[Tick]]] = {
    "shop": (lambda: dbsp.compile(SHOP), SHOPPING),
    "multiway": (lambda: dbsp.compile(SHOP, "wcoj", recursion="incremental"), SHOPPING),
    "terms": (lambda: dbsp.compile(TERMS), changes(word=st.tuples(WORDS, WORDS))),
    "events": (events, changes(event=st.tuples(st.integers(0, 30), WORDS))),
    "numbered": (
        numbered,
        changes(sale=st.tuples(WORDS, WORDS), account=st.tuples(st.integers(0, 3), WORDS)),
    ),
}
NUMBERS = st.integers(0, 3)
ROWS = changes(
    a=st.tuples(NUMBERS, st.none() | NUMBERS, WORDS), b=st.tuples(NUMBERS, st.none() | NUMBERS, WORDS)
)
PAIRS = changes(**{name: st.tuples(*[NUMBERS] * arity) for name, arity in INPUTS.items()})


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_queries(name: str, data: st.DataObject) -> None:
    make, ticks = QUERIES[name]
    drive(make(), ticks, data, replan=name in ("shop", "multiway", "terms"))


@settings(max_examples=EXAMPLES)
@given(chosen=choices(), data=st.data())
def test_random_circuits(chosen: Any, data: st.DataObject) -> None:
    drive(build(chosen), ROWS, data, replan=False)


@settings(max_examples=EXAMPLES)
@given(text=programs(), data=st.data())
def test_random_programs(text: str, data: st.DataObject) -> None:
    drive(dbsp.compile(text), PAIRS, data)


def test_a_full_disk_is_reported_by_the_limit_and_by_the_snapshot(tmp_path: Path) -> None:
    """Each of them refuses one tick after the fact; the tick after these takes place."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    circuit = Circuit("kept")
    circuit.output("out", circuit.input("a", x=int, kind="set"))
    store = Store(tmp_path, snapshot_every=1, sync=False)
    run = circuit.start(checkpoint=store, memory_limit=TINY)
    run.step({"a": [(x,) for x in range(100)]})
    # The journal writes no file to a temporary name, so the tick becomes durable.
    with patch("dbsp.state.memory_budget.write_run", full), patch.object(os, "replace", full):
        run.step({"a": [(x,) for x in range(100, 200)]})
        store.wait()
    for message in ("cannot move state to files in .*, as the memory limit demands", "cannot write .*"):
        with pytest.raises(CheckpointError, match=f"{message}: No space left"):
            run.step({"a": [(200,)]})
        assert run.tick == 2 and len(run.view("out")) == 200
    run.step({"a": [(200,)]})
    assert run.tick == 3 and len(run.view("out")) == 201
    store.close()
    assert verify_folder(tmp_path).problems == []


def test_a_snapshot_that_cannot_give_back_the_files_of_the_limit(tmp_path: Path) -> None:
    """Files that it took stay where they are; the next snapshot writes their rows again."""
    circuit = Circuit("kept")
    circuit.output("out", circuit.input("a", x=int, kind="set"))
    store = Store(tmp_path, background=False, sync=False)
    run = circuit.start(checkpoint=store, memory_limit=TINY)
    run.step({"a": [(x,) for x in range(5000)]})
    genuine, calls = os.replace, iter(range(100))

    def once(*args: Any) -> None:
        if next(calls):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        genuine(*args)

    with patch.object(os, "replace", once), pytest.raises(CheckpointError, match="No space left"):
        run.snapshot()
    run.snapshot()
    store.close()
    assert verify_folder(tmp_path).problems == []
    again = circuit.start(checkpoint=Store(tmp_path))
    assert len(again.view("out")) == 5000
