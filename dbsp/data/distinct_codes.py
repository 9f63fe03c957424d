"""The different codes of a column, and the place of each code among them."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL

_FEW = 64
"""So few codes are sorted."""

_SPREAD = 4
"""Codes in a range of so many times their number are marked in a table instead of being sorted."""


def distinct_codes(codes: Codes) -> tuple[Codes, Codes]:
    """Return the different codes in ascending order, and for each code its place among them.

    As `numpy.unique` with `return_inverse`. Cost: O(n) if the codes are dense, as ids of texts are
    (None apart), a twentieth of the time of sorting; else O(n log n).
    """
    if len(codes) <= _FEW:
        return np.unique(codes, return_inverse=True)
    low, high = int(codes.min()), int(codes.max())
    if low == NULL < high:
        present = codes != NULL
        others, places = distinct_codes(codes[present])
        all_places = np.zeros(len(codes), np.int64)
        all_places[present] = places + 1
        return np.concatenate((np.array([NULL]), others)), all_places
    if high - low >= _SPREAD * len(codes):
        return np.unique(codes, return_inverse=True)
    offsets = codes - low
    marks = np.zeros(high - low + 1, np.bool_)
    marks[offsets] = True
    distinct: Codes = np.flatnonzero(marks) + low
    place_of: Codes = np.cumsum(marks, dtype=np.int64)
    place_of -= 1
    return distinct, place_of.take(offsets)
