"""Batches that nobody else can read are sorted in their own memory; all others are copied."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dbsp.data import batch as batches
from dbsp.data.batch import Batch, combine
from dbsp.kernels import thread_count
from dbsp.parallel import packed_sum, range_sort
from dbsp.parallel.range_sort import sort_parts

ORDER = np.array([1, 0], np.int64)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LEAST_IN_PLACE", 2)
    monkeypatch.setattr(batches, "FEW", 0)


def some(weights: tuple[int, ...] = (1, 1, 1, 1, 1)) -> Batch:
    rows = np.array([[1, 9], [2, 8], [3, 7], [3, 8], [4, 1]], np.int64)
    return Batch(rows, np.array(weights, np.int64))


@pytest.mark.parametrize("weights", [(1, 1, 1, 1, 1), (1, -2, 3, -4, 5)])
def test_the_only_reference_is_sorted_in_place(weights: tuple[int, ...]) -> None:
    expected = some(weights).rearranged(ORDER)
    held = [some(weights)]
    found = Batch.rearrange_sole(held, ORDER)
    state = thread_count.threads(), sys.gettrace(), sys.getprofile(), threading.enumerate()
    assert found is not None and not held, state  # a tracer has references to the locals of frames
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.weights.tolist() == expected.weights.tolist()


KEEP: dict[str, Callable[[Batch], Any]] = {
    "the batch": lambda batch: batch,
    "its rows": lambda batch: batch.rows,
    "a part of its rows": lambda batch: batch.rows[1:2],
    "a buffer of its rows": lambda batch: memoryview(batch.rows),
    "a batch with its rows": lambda batch: Batch(batch.rows, batch.weights),
    "its weights": lambda batch: batch.weights,
}


@pytest.mark.parametrize("kept", KEEP)
def test_a_batch_with_other_readers_is_left_alone(kept: str) -> None:
    held = [some((1, -2, 3, -4, 5))]
    reader = KEEP[kept](held[0])
    assert Batch.rearrange_sole(held, ORDER) is None
    assert held[0].rows.tolist() == some().rows.tolist() and held[0].weights.tolist() == [1, -2, 3, -4, 5]
    assert reader is not None


def test_part_of_another_array_is_left_alone() -> None:
    whole = np.arange(20, dtype=np.int64).reshape(10, 2)
    held = [Batch(whole[:5], np.ones(5, np.int64))]
    assert Batch.rearrange_sole(held, ORDER) is None
    assert whole[0].tolist() == [0, 1]


def test_shared_weights_of_one_do_not_change() -> None:
    ones = np.ones(5, np.int64)
    held = [Batch(some().rows, ones)]
    found = Batch.rearrange_sole(held, ORDER)
    assert found is not None and found.weights.tolist() == ones.tolist() == [1] * 5


WIDE = [[1, 2**40, 5], [2, -(2**40), 5], [3, 7, -(2**40)], [3, 2**41, 9]]


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, -2, 3, -4)])
@pytest.mark.parametrize("threads", [1, 2, 64])
def test_wide_rows_are_sorted_by_ranges(
    monkeypatch: pytest.MonkeyPatch, weights: tuple[int, ...], threads: int
) -> None:
    monkeypatch.setattr(range_sort, "LARGE", 4)
    monkeypatch.setattr(thread_count, "_chosen", threads)
    order = np.array([1, 0, 2], np.int64)
    expected = Batch(np.array(WIDE), np.array(weights)).rearranged(order)
    held = [Batch(np.array(WIDE), np.array(weights))]
    calls = []
    monkeypatch.setattr(batches, "sort_parts", lambda *a, **k: calls.append(k) or sort_parts(*a, **k))
    found = Batch.rearrange_sole(held, order)
    assert found is not None and not held and calls == [{"distinct": True, "owned": True}]
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.weights.tolist() == expected.weights.tolist()


def test_wide_rows_that_are_sorted_stay() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_sort, "LARGE", 4)
        patch.setattr(packed_sum, "LARGE", 4)
        patch.setattr(batches, "sort_parts", lambda *_, **__: pytest.fail("they are sorted"))
        rows, weights = np.array(WIDE), np.ones(4, np.int64)
        found = combine([(rows, weights)], owned=True)
        assert found is not None and found.rows.tolist() == WIDE and found.rows is rows


def test_small_batches_and_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LEAST_IN_PLACE", 6)
    assert Batch.rearrange_sole([some()], ORDER) is None
    monkeypatch.setattr(batches, "LEAST_IN_PLACE", 2)
    monkeypatch.setattr(thread_count, "_chosen", 64)
    assert Batch.rearrange_sole([some()], ORDER) is None


def test_owned_parts_are_released_and_summed() -> None:
    parts = [(some().rows[::-1].copy(), some().weights), (some().rows, np.array([1, -1, 2, -1, -1]))]
    expected = combine(list(parts))
    found = combine(parts, owned=True)
    assert parts == [] and expected is not None and found is not None
    assert found.rows.tolist() == expected.rows.tolist() == [[1, 9], [3, 7]]
    assert found.weights.tolist() == expected.weights.tolist() == [2, 3]
    assert found.rows.base is None  # and not part of the memory of all rows
