"""The log of deltas: reading, catching up with a run, writers that end at any point, refusals."""

from __future__ import annotations

import datetime as dt
import decimal
import multiprocessing
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import CheckpointError, Circuit, InputError, IterationLimitError, Run, SchemaError, ZSet
from dbsp.durable import DeltaLog, Store, delta_log
from tests.crashes import Ended, ends_after
from tests.harness import deltas_of, views
from tests.profiles import examples
from tests.random_plans import Plan, build, changes, outputs, plans
from tests.reference import Z, add
from tests.strategies import Tick, deltas, nullable, rows, small, words

SCHEMA = dbsp.Schema.of(x=int, y=int | None, s=str)
Ticks = list[Z]
sequences = st.lists(deltas(rows(small, nullable, words)), min_size=1, max_size=8)


def log_of(folder: str | Path) -> DeltaLog:
    return DeltaLog(folder, sync=False)


def delta(rows: Z) -> dict[str, ZSet]:
    return {"out": ZSet(rows, SCHEMA)}


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@given(sequences, st.integers(1, 20), st.data())
def test_appended_ticks_are_read_back(sequence: Ticks, keep: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(delta_log, "_KEEP_FROM", keep):
        log = log_of(folder)
        for number, tick in enumerate(sequence, 1):
            assert log.append(number, delta(tick), {"batch": number})
            again = data.draw(st.integers(1, number))
            assert not log_of(folder).append(again, delta(sequence[again - 1]), {"batch": again})
        assert log.ticks() == list(range(1, len(sequence) + 1))
        assert log.last == len(sequence)
        assert log.label(1) == {"batch": 1}
        after, until = (data.draw(st.integers(0, len(sequence) + 1)) for _ in range(2))
        read = [(number, zset.to_dict()) for number, zset in log.deltas("out", after, until)]
        assert read == [(n, tick) for n, tick in enumerate(sequence, 1) if after < n <= until]
        assert log.view("out", until).to_dict() == add(*sequence[:until])
        assert log.view("out").to_dict() == add(*sequence)
        assert log.outputs == {"out": SCHEMA}


def operations(sequence: Ticks) -> int:
    with tempfile.TemporaryDirectory() as folder, ends_after(10**9) as done:
        for number, tick in enumerate(sequence, 1):
            log_of(folder).append(number, delta(tick), number)
        return done()


@pytest.mark.crash
@settings(max_examples=examples(60))
@given(sequences, st.data())
def test_a_process_that_ends_between_two_file_operations(sequence: Ticks, data: st.DataObject) -> None:
    with mock.patch.object(delta_log, "_KEEP_FROM", 3):
        ends = data.draw(st.lists(st.integers(0, operations(sequence)), min_size=1, max_size=4))
        with tempfile.TemporaryDirectory() as folder:
            for end in ends:
                try:
                    with ends_after(end):
                        for number, tick in enumerate(sequence, 1):
                            log_of(folder).append(number, delta(tick), number)
                except Ended:
                    pass
                log = log_of(folder)
                there = log.ticks()
                assert there == list(range(1, len(there) + 1))
                if log.outputs:
                    assert [zset.to_dict() for _, zset in log.deltas("out")] == sequence[: len(there)]
                    assert log.view("out").to_dict() == add(*sequence[: len(there)])
            for number, tick in enumerate(sequence, 1):
                log_of(folder).append(number, delta(tick), number)
            assert log_of(folder).view("out").to_dict() == add(*sequence)
            assert list((Path(folder) / "drafts").iterdir()) == []


def test_every_end_leaves_a_log_that_continues(tmp_path: Path) -> None:
    """An append may end between any two file operations: the tick is recorded or it is not."""
    with ends_after(10**9) as done:
        DeltaLog(tmp_path / "whole").append(1, delta({(1, 2, "a"): 3}), "one")
    seen = set()
    for end in range(done()):
        folder = tmp_path / str(end)
        with pytest.raises(Ended), ends_after(end):
            DeltaLog(folder).append(1, delta({(1, 2, "a"): 3}), "one")
        seen.add(DeltaLog(folder).last)
        assert DeltaLog(folder).append(1, delta({(1, 2, "a"): 3}), "one") is (seen == {0})
        assert everything(folder) == everything(tmp_path / "whole")
    assert seen == {0, 1}


@settings(max_examples=examples(20))
@given(plans(), outputs, changes(max_ticks=8), st.data())
def test_a_run_and_its_log_end_together(
    plan: Plan, out: list[int], sequence: list[Tick], data: st.DataObject
) -> None:
    """The log catches up with a run that continues from its checkpoint, before or after the log."""
    with tempfile.TemporaryDirectory() as folder:

        def start() -> Run:
            run = build(plan, out, 40).start(checkpoint=Store(f"{folder}/run", snapshot_every=2, sync=False))
            log_of(f"{folder}/log").catch_up(run)
            return run

        run = start()
        by_tick = {}
        for number, tick in enumerate(sequence):
            try:
                result = run.step(tick, label=number)
            except IterationLimitError:
                continue
            by_tick[run.tick] = deltas_of(result)
            if data.draw(st.booleans()):
                log_of(f"{folder}/log").append(run.tick, result, number)
            else:  # as when the process was killed before
                assert isinstance(run.log, Store)
                if data.draw(st.booleans()):
                    run.log.snapshot()
                run.log.close()
                run = start()
                assert not log_of(f"{folder}/log").catch_up(run)
        log = log_of(f"{folder}/log")
        assert {name: log.view(name).to_dict() for name in log.outputs} == (views(run) if by_tick else {})
        for name in log.outputs:
            assert {t: z.to_dict() for t, z in log.deltas(name)} == {
                t: tick.get(name, {}) for t, tick in by_tick.items()
            }
        assert isinstance(run.log, Store)
        run.log.close()


def test_catching_up_over_several_ticks_and_facts(tmp_path: Path) -> None:
    program = dbsp.compile(".decl e(x: number)\n.output e\n.input e\ne(1). e(2).")
    run, log = program.start(), DeltaLog(tmp_path)
    assert log.catch_up(run)
    run.step({"e": [(3,)]})
    run.step({"e": {(1,): -1}})
    assert log.catch_up(run)
    assert [(t, z.to_dict()) for t, z in log.deltas("e")] == [
        (1, {(1,): 1, (2,): 1}),
        (3, {(1,): -1, (3,): 1}),
    ]
    assert log.view("e", 2).rows() == [(1,), (2,)]
    assert log.append(4, run.step({"e": {(2,): -1}}))
    assert log.view("e").rows() == [(3,)]


VALUES: dict[str, tuple[Any, Any]] = {
    "i": (int, 2**62),
    "f": (float, float("inf")),
    "n": (float | None, None),
    "b": (bool, True),
    "s": (str, "é\0"),
    "y": (bytes, b"\xff"),
    "d": (dt.date, dt.date(1900, 2, 28)),
    "t": (dt.datetime, dt.datetime(2024, 2, 29, 1, 2, 3, 456789)),
    "o": (object, (1, (2, 3))),
    "m": (object, decimal.Decimal("1.50")),
}


def test_all_kinds_of_values(tmp_path: Path) -> None:
    arrow = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))])
    schema = dbsp.Schema.of(**{name: spec for name, (spec, _) in VALUES.items()})
    row = tuple(value for _, value in VALUES.values())
    types = {"out": pa.schema([("o", arrow), ("m", pa.decimal128(10, 2)), ("t", pa.timestamp("us", "UTC"))])}
    log = DeltaLog(tmp_path, types=types)
    log.append(1, {"out": ZSet({row: 2}, schema)})
    log.append(2, {"out": ZSet({}, schema)})
    log.append(3, {"out": ZSet({row: -1}, schema)})
    assert log.view("out").items() == [(row, 1)]
    table = pq.ParquetFile(log.ledger.entry(1).files["out"]).read()
    assert table.column("o").type == arrow
    assert table.column("m").type == pa.decimal128(10, 2)
    assert table.schema.names[-1] == "weight"


