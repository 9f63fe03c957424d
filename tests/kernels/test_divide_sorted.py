"""Sorted rows, divided into partitions."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import divide_sorted
from dbsp.kernels.limits import INT64_MAX

rows = st.lists(st.tuples(*[st.integers(0, 1)] * 3, st.integers(1, 3)), max_size=12)


@given(rows, st.permutations([0, 1, 2]), st.integers(0, 2), st.integers(0, 3))
def test_partitions_and_ties(
    listed: list[tuple[int, ...]], columns: list[int], parts: int, until: int
) -> None:
    partition, order = columns[:parts], columns[parts:until]
    listed.sort(key=lambda row: [row[c] for c in columns])
    table = np.array(listed, np.int64).reshape(len(listed), 4)
    starts, before, fresh = divide_sorted(
        np.ascontiguousarray(table[:, :3]),
        table[:, 3].copy(),
        np.array(partition, np.int64),
        np.array(order, np.int64),
    )
    expected_starts, expected_before, expected_fresh = [], [], []
    for _, group in groupby(listed, lambda row: [row[c] for c in partition]):
        expected_starts.append(len(expected_before))
        total, last = 0, None
        for row in group:
            expected_before.append(total)
            expected_fresh.append(last != [row[c] for c in order])
            total, last = total + row[3], [row[c] for c in order]
    assert (starts.tolist(), before.tolist()) == (expected_starts, expected_before)
    assert fresh.tolist() == expected_fresh


def test_a_sum_of_weights_outside_64_bits() -> None:
    table, weights = np.array([[1, 1], [1, 2], [2, 3]]), np.array([INT64_MAX, 1, 1])
    one = np.array([0])
    with pytest.raises(OverflowError):
        divide_sorted(table, weights, one, one)
    weights[1:] = 0, INT64_MAX  # in another partition
    assert divide_sorted(table, weights, one, one)[1].tolist() == [0, INT64_MAX, 0]
