"""Means of groups, and quantiles between two values of a group."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbsp.data.columns import code_floats, float_codes
from dbsp.kernels import means, quantile_places, values_between
from dbsp.kernels.float_results import FLOATS, HALF_EVEN, INTS
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL

ints = st.integers(INT64_MIN, INT64_MAX)
floats = st.floats()
fractions = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1)


def same(codes: np.ndarray, values: list[float]) -> bool:
    """Whether these are the codes of the values; float_codes has one code for 0.0 and -0.0."""
    return codes.tolist() == float_codes(np.array(values)).tolist()


near = st.builds(
    lambda sign, power, offset: max(INT64_MIN, min(INT64_MAX, sign * (1 << power) + offset)),
    st.sampled_from([1, -1]),
    st.integers(0, 63),
    st.integers(-4, 4),
)
"""Ints near the powers of two, at which the rounding of quotients changes."""


@given(st.lists(st.tuples(ints | near, ints | near | st.integers(-3, 3)), max_size=5))
@example(
    [
        (1, (1 << 53) + 1),
        (1, -(1 << 53) - 1),
        (-(1 << 55) - 1, 3),
        (0, 1 << 60),
        (INT64_MIN, INT64_MIN),
        (INT64_MIN, 1),
        (1, INT64_MIN),
        (INT64_MAX, INT64_MAX),
    ]
)
@example([((1 << 54) + 1, 1), ((1 << 54) + 2, 1), ((1 << 54) + 3, 1), ((1 << 62) + 3, 3)])
def test_means_of_ints(groups: list[tuple[int, int]]) -> None:
    totals, counts = np.array(groups, np.int64).reshape(-1, 2).T.copy()
    found = means(totals, counts, False)
    assert found[counts == 0].tolist() == [NULL] * int((counts == 0).sum())
    assert same(found[counts != 0], [t / n for t, n in groups if n])


@given(st.lists(st.tuples(floats, st.integers(-3, 3)), max_size=5))
@example([(-0.0, 1), (math.nan, -1), (math.inf, 2), (-math.inf, -2), (5e-324, 3), (1.0, 0)])
def test_means_of_floats(groups: list[tuple[float, int]]) -> None:
    totals = np.array([t for t, _ in groups], np.float64)
    counts = np.array([n for _, n in groups], np.int64)
    found = means(totals.view(np.int64), counts, True)
    assert found[counts == 0].tolist() == [NULL] * int((counts == 0).sum())
    assert same(found[counts != 0], [t / n for t, n in groups if n])


@given(st.lists(st.integers(0, 9) | st.just(INT64_MAX), max_size=5), fractions)
def test_places(sizes: list[int], q: float) -> None:
    one = quantile_places(np.array(sizes, np.int64), q, False)[:, 0].tolist()
    two = quantile_places(np.array(sizes, np.int64), q, True).tolist()
    for size, place, (low, high) in zip(sizes, one, two, strict=True):
        if size == 0:
            assert (place, low, high) == (-1, -1, -1)
            continue
        last = size - 1
        assert place == min(max(math.ceil(q * float(size)) - 1, 0), last)
        assert low == min(math.floor(q * float(last)), last)
        assert high == min(math.floor(q * float(last)) + 1, last)


@given(st.lists(st.tuples(st.integers(0, 9), floats, floats), max_size=5), fractions)
@example([(2, 5e-324, 1e-323), (2, 1.7e308, 1.6e308), (2, -1.7e308, -1.6e308)], 0.5)
@example([(4, math.inf, math.inf), (2, -math.inf, math.inf), (2, 1.0, math.nan), (0, 1.0, 1.0)], 0.5)
def test_floats_between(groups: list[tuple[int, float, float]], q: float) -> None:
    sizes = np.array([size for size, _, _ in groups], np.int64)
    pairs = np.array([[low, high] for _, low, high in groups], np.float64).reshape(-1, 2)
    found = values_between(float_codes(pairs.reshape(-1)).reshape(-1, 2), sizes, q, FLOATS)
    for size, low, high, code in zip(sizes.tolist(), *pairs.T.tolist(), found.tolist(), strict=True):
        if size == 0:
            assert code == NULL
            continue
        part = q * (size - 1) - math.floor(q * (size - 1))
        if part == 0.5 and math.isfinite(low) and math.isfinite(high):
            expected = float((Fraction(low) + Fraction(high)) / 2)
        else:
            expected = low if part == 0 or low == high else low * (1 - part) + high * part
        assert same(np.array([code]), [expected])


@given(st.lists(st.tuples(st.integers(0, 9), ints, ints), max_size=5), fractions)
@example([(2, -(2**53), 2**53 + 1), (2, 2**53 + 1, 2**53 + 2), (2, -(2**63), INT64_MAX)], 0.5)
@example([(2, INT64_MAX, INT64_MAX), (2, -(2**63), -(2**63)), (2, 2**53 - 1, 2**53), (2, -1, 0)], 0.5)
def test_ints_between(groups: list[tuple[int, int, int]], q: float) -> None:
    table = np.array(groups, np.int64).reshape(-1, 3)
    sizes, pairs = table[:, 0].copy(), np.ascontiguousarray(table[:, 1:])
    found = values_between(pairs, sizes, q, INTS)
    as_floats = float_codes(pairs.astype(np.float64).reshape(-1)).reshape(-1, 2)
    rounded = values_between(as_floats, sizes, q, FLOATS).tolist()
    halves = values_between(pairs, sizes, q, HALF_EVEN).tolist()
    for (size, low, high), code, near, half in zip(groups, found.tolist(), rounded, halves, strict=True):
        if size and q * (size - 1) % 1 == 0.5:
            assert same(np.array([code]), [(low + high) / 2])  # of ints, Python rounds this once
        else:
            assert code == near
        if size == 0:
            assert half == NULL
        elif q * (size - 1) == math.floor(q * (size - 1)):
            assert half == low
        else:
            exact = Fraction(low + high, 2)
            assert half == round(exact)


@pytest.mark.parametrize(("low", "high", "middle"), [(1, 2, 2), (2, 3, 2), (-1, -2, -2), (-2, -3, -2)])
def test_halves_are_rounded_to_even(low: int, high: int, middle: int) -> None:
    assert (Decimal(low + high) / 2).to_integral_value(ROUND_HALF_EVEN) == middle
    assert values_between(np.array([[low, high]]), np.array([2]), 0.5, HALF_EVEN).tolist() == [middle]


def test_the_greatest_float_is_its_own_mean() -> None:
    most = np.finfo(np.float64).max
    found = means(np.array([most]).view(np.int64), np.array([1]), True)
    assert code_floats(found).tolist() == [most]
