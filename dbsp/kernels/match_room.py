"""Room for the matches of a join: equal rows are added up before more memory is used.

A join that projects its matches makes a row many times. When there are many rows, equal ones become
one row with the sum of their weights. So the memory follows the rows of the result and a constant,
not the matches. Whether this pays is estimated from a sample.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import copy_codes, copy_rows, first_codes, first_rows
from dbsp.kernels.hashing import first_slot
from dbsp.kernels.jit import kernel
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.sort import consolidate

PIECE = 1 << 18
"""Equal rows are added up for the first time when there are this many rows."""

SELDOM = 16
"""If few rows are equal, the next attempt is at this many times as many rows."""

LARGEST_ROOM = 1 << 24
"""The most rows for which memory is reserved at once; it is not used before it is written."""

SAMPLED = 64
"""The sample has one of this many rows on average."""


@kernel
def may_overflow(weights: Codes, used: int) -> bool:
    """Return whether a sum of some of the first weights could be outside int64."""
    most = INT64_MAX // used
    for i in range(used):  # noqa: SIM110  (there are no generators in kernels)
        if weights[i] == INT64_MIN or abs(weights[i]) > most:
            return True
    return False


@kernel
def repeats_rows(rows: Rows, used: int) -> bool:
    """Return whether at least three quarters of the first rows equal an earlier one, by a sample.

    Equal rows have the same hash, so the sample is all rows whose hash is 0 modulo SAMPLED.
    """
    sample = np.empty((used, rows.shape[1]), np.int64)
    size = 0
    for i in range(used):
        if first_slot(rows, i, SAMPLED) == 0:
            copy_rows(rows, i, sample, size, 1)
            size += 1
    found, _ = consolidate(first_rows(sample, size, size), np.ones(size, np.int64))
    repeated: bool = 4 * found.shape[0] <= size
    return repeated


@kernel
def more_room(rows: Rows, weights: Codes, used: int, piece: int, left: int) -> tuple[Rows, Codes, int, int]:
    """Make room for more rows, at most `left`: return (rows, weights, used, piece).

    The first `used` rows have the same sum as those of before. From `piece` rows on, equal rows are
    added up if many are equal. Sums that might be outside int64 are left out, since rows that
    follow may cancel them. O(used), amortised.
    """
    if used >= piece:
        piece = SELDOM * used
        if repeats_rows(rows, used) and not may_overflow(weights, used):
            found_rows, found_weights = consolidate(
                first_rows(rows, used, used), first_codes(weights, used, used)
            )
            used = found_weights.shape[0]
            # The arrays are the largest memory of the join, so they are used again.
            copy_rows(found_rows, 0, rows, 0, used)
            copy_codes(found_weights, 0, weights, 0, used)
            piece = max(PIECE, 2 * used)
    if used == weights.shape[0]:
        room = used + min(left, max(used, 16))
        rows, weights = first_rows(rows, used, room), first_codes(weights, used, room)
    return rows, weights, used, piece
