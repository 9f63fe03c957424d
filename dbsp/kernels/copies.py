"""Copies of the first rows of arrays.

Plain loops: Numba needs seconds to compile the assignment of a slice to a slice, since it also
compiles the text of an error about shapes.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel


@kernel
def copy_codes(source: Codes, start: int, target: Codes, at: int, size: int) -> None:
    """Copy source[start : start + size] to target[at : at + size]."""
    for i in range(size):
        target[at + i] = source[start + i]


@kernel
def copy_rows(source: Rows, start: int, target: Rows, at: int, size: int) -> None:
    """Copy the rows source[start : start + size] to target[at : at + size]."""
    for i in range(size):
        for c in range(source.shape[1]):
            target[at + i, c] = source[start + i, c]


@kernel
def first_codes(source: Codes, size: int, room: int) -> Codes:
    """Return an array of `room` codes that starts with the first `size` codes of `source`."""
    copy = np.empty(room, np.int64)
    copy_codes(source, 0, copy, 0, size)
    return copy


@kernel
def first_rows(source: Rows, size: int, room: int) -> Rows:
    """Return an array of `room` rows that starts with the first `size` rows of `source`."""
    copy = np.empty((room, source.shape[1]), np.int64)
    copy_rows(source, 0, copy, 0, size)
    return copy
