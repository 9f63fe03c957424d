"""Exact sums and variances, compared with sums of fractions."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dbsp.data.columns import code_floats, float_codes
from dbsp.kernels import change_digits, exact_sums
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.operators.groups.exact_results import NO_RUNS, exact_sum, float_sums, spread_codes
from dbsp.state.trace import Trace

KEY = np.zeros((1, 1), np.int64)
LARGEST = 1.7976931348623157e308
NEAR = [1e16, 1e16 + 2, 1e16 + 4]
ODD = [5e-324, 2.0**-1022, 2.0**53 + 2, 0.1, -0.1, 1e-9, 1e300, -LARGEST, LARGEST, 0.0, 3.5]
BITS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0])
FINITE = st.sampled_from(ODD) | st.sampled_from(NEAR) | BITS.filter(math.isfinite)
WEIGHTS = st.sampled_from([1, 1, 2, -1, -3, 2**31, -(2**31) - 1, 2**40, -(2**61), 2**61])
COUNTS = st.sampled_from([1, 1, 2, 1000, 2**32 + 1])


def change(digits: Trace, codes: Codes, weights: list[int], is_float: bool, squares: bool) -> Rows:
    """Add values to the only group of a state; return its results, and check those before."""
    rows = np.column_stack((np.zeros(len(codes), np.int64), codes))
    shared = (0, rows, np.array(weights, np.int64), 1, is_float, False, squares, False)
    _, known, _, _ = change_digits(KEY, digits.table, digits.count, rows[:0], shared[2][:0], *shared[3:])
    before, after, changed, signs = change_digits(KEY, digits.table, digits.count, *shared[1:])
    assert before.tolist() == known.tolist()
    assert sorted(changed.tolist()) == changed.tolist()
    if len(signs):
        digits.append(changed, signs)
    digits.commit()
    return after


def stored_part(slot: int, digit: int) -> Fraction:
    """The number that a row of the state stands for."""
    if slot == exact_sums.WHOLE:
        return Fraction(float(code_floats(np.array([digit]))[0]))
    return Fraction(2) ** (53 * slot - 1074) * digit


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(st.lists(st.lists(st.tuples(FINITE, WEIGHTS), max_size=6), max_size=4))
@example([[(1e16, 1), (1.0, 1), (-1e16, 1)], [(1.0, -1)]])
@example([[(2.0**53, 1), (1.0, 1)], [(2.0**-1074, 1)], [(-LARGEST, 2**61)]])
def test_a_sum_is_exact_after_any_changes(ticks: list[list[tuple[float, int]]]) -> None:
    digits = Trace(3, [])
    exact = Fraction(0)
    for terms in ticks:
        codes = float_codes(np.array([value for value, _ in terms], np.float64))
        after = change(digits, codes, [weight for _, weight in terms], True, False)
        exact += sum(Fraction(value) * weight for value, weight in terms)
        assert float_sums(after).tolist() == [rounded(exact)]
        stored = digits.contents()
        assert exact == sum(stored_part(slot, digit) for _, slot, digit in stored.rows.tolist())
        if exact == Fraction(rounded(exact) if math.isfinite(rounded(exact)) else 0):
            assert len(stored) <= 1, "a float is one row"
        assert set(stored.weights.tolist()) <= {1}
        if exact == 0:
            assert len(stored) == 0, "the digits of a sum are those of its value"


@given(st.lists(st.tuples(st.sampled_from([math.inf, -math.inf, math.nan, 1.0]), WEIGHTS), max_size=5))
def test_terms_that_are_not_finite(terms: list[tuple[float, int]]) -> None:
    assume(sum(abs(weight) for _, weight in terms) < 2**63)
    counts = {text: sum(w for v, w in terms if str(v) == text) for text in ("inf", "-inf", "nan")}
    expected = 0.0
    for text, count in counts.items():
        if count:
            expected += float(text) * (1 if count > 0 else -1)
    digits = Trace(3, [])
    codes = float_codes(np.array([value for value, _ in terms], np.float64))
    after = change(digits, codes, [weight for _, weight in terms], True, False)
    found = float(float_sums(after)[0])
    assert same(found, expected) if any(counts.values()) else math.isfinite(found)


def spread(terms: list[tuple[Any, int]]) -> Fraction:
    n = sum(weight for _, weight in terms)
    total = sum(Fraction(value) * weight for value, weight in terms)
    return (sum(Fraction(value) ** 2 * weight for value, weight in terms) - total * total / n) / n


def close(found: float, exact: Fraction) -> bool:
    """Whether a float is within 4 units in the last place of the exact number."""
    expected = rounded(exact)
    return found == expected or abs(found - expected) <= 4 * max(math.ulp(expected), 5e-324)


@given(st.lists(st.tuples(FINITE, COUNTS), min_size=1, max_size=6))
@example([(NEAR[0], 3), (NEAR[1], 1), (NEAR[2], 329252)])
def test_a_variance_of_floats_has_the_error_of_three_roundings(terms: list[tuple[float, int]]) -> None:
    codes = float_codes(np.array([value for value, _ in terms], np.float64))
    after = change(Trace(3, []), codes, [weight for _, weight in terms], True, True)
    n, exact = sum(weight for _, weight in terms), spread(terms)
    assert after[0, 3] == n
    assert close(float(code_floats(spread_codes(after, True, False))[0]), exact)
    if n > 1:
        assert close(float(code_floats(spread_codes(after, False, False))[0]), exact * n / (n - 1))
    root = float(code_floats(spread_codes(after, True, True))[0])
    assert abs(Fraction(root) ** 2 - exact) <= exact * Fraction(1, 2**50) + Fraction(1, 2**1074)


INTS = st.integers(-5, 5) | st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX, 2**62, 2**53 + 1])


@given(st.lists(st.tuples(INTS, COUNTS), min_size=1, max_size=6), st.data())
def test_a_variance_of_ints_follows_insertions_and_retractions(
    terms: list[tuple[int, int]], data: st.DataObject
) -> None:
    digits = Trace(3, [])
    codes = np.array([value for value, _ in terms], np.int64)
    change(digits, codes, [weight for _, weight in terms], False, True)
    kept = terms[: data.draw(st.integers(0, len(terms)))]
    after = change(digits, codes[len(kept) :], [-weight for _, weight in terms[len(kept) :]], False, True)
    if kept:
        assert close(float(code_floats(spread_codes(after, True, False))[0]), spread(kept))
    else:
        assert len(digits.contents()) == 0
        assert spread_codes(after, True, False).tolist() == [INT64_MIN]


def test_a_variance_of_a_group_with_an_infinity_is_nan() -> None:
    after = change(Trace(3, []), float_codes(np.array([1.0, math.inf])), [1, 1], True, True)
    assert math.isnan(code_floats(spread_codes(after, False, False))[0])


def test_sums_of_several_groups_and_a_column_with_none() -> None:
    keys = np.array([[0], [1], [2], [4]], np.int64)
    values = float_codes(np.array([1.0, 2.0, 4.0]))
    rows = np.array([[0, 9, values[0]], [1, 9, INT64_MIN], [2, 8, values[1]], [2, 9, values[2]]], np.int64)
    _, after, changed, _ = change_digits(
        keys, NO_RUNS, 0, rows, np.ones(4, np.int64), 2, True, True, False, False
    )
    assert float_sums(after).tolist() == [1.0, 0.0, 6.0, 0.0]
    assert set(changed[:, 0].tolist()) == {0, 2}


def test_a_count_outside_int64_is_an_overflow() -> None:
    code = float_codes(np.array([math.inf]))
    digits = Trace(3, [])
    change(digits, code, [2**62], True, False)
    with pytest.raises(OverflowError, match="weight: "):
        change(digits, code, [2**62], True, False)


def test_carries_in_the_middle_of_a_large_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain kernel with early carries returns what it returns without."""
    rows = np.column_stack((np.zeros(50, np.int64), float_codes(np.linspace(-1, 1e6, 50))))
    arguments = (KEY, NO_RUNS, 0, rows, np.full(50, 2**55), 1, True, False, True, False)
    expected = [part.tolist() for part in exact_sums.change_digits(*arguments)]
    stateless = [part.tolist() for part in exact_sums.change_digits(*arguments[:-1], True)]
    assert stateless == [*expected[:2], [], []]
    monkeypatch.setattr(exact_sums, "CARRY_AFTER", 3)
    assert [part.tolist() for part in exact_sums.change_digits(*arguments)] == expected


def test_the_exact_sum_of_a_list() -> None:
    assert exact_sum(float_codes(np.array([0.1] * 10))) == math.fsum([0.1] * 10) == 1.0
    assert exact_sum(np.empty(0, np.int64)) == 0.0
