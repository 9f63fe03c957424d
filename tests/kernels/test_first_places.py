"""The index of the first column of a run, compared with a scan of the column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import first_places
from dbsp.kernels.jit import at_address, codes_at
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.narrow_rows import fit_narrow, narrowed
from dbsp.kernels.run_tables import run_entry

from .support import codes

SPREAD = st.integers(-(2**20), 2**20) | st.integers(-(2**62), 2**62)


def compare(values: list[int], wanted: list[int], width: int) -> int:
    """Compare each look-up with a scan; return the numbers of the index, 0 if there is none."""
    rows = np.zeros((len(values), width), np.int64)
    rows[:, 0] = np.sort(np.array(values, np.int64))
    column = rows[:, 0].tolist()
    stored = narrowed(rows) if fit_narrow(rows) else rows
    word = run_entry(stored, np.ones(1, np.int64))[0]
    indices = np.zeros(first_places.PLACES + 1, np.int64)
    index, run = at_address(indices.ctypes.data), codes_at(word)
    room = first_places.describe_places(run, width, len(rows), index, 1)
    if not room:
        return 0
    assert room <= 2 * len(rows) + 2
    memory = np.full(room + 1, -7, np.int64)
    first_places.write_places(run, width, len(rows), index, 1, memory.ctypes.data)
    assert memory[room] == -7  # nothing is written behind the index
    for value in [*column, *wanted]:
        at = first_places.first_place(run, width, len(rows), index, 1, value)
        assert at == sum(other < value for other in column)
        if value in column:
            after = first_places.place_after(run, width, index, 1, at, value)
            assert after == sum(other <= value for other in column)
    return int(room)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=20)
    | st.lists(codes, min_size=1, max_size=20)
    | st.lists(SPREAD, min_size=1, max_size=40),
    st.lists(codes | SPREAD, max_size=10),
    st.integers(1, 3),
)
def test_places_are_those_of_a_scan(values: list[int], wanted: list[int], width: int) -> None:
    compare(values, wanted, width)


def test_dense_values_have_a_place_each() -> None:
    assert compare([*range(5, 25), 7, 7, 24], [4, 25], 2) == 21


def test_few_far_values_share_buckets() -> None:
    assert 4 < compare([0, 1, 2, 2**40], [3, 2**39], 2) <= 10


@pytest.mark.parametrize("values", [[INT64_MIN, 0], [-1, INT64_MAX], [INT64_MIN, INT64_MAX]])
def test_values_at_a_distance_outside_int64_have_no_index(values: list[int]) -> None:
    assert compare(values, [], 2) == 0


def test_an_empty_run_has_no_index() -> None:
    indices = np.zeros(first_places.PLACES, np.int64)
    address = at_address(indices.ctypes.data)
    assert first_places.describe_places(codes_at(indices.ctypes.data), 2, 0, address, 0) == 0


def test_the_largest_distance_of_values_has_an_index() -> None:
    assert compare([INT64_MIN, -1], [INT64_MIN + 1, -2, 0, INT64_MAX], 2) > 0
    assert compare([0, INT64_MAX], [INT64_MIN, -1, 1, INT64_MAX - 1], 2) > 0
