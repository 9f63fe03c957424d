"""Sums, means and variances of groups from the results of the kernel `change_digits`.

    sum       the exact sum of weight * value, rounded once, half to even
    variance  the exact n * sum v^2 - (sum v)^2, rounded once, divided by n and by n - 1 (or n)

So both depend on the values of the group alone, not on their order or on earlier changes. A sum
equals `math.fsum`, but is an infinity where that raises OverflowError. Infinite values and NaN
count as in float arithmetic; the variance of a group with one of them is NaN.
"""

from __future__ import annotations

import numpy as np

from dbsp.data.columns import Floats, float_codes
from dbsp.kernels import change_digits
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.exact_sums import FINITE, MINUS, PLUS, UNDEFINED
from dbsp.kernels.limits import NULL

_LEAST = 1074
"""The least positive float is 2 to the power of minus this."""

NO_RUNS = np.zeros((1, 3), np.int64)
"""The run table of an empty state."""

_KINDS = ((PLUS, np.inf), (MINUS, -np.inf), (UNDEFINED, np.nan))


def float_sums(results: Rows) -> Floats:
    """Return the sum of each group, float64[groups]."""
    sums = _scaled(results[:, 1].astype(np.float64), results[:, 2] - _LEAST)
    for kind, value in _KINDS:
        sums[results[:, 0] == kind] = value
    return sums


def exact_sum(codes: Codes) -> float:
    """Return the exact sum of floats, given as codes, rounded once."""
    rows, weights = codes.reshape(-1, 1), np.ones(len(codes), np.int64)
    _, results, _, _ = change_digits(
        np.empty((1, 0), np.int64), NO_RUNS, 0, rows, weights, 0, True, False, False, True
    )
    return float(float_sums(results)[0])


def spread_codes(results: Rows, population: bool, root: bool) -> Codes:
    """Return the variance of each group, or its `root`, as codes of floats; None without one."""
    size = results[:, 3]
    divisor = size if population else size - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = results[:, 4] / size / divisor
    exponent = results[:, 5] - 2 * _LEAST
    if root:
        odd = exponent & 1
        spread = _scaled(np.sqrt(_scaled(spread, odd)), (exponent - odd) >> 1)
    else:
        spread = _scaled(spread, exponent)
    spread[results[:, 0] != FINITE] = np.nan
    return np.where(divisor > 0, float_codes(spread), NULL)


def _scaled(values: Floats, exponents: Codes) -> Floats:
    """Return values * 2^exponents."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaled: Floats = np.ldexp(values, exponents.astype(np.int32))
    return scaled
