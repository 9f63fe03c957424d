"""The kernels that place rows on shards, and those that number values for packets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import find_shards, hash_runs, number_column, split_rows, translate_column
from dbsp.kernels.limits import NULL
from tests.kernels.support import codes

NOTHING = np.empty(0, np.int64)


def mixed(total: int, *values: int) -> int:
    for value in values:
        total = ((total ^ (value % 2**64)) + 0x9E3779B97F4A7C15) % 2**64
        total = (total ^ (total >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        total = (total ^ (total >> 27)) * 0x94D049BB133111EB % 2**64
        total ^= total >> 31
    return total


@given(st.lists(st.tuples(codes, codes, codes)), st.integers(1, 5), st.lists(st.integers(-2, 2)))
def test_rows_are_split_by_the_hash_of_their_values(
    listed: list[tuple[int, int, int]], shards: int, columns: list[int]
) -> None:
    rows = np.array(listed, np.int64).reshape(-1, 3)
    hashes = np.ascontiguousarray(rows[:, 1:])
    weights = np.arange(len(rows))
    sources = np.array(columns, np.int64)
    expected = [
        (mixed(0, *(int(hashes[row, -1 - c] if c < 0 else rows[row, c]) for c in columns)) >> 32) * shards
        >> 32
        for row in range(len(rows))
    ]
    assert find_shards(rows, sources, hashes, shards).tolist() == expected
    split, split_weights, ends = split_rows(rows, weights, sources, hashes, shards)
    order = sorted(range(len(rows)), key=expected.__getitem__)
    assert split.tolist() == rows[order].tolist()
    assert split_weights.tolist() == order
    assert ends.tolist() == [sum(place <= shard for place in expected) for shard in range(shards)]


def test_runs_refer_to_earlier_runs() -> None:
    starts, ends = np.array([7, -1, 0]), np.array([2, 2, 4])
    values, earlier = np.array([5, -6, 8, 9]), np.array([-1, -1, 0, -1])
    first = mixed(7, 5, -6)
    hashes = hash_runs(starts, ends, values, earlier).view(np.uint64).tolist()
    assert hashes == [first, 2**64 - 1, mixed(0, first, 9)]


def test_new_values_get_the_next_numbers() -> None:
    # The ids 1, 4 and all from 6 on have the places 0, 1, 2, ...
    kept, base, shift = np.array([1, 4]), 6, 4
    numbers = np.array([-1, 0, -1, -1, -1])
    rows = np.array([[5, 7], [5, NULL], [5, 4], [5, 6], [5, 7], [5, -1], [5, 1]])
    assert number_column(rows, 1, kept, base, shift, numbers, 1).tolist() == [7, 6, 1]
    assert rows.tolist() == [[5, n] for n in (1, NULL, 0, 2, 1, -1, 3)]
    assert numbers.tolist() == [3, 0, 2, 1, -1]
    assert number_column(rows[:0], 1, kept, base, shift, numbers, 4).tolist() == []
    for code in (2, 5, 9):
        with pytest.raises(OverflowError, match="not the id of a value"):
            number_column(np.array([[code]]), 0, kept, base, shift, numbers, 4)
    dense = np.full(3, -1)
    assert number_column(np.array([[2], [0]]), 0, NOTHING, 0, 0, dense, 0).tolist() == [2, 0]


def test_numbers_are_translated_unless_one_has_no_code() -> None:
    table = np.array([40, -1, 50, 60])
    rows = np.array([[0, 2], [0, NULL], [0, -1], [0, 0]])
    assert translate_column(rows, 1, table, 3) == 0
    assert rows.tolist() == [[0, 50], [0, NULL], [0, -1], [0, 40]]
    for wrong, answer in ((3, 1), (-2, 1), (2**62, 1), (1, 2)):
        rows = np.array([[0], [wrong]])
        assert translate_column(rows, 0, table, 3) == answer
        assert rows.tolist() == [[0], [wrong]]
