"""Merges in pieces: the run of one merge, with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import consolidate, narrow_rows
from dbsp.kernels.limits import INT64_MAX
from dbsp.state.sorted_run import RunMerge, SortedRun

from .small_pieces import THREADS, small_pieces

values = st.integers(0, 5) | st.sampled_from([-(2**63), 2**63 - 1])
weights = st.sampled_from([1, 1, 1, -1, 2, 2**63 - 1])
pairs = st.lists(st.tuples(st.tuples(values, values), weights), max_size=40)
units = st.lists(st.tuples(st.tuples(values, values), st.just(1)), max_size=40)


def run_of(rows: list[tuple[tuple[int, int], int]], implicit: bool) -> SortedRun:
    array = np.array([row for row, _ in rows], np.int64).reshape(-1, 2)
    ones = np.ones(len(rows), np.int64)
    if implicit:
        return SortedRun.of_ones(consolidate(array, ones)[0])
    last = dict(rows)
    array = np.array(list(last), np.int64).reshape(-1, 2)
    return SortedRun(*consolidate(array, np.array(list(last.values()), np.int64)))


@given(pairs | units, pairs | units, st.booleans(), st.booleans(), st.integers(0, 30), st.integers(1, 60))
def test_the_merge_of_two_runs(
    first: list[tuple[tuple[int, int], int]],
    second: list[tuple[tuple[int, int], int]],
    first_implicit: bool,
    second_implicit: bool,
    fuel: int,
    least_implicit: int,
) -> None:
    older, newer = run_of(first, first_implicit), run_of(second, second_implicit)
    answers = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow_rows, "LARGE", least_implicit)
        for threads in (0, *THREADS):
            with small_pieces(max(1, threads)):
                merge = RunMerge(0, older, newer)
                try:
                    if threads:
                        merge.advance(fuel)  # the rest of a merge that earlier ticks began
                    while not merge.advance(INT64_MAX if threads else 3):
                        pass
                    merged = merge.result()
                    answers.append((merged.rows.tolist(), merged.weights.tolist(), len(merged.stored)))
                except OverflowError as error:
                    answers.append(str(error))
    assert all(answer == answers[0] for answer in answers)


def test_rows_that_cancel_leave_no_gaps() -> None:
    rows = np.column_stack((np.arange(1000) // 10, np.arange(1000)))
    older = SortedRun(rows, np.ones(1000, np.int64))
    newer = SortedRun(rows[::3].copy(), np.full(334, -1))
    with small_pieces(2):
        merge = RunMerge(0, older, newer)
        assert merge.advance(INT64_MAX)
        merged = merge.result()
    assert merged.rows.tolist() == np.delete(rows, np.s_[::3], axis=0).tolist()
    assert set(merged.weights.tolist()) == {1}
