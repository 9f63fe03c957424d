"""Sums of batches: merging sorted pieces equals sorting all of their rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.batch import FEW, Batch, combine, merge_sorted
from tests import reference

WEIGHTS = st.sampled_from([1, 1, -1, 3])


@given(st.integers(0, 3), st.data())
def test_merged_pieces_are_their_sum(arity: int, data: st.DataObject) -> None:
    row = st.tuples(*[st.integers(-2, 2)] * arity)
    pieces = []
    for _ in range(data.draw(st.integers(0, 5))):
        zset = data.draw(st.dictionaries(row, WEIGHTS, max_size=12))
        pieces.append(batch_of(zset, arity))
    merged, expected = merge_sorted(pieces), combine([(piece.rows, piece.weights) for piece in pieces])
    assert (merged is None) == (expected is None)
    if merged is not None and expected is not None:
        assert merged.rows.tolist() == expected.rows.tolist()
        assert merged.weights.tolist() == expected.weights.tolist()
        assert merged.rows.flags.c_contiguous


def batch_of(zset: reference.Z, arity: int) -> Batch:
    rows = np.array(sorted(zset), np.int64).reshape(len(zset), arity)
    return Batch(rows, np.array([zset[key] for key in sorted(zset)], np.int64))


@given(st.integers(0, 2), st.sampled_from([1, -1]), st.data())
def test_a_batch_plus_or_minus_another_one(arity: int, sign: int, data: st.DataObject) -> None:
    row = st.tuples(*[st.integers(-FEW, FEW)] * arity)
    zsets = st.dictionaries(row, WEIGHTS, max_size=FEW)
    a, b = data.draw(zsets), data.draw(zsets)
    left, right = batch_of(a, arity), batch_of(b, arity)
    found = left.plus(right, sign)
    expected = reference.add(a, reference.scale(sign, b))
    assert dict(zip(map(tuple, found.rows.tolist()), found.weights.tolist(), strict=True)) == expected
    assert found.rows.tolist() == sorted(map(list, expected)) and found.rows.flags.c_contiguous
    assert (left.rows == batch_of(a, arity).rows).all() and (
        right.weights == batch_of(b, arity).weights
    ).all()


def test_a_sum_of_weights_beyond_64_bits_is_an_error() -> None:
    piece = Batch(np.array([[1]]), np.array([2**62]))
    with pytest.raises(OverflowError):
        merge_sorted([piece, piece])
