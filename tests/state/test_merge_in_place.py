"""Merges in place: the sum of both runs, also if arrays are shared, rows cancel, or one fails."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import consolidate, growing_memory, narrow_rows
from dbsp.kernels.growing_memory import memory_of
from dbsp.kernels.thread_count import set_threads
from dbsp.parallel import split_merge
from dbsp.state import merge_in_place
from dbsp.state.journal import Journalled
from dbsp.state.merge_in_place import merge_in_tick
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace

pytestmark = pytest.mark.skipif(not growing_memory.CAN_GROW, reason="the system cannot move pages")

THREADS = (1, 2, 4, 7)

Bag = list[tuple[tuple[int, int], int]]

values = st.integers(0, 9) | st.sampled_from([-(2**63), -(2**31), 2**31 - 1, 2**31, 2**63 - 1])
narrow_values = st.integers(0, 30)
weights = st.sampled_from([1, 1, -1, 2])
bags = st.lists(st.tuples(st.tuples(narrow_values, narrow_values), weights), min_size=1, max_size=50)
wide_bags = st.lists(st.tuples(st.tuples(values, values), weights), min_size=1, max_size=30)
sets = st.lists(
    st.tuples(st.tuples(narrow_values, narrow_values), st.just(1)), min_size=1, max_size=50, unique=True
)


@pytest.fixture(autouse=True, params=THREADS)
def small_merges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(split_merge, "LARGE", 2)
    monkeypatch.setattr(narrow_rows, "LARGE", 4)
    monkeypatch.setattr(merge_in_place, "LEAST", 1)
    set_threads(request.param)
    yield
    set_threads(None)


def run_of(bag: Bag) -> SortedRun:
    rows = np.array([row for row, _ in bag], np.int64).reshape(-1, 2)
    return SortedRun.of(*consolidate(rows, np.array([weight for _, weight in bag])))


def contents(*runs: SortedRun) -> dict[tuple[int, ...], int]:
    sums: dict[tuple[int, ...], int] = {}
    for run in runs:
        for row, weight in zip(run.rows.tolist(), run.weights.tolist(), strict=True):
            sums[tuple(row)] = sums.get(tuple(row), 0) + weight
    return {row: weight for row, weight in sums.items() if weight}


@given(st.lists(bags | sets | wide_bags, min_size=2, max_size=6))
def test_the_sum_of_runs(stack: list[Bag]) -> None:
    runs = [run for bag in stack if (run := run_of(bag)).size]
    expected = contents(*runs)
    while len(runs) > 1:
        runs.append(merge_in_tick(runs.pop(0), runs.pop(0)))
    for run in runs:
        found = list(zip(map(tuple, run.rows.tolist()), run.weights.tolist(), strict=True))
        assert found == sorted(expected.items())
        assert len(run.stored) == 1 or (run.stored != 1).any() or run.size < 4
        assert run.fits_narrow == narrow_rows.fit_narrow(run.rows) if run.size else True


def test_a_run_grows_in_its_memory() -> None:
    run = run_of([((i, 0), 1) for i in range(0, 3000, 3)])
    run = merge_in_tick(run, run_of([((i, 0), 1) for i in range(1, 3000, 3)]))
    memory = memory_of(run.codes)
    run = merge_in_tick(run_of([((i, 0), 1) for i in range(2, 3000, 3)]), run)
    assert memory is not None and memory_of(run.codes) is memory
    assert run.rows[:, 0].tolist() == list(range(3000)) and len(run.stored) == 1
    assert len(memory) == 8 + run.codes.nbytes


def test_weights_grow_in_their_memory_and_are_dropped_when_all_are_1() -> None:
    bag = [((i, 0), 2) for i in range(1000)]
    run = merge_in_tick(run_of(bag), run_of([((1, 1), 1)]))
    memory = memory_of(run.stored)
    run = merge_in_tick(run, run_of([((2, 1), 1)]))
    assert memory is not None and memory_of(run.stored) is memory
    assert run.weights.sum() == 2002
    run = merge_in_tick(run, run_of([(row, -1) for row, _ in bag]))
    assert len(run.stored) == 1 and run.size == 1002


def test_memory_of_cancelled_rows_is_released() -> None:
    run = merge_in_tick(run_of([((i, 0), 1) for i in range(5000)]), run_of([((i, 1), 1) for i in range(9)]))
    memory = memory_of(run.codes)
    run = merge_in_tick(run, run_of([((i, 0), -1) for i in range(4990)]))
    assert contents(run) == {**{(i, 1): 1 for i in range(9)}, **{(i, 0): 1 for i in range(4990, 5000)}}
    assert memory is not None and memory_of(run.codes) is memory and len(memory) == 8 + 19 * 8


def test_a_run_that_somebody_reads_does_not_change() -> None:
    run = merge_in_tick(run_of([((i, 0), 1) for i in range(0, 99, 2)]), run_of([((1, 1), 1)]))
    codes = run.codes
    before = codes.tolist()
    merged = merge_in_tick(run, run_of([((i, 0), 1) for i in range(1, 99, 2)]))
    assert codes.tolist() == before and merged.size == len(before) + 49
    assert memory_of(merged.codes) is not memory_of(codes)


def test_nobody_reads_a_destroyed_run() -> None:
    run = run_of([((i, 0), 1) for i in range(50)])
    merge_in_tick(run, run_of([((i, 1), 1) for i in range(5)]))
    with pytest.raises(AttributeError):
        run.rows.tolist()


@pytest.mark.parametrize("united", [False, True])
@pytest.mark.parametrize("step", ["resized", "_divided", "_merge", "close_gaps"])
def test_a_failed_merge_leaves_the_runs_of_earlier_ticks(
    monkeypatch: pytest.MonkeyPatch, step: str, united: bool
) -> None:
    journal: list[Journalled] = []
    trace = Trace(2, journal)
    monkeypatch.setattr("dbsp.state.merging_stack.SMALL", 1)

    def append(*numbers: int) -> None:
        rows = np.array([(n, 0) for n in numbers], np.int64)
        trace.append(rows, np.ones(len(rows), np.int64))

    def merge() -> None:
        if united:
            trace.unite()
        else:
            append(31, 32)

    append(*range(0, 30, 3))
    trace.commit()
    before = contents(*trace.runs)
    append(*range(1, 30, 3))
    append(*range(2, 20, 3))

    def fail(*arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(merge_in_place, step, fail)
        with pytest.raises(MemoryError):
            merge()
    contents(*trace.current)  # no run that the merge has destroyed is in the trace
    assert trace.count == len(trace.runs) + len(trace.current)
    trace.rollback()
    assert contents(*trace.runs) == before and trace.count == 1 and not trace.current
    append(*range(1, 30, 3))
    append(*range(2, 20, 3))
    merge()
    trace.commit()
    expected = {*range(0, 30, 3), *range(1, 30, 3), *range(2, 20, 3)} | (set() if united else {31, 32})
    assert trace.contents().rows[:, 0].tolist() == sorted(expected)
