"""Large deltas in pieces: the sum is made at the first read, and the pieces can be taken before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.data import piece_batch
from dbsp.data.batch import Batch, combine
from dbsp.data.piece_batch import PieceBatch, summed_later
from dbsp.data.run_batch import RunBatch
from dbsp.kernels import narrow_rows
from dbsp.kernels.arrays import Codes
from dbsp.parallel import packed_part, packed_sum
from dbsp.parallel.packed_part import packed
from tests.profiles import examples

Piece = tuple[Codes, Codes]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_batch, "LARGE", 2)


def piece(rows: list[tuple[int, int, int]]) -> Piece:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return np.ascontiguousarray(table[:, :2]), table[:, 2].copy()


def pieces(least: int) -> st.SearchStrategy[list[list[tuple[int, int, int]]]]:
    number = st.integers(-3, 3)
    weight = st.integers(least, 3).filter(bool)
    return st.lists(st.lists(st.tuples(number, number, weight), max_size=40), max_size=4)


@settings(max_examples=examples(60))
@given(pieces(-3) | pieces(1))
def test_the_sum_is_that_of_combine(rows: list[list[tuple[int, int, int]]]) -> None:
    expected = combine([piece(each) for each in rows])
    found = summed_later([piece(each) for each in rows])
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert len(found) == len(expected)
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.weights.tolist() == expected.weights.tolist()


def test_pieces_with_negative_weights_are_summed_at_once() -> None:
    parts = [piece([(1, 1, 1), (2, 2, 1)]), piece([(1, 1, -1), (2, 2, -1)])]
    assert summed_later(parts) is None
    found = summed_later([piece([(1, 1, 1), (2, 2, 1)]), piece([(1, 1, -1)])])
    assert type(found) is not PieceBatch and found is not None
    assert found.rows.tolist() == [[2, 2]]


def test_pieces_can_be_taken_before_and_after_the_first_read() -> None:
    unread = summed_later([piece([(2, 2, 1), (1, 1, 1)]), piece([(1, 1, 2)])])
    assert isinstance(unread, PieceBatch)
    assert [weights.tolist() for _, weights in unread.take()] == [[1, 1], [2]]
    read = summed_later([piece([(2, 2, 1), (1, 1, 1)]), piece([(1, 1, 2)])])
    assert isinstance(read, PieceBatch)
    assert read.weights.tolist() == [3, 1]
    ((rows, weights),) = read.take()
    assert rows.tolist() == [[1, 1], [2, 2]]
    assert weights.tolist() == [3, 1]


def test_many_different_rows_are_summed_in_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "LOAD", 2)
    monkeypatch.setattr(packed_sum, "LARGE", 2)
    monkeypatch.setattr(packed_part, "LEAST", 1)
    rows = np.array([[3, 1], [2, 2], [1, 2**31 - 1], [2, -5]])
    ones = np.ones(4, np.int64)
    batch = summed_later([packed(rows[:2], ones[:2]), packed(rows[2:], ones[2:])])
    assert isinstance(batch, PieceBatch) and len(batch) == 4
    found = batch.sum()
    assert isinstance(found, RunBatch) and found.codes.itemsize == 4 and batch.sum() is found
    expected = sorted(rows.tolist())
    assert found.codes.tolist() == expected and len(found.stored) == 1
    for order in ([0, 1], [1, 0]):
        turned = batch.rearranged(np.array(order))
        assert isinstance(turned, RunBatch) and turned.rows.tolist() == sorted(rows[:, order].tolist())
    for columns, sums in (([0], [1, 2, 1]), ([1, 0], [1] * 4)):
        part = batch.projected(np.array(columns))
        assert part.rows.tolist() == sorted(map(list, {tuple(row) for row in rows[:, columns].tolist()}))
        assert part.weights.tolist() == sums and isinstance(part, RunBatch) == (len(part) == 4)
    assert batch.rows.tolist() == expected and batch.weights.tolist() == [1] * 4
    assert [(part.tolist(), given.tolist()) for part, given in batch.take()] == [(expected, [1] * 4)]


def test_rows_that_occur_twice_are_summed_with_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "LOAD", 2)
    monkeypatch.setattr(packed_sum, "LARGE", 2)
    monkeypatch.setattr(packed_part, "LEAST", 1)
    rows = np.array([[3, 1], [2, 2], [3, 1]])
    for weights, sums in (([1, 1, 1], [1, 2]), ([1, 1, 2], [1, 3])):
        batch = summed_later([packed(rows, np.array(weights))])
        assert isinstance(batch, PieceBatch) and type(batch.sum()) is Batch
        assert batch.rows.tolist() == [[2, 2], [3, 1]] and batch.weights.tolist() == sums


def test_an_unknown_attribute_is_an_error() -> None:
    batch = summed_later([piece([(2, 2, 1), (1, 1, 1)])])
    with pytest.raises(AttributeError, match="'PieceBatch' object has no attribute 'row'"):
        batch.row  # type: ignore[union-attr]  # noqa: B018
