"""Rows of int32: which rows are stored in them, and that nothing else can be seen of it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from dbsp.kernels import narrow_rows, sum_weights
from dbsp.kernels.arrays import Codes
from dbsp.kernels.narrow_rows import (
    LARGE,
    copied_rows,
    empty_rows,
    filled_rows,
    first_in_place,
    fit_narrow,
    narrowed,
    widened,
)
from dbsp.state import sorted_run
from dbsp.state.mapped_runs import map_run, write_run
from dbsp.state.sorted_run import RunMerge, SortedRun
from dbsp.state.trace import Trace

FITTING = [-(2**31), -1, 0, 1, 2**31 - 1]
OTHERS = [-(2**63), -(2**31) - 1, 2**31, 2**32, 2**63 - 1]
BORDERS = sorted([*FITTING, *OTHERS])


def column(start: int, size: int) -> Codes:
    return np.arange(start, start + size, dtype=np.int64).reshape(size, 1)


def run_of(start: int, size: int, weight: int = 1) -> SortedRun:
    return SortedRun.of(column(start, size), np.full(size, weight, np.int64))


# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", FITTING)
def test_codes_that_fit(code: int) -> None:
    rows = np.array([[0, 7], [code, 3]], np.int64)
    found = narrowed(rows)
    assert fit_narrow(rows) and found.dtype == np.int32 and found.tolist() == rows.tolist()
    assert widened(found).dtype == np.int64 and widened(found).tolist() == rows.tolist()


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize("place", [0, 5, 6, 19])
def test_one_code_that_does_not_fit(monkeypatch: pytest.MonkeyPatch, code: int, place: int) -> None:
    monkeypatch.setattr(narrow_rows, "_PIECE", 6)
    rows = np.zeros((10, 2), np.int64)
    assert fit_narrow(rows) and narrowed(rows).dtype == np.int32
    rows.reshape(-1)[place] = code
    assert not fit_narrow(rows) and narrowed(rows) is rows and widened(rows) is rows


def test_pieces_are_copied_to_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "_PIECE", 7)
    rows = np.arange(60, dtype=np.int64).reshape(20, 3)
    assert narrowed(rows).tolist() == rows.tolist()


@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("size", [0, 5])
def test_narrow_rows_without_codes_or_rows(size: int, width: int) -> None:
    rows = np.ones((size, width), np.int64)
    assert narrowed(rows).shape == rows.shape and narrowed(rows).dtype == np.int32


def test_the_bytes_before_narrow_rows_belong_to_them() -> None:
    """Kernels read the 4 bytes before a code; the codes are aligned to 8 bytes as others."""
    rows = column(0, 100)
    for codes in (empty_rows(10, 2, True), narrowed(rows), filled_rows([narrowed(rows)] * 2)):
        assert codes.base is not None
        assert codes.ctypes.data - codes.base.ctypes.data == 8
    assert filled_rows([narrowed(rows), narrowed(rows[:3])]).tolist() == [*rows.tolist(), [0], [1], [2]]
    assert filled_rows([rows, rows[:3]]).dtype == np.int64


@pytest.mark.parametrize("narrow", [False, True])
def test_the_first_rows_in_place(narrow: bool) -> None:
    rows = empty_rows(100_000, 2, narrow)
    rows[:] = 7
    rows[:3] = [[1, 2], [3, 4], [5, 6]]
    held = [rows]
    del rows
    rows = first_in_place(held, 3)
    assert rows.tolist() == [[1, 2], [3, 4], [5, 6]]
    memory = rows if rows.base is None else rows.base
    assert memory.nbytes == (2 * 4 + 6 * 4 if narrow else 6 * 8)


# --- runs -----------------------------------------------------------------------------------------


def test_small_runs_and_runs_that_do_not_fit_are_wide() -> None:
    assert not run_of(0, LARGE - 1).narrow
    run = run_of(0, LARGE)
    assert run.narrow and run.nbytes == LARGE * 4 and run.fits_narrow
    assert run.rows.dtype == np.int64 and (run.rows == column(0, LARGE)).all()
    assert run_of(2**31 - LARGE, LARGE).narrow and not run_of(2**31 - LARGE + 1, LARGE).narrow
    assert run_of(-(2**31), LARGE).narrow and not run_of(-(2**31) - 1, LARGE).narrow
    assert not run_of(-(2**31) - 1, LARGE).fits_narrow


def test_a_compact_run_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    run = SortedRun(column(0, LARGE), np.full(LARGE, 2))
    run.largest, run.born, run.saved = 5, 7, write_run(tmp_path / "1.run", run)
    compact = run.compact()
    assert compact is not run and compact.narrow and not run.narrow
    assert (compact.largest, compact.born, compact.saved) == (5, 7, run.saved)
    assert compact.stored is run.stored and compact.compact() is compact


@pytest.mark.parametrize(("first", "second"), list(itertools.product([0, 2**31 - 2000], [10, 2**31 - 1999])))
@pytest.mark.parametrize("size", [10, 2000])
def test_a_merge_is_narrow_if_both_runs_fit(first: int, second: int, size: int) -> None:
    """Also if the newer run is small, and therefore wide."""
    older, newer = run_of(first, LARGE, 1), run_of(second, size, 2)
    merge = RunMerge(0, older, newer)
    assert merge.advance(10**9)
    result = merge.result()
    assert result.narrow == (older.fits_narrow and newer.fits_narrow)
    total = dict(zip(range(first, first + LARGE), [1] * LARGE, strict=True))
    for code in range(second, second + size):
        total[code] = total.get(code, 0) + 2
    assert result.rows[:, 0].tolist() == sorted(total)
    assert result.weights.tolist() == [total[code] for code in sorted(total)]


def test_a_merge_narrows_when_the_large_codes_have_cancelled() -> None:
    rows = np.concatenate((column(0, LARGE), [[2**40]]))
    older = SortedRun.of(rows, np.ones(LARGE + 1, np.int64))
    assert not older.narrow
    merged = RunMerge.sum_of([older, SortedRun(rows[-1:], np.array([-1]))])
    assert not merged.narrow and merged.fits_narrow
    again = RunMerge.sum_of([merged, run_of(LARGE, 10)])
    assert again.narrow and again.rows[:, 0].tolist() == list(range(LARGE + 10))


def test_a_merge_of_which_nothing_remains() -> None:
    merged = RunMerge.sum_of([run_of(0, LARGE, 3), run_of(0, LARGE, -3)])
    assert merged.size == 0 and merged.nbytes == 0


def test_the_largest_weight_of_narrow_rows_bounds_the_sums() -> None:
    trace = Trace(1, [])
    trace.append(column(0, LARGE), np.array([-(2**63), *[1] * (LARGE - 1)]))
    trace.append(column(LARGE, LARGE), np.full(LARGE, -2))
    run = trace.current[0]
    assert run.narrow and run.largest == 2**63 - 1 == trace._bound - 2
    assert not trace.sums_fit


@pytest.mark.parametrize("piece", [1, 7, 10**6])
def test_pieces_are_the_rows(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(sorted_run, "_PIECE", piece * 100)
    for run in (run_of(0, LARGE), run_of(2**40, LARGE), run_of(0, 3), run_of(0, 0)):
        pieces = list(run.pieces())
        assert all(rows.dtype == np.int64 for rows in pieces)
        assert np.concatenate([np.empty((0, 1), np.int64), *pieces]).tolist() == run.rows.tolist()


# --- traces ---------------------------------------------------------------------------------------


def test_searches_for_codes_at_the_borders() -> None:
    """A code that does not fit is in no narrow run, though its lower 32 bits may equal one."""
    trace = Trace(1, [])
    trace.append(column(-LARGE, 2 * LARGE), np.ones(2 * LARGE, np.int64))
    edges = np.array([[code] for code in BORDERS], np.int64)
    wanted = [1 if -LARGE <= code < LARGE else 0 for code in BORDERS]
    assert sum_weights(edges, trace.table, 1).tolist() == wanted
    trace.append(edges, np.full(len(edges), 2))
    assert trace.current[0].narrow
    assert sum_weights(edges, trace.table, 1).tolist() == wanted
    assert sum_weights(edges, trace.table, 2).tolist() == [each + 2 for each in wanted]
    trace.commit()
    trace.compact()
    assert not trace.runs[0].narrow
    assert sum_weights(edges, trace.table, 1).tolist() == [each + 2 for each in wanted]
    assert trace.contents().rows[:, 0].tolist() == sorted({*BORDERS, *range(-LARGE, LARGE)})


def test_the_newest_rows_are_shared_with_the_delta_until_the_next_ones() -> None:
    trace = Trace(1, [])
    trace.deferred = True  # no merges
    for start in range(4):
        rows = column(start * LARGE, LARGE)
        trace.append(rows, np.ones(LARGE, np.int64))
        *older, newest = trace.current
        assert newest.codes is rows and all(run.narrow for run in older)
    trace.commit()
    trace.maintain(10**9)
    assert trace.runs[-1].narrow and trace.nbytes == 4 * LARGE * 4
    assert sum_weights(column(-1, 4 * LARGE + 2), trace.table, trace.count).sum() == 4 * LARGE


def test_mapped_runs_of_64_bits_stay_in_their_files(tmp_path: Path) -> None:
    run = SortedRun(column(0, LARGE), np.ones(LARGE, np.int64))
    run.largest = 1
    trace = Trace(1, [])
    trace.restore([map_run(write_run(tmp_path / "1.run", run))])
    trace.maintain(10**9)
    assert trace.runs[0].file is not None and not trace.runs[0].narrow
    trace.append(column(LARGE, LARGE), np.ones(LARGE, np.int64))
    trace.commit()
    trace.maintain(10**9)
    assert [run.narrow for run in trace.runs] == [True]
    assert trace.contents().rows[:, 0].tolist() == list(range(2 * LARGE))


def test_a_run_is_not_copied_while_it_is_merged() -> None:
    trace = Trace(1, [])
    for start in range(2):
        trace.append(column(start * LARGE, LARGE), np.ones(LARGE, np.int64))
        trace.commit()
        trace.maintain(LARGE if start else 0)
    assert trace.merging and [run.narrow for run in trace.runs] == [True, False]
    trace.append(column(-2 * LARGE, LARGE // 16), np.ones(LARGE // 16, np.int64))
    trace.commit()
    trace.maintain(10**9)
    assert not trace.merging and all(run.narrow == (run.size >= LARGE) for run in trace.runs)
    assert len(trace.contents()) == 2 * LARGE + LARGE // 16


def test_the_rows_since_an_iteration_are_int64() -> None:
    trace = Trace(2, [])
    rows = np.column_stack((np.arange(LARGE), np.arange(LARGE) % 3))
    trace.append(rows, np.ones(LARGE, np.int64))
    trace.commit()
    late = trace.since(1)
    assert late.rows.dtype == np.int64
    assert late.rows.tolist() == [row for row in rows.tolist() if row[1] == 2]
    late = trace.since(2**40)
    assert len(late) == 0


# --- runs that follow each other, and narrow rows that are appended -------------------------------


@pytest.mark.parametrize("sizes", [(LARGE, 5, LARGE), (LARGE, LARGE), (3, 4)])
@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 2, 1)])
@pytest.mark.parametrize("last", [0, 2**40])
def test_runs_that_follow_each_other_are_joined(
    sizes: tuple[int, ...], weights: tuple[int, ...], last: int
) -> None:
    runs = []
    for at, (size, weight) in enumerate(zip(sizes, weights, strict=False)):
        start = at * 10 * LARGE + (last if at == len(sizes) - 1 else 0)
        runs.append(run_of(start, size, weight))
    joined = SortedRun.joined(runs)
    assert joined.rows.tolist() == [row for run in runs for row in run.rows.tolist()]
    assert joined.weights.tolist() == [weight for run in runs for weight in run.weights.tolist()]
    assert joined.narrow == (joined.size >= LARGE and not last)
    ones = joined.size >= LARGE and set(weights[: len(sizes)]) == {1}
    assert len(joined.stored) == (1 if ones else joined.size)


@pytest.mark.parametrize("weight", [1, 2, -1])
def test_narrow_rows_are_appended_as_they_are(weight: int) -> None:
    rows = column(0, LARGE)
    found = []
    for codes in (rows, narrowed(rows)):
        trace = Trace(1, [])
        trace.append(column(5, 2), np.array([3, 4]))
        trace.commit()
        trace.append(codes, np.full(1 if weight == 1 else LARGE, weight))
        assert trace.current[0].codes is codes and trace.fresh == 1
        assert len(trace.current[0].stored) == (1 if weight == 1 else LARGE)
        asked = np.array([[4], [5], [6], [LARGE]])
        found.append(sum_weights(asked, trace.table, trace.count).tolist())
        trace.rollback()
        assert trace.contents().rows.tolist() == [[5], [6]]
    assert found[0] == found[1] == [weight, 3 + weight, 4 + weight, 0]


def test_the_weights_of_appended_narrow_rows_are_checked() -> None:
    trace = Trace(1, [])
    trace.append(column(0, 1), np.array([2**63 - 1]))
    trace.commit()
    with pytest.raises(OverflowError, match="weight: the sum of weights"):
        trace.append(narrowed(column(0, LARGE)), np.ones(1, np.int64))


@pytest.mark.parametrize("large", [LARGE - 3, LARGE])
def test_copied_rows(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of several parts in another order; narrow only if all codes of many rows fit."""
    monkeypatch.setattr(narrow_rows, "LOAD", LARGE)
    wide = np.arange(2 * large).reshape(-1, 2)
    parts = [narrowed(wide), np.array([[-5, 7], [7, -5]])]
    for last, fits in ((6, True), (2**40, False)):
        given = [*parts, np.array([[last, 1]])]
        rows = copied_rows(given, [1, 0])
        assert (rows.itemsize == 4) == (fits and len(rows) >= LARGE) and len(rows) == large + 3
        assert rows.tolist() == [[y, x] for part in given for x, y in part.tolist()]
    assert copied_rows(parts[:1], [1]).tolist() == [[y] for _, y in wide.tolist()]
