"""The different codes of a column and their places, compared with NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dbsp.data.distinct_codes import _FEW, _SPREAD, distinct_codes
from dbsp.kernels.limits import INT64_MAX, NULL

SIZES = [0, 1, _FEW, _FEW + 1, 500]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("low", [NULL, NULL + 1, -3, 0, INT64_MAX - 10_000])
@pytest.mark.parametrize("spread", [0, 1, _SPREAD, _SPREAD + 1, 20])
def test_codes_and_places_are_those_of_numpy(size: int, null: bool, low: int, spread: int) -> None:
    draw = random.Random(size + spread)
    codes = np.array([low + draw.randint(0, spread * size) for _ in range(size)], np.int64)
    if size > 1:  # the widest range that the numbers allow
        codes[:2] = low, low + spread * size
    if null:
        codes[::3] = NULL
    distinct, places = distinct_codes(codes)
    expected, inverse = np.unique(codes, return_inverse=True)
    assert distinct.tolist() == expected.tolist()
    assert places.tolist() == inverse.tolist()
    assert distinct.dtype == places.dtype == np.int64


def test_only_nulls_and_extremes() -> None:
    codes = np.full(_FEW + 1, NULL)
    assert [found.tolist() for found in distinct_codes(codes)] == [[NULL], [0] * (_FEW + 1)]
    codes[-1] = INT64_MAX
    assert [found.tolist() for found in distinct_codes(codes)] == [[NULL, INT64_MAX], [0] * _FEW + [1]]


def test_columns_of_a_table() -> None:
    rows = np.arange(600).reshape(200, 3) // 7
    for column in rows.T:
        distinct, places = distinct_codes(column)
        assert (distinct[places] == column).all()
