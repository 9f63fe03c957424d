"""The order of wide rows, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dbsp.kernels import sort_owned
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.wide_order import FEW, row_order

draw = np.random.default_rng(7)


def whole(size: int) -> Codes:
    return draw.integers(INT64_MIN, INT64_MAX, size, endpoint=True)


def few(size: int, number: int = 3) -> Codes:
    """Numbers of 64 bits of which there are few."""
    return whole(number)[draw.integers(0, number, size)]


def outlier(size: int) -> Codes:
    """Small numbers, whose leading bits are equal, and one large one."""
    column = draw.integers(0, 100, size)
    column[size // 2 :][:1] = 2**62
    return column


def floats(size: int) -> Codes:
    return draw.random(size).view(np.int64)


COLUMNS = {
    "whole words": [whole, whole],
    "few values": [few, few, few],
    "few, then many": [few, whole],
    "outliers": [outlier, outlier, whole],
    "floats": [few, floats, outlier],
    "a constant": [lambda size: np.full(size, -5), whole, whole],
    "equal rows": [lambda size: np.full(size, INT64_MIN), lambda size: np.full(size, INT64_MAX)],
    "the last column decides": [lambda size: few(size, 1), lambda size: few(size, 1), whole],
    "close to each other": [lambda size: 2**62 + draw.integers(0, 9, size), whole],
}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("size", [0, 1, 2, FEW, FEW + 1, 300])
def test_the_order_is_that_of_numpy(columns: str, size: int) -> None:
    keys = [make(size) for make in COLUMNS[columns]]
    rows = np.ascontiguousarray(np.array(keys).T.reshape(size, len(keys)))
    for order in (np.arange(len(keys)), np.arange(len(keys))[::-1].copy()):
        with np.errstate(over="ignore"):  # words are unsigned and wrap
            found = row_order(rows, order)
        assert found.tolist() == np.lexsort([keys[column] for column in order[::-1]]).tolist()


@pytest.mark.parametrize("columns", COLUMNS)
def test_many_rows(columns: str) -> None:
    """With the compiled kernel, which calls `row_order`."""
    size = 20_000
    keys = [*(make(size) for make in COLUMNS[columns]), np.arange(size)]
    found = sort_owned(np.ascontiguousarray(np.array(keys).T))
    assert found[:, -1].tolist() == np.lexsort(keys[::-1]).tolist()
