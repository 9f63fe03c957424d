"""Results of groups that are floats: means, and quantiles between two values.

The code of a float has its bits, and those of a negative one but the sign are inverted, so that
codes are ordered like floats (see `dbsp.data.columns.float_codes`).
"""

from __future__ import annotations

import math

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel
from dbsp.kernels.limits import INT64_MAX, NULL

HALF_EVEN = 0
"""The two values of a quantile are numbers whose mean is rounded half to even."""
INTS = 1
"""They are ints, and the result is a float."""
FLOATS = 2
"""They are codes of floats."""

_EXACT = 1 << 53
"""Ints up to this absolute value are floats, and their quotient is rounded once."""


@kernel
def _code_of(value: float) -> int:
    """Return the code of a float. -0.0 becomes 0.0, and every NaN the one that comes last."""
    bits = np.float64(np.nan if math.isnan(value) else value + 0.0).view(np.int64)
    return int(bits ^ ((bits >> 63) & INT64_MAX))


@kernel
def _float_of(code: int) -> float:
    """Return the float of a code."""
    return float(np.int64(code ^ ((code >> 63) & INT64_MAX)).view(np.float64))


@kernel
def _quotient(total: int, count: int) -> float:
    """Return total / count, rounded once; count is not 0."""
    if -_EXACT <= total <= _EXACT and -_EXACT <= count <= _EXACT:
        return np.float64(total) / np.float64(count)
    divisor = np.uint64(count if count > 0 else -count)
    rest = np.uint64(total if total > 0 else -total)
    bits = rest // divisor
    rest = rest % divisor
    scale = 1.0
    # Long division. The last of 55 or more bits stands for all that follow: the 53 of a float are
    # rounded by it.
    while bits < np.uint64(2 * _EXACT) and rest > np.uint64(0):
        bits, rest, scale = bits << np.uint64(1), rest << np.uint64(1), scale / 2
        if rest >= divisor:
            bits, rest = bits | np.uint64(1), rest - divisor
    if rest > np.uint64(0):
        bits |= np.uint64(1)
    size = np.float64(bits) * scale
    return size if (total < 0) == (count < 0) else -size


@kernel
def means(totals: Codes, counts: Codes, bits: bool) -> Codes:
    """Return totals / counts as codes of floats; None for a count of 0.

    The totals are ints, whose exact quotients are rounded once, or, if `bits`, the bits of floats.
    """
    n = totals.shape[0]
    result = np.empty(n, np.int64)
    for i in range(n):
        if counts[i] == 0:
            result[i] = NULL
        elif bits:
            result[i] = _code_of(np.int64(totals[i]).view(np.float64) / np.float64(counts[i]))
        else:
            result[i] = _code_of(_quotient(totals[i], counts[i]))
    return result


@kernel
def quantile_places(sizes: Codes, q: float, between: bool) -> Rows:
    """Return the positions from 0 of the values of a quantile in groups of these sizes.

    The value ceil(q * n) of n, or, with `between`, the two around q * (n - 1) steps after the
    first; -1 in an empty group. The fraction is rounded as a float.
    """
    n = sizes.shape[0]
    places = np.empty((n, 2 if between else 1), np.int64)
    for i in range(n):
        # The product may be rounded up to the last place or beyond, and to no int64.
        last = sizes[i] - 1
        if between:
            steps = q * last
            places[i, 0] = last if steps >= last else math.floor(steps)
            places[i, 1] = min(places[i, 0] + 1, last)
        else:
            steps = q * sizes[i]
            places[i, 0] = last if steps >= sizes[i] else max(math.ceil(steps) - 1, 0)
    return places


@kernel
def _mean_of_ints(a: int, b: int) -> float:
    """Return (a + b) / 2, rounded once: both halves of the words are summed exactly."""
    high = np.float64((a >> 32) + (b >> 32)) * 4294967296.0
    low = np.float64((a & 0xFFFFFFFF) + (b & 0xFFFFFFFF))
    return float((high + low) * 0.5)


@kernel
def _mean_of_floats(a: float, b: float) -> float:
    """Return (a + b) / 2, rounded once, also where the sum is beyond the largest float."""
    total = a + b
    return total * 0.5 if math.isfinite(total) else a * 0.5 + b * 0.5


@kernel
def values_between(values: Rows, sizes: Codes, q: float, form: int) -> Codes:
    """Return the quantile between the two values at the places of `quantile_places`.

    With steps = q * (n - 1) and part = steps - floor(steps), it is low * (1 - part) + high * part,
    computed in floats; a mean of the two is rounded once. In the form HALF_EVEN it is their mean
    where part is not 0. None for an empty group.
    """
    n = sizes.shape[0]
    result = np.empty(n, np.int64)
    for i in range(n):
        if sizes[i] == 0:
            result[i] = NULL
            continue
        steps = q * (sizes[i] - 1)
        part = steps - math.floor(steps)
        a = values[i, 0]
        b = values[i, 1]
        if form == HALF_EVEN:
            # Without overflow: a + b = 2 (a & b) + (a ^ b).
            down = (a & b) + ((a ^ b) >> 1)
            result[i] = a if part == 0.0 else down + ((a ^ b) & 1 & down)
            continue
        low = np.float64(a) if form == INTS else _float_of(a)
        high = np.float64(b) if form == INTS else _float_of(b)
        if part == 0.0:
            result[i] = _code_of(low)
        elif part == 0.5:
            result[i] = _code_of(_mean_of_ints(a, b) if form == INTS else _mean_of_floats(low, high))
        elif low == high:
            result[i] = _code_of(low)
        else:
            result[i] = _code_of(low * (1.0 - part) + high * part)
    return result
