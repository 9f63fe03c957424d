"""Runs in files: what is mapped is what was written."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import consolidate, sum_weights
from dbsp.state import mapped_file
from dbsp.state.mapped_file import MappedFile
from dbsp.state.mapped_runs import map_run, write_run
from dbsp.state.run_file import HEADER
from dbsp.state.sorted_run import RunMerge, SortedRun
from dbsp.state.trace import Trace

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads the files of /proc")


def run_of(width: int, rows: list[tuple[int, int]]) -> SortedRun:
    table = np.array([[row + column for column in range(width)] for row, _ in rows], np.int64)
    weights = np.array([weight for _, weight in rows], np.int64)
    return SortedRun(*consolidate(table.reshape(len(rows), width), weights))


@given(st.integers(0, 3), st.lists(st.tuples(st.integers(-5, 5), st.sampled_from([1, -1, 3]))))
def test_a_mapped_run_is_the_written_one(
    tmp_path_factory: pytest.TempPathFactory, width: int, rows: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("run") / "1.run"
    run = run_of(width, rows)
    mapped = map_run(write_run(path, run))
    assert mapped.rows.tolist() == run.rows.tolist()
    assert mapped.weights.tolist() == run.weights.tolist()
    assert mapped.rows.shape == run.rows.shape
    assert mapped.file is not None
    assert path.stat().st_size == mapped.file.end
    assert bool(mapped.file.weights_at) == bool((run.weights != 1).any())
    assert (path.read_bytes()[HEADER:] != b"") == bool(run.size * width or mapped.file.weights_at)


def test_kernels_read_mapped_runs(tmp_path: Path) -> None:
    trace = Trace(1, [])
    rows, weights = np.arange(1_000, dtype=np.int64).reshape(-1, 1), np.full(1_000, 2)
    run = map_run(write_run(tmp_path / "1.run", SortedRun(rows, weights)))
    trace.append(run.rows, run.weights)
    trace.append(rows[:10], weights[:10])
    assert sum_weights(np.array([[5], [500], [1_000]]), trace.table, trace.count).tolist() == [4, 2, 0]
    assert trace.contents().weights.sum() == 2_020


def test_a_file_is_never_overwritten_or_too_short(tmp_path: Path) -> None:
    run = run_of(2, [(1, 1), (2, -1)])
    file = write_run(tmp_path / "1.run", run)
    with pytest.raises(FileExistsError):
        write_run(tmp_path / "1.run", run)
    with open(file.path, "r+b") as content:
        content.truncate(file.end - 8)
    with pytest.raises(ValueError, match=r"expected a file of .* bytes, got"):
        map_run(file)


@pytest.mark.parametrize("ones", [True, False])
def test_large_runs_keep_no_weights_of_one(ones: bool) -> None:
    trace, size = Trace(1, []), 20_000
    rows = np.arange(size, dtype=np.int64).reshape(-1, 1)
    trace.append(rows, np.full(size, 1 if ones else -1))
    trace.commit()
    trace.maintain(1)
    assert trace.nbytes == size * (4 if ones else 12)
    trace.append(rows[: size // 2] + size, np.ones(size // 2, np.int64))
    trace.commit()
    trace.maintain(10**9)
    (run,) = trace.runs
    assert trace.nbytes == run.size * (4 if ones else 12)
    assert (run.weights == trace.contents().weights).all()
    assert set(run.weights[:size].tolist()) == {1 if ones else -1}
    assert sum_weights(np.array([[-1], [0], [size - 1], [size]]), trace.table, trace.count).tolist() == (
        [0, 1, 1, 1] if ones else [0, -1, -1, 1]
    )


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 50), st.booleans(), st.booleans(), st.booleans())
def test_runs_without_weights_merge_as_those_with_weights(
    older: int, newer: int, fuel: int, first: bool, second: bool, swapped: bool
) -> None:
    values = np.arange(60, dtype=np.int64)
    expected: Counter[int] = Counter()
    runs = []
    for part, implicit in ((values[::older], first), (values[5::newer], second)):
        rows = np.ascontiguousarray(part).reshape(-1, 1)
        run = SortedRun.of_ones(rows) if implicit else SortedRun(rows, rows[:, 0] + 2)
        expected.update(dict(zip(part.tolist(), run.weights.tolist(), strict=True)))
        runs.append(run)
    merge = RunMerge(0, *(reversed(runs) if swapped else runs))
    while not merge.advance(fuel):
        pass
    result = merge.result()
    assert dict(zip(result.rows[:, 0].tolist(), result.weights.tolist(), strict=True)) == expected


def test_opening_reads_neither_rows_nor_weights(tmp_path: Path) -> None:
    run = SortedRun(np.arange(10, dtype=np.int64).reshape(-1, 1), np.full(10, 3))
    run.largest = 3
    mapped = map_run(write_run(tmp_path / "1.run", run))
    assert (mapped.largest, mapped.nbytes) == (3, 160)
    trace = Trace(1, [])
    trace.restore([mapped])
    assert trace.table[0].tolist() == [mapped.rows.ctypes.data, mapped.stored.ctypes.data, 10]
    assert trace._bound == 3


@LINUX
def test_mapped_runs_keep_no_file_open(tmp_path: Path) -> None:
    rows = np.arange(20_000).reshape(-1, 2)
    file = write_run(tmp_path / "1.run", SortedRun(rows, np.arange(1, 10_001)))
    expected = [rows.tolist(), list(range(1, 10_001))]
    before = len(os.listdir("/dev/fd"))
    mapped = [map_run(file) for _ in range(3000)]
    assert len(os.listdir("/dev/fd")) == before
    assert [mapped[7].rows.tolist(), mapped[7].weights.tolist()] == expected
    only_rows = mapped[8].rows
    del mapped
    gc.collect()
    assert only_rows.tolist() == expected[0]


@LINUX
def test_a_mapping_ends_with_the_last_array(tmp_path: Path) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    file = write_run(tmp_path / "1.run", SortedRun(np.arange(6).reshape(-1, 2), np.array([1, 2, 3])))
    run = map_run(file)
    rows, weights = run.rows, run.stored
    assert maps() == 1
    del run, rows
    assert (maps(), weights.tolist()) == (1, [1, 2, 3])
    del weights
    assert maps() == 0


def test_a_file_that_the_system_cannot_map_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "1.run"
    write_run(path, run_of(2, [(1, 1)]))
    with pytest.raises(OSError, match="Invalid argument"):
        MappedFile(path, 0)
    with pytest.raises(FileNotFoundError):
        MappedFile(tmp_path / "2.run", 0)


def test_mappings_of_a_system_without_the_c_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "_functions", lambda: None)
    file = write_run(tmp_path / "1.run", run_of(2, [(1, 2), (5, -1)]))
    released: list[bool] = []
    run = map_run(file, lambda: released.append(True))
    assert (run.rows.tolist(), released) == ([[1, 2], [5, 6]], [])
    del run
    assert released == [True]
