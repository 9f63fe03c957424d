"""Traces: old and new integrals, merging, memory, rollback, weights near the end of int64."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from benchmarks.faults import Injector
from dbsp.data.batch import Batch
from dbsp.kernels import consolidate, sum_weights
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.state import merging_stack
from dbsp.state.journal import Journalled
from dbsp.state.merging_stack import MAX_RUNS, RATIO, SMALL, TAIL
from dbsp.state.sorted_run import RunMerge, SortedRun
from dbsp.state.trace import Trace
from tests import reference
from tests.profiles import examples
from tests.reference import Z

ROW_BYTES = 2 * 8 + 8


def batch_of(zset: Z, arity: int = 2) -> Batch:
    rows = np.array(list(zset), np.int64).reshape(len(zset), arity)
    return Batch(*consolidate(rows, np.array(list(zset.values()), np.int64)))


def model_of(batch: Batch) -> Z:
    pairs = [(tuple(row), w) for row, w in zip(batch.rows.tolist(), batch.weights.tolist(), strict=True)]
    assert pairs == sorted(set(pairs)) and all(w for _, w in pairs)
    return dict(pairs)


class Owner:
    """A trace with the journal that a scheduler keeps."""

    def __init__(self, width: int = 2) -> None:
        self.journal: list[Journalled] = []
        self.trace = Trace(width, self.journal)

    def append(self, zset: Z) -> None:
        batch = batch_of(zset, self.trace.width)
        if len(batch):
            self.trace.append(batch.rows, batch.weights)

    def commit(self, fuel: int = 4096) -> None:
        for state in self.journal:
            state.commit()
        self.journal.clear()
        due, runs = self.trace.due, [*self.trace.runs]
        self.trace.maintain(fuel)
        assert due or [*map(id, runs)] == [*map(id, self.trace.runs)]

    def rollback(self) -> None:
        for state in self.journal:
            state.rollback()
        self.journal.clear()

    def tick(self, zset: Z, fuel: int = 4096) -> None:
        self.append(zset)
        self.commit(fuel)

    @property
    def value(self) -> Z:
        return model_of(self.trace.contents())


def interval(start: int, stop: int, weight: int = 1) -> Z:
    return {(i, i % 7): weight for i in range(start, stop)}


def through_the_table(trace: Trace, runs: int, rows: Codes) -> list[int]:
    """Return the weights of rows in the first `runs` runs, as kernels compute them."""
    return sum_weights(rows, trace.table, runs).tolist()


class TraceMachine(RuleBasedStateMachine):
    """Ticks of several appends, committed or rolled back, agree with a dictionary."""

    sizes = st.sampled_from([1, 2, 10, 300, 600, 3000])
    weights = st.sampled_from([1, -1, 2])
    probes: ClassVar = [(i, i % 7) for i in range(0, 5000, 13)]

    def __init__(self) -> None:
        super().__init__()
        self.owner = Owner()
        self.committed: Z = {}
        self.current: Z = {}
        self.newest: Z = {}

    @rule(start=st.integers(0, 2000), size=sizes, weight=weights)
    def append(self, start: int, size: int, weight: int) -> None:
        self.add(interval(start, start + size, weight))

    def add(self, delta: Z) -> None:
        self.owner.append(delta)
        self.current = reference.add(self.current, delta)
        self.newest = delta

    @rule()
    def undo(self) -> None:
        """Retractions cancel their insertions."""
        value = reference.add(self.committed, self.current)
        if value:
            delta = dict(sorted(reference.negate(value).items())[: len(value) // 2 + 1])
            self.add(delta)

    @rule(fuel=st.sampled_from([1, 100, 4096, 10**6]))
    def commit(self, fuel: int) -> None:
        self.end_tick(fuel)

    def end_tick(self, fuel: int) -> None:
        self.owner.commit(fuel)
        self.committed = reference.add(self.committed, self.current)
        self.current, self.newest = {}, {}

    @rule()
    def rollback(self) -> None:
        self.owner.rollback()
        self.current, self.newest = {}, {}

    @rule(deferred=st.booleans())
    def defer_merges(self, deferred: bool) -> None:
        self.owner.trace.deferred = deferred

    @rule(found=st.sampled_from([1, 50, 5000]), rows=st.sampled_from([1, 5000]))
    def search(self, found: int, rows: int) -> None:
        self.owner.trace.count_searches(found, max(found, rows))

    @rule()
    def unite(self) -> None:
        """The runs of the tick become one run, if they are large."""
        trace = self.owner.trace
        many = sum(run.size for run in trace.current) > merging_stack.TAIL * merging_stack.SMALL
        trace.unite()
        if many and trace._budget is None:
            assert len(trace.current) <= 1
            self.newest = {}

    @rule()
    def compact(self) -> None:
        if not self.current and not self.owner.journal:
            self.owner.trace.compact()
            assert len(self.owner.trace.runs) <= 1
            assert self.owner.trace.rows == len(self.committed)

    @invariant()
    def holds_the_integral(self) -> None:
        trace = self.owner.trace
        value = reference.add(self.committed, self.current)
        assert self.owner.value == value
        assert trace.count == len(trace.runs) + len(trace.current) and trace.past == len(trace.runs)
        rows = np.array(self.probes, np.int64)
        wanted = [value.get(tuple(row), 0) for row in rows.tolist()]
        assert through_the_table(trace, trace.count, rows) == wanted
        if self.newest:
            assert trace.fresh and trace.before == trace.count - 1
            before = reference.minus(value, self.newest)
            wanted = [before.get(tuple(row), 0) for row in rows.tolist()]
            assert through_the_table(trace, trace.before, rows) == wanted
        wanted = [self.committed.get(tuple(row), 0) for row in rows.tolist()]
        assert through_the_table(trace, trace.past, rows) == wanted
        assert trace._bound == sum(run.largest for run in (*trace.runs, *trace.current))


class SmallStepsMachine(TraceMachine):
    """The same with frequent merges of a few rows each, in int32 unless a code does not fit."""

    sizes = st.sampled_from([1, 2, 3, 5, 9])
    limits: ClassVar = {"SMALL": 2, "TAIL": 2, "FEW": 1, "TAIL_OF_FEW": 3, "RATIO": 2, "MAX_RUNS": 3}
    borders: ClassVar = [-(2**63), -(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 2**63 - 1]
    probes: ClassVar = sorted([*TraceMachine.probes, *((code, -1) for code in borders)])

    def __init__(self) -> None:
        super().__init__()
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(mock.patch.multiple(merging_stack, **self.limits))
        self.patches.enter_context(mock.patch("dbsp.state.run_stack.ROOM", 4))
        self.patches.enter_context(mock.patch("dbsp.kernels.narrow_rows.LARGE", 2))

    def teardown(self) -> None:
        self.patches.close()

    @rule(codes=st.sets(st.sampled_from(borders), min_size=1), weight=TraceMachine.weights)
    def append_borders(self, codes: set[int], weight: int) -> None:
        self.add({(code, -1): weight for code in codes})

    @rule(start=st.integers(0, 40), size=sizes, weight=TraceMachine.weights)
    def append(self, start: int, size: int, weight: int) -> None:
        self.add(interval(start, start + size, weight))

    @rule(fuel=st.integers(1, 12))
    def commit(self, fuel: int) -> None:
        self.end_tick(fuel)


def test_deferred_runs_are_merged_when_searches_have_cost_as_much() -> None:
    owner = Owner()
    trace = owner.trace
    trace.deferred = True
    for start in range(0, 30_000, 1000):
        owner.append(interval(start, start + 1000))
    assert len(trace.current) == 30  # nothing has searched them
    trace.count_searches(100, 1000)  # 30 runs x 100 rows x 9
    owner.append(interval(30_000, 31_000))
    assert len(trace.current) == 31
    trace.count_searches(100, 1000)
    owner.append(interval(31_000, 32_000))
    assert [run.size for run in trace.current] == [31_000, 1000]
    counts = []
    for start in range(32_000, 92_000, 1000):
        owner.append(interval(start, start + 1000))
        trace.count_searches(10, 1000)
        counts.append(len(trace.current))
    assert 5 < max(counts) < 30
    trace.deferred = False  # a step reads them again
    owner.append(interval(92_000, 93_000))
    assert len(trace.current) < 12
    assert owner.value == interval(0, 93_000)


def test_a_run_that_was_deferred_is_merged_at_once_for_a_reader() -> None:
    owner = Owner()
    owner.trace.deferred = True
    for start in range(0, 60_000, 1000):
        owner.append(interval(start, start + 1000))
    assert len(owner.trace.current) == 60
    owner.trace.deferred = False
    owner.append(interval(60_000, 61_000))
    assert [run.size for run in owner.trace.current] == [60_000, 1000]
    assert owner.trace._bound == 2  # the largest weight of each run


def test_unite_leaves_small_ticks_alone() -> None:
    owner = Owner()
    for start in range(0, 40, 10):
        owner.append(interval(start, start + 10))
    owner.trace.unite()
    assert len(owner.trace.current) == 4 and owner.trace.fresh
    owner.append(interval(40, 10_000))
    owner.trace.unite()
    assert len(owner.trace.current) == 1 and not owner.trace.fresh
    owner.commit()
    assert owner.value == interval(0, 10_000)


TraceMachine.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)
TestTraceMachine = TraceMachine.TestCase
SmallStepsMachine.TestCase.settings = settings(
    max_examples=examples(50), stateful_step_count=40, deadline=None
)
TestSmallStepsMachine = SmallStepsMachine.TestCase


# --- how many runs, how much work -----------------------------------------------------------------


def test_single_row_ticks_keep_few_runs() -> None:
    owner = Owner()
    most = 0
    for i in range(3000):
        owner.tick({(i * 7919 % 3001, 0): 1})
        most = max(most, owner.trace.count)
    assert most <= TAIL + 4
    assert owner.trace.rows == 3000


@pytest.mark.parametrize(("size", "ticks"), [(1, 200), (100, 200), (700, 200), (5000, 40)])
def test_the_number_of_runs_grows_with_the_logarithm(size: int, ticks: int) -> None:
    owner = Owner()
    most = 0
    for i in range(ticks):
        owner.tick(interval(i * size, (i + 1) * size), 4096 + 32 * size)
        most = max(most, owner.trace.count)
    assert most <= TAIL + 8
    assert owner.value == interval(0, ticks * size)


def merged_rows(owner: Owner, zset: Z, fuel: int) -> int:
    """Return the number of rows that merges write in one tick."""
    written = 0
    trace = owner.trace
    owner.append(zset)
    before = int(trace._merge.state[2]) if trace._merge else 0
    held = {id(run) for run in (*trace.runs, *trace.current)}
    owner.commit(fuel)
    written += sum(len(run) for run in trace.runs if id(run) not in held)
    if trace._merge:
        written += int(trace._merge.state[2])
    return written - before


def test_a_large_merge_is_spread_over_ticks() -> None:
    """No tick merges much more than its fuel, although the runs are far larger."""
    owner = Owner()
    owner.append(interval(0, 100_000))
    owner.commit(10**9)
    owner.append(interval(100_000, 150_000))
    fuel = 2000
    owner.commit(fuel)
    assert owner.trace._merge is not None
    ticks = 0
    while owner.trace._merge is not None:
        before = int(owner.trace._merge.state[2])
        owner.tick({(-ticks - 1, 0): 1}, fuel)
        after = int(owner.trace._merge.state[2]) if owner.trace._merge else 150_000
        assert after - before <= fuel
        ticks += 1
    assert ticks >= 150_000 // fuel - 2
    assert owner.value == reference.add(interval(0, 150_000), {(-i - 1, 0): 1 for i in range(ticks)})
    assert owner.trace.count <= TAIL + 2


def test_a_merge_is_finished_at_once_when_there_are_too_many_runs() -> None:
    owner = Owner()
    for i in range(100):
        owner.tick(interval(i * 1000, (i + 1) * 1000), fuel=1)
        assert len(owner.trace.runs) <= MAX_RUNS + TAIL
    assert owner.value == interval(0, 100_000)


# --- memory after churn ---------------------------------------------------------------------------


def test_churn_that_returns_to_the_same_relation_returns_to_the_same_memory() -> None:
    owner = Owner()
    base = interval(0, 20_000)
    owner.tick(base, 10**9)
    owner.trace.compact()
    start = owner.trace.nbytes
    assert start == 20_000 * 2 * 4  # weights of 1 are not stored, and codes are int32
    for i in range(300):
        change = interval(20_000 + i * 50, 20_000 + (i + 1) * 50)
        owner.tick(change)
        owner.tick(reference.negate(change))
    assert owner.value == base
    # at most the small runs at the newest end are not merged yet
    assert owner.trace.rows <= 20_000 + TAIL * SMALL
    owner.trace.compact()
    assert owner.trace.nbytes == start


def test_merging_alone_releases_the_memory_of_retracted_rows() -> None:
    owner = Owner()
    owner.tick(interval(0, 50_000), 10**9)
    for i in range(49):
        owner.tick(interval(i * 1000, (i + 1) * 1000, -1))
    for i in range(100):
        owner.tick({(-i, 0): 1})
    left = len(owner.value)
    assert left == 1100
    assert owner.trace.rows <= left * (1 + 2 / RATIO) + TAIL * SMALL


def test_everything_deleted_leaves_nothing() -> None:
    owner = Owner()
    owner.tick(interval(0, 3000))
    owner.tick(interval(0, 3000, -1))
    assert owner.trace.rows == owner.trace.count == 0 and owner.value == {}
    owner.tick(interval(0, 5))
    assert owner.value == interval(0, 5)


def test_compact_of_cancelled_rows_leaves_no_run() -> None:
    owner = Owner()
    owner.tick(interval(0, 5))
    owner.tick(interval(0, 5, -1))
    owner.trace.compact()
    assert owner.trace.count == owner.trace.rows == 0
    owner.tick(interval(3, 9))
    assert owner.value == interval(3, 9)


# --- within a tick --------------------------------------------------------------------------------


def test_many_appends_in_one_tick_form_few_runs_separate_from_the_past() -> None:
    """As in the iterations of a nested scope; rows contain their iteration."""
    owner = Owner(width=3)
    owner.tick({(0, 0, 0): 1})
    for i in range(200):
        owner.append({(i, j, i): 1 for j in range(20)})
        assert owner.trace.past == 1
        assert owner.trace.before == owner.trace.count - 1
        assert owner.trace.count <= TAIL + 8
    assert len(owner.value) == 4000
    owner.rollback()
    assert owner.value == {(0, 0, 0): 1} and owner.trace.count == 1


def test_appends_that_cancel_within_a_tick() -> None:
    owner = Owner()
    for _ in range(30):
        owner.append(interval(0, 700))
        owner.append(interval(0, 700, -1))
    assert owner.value == {}
    owner.commit()
    assert owner.value == {}


def test_empty_integral() -> None:
    owner = Owner(width=0)
    assert owner.value == {} and owner.trace.before == 0
    owner.tick({(): 3})
    owner.tick({(): -1})
    assert owner.value == {(): 2}


# --- weights near the end of int64 ----------------------------------------------------------------


def test_a_weight_outside_int64_is_refused_on_append() -> None:
    owner = Owner()
    owner.tick({(1, 1): INT64_MAX, (2, 2): INT64_MIN})
    for row, weight in (((1, 1), 1), ((2, 2), -1)):
        with pytest.raises(OverflowError, match="weight: the sum of weights is outside the 64-bit range"):
            owner.append({row: weight})
        owner.rollback()
        assert owner.value == {(1, 1): INT64_MAX, (2, 2): INT64_MIN}
    owner.tick({(1, 1): -1, (2, 2): 1})
    assert owner.value == {(1, 1): INT64_MAX - 1, (2, 2): INT64_MIN + 1}


@given(
    st.lists(st.sampled_from([2**62, -(2**62), INT64_MAX, -INT64_MAX, 1, -1]), max_size=40), st.integers(1, 3)
)
def test_heavy_weights_are_inserted_and_retracted(sequence: Sequence[int], rows: int) -> None:
    """In any order, a tick fails exactly if a weight is outside int64."""
    owner = Owner()
    value: Z = {}
    for number, weight in enumerate(sequence):
        delta = {(number % rows, 0): weight}
        after = reference.add(value, delta)
        if all(INT64_MIN <= w <= INT64_MAX for w in after.values()):
            owner.tick(delta, fuel=1)
            value = after
        else:
            with pytest.raises(OverflowError):
                owner.append(delta)
            owner.rollback()
        assert owner.value == value


def test_heavy_churn_does_not_accumulate_runs() -> None:
    owner = Owner()
    owner.tick(interval(0, 2000))
    for _ in range(200):
        owner.tick({(5, 5): 2**62})
        owner.tick({(5, 5): -(2**62)})
        assert owner.trace.count <= MAX_RUNS + TAIL
    assert owner.value == interval(0, 2000)
    assert owner.trace.rows <= 2000 + MAX_RUNS + TAIL


def test_a_tick_of_one_row_seldom_has_merges() -> None:
    owner = Owner()
    owner.tick(interval(0, 5000))
    due = 0
    for at in range(10 * TAIL):
        owner.append({(at, 7): 1})
        for state in owner.journal:
            state.commit()
        owner.journal.clear()
        if owner.trace.due:
            due += 1
            owner.trace.maintain(4096)
        assert len(owner.trace.runs) < 2 * TAIL
    assert due <= 10 * TAIL // (TAIL - 1)


def test_an_interrupted_merge_is_repaired() -> None:
    """At every step of the interpreter, also while a large merge is spread over several ticks."""
    trace = Trace(1, [])
    inserted = 0
    merging = 0
    for at in range(1200):
        rows = np.arange(inserted, inserted + 600).reshape(-1, 1)
        trace.append(rows, np.ones(len(rows), np.int64))
        trace.commit()
        inserted += 600
        merging += trace.merging
        if at % 3:
            trace.maintain(700)
            continue
        injector = Injector(KeyboardInterrupt, at * 7 % 450, None, opcodes=True)
        injector.call(lambda: trace.maintain(700))
        trace.repair()
        assert trace.count == trace.past == len(trace.runs)
        for index, run in enumerate(trace.runs):
            assert tuple(trace.table[index]) == run.entry()
        if at % 21 == 0:
            assert len(trace.contents()) == inserted
    assert merging > 20
    assert (trace.contents().rows[:, 0] == np.arange(inserted)).all()


@pytest.mark.parametrize("kept", [0, 5000, 9999])
def test_a_merge_releases_the_memory_of_cancelled_rows(kept: int) -> None:
    """Large merges write no weights while these are 1, and copy no rows in the end."""
    older = SortedRun.of(*arrays_of(interval(0, 10_000)))
    newer = SortedRun.of(*arrays_of({**interval(kept, 10_000, -1), **interval(20_000, 25_000)}))
    merge = RunMerge(0, older, newer)
    reserved = merge.nbytes
    assert merge.advance(10**9)
    assert merge.nbytes == reserved == merge.rows.nbytes
    result = merge.result()
    assert result.codes.nbytes == result.nbytes == (kept + 5000) * 8
    assert model_of(Batch(result.rows, result.weights)) == {**interval(0, kept), **interval(20_000, 25_000)}


@pytest.mark.parametrize("fuel", [1000, 10**9])
def test_a_merge_writes_weights_from_the_first_that_is_not_1(fuel: int) -> None:
    older = SortedRun.of(*arrays_of(interval(0, 10_000)))
    newer = SortedRun.of(
        *arrays_of({**interval(6000, 7000, -1), **interval(8000, 8100), **interval(9000, 9500, 4)})
    )
    merge = RunMerge(0, older, newer)
    steps = 1
    while not merge.advance(fuel):
        steps += 1
    assert steps <= 12 if fuel == 1000 else steps == 1
    result = merge.result()
    assert result.nbytes == 9000 * 16
    expected = {
        **interval(0, 6000),
        **interval(7000, 10_000),
        **interval(8000, 8100, 2),
        **interval(9000, 9500, 5),
    }
    assert model_of(Batch(result.rows, result.weights)) == expected


def arrays_of(zset: Z) -> tuple[Codes, Codes]:
    batch = batch_of(zset)
    return batch.rows, batch.weights


def test_all_runs_are_the_delta_of_a_step_that_has_appended_one() -> None:
    trace = Trace(2, [])
    for weights in ({(1, 1): 1, (2, 2): 1}, {(3, 3): 1, (2, 2): -1}):
        batch = batch_of(weights)
        trace.append(batch.rows, batch.weights)
        trace.commit()
    batch = batch_of({(1, 1): -1, (4, 4): 1})
    trace.append(batch.rows, batch.weights)
    assert (trace.before, trace.count) == (2, 3)
    whole = trace.notify()
    assert whole is not None
    assert model_of(whole) == {(3, 3): 1, (4, 4): 1}
    assert (trace.before, trace.count, trace.past) == (0, 3, 2)
    assert sum_weights(batch.rows, trace.table, trace.count).tolist() == [0, 1]
    trace.rollback()
    assert model_of(trace.contents()) == {(1, 1): 1, (3, 3): 1}
    assert trace.before == trace.count == 2
