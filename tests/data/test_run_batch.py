"""Batches of sorted runs: equal to the run, and without a copy of it until they are read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit
from dbsp.data.batch import Batch
from dbsp.data.run_batch import RunBatch, sum_of_sorted
from dbsp.kernels import narrow_rows
from dbsp.kernels.narrow_rows import LARGE, narrowed
from dbsp.state.trace import Trace
from tests import reference
from tests.strategies import small

ROWS = np.column_stack((np.arange(LARGE), np.arange(LARGE) % 3)).astype(np.int64)


def is_read(batch: Batch, name: str) -> bool:
    """Return whether an array of the batch has been made."""
    try:
        object.__getattribute__(batch, name)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize(
    "weights", [np.ones(LARGE, np.int64), np.arange(1, LARGE + 1), -np.ones(LARGE, np.int64)]
)
def test_the_contents_of_a_trace_are_read_late(weights: np.ndarray) -> None:
    trace = Trace(2, [])
    trace.append(ROWS, weights)
    trace.narrow()
    found = trace.contents()
    units = bool((weights == 1).all())
    assert isinstance(found, RunBatch) and len(found) == LARGE and found.arity == 2
    assert found.total == weights.sum() and found.units == units
    assert not is_read(found, "rows") and is_read(found, "weights") != units
    again = pickle.loads(pickle.dumps(found))
    for each in (found, again):
        assert each.rows.dtype == np.int64 and (each.rows == ROWS).all()
        assert (each.weights == weights).all() and each.rows is each.rows
    assert (found.with_units().rows == ROWS).all() and found.with_units().weights.tolist() == [1] * LARGE
    with pytest.raises(AttributeError, match="'RunBatch' object has no attribute 'columns'"):
        found.columns  # noqa: B018


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_reads_the_codes_of_the_run(sign: int) -> None:
    trace = Trace(2, [])
    trace.append(ROWS, np.ones(LARGE, np.int64))
    trace.narrow()
    run, few = trace.contents(), Batch(ROWS[:5], np.array([1, 2, -1, 1, 1]))
    for left, right in ((run, few), (few, run), (run, run)):
        total = left.plus(right, sign)
        assert not is_read(run, "rows") and not is_read(run, "weights")
        wide = [Batch(ROWS, np.ones(LARGE, np.int64)) if side is run else few for side in (left, right)]
        expected = wide[0].plus(wide[1], sign)
        assert (total.rows == expected.rows).all() and (total.weights == expected.weights).all()
        assert len(total) == len(expected) == (0 if left is right and sign < 0 else len(total))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("other", [0, 1, LARGE])
def test_the_sum_of_two_narrow_runs_is_narrow_if_it_is_large(sign: int, other: int) -> None:
    more = np.concatenate([ROWS, ROWS + LARGE])
    weights = np.where(np.arange(2 * LARGE) % 5, 1, 4)
    left = RunBatch(narrowed(more), weights)
    right = RunBatch(narrowed(ROWS + other), np.ones(1, np.int64))
    total = left.plus(right, sign)
    expected = Batch(more, weights).plus(Batch(ROWS + other, np.ones(LARGE, np.int64)), sign)
    assert (total.rows == expected.rows).all() and (total.weights == expected.weights).all()
    assert isinstance(total, RunBatch) and total.codes.itemsize == 4 and total.arity == 2


@pytest.mark.parametrize("kept", [0, 1, LARGE - 1, LARGE])
def test_a_difference_of_narrow_runs_with_few_rows_is_wide(kept: int) -> None:
    more = np.concatenate([ROWS, ROWS + LARGE])
    left, right = (RunBatch(narrowed(rows), np.ones(1, np.int64)) for rows in (more, more[kept:]))
    rest = left.plus(right, -1)
    assert isinstance(rest, RunBatch) == (kept == LARGE)
    assert (rest.rows == more[:kept]).all() and rest.weights.tolist() == [1] * kept


@pytest.mark.parametrize("more", [0, 2**40])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_narrow_run_and_others_that_fit_have_a_narrow_sum(more: int, sign: int) -> None:
    run, few = RunBatch(narrowed(ROWS), np.ones(1, np.int64)), Batch(ROWS[:5] + more, np.arange(1, 6))
    total, expected = run.plus(few, sign), Batch(run.rows, run.weights).plus(few, sign)
    assert (total.rows == expected.rows).all() and (total.weights == expected.weights).all()
    assert isinstance(total, RunBatch) == (sign > 0 and not more)


@given(
    st.lists(st.dictionaries(st.tuples(small, small), st.sampled_from([1, -1, 2]), max_size=9), max_size=4),
    st.integers(0, 20),
    st.booleans(),
)
def test_the_sum_of_sorted_batches(zsets: list[dict[tuple[int, int], int]], many: int, narrow: bool) -> None:
    zsets.insert(len(zsets) // 2, {(n, 0): 1 for n in range(many)})
    batches: list[Batch] = []
    for zset in zsets:
        rows = np.array(sorted(zset), np.int64).reshape(len(zset), 2)
        weights = np.array([zset[row] for row in sorted(zset)], np.int64)
        batches.append(RunBatch(narrowed(rows), weights) if narrow and len(zset) else Batch(rows, weights))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow_rows, "LARGE", 8)
        total = sum_of_sorted(batches)
    found = (
        {}
        if total is None
        else dict(zip(map(tuple, total.rows.tolist()), total.weights.tolist(), strict=True))
    )
    assert found == reference.add(*zsets) and (total is None) == (not found)
    assert total is None or total.rows.tolist() == sorted(map(list, found))
    if narrow and many > 2 * sum(map(len, zsets)) - 2 * many and len(found) >= 8:
        assert isinstance(total, RunBatch)


def test_the_sum_of_one_batch_or_none() -> None:
    run = RunBatch(narrowed(ROWS), np.ones(1, np.int64))
    assert sum_of_sorted([]) is None and sum_of_sorted([run]) is run


def test_a_narrow_run_stays_when_the_tick_is_rolled_back() -> None:
    trace = Trace(2, [])
    trace.append(ROWS[:10], np.ones(10, np.int64))
    trace.commit()
    trace.append(ROWS, np.ones(LARGE, np.int64))
    trace.narrow()
    assert trace.current[0].narrow and trace.count == 2
    trace.rollback()
    trace.append(ROWS[:2], np.ones(2, np.int64))
    trace.commit()
    assert trace.contents().weights.tolist() == [2, 2, *[1] * 8]


def test_the_result_of_a_closure_takes_no_copy() -> None:
    circuit = Circuit("closure")
    edge = circuit.input("e", x=int, y=int)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", edge.schema)
        longer = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (edge + longer).distinct())
    circuit.output("path", scope.leave(path))
    run = circuit.start()
    nodes = np.arange(300)
    result = run.step({"e": {"x": nodes, "y": nodes + 1}})["path"]
    assert isinstance(result.stored, RunBatch) and len(result) == 300 * 301 // 2
    assert not is_read(result.stored, "rows")
    run.step({"e": {(0, 1): -1}})  # the result keeps the rows of its tick
    expected = {(x, y): 1 for x in range(300) for y in range(x + 1, 301)}
    assert result.to_dict() == expected
    assert narrowed(result.stored.rows).itemsize == 4


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_narrow_rows_are_rearranged_in_32_bits(order: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "LOAD", LARGE)
    codes = narrowed(ROWS)
    expected = sorted(ROWS[:, order].tolist())
    found = RunBatch(codes, np.ones(1, np.int64)).rearranged(np.array(order))
    assert isinstance(found, RunBatch) and found.codes.itemsize == 4 and found.codes.tolist() == expected
    assert (codes == ROWS).all() and found.units and len(found.stored) == 1
    for weights in (np.arange(1, LARGE + 1), -np.ones(LARGE, np.int64)):
        found = RunBatch(codes, weights).rearranged(np.array(order))
        both = sorted(zip(ROWS[:, order].tolist(), weights.tolist(), strict=True))
        assert list(zip(found.rows.tolist(), found.weights.tolist(), strict=True)) == both


def test_only_the_last_reader_sorts_rows_in_their_memory() -> None:
    order, one = np.array([1, 0]), np.ones(1, np.int64)
    held: list[Batch] = [RunBatch(narrowed(ROWS), one)]
    for read in (lambda batch: batch, lambda batch: batch.codes):
        kept = read(held[0])  # the only other reference
        assert RunBatch.rearrange_sole(held, order) is None and len(held) == 1
        del kept
    assert (held[0].rows == ROWS).all()  # a copy, which the result must not return
    memory = held[0].codes.ctypes.data  # type: ignore[attr-defined]
    found = RunBatch.rearrange_sole(held, order)
    assert isinstance(found, RunBatch) and found.codes.ctypes.data == memory and not held
    assert found.rows.tolist() == sorted(ROWS[:, [1, 0]].tolist())
    for stored, weights in ((np.copy, one), (narrowed, np.arange(1, LARGE + 1))):
        held = [RunBatch(stored(ROWS), weights)]  # nobody else reads it
        assert RunBatch.rearrange_sole(held, order) is None and (held[0].rows == ROWS).all()


@pytest.mark.parametrize("load", [LARGE, LARGE + 1])
@pytest.mark.parametrize("columns", [[0], [1], [1, 0], [0, 0, 1], []])
@pytest.mark.parametrize("weights", [np.ones(1, np.int64), np.arange(1, LARGE + 1)])
def test_columns(columns: list[int], weights: np.ndarray, load: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "LOAD", load)
    wide = Batch(ROWS, weights if len(weights) > 1 else np.ones(LARGE, np.int64))
    codes = narrowed(ROWS)
    expected = wide.projected(np.array(columns, np.int64))
    found = RunBatch(codes, weights).projected(np.array(columns, np.int64))
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.weights.tolist() == expected.weights.tolist()
    assert (codes == ROWS).all() and found.rows.dtype == np.int64
    narrow = load == LARGE == len(found) and len(weights) == 1
    assert type(found) is (RunBatch if narrow else Batch)


@pytest.mark.parametrize("weights", [np.ones(1, np.int64), np.arange(1, LARGE + 1)])
def test_parts(weights: np.ndarray) -> None:
    batch = RunBatch(narrowed(ROWS), weights)
    parts = [batch.part(slice(0, 10)), batch.part(slice(10, LARGE))]
    assert not is_read(batch, "rows")
    assert np.concatenate([part.rows for part in parts]).tolist() == ROWS.tolist()
    assert [part.rows.dtype for part in parts] == [np.int64, np.int64]
    assert np.concatenate([part.weights for part in parts]).tolist() == batch.weights.tolist()
