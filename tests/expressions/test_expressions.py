"""Expressions against plain Python, over few rows and many."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import ValueOutOfRangeError
from dbsp.expressions import Expression, bind, call, cat, col, max_of, min_of
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests.expressions.random_expressions import (
    ARITHMETIC,
    EXPRESSIONS,
    FLOAT_FUNCTIONS,
    FLOATS,
    INTS,
    ROWS,
    TEXTS,
)
from tests.expressions.reference_expressions import ROW, check
from tests.profiles import examples


@settings(max_examples=examples(400), deadline=None)
@given(EXPRESSIONS, st.lists(ROWS, min_size=1, max_size=6))
def test_expressions_agree_with_python(expression: Expression, rows: list[tuple[Any, ...]]) -> None:
    check(expression, rows)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(ARITHMETIC),
    st.lists(st.tuples(INTS, INTS), min_size=1, max_size=9),
)
@example("mul", [(2**32, 2**31), (2**32, 2**31 - 1)])
@example("mul", [(INT64_MIN, -1), (-1, INT64_MIN)])
@example("floordiv", [(INT64_MIN, -1)])
@example("truncdiv", [(INT64_MIN, -1), (INT64_MIN, 1)])
@example("pow", [(2, 62), (2, 63), (-2, 63), (0, 0), (1, INT64_MAX), (-1, INT64_MAX)])
def test_int_arithmetic(name: str, pairs: list[tuple[int, int]]) -> None:
    check(call(name, col("i"), col("j")), [(i, j, *ROW[2:]) for i, j in pairs])
    i, j = pairs[0]
    check(call(name, col("i"), j), [(i, j, *ROW[2:]) for i, j in pairs])
    check(call(name, i, col("j")), [(i, j, *ROW[2:]) for i, j in pairs])


WORDS = INTS | st.integers(-(2**31), 2**32 - 1) | st.sampled_from([2**31 - 1, 2**31, 2**32 - 1])
EDGES = (
    FLOATS | st.floats() | st.sampled_from([2.0**31, 2.0**31 - 0.5, -(2.0**31) - 0.5, -1.0, 4e9, -(2.0**63)])
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS, EDGES), min_size=1, max_size=9))
def test_words_of_32_bits(values: list[tuple[int, int, float]]) -> None:
    rows = [(i, j, f, *ROW[3:]) for i, j, f in values]
    for name in ("wrap_int32", "wrap_unsigned32", "fit_int32", "fit_unsigned32"):
        check(call(name, col("i")), rows)
    for name in ("multiply_bits", "power_int32", "power_unsigned32"):
        check(call(name, col("i"), col("j")), rows)
        check(call(name, col("i"), values[0][1]), rows)
    for name in ("convert_int32", "convert_unsigned32"):
        check(call(name, col("f")), rows)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(FLOAT_FUNCTIONS),
    st.lists(st.tuples(FLOATS | st.floats(), FLOATS | st.floats()), min_size=1, max_size=9),
)
def test_float_arithmetic_and_comparison(name: str, pairs: list[tuple[float, float]]) -> None:
    rows = [(*ROW[:2], a, *ROW[3:8], b, None) for a, b in pairs]
    check(call(name, col("f"), col("of")), rows)
    check(call(name, col("f"), pairs[0][1]), rows)


@given(
    st.lists(st.integers(INT64_MIN, INT64_MAX), min_size=9, max_size=20), st.integers(INT64_MIN, INT64_MAX)
)
def test_overflow_is_found_in_long_columns(values: list[int], other: int) -> None:
    schema = Schema.of(x=int)
    codes = np.array(values, np.int64).reshape(-1, 1)
    for f in (operator.add, operator.sub, operator.mul):
        exact = [f(value, other) for value in values]
        bound = bind(f(col("x"), other), schema)
        if all(INT64_MIN <= value <= INT64_MAX for value in exact):
            assert bound.evaluate(codes, Interner()).tolist() == exact
        else:
            with pytest.raises(ValueOutOfRangeError, match=r"does not fit in 64 bits: .* with x = "):
                bound.evaluate(codes, Interner())


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12))
def test_strings_compare_by_their_text_not_their_id(pairs: list[tuple[str, str]]) -> None:
    rows = [(*ROW[:3], a, b, *ROW[5:]) for a, b in pairs]
    for name in ["eq", "ne", "lt", "le", "gt", "ge", "min_of", "max_of"]:
        check(call(name, col("s"), col("t")), rows)
        check(call(name, col("s"), "aB"), rows)
        check(call(name, col("s").str.upper(), col("t").str.lower()), rows)


def test_python_operators_build_the_calls() -> None:
    x, y = col("i"), col("j")
    built = [
        x + 1,
        1 + x,
        x - 1,
        1 - x,
        x * 2,
        2 * x,
        x / 2,
        2 / x,
        x // 2,
        2 // x,
        x % 2,
        2 % x,
        x**2,
        2**x,
        -x,
        abs(x),
    ]
    check_all = [*built, x.truncdiv(y), x.truncmod(y), x.band(y), x.bor(y), x.bxor(y), x.bnot()]
    check_all += [x.shl(y), x.shr(y), x.shr_unsigned(y), x == y, x != y, x < y, x <= y, x > y, x >= y]
    for expression in check_all:
        check(expression, [ROW, (7, 5, *ROW[2:]), (-7, 2, *ROW[2:])])
    b, s = col("b"), col("s")
    for expression in [
        b & True,
        True & b,
        b | False,
        False | b,
        ~b,
        col("oi").is_null(),
        col("oi").fill_null(x),
    ]:
        check(expression, [ROW])
    for expression in [
        s.str.concat("x", s),
        s.length(),
        s.str.substr(1, 1),
        s.str.upper(),
        s.str.lower(),
        s.str.matches("a."),
    ]:
        check(expression, [ROW])
    for expression in [
        s.str.contains("B"),
        s.str.startswith("a"),
        s.str.endswith("B"),
        s + "!",
        "!" + s,
        x.cast(str),
        x.cast(float),
    ]:
        check(expression, [ROW])
    for expression in [
        col("t").cast(int),
        col("t").cast(int),
        min_of(x, y, 0),
        max_of(x, y, 0),
        cat(s, "-", s),
    ]:
        check(expression, [ROW])
