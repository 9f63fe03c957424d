"""Large deltas in pieces: the sum is made at the first read, and the pieces can be taken before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.data import piece_batch
from dbsp.data.batch import combine
from dbsp.data.piece_batch import PieceBatch, summed_later
from dbsp.kernels.arrays import Codes
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


def test_an_unknown_attribute_is_an_error() -> None:
    batch = summed_later([piece([(2, 2, 1), (1, 1, 1)])])
    with pytest.raises(AttributeError, match="'PieceBatch' object has no attribute 'row'"):
        batch.row  # type: ignore[union-attr]  # noqa: B018