def test_outputs_without_columns_and_with_odd_names(tmp_path: Path) -> None:
    odd = {name: ZSet.from_rows([()], [2], {}) for name in ("a/b", "_c", ".d", "é %", "..")}
    log = DeltaLog(tmp_path / "log")
    log.append(1, odd)
    log.append(2, odd)
    assert {name: log.view(name).items() for name in log.outputs} == {name: [((), 4)] for name in odd}
    assert not any(path.name.startswith((".", "_")) for path in tmp_path.rglob("*"))


def test_refused_ticks_and_questions(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    one = delta({(1, 2, "a"): 1})
    assert (log.outputs, log.ticks(), log.last) == ({}, [], 0)
    with pytest.raises(InputError, match=r"unknown output 'out'; no tick is recorded yet \[unknown-output\]"):
        log.view("out")
    gap = r"ends with tick 0, so tick 2 would leave a gap; .* log\.catch_up\(run\) \[missing-tick\]"
    with pytest.raises(CheckpointError, match=gap):
        log.append(2, one)
    log.append(1, one, "a")
    with pytest.raises(CheckpointError, match=r"has tick 1 with label 'a' .*, got label 'b' "):
        log.append(1, one, "b")
    with pytest.raises(CheckpointError, match=r"rows \{'out': 1\}, .* it is the log of another run"):
        log.append(1, delta({}), "a")
    with pytest.raises(CheckpointError, match="would leave a gap"):
        log.append(3, one)
    with pytest.raises(SchemaError, match="expected the deltas of out; missing: 'out'"):
        log.append(2, {})
    with pytest.raises(SchemaError, match=r"expected the deltas of out; unknown: 'more' \[schema-mismatch\]"):
        log.append(2, one | {"more": one["out"]})
    with pytest.raises(
        SchemaError, match=r"'out' was recorded with the columns \(x: int, .*, got \(x: int\)"
    ):
        log.append(2, {"out": ZSet({}, {"x": int})})
    with pytest.raises(InputError, match="unknown output 'oui'; did you mean 'out'"):
        log.deltas("oui")
    with pytest.raises(CheckpointError, match=r"cannot read .* \[checkpoint-unreadable\]"):
        log.label(2)
    with pytest.raises(
        SchemaError,
        match=r"output 'out': column 's': the text '\\udc80' has surrogates, .*\[unsupported-value\]",
    ):
        log.append(2, delta({(1, 2, "\udc80"): 1}))
    assert log.ticks() == [1]
    assert list((tmp_path / "log" / "drafts").iterdir()) == [] or log.append(2, one)
    run = Circuit("empty").start()
    with pytest.raises(CheckpointError, match="has ticks up to 2, but the run is at tick 0"):
        log.catch_up(run)
    with pytest.raises(
        SchemaError, match=r"has a column 'weight'; choose another weight_column \[duplicate-column\]"
    ):
        log_of(tmp_path / "w").append(1, {"out": ZSet({}, {"weight": int})})
    mixed = ZSet({(1,): 1, ("a",): 1}, {"o": object})
    with pytest.raises(
        SchemaError, match="output 'out': column 'o': the objects cannot be converted to one Arrow type"
    ):
        log_of(tmp_path / "mixed").append(1, {"out": mixed})
    assert log_of(tmp_path / "mixed").append(1, {"out": ZSet({(1,): 1}, {"o": int})})
    for text, message in (
        ("{", r"cannot read .* \[checkpoint-unreadable\]"),
        ("{}", r"expected the header of a delta log in .* \[checkpoint-unreadable\]"),
        (VERSION_3, r"has format version 3, this version of dbsp expects 2.* \[checkpoint-version\]"),
    ):
        (tmp_path / "log" / "log.json").write_text(text)
        with pytest.raises(CheckpointError, match=message):
            log.view("out")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot use the folder .* \[checkpoint-write\]"):
        log_of(tmp_path / "file").append(1, one)


VERSION_3 = '{"format": "dbsp delta log", "version": 3}'


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.append(1, delta({(1, 2, "a"): 1}))
    path = log.ledger.entry(1).files["out"]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CheckpointError, match=r"cannot read .*out\.parquet"):
        log.view("out")


def _append_all(folder: str) -> int:
    return sum(log_of(folder).append(n, delta({(n, 0, "w"): 1}), n) for n in range(1, 21))


def test_two_writers_write_every_tick_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        written = pool.map(_append_all, [str(tmp_path)] * 2, chunksize=1)
    assert sum(written) == 20
    assert log_of(tmp_path).view("out").to_dict() == {(n, 0, "w"): 1 for n in range(1, 21)}


def test_reading_names_needs_no_kernels() -> None:
    code = "import sys, dbsp.durable.ledger; print('numba' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
