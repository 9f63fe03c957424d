"""Sums of batches: merging sorted pieces equals sorting all of their rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.batch import combine, merge_sorted

WEIGHTS = st.sampled_from([1, 1, -1, 3])


@given(st.integers(0, 3), st.data())
def test_merged_pieces_are_their_sum(arity: int, data: st.DataObject) -> None:
    row = st.tuples(*[st.integers(-2, 2)] * arity)
    pieces = []
    for _ in range(data.draw(st.integers(0, 5))):
        zset = data.draw(st.dictionaries(row, WEIGHTS, max_size=12))
        rows = np.array(sorted(zset), np.int64).reshape(len(zset), arity)
        pieces.append((rows, np.array([zset[key] for key in sorted(zset)], np.int64)))
    merged, expected = merge_sorted(pieces), combine(pieces)
    assert (merged is None) == (expected is None)
    if merged is not None and expected is not None:
        assert merged.rows.tolist() == expected.rows.tolist()
        assert merged.weights.tolist() == expected.weights.tolist()
        assert merged.rows.flags.c_contiguous


def test_a_sum_of_weights_beyond_64_bits_is_an_error() -> None:
    piece = np.array([[1]]), np.array([2**62])
    with pytest.raises(OverflowError):
        merge_sorted([piece, piece])
