"""Traces that forget rows below a threshold: the stored rows, their number, and interrupts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.faults import Injector
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.state import trace as trace_module
from dbsp.state.trace import Trace
from dbsp.state.trace_limit import PER_TICK, SMALL, TraceLimit
from tests.reference import Z, add, select
from tests.state.test_memory_budget import LimitedOwner
from tests.state.test_trace import Owner, model_of

DELTA = st.dictionaries(st.tuples(st.integers(0, 20), st.integers(0, 2)), st.sampled_from([1, 1, 2, -1]))


def at_least(column: int, threshold: int, row: tuple[int, ...]) -> bool:
    return row[column] >= threshold


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("column", [0, 1])
@given(st.lists(st.tuples(DELTA, st.integers(0, 4), st.integers(1, 30)), max_size=12))
def test_rows_at_the_threshold_and_above_are_kept(
    limited: bool, column: int, ticks: Sequence[tuple[Z, int, int]]
) -> None:
    """With a memory limit nearly every run is in a file."""
    owner = LimitedOwner() if limited else Owner()
    value: Z = {}
    threshold = 0
    for delta, step, fuel in ticks:
        owner.append(delta)
        owner.commit(fuel)
        value = add(value, delta)
        threshold += step
        owner.trace.forget(column, threshold)
        recent = partial(at_least, column, threshold)
        assert select(model_of(owner.trace.contents()), recent) == select(value, recent)
        assert owner.trace.count == owner.trace.past == len(owner.trace.runs)
        for run in owner.trace.runs:
            passed = int(np.count_nonzero(run.rows[:, column] < threshold))
            assert 2 * passed < run.size  # else the run is copied without them


def test_a_run_without_forgotten_rows_is_not_copied() -> None:
    owner = Owner()
    owner.append({(5, 1): 1, (6, 1): 1})
    owner.commit()
    (run,) = owner.trace.runs
    owner.trace.forget(0, 5)
    assert owner.trace.runs == [run]
    owner.trace.forget(0, 7)
    assert owner.trace.runs == [] and owner.trace.count == 0


def test_interrupts() -> None:
    """At every step of the interpreter, also while a merge is in progress."""
    trace = Trace(1, [])
    merging = 0
    for at in range(450):
        rows = np.arange(600 * at, 600 * (at + 1)).reshape(-1, 1)
        trace.append(rows, np.ones(len(rows), np.int64))
        trace.commit()
        trace.maintain(700)
        merging += trace.merging
        threshold = max(0, 600 * at - 10_000)
        injector = Injector(KeyboardInterrupt, at * 7 % 450, None, opcodes=True)
        injector.call(partial(trace.forget, 0, threshold))
        trace.repair()
        assert trace.count == trace.past == len(trace.runs)
        for index, run in enumerate(trace.runs):
            assert tuple(trace.table[index]) == run.entry()
        found = trace.contents().rows[:, 0]
        assert (found[found >= threshold] == np.arange(threshold, 600 * (at + 1))).all()
    assert merging > 5


def test_the_size_is_bounded_and_passes_are_rare() -> None:
    """The trace has at most about four times the 5,000 rows above the threshold."""
    trace = Trace(1, [])
    mark = [0]
    limit = TraceLimit(trace, 0, -4999, lambda: mark)
    read = 0
    with mock.patch.object(Trace, "forget", autospec=True, side_effect=Trace.forget) as forget:
        for tick in range(20_000):
            trace.append(np.array([[tick]]), np.ones(1, np.int64))
            trace.commit()
            trace.maintain(4096)
            mark[0] = tick
            before, rows = forget.call_count, trace.rows
            limit.apply()
            read += rows * (forget.call_count - before)
            assert trace.rows < 4 * 5000 + SMALL
    assert read <= 20_000 * (PER_TICK + 2)
    assert forget.call_count < 1000


def test_a_trace_that_does_not_grow_any_more_shrinks() -> None:
    trace = Trace(1, [])
    rows = np.arange(100_000).reshape(-1, 1)
    trace.append(rows, np.ones(len(rows), np.int64))
    trace.commit()
    mark = [0]
    limit = TraceLimit(trace, 0, 0, lambda: mark)
    for _ in range(100_000 // PER_TICK + 1):
        mark[0] += 1
        limit.apply()
    assert trace.rows == 100_000  # fewer than half are passed
    mark[0] = 90_000
    for _ in range(100_000 // PER_TICK + 1):
        limit.apply()
    assert trace.rows == 10_000


def test_thresholds() -> None:
    trace = Trace(1, [])
    marks: list[int | None] = [None, 7]
    assert TraceLimit(trace, 0, 3, lambda: marks).threshold() == INT64_MIN
    marks[0] = 9
    assert TraceLimit(trace, 0, 3, lambda: marks).threshold() == 10
    marks[1] = INT64_MAX - 1
    marks[0] = INT64_MAX
    assert TraceLimit(trace, 0, 3, lambda: marks).threshold() == INT64_MAX
    marks[0] = INT64_MIN
    assert TraceLimit(trace, 0, -3, lambda: marks).threshold() == INT64_MIN
    assert trace_module.LEAST_FORGOTTEN == 2
