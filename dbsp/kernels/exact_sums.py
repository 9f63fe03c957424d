"""Exact sums of numbers and of their squares per group, which do not depend on the order of terms.

A sum is stored as digits in base 2^53, each from -2^52 to 2^52 - 1, so every sum has one form:

    sum of the values  = sum over i of digit[i] * 2^(53 i - 1074)             slots 0 + i
    sum of the squares = sum over i of digit[i] * 2^(53 i - 2148)             slots 128 + i

2^-1074 is the least positive float, so every float and every square has such digits. The state has
a row (key, slot, digit) for each digit other than 0. Infinities and NaN are counted in slots of
their own. A sum without squares that is a finite float has one row instead, (key, WHOLE, code of
the float): most groups are small, and so are most of their sums. Adding a term changes two or three
digits, and the carry of the last one.

In a work area `low` and `high` are the digits while terms are added: 128-bit numbers in two words,
less than 2^115 in absolute value, so that a carry fits in one word.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.jit import add_product, codes_at, kernel
from dbsp.kernels.limits import INT64_MAX, NULL
from dbsp.kernels.matches import end_of_key
from dbsp.kernels.run_search import compare_prefix, gallop, weights_at
from dbsp.kernels.sort import compare_rows
from dbsp.kernels.wide_sums import add_wide, fit_weight

BITS = 53
"""The bits of a digit, as many as those of the significand of a float."""

PLANE = 128
"""The slots of the digits of one sum."""

COUNT, INFINITE, NEGATIVE_INFINITE, NOT_A_NUMBER = 256, 257, 258, 259
"""The slots of the number of terms, and of the terms that are not finite, counted by weight."""

WHOLE = 260
"""The slot of a sum that is a float."""

SLOTS = 261

FINITE, PLUS, MINUS, UNDEFINED = 0, 1, 2, 3
"""Kinds of sums: finite, infinity, minus infinity and NaN."""

RESULTS = 6
"""The columns of a result: the kind of the sum, its significand and exponent, the number of terms,
and significand and exponent of their spread (see `_spread`)."""

CARRY_AFTER = 2**24
"""Terms after which carries are done: 2^85 times as many are less than 2^115."""

MANTISSA = 2**53 - 1


@kernel
def _add_term(low: Codes, high: Codes, span: Codes, plane: int, p: int, x: int, w: int) -> None:
    """Add x * w * 2^p to a sum, for |x| <= 2^53; p counts from the unit of the sum."""
    i = p // BITS
    s = p - i * BITS
    at = plane * PLANE + i
    high[at], low[at] = add_product(high[at], low[at], (x & ((1 << (BITS - s)) - 1)) << s, w)
    high[at + 1], low[at + 1] = add_product(high[at + 1], low[at + 1], x >> (BITS - s), w)
    span[2 * plane] = min(span[2 * plane], i)
    span[2 * plane + 1] = max(span[2 * plane + 1], i + 2)


@kernel
def _add_weighted(low: Codes, high: Codes, span: Codes, plane: int, p: int, x: int, w: int) -> None:
    """Do `_add_term` for any weight; x * w stays below 2^86."""
    if -(2**31) <= w < 2**31:
        _add_term(low, high, span, plane, p, x, w)
    else:
        _add_term(low, high, span, plane, p, x, w & (2**32 - 1))
        _add_term(low, high, span, plane, p + 32, x, w >> 32)


@kernel
def _carry(low: Codes, high: Codes, span: Codes, plane: int) -> None:
    """Bring the digits of a sum into their range, with the carries to the next digits."""
    carry = 0
    i = span[2 * plane]
    while i < span[2 * plane + 1] or carry != 0:
        at = plane * PLANE + i
        upper, lower = add_wide(high[at], low[at], carry)
        digit = lower & MANTISSA
        if digit >= 2**52:
            digit -= 2**53
        upper, lower = add_wide(upper, lower, -digit)
        carry = upper * 2**11 + ((lower >> 53) & 2047)
        low[at] = digit
        high[at] = -1 if digit < 0 else 0
        i += 1
    span[2 * plane + 1] = max(span[2 * plane + 1], i)


@kernel
def _round(low: Codes, span: Codes, plane: int, spare: Codes) -> tuple[int, int, bool]:
    """Return the sum, rounded half to even, as (significand of 53 bits, exponent) from its digits.

    The exponent counts from the unit of the sum. (0, 0) for 0. Also returns whether this is exact.
    """
    base = plane * PLANE
    first = span[2 * plane]
    top = span[2 * plane + 1] - 1
    while top >= first and low[base + top] == 0:
        top -= 1
    if top < first:
        return 0, 0, True
    negative = low[base + top] < 0
    borrow = 0
    for i in range(first, top + 1):
        digit = (-low[base + i] if negative else low[base + i]) - borrow
        borrow = 1 if digit < 0 else 0
        spare[i] = digit + (borrow << BITS)
    while spare[top] == 0:
        top -= 1
    bits = 0
    rest = spare[top]
    while rest != 0:
        rest >>= 1
        bits += 1
    significand = spare[top] << (BITS - bits)
    exponent = BITS * (top - 1) + bits
    exact = True
    if top > first:
        significand |= spare[top - 1] >> bits
        rest = spare[top - 1] & ((1 << bits) - 1)
        half = 1 << (bits - 1)
        lower = False
        for i in range(first, top - 1):
            lower |= spare[i] != 0
        exact = rest == 0 and not lower
        if rest > half or (rest == half and (lower or significand & 1 == 1)):
            significand += 1
            if significand == 2**53:
                significand >>= 1
                exponent += 1
    return (-significand if negative else significand), exponent, exact


@kernel
def _code_of(significand: int, exponent: int) -> int:
    """Return the code of the float significand * 2^(exponent - 1074); 0 if it is too large."""
    if significand == 0 or exponent > 2045:
        return 0
    bits = abs(significand)
    if exponent < 0:
        bits >>= -exponent
    else:
        bits += exponent << 52  # with the leading bit of the significand, exponent + 1
    return -1 - bits if significand < 0 else bits


@kernel
def _spread(
    low: Codes, span: Codes, n: int, spare: Codes, spread: Codes, upper: Codes, reach: Codes
) -> tuple[int, int]:
    """Return n * (sum of the squares) - (sum of the values)^2, computed exactly and rounded once.

    Significand and exponent as of `_round`. The difference is n^2 times the population variance.
    `spread` and `upper` are zeros, before and after the call.
    """
    reach[2], reach[3] = PLANE, 0
    for i in range(span[2], span[3]):
        if low[PLANE + i] != 0:
            _add_weighted(spread, upper, reach, 1, BITS * i, low[PLANE + i], n)
    for i in range(span[0], span[1]):
        for j in range(i, span[1]):
            if low[i] != 0 and low[j] != 0:
                _add_term(spread, upper, reach, 1, BITS * (i + j), low[i], -low[j] * (1 if i == j else 2))
    _carry(spread, upper, reach, 1)
    significand, exponent, _ = _round(spread, reach, 1, spare)
    for at in range(PLANE + reach[2], PLANE + reach[3]):
        spread[at] = upper[at] = 0
    return significand, exponent


@kernel
def _result(
    low: Codes,
    span: Codes,
    squares: bool,
    spare: Codes,
    spread: Codes,
    upper: Codes,
    reach: Codes,
    result: Rows,
    g: int,
) -> int:
    """Write the result of a group from its digits; return the code of the sum if it is a float.

    Returns 0 for the sum 0, and if no float equals the sum.
    """
    positive = low[INFINITE] > 0 or low[NEGATIVE_INFINITE] < 0
    negative = low[INFINITE] < 0 or low[NEGATIVE_INFINITE] > 0
    result[g, 0] = FINITE
    if low[NOT_A_NUMBER] != 0 or (positive and negative):
        result[g, 0] = UNDEFINED
    elif positive or negative:
        result[g, 0] = PLUS if positive else MINUS
    result[g, 1], result[g, 2], exact = _round(low, span, 0, spare)
    result[g, 3] = low[COUNT]
    if squares:
        if low[COUNT] > 1:
            result[g, 4], result[g, 5] = _spread(low, span, low[COUNT], spare, spread, upper, reach)
        return 0
    finite = low[INFINITE] == 0 and low[NEGATIVE_INFINITE] == 0 and low[NOT_A_NUMBER] == 0
    return _code_of(result[g, 1], result[g, 2]) if exact and finite else 0


@kernel
def _add_value(
    low: Codes, high: Codes, span: Codes, code: int, w: int, is_float: bool, squares: bool
) -> None:
    """Add a value, w times, to the sums of a group."""
    p = 1074
    if is_float:
        bits = code ^ ((code >> 63) & INT64_MAX)
        exponent = (bits >> 52) & 2047
        x = bits & (2**52 - 1)
        if exponent == 2047:
            at = NOT_A_NUMBER if x != 0 else (NEGATIVE_INFINITE if bits < 0 else INFINITE)
            high[at], low[at] = add_wide(high[at], low[at], w)
            return
        if exponent != 0:
            x += 2**52
            exponent -= 1
        p = exponent
        if bits < 0:
            x = -x
        _add_weighted(low, high, span, 0, p, x, w)
    else:
        x = code
        _add_weighted(low, high, span, 0, p, x & MANTISSA, w)
        _add_weighted(low, high, span, 0, p + BITS, x >> BITS, w)
    if squares:
        upper, lower = add_product(0, 0, x, x)
        _add_weighted(low, high, span, 1, 2 * p, lower & MANTISSA, w)
        middle = ((lower >> BITS) & 2047) + ((upper & (2**42 - 1)) << 11)
        _add_weighted(low, high, span, 1, 2 * p + BITS, middle, w)
        _add_weighted(low, high, span, 1, 2 * p + 2 * BITS, upper >> 42, w)


@kernel
def change_digits(
    keys: Rows,
    table: Rows,
    runs: int,
    rows: Rows,
    weights: Codes,
    column: int,
    is_float: bool,
    nullable: bool,
    squares: bool,
    stateless: bool,
) -> tuple[Rows, Rows, Rows, Codes]:
    """Add weight * value of the rows to the exact sums of their groups.

    With `squares` also the sums of weight * value^2, and the sums of the weights.

    `keys` are the groups, sorted and distinct, `rows` are sorted by key; values are in `column`.
    The state in `runs` has rows (key, slot, digit).

    Returns the results before and after, int64[groups, RESULTS], and the change of the state. In
    it a row has the weight 1 or -1. It is empty if `stateless`.
    """
    groups, m = keys.shape
    n = rows.shape[0]
    k = m + 2
    before = np.zeros((groups, RESULTS), np.int64)
    after = np.zeros((groups, RESULTS), np.int64)
    room = 8 if stateless else 4 * groups + 8
    out_rows = np.empty((room, k), np.int64)
    out_weights = np.empty(room, np.int64)
    out = 0
    old = np.zeros(SLOTS, np.int64)
    low = np.zeros(SLOTS, np.int64)
    high = np.zeros(SLOTS, np.int64)
    spare = np.zeros(PLANE, np.int64)
    span = np.zeros(4, np.int64)
    spread = np.zeros(2 * PLANE, np.int64)
    upper = np.zeros(2 * PLANE, np.int64)
    reach = np.zeros(4, np.int64)
    starts = np.zeros(runs, np.int64)
    i = 0
    for g in range(groups):
        span[0] = span[2] = PLANE
        span[1] = span[3] = 0
        stored = False
        for r in range(runs):
            run = codes_at(table[r, 0])
            state_weights, mask = weights_at(table[r, 1])
            size = table[r, 2]
            at = gallop(run, k, starts[r], size, keys, g, m, 0)
            while at < size and compare_prefix(run, at * k, keys, g, m) == 0:
                slot = run[at * k + m]
                high[slot], low[slot] = add_product(
                    high[slot], low[slot], state_weights[at & mask], run[at * k + m + 1]
                )
                if slot < COUNT:
                    plane = slot // PLANE
                    span[2 * plane] = min(span[2 * plane], slot - plane * PLANE)
                    span[2 * plane + 1] = max(span[2 * plane + 1], slot - plane * PLANE + 1)
                stored = True
                at += 1
            starts[r] = at
        if stored:
            for plane in range(2):
                for slot in range(plane * PLANE + span[2 * plane], plane * PLANE + span[2 * plane + 1]):
                    old[slot] = low[slot]
            for slot in range(COUNT, SLOTS):
                old[slot] = low[slot]
            if low[WHOLE] != 0:
                low[WHOLE] = high[WHOLE] = 0
                _add_value(low, high, span, old[WHOLE], 1, True, False)
                _carry(low, high, span, 0)
            _result(low, span, squares, spare, spread, upper, reach, before, g)
        changed = False
        if i < n and compare_rows(rows, i, keys, g, m) == 0:
            end = end_of_key(rows, i, m)
            for j in range(i, end):
                w = weights[j]
                if w != 0 and not (nullable and rows[j, column] == NULL):
                    _add_value(low, high, span, rows[j, column], w, is_float, squares)
                    if squares:
                        high[COUNT], low[COUNT] = add_wide(high[COUNT], low[COUNT], w)
                    changed = True
                if (j - i) % CARRY_AFTER == CARRY_AFTER - 1:
                    _carry(low, high, span, 0)
                    _carry(low, high, span, 1)
            i = end
        if changed:
            _carry(low, high, span, 0)
            _carry(low, high, span, 1)
            for slot in range(COUNT, SLOTS):
                fit_weight(high[slot], low[slot])
            whole = _result(low, span, squares, spare, spread, upper, reach, after, g)
            if whole != 0:
                for slot in range(span[0], span[1]):
                    low[slot] = 0
                low[WHOLE] = whole
        elif stored:
            for c in range(RESULTS):
                after[g, c] = before[g, c]
            for slot in range(span[0], span[1]):
                low[slot] = old[slot]
            low[WHOLE] = old[WHOLE]
        else:
            continue
        for part in range(3):
            first = COUNT if part == 2 else part * PLANE + span[2 * part]
            last = SLOTS if part == 2 else part * PLANE + span[2 * part + 1]
            for slot in range(first, last):
                if old[slot] != low[slot] and not stateless:
                    if out + 2 > out_weights.shape[0]:
                        out_rows = first_rows(out_rows, out, 2 * out + 2)
                        out_weights = first_codes(out_weights, out, 2 * out + 2)
                    for step in range(2):
                        retract = (step == 0) == (old[slot] < low[slot])
                        digit = old[slot] if retract else low[slot]
                        if digit != 0:
                            for c in range(m):
                                out_rows[out, c] = keys[g, c]
                            out_rows[out, m] = slot
                            out_rows[out, m + 1] = digit
                            out_weights[out] = -1 if retract else 1
                            out += 1
                old[slot] = low[slot] = high[slot] = 0
    return before, after, first_rows(out_rows, out, out), first_codes(out_weights, out, out)
