"""Expressions against plain Python, over few rows and many; binding, notation and errors."""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dbsp.compiler.datalog.meaning.wrapping  # noqa: F401  (defines the functions of 32-bit words)
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import BOOL, DATE, FLOAT, INT, OBJECT, STR, TIMESTAMP, Type
from dbsp.errors import DbspError, EvaluationError, SchemaError, ValueOutOfRangeError
from dbsp.expressions import (
    FUNCTIONS,
    Call,
    Column,
    Expression,
    Literal,
    as_expression,
    bind,
    call,
    cat,
    col,
    lit,
    max_of,
    min_of,
    when,
)
from dbsp.expressions.functions import define
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

SCHEMA = Schema.of(
    i=int, j=int, f=float, s=str, t=str, b=bool, oi=int | None, os=str | None, of=float | None, ob=bool | None
)
LETTERS = "aB1é-"


# --- a reference: the same tree evaluated by Python, one row at a time -------------------------------


class NoValue(Exception):
    """The row has no result; the argument is the error the engine must raise."""


def fit(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise NoValue(ValueOutOfRangeError)
    return value


def divide(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(a: Any, b: Any) -> Any:
        if b == 0:
            raise NoValue(EvaluationError)
        if isinstance(a, int):
            return fit(f(a, b))
        try:
            return f(a, b)
        except (ValueError, OverflowError):
            return math.nan

    return checked


def trunc_div(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    quotient = a / b
    return float(math.trunc(quotient)) if math.isfinite(quotient) else quotient


def power(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        if b < 0:
            raise NoValue(EvaluationError)
        if b > 200 and abs(a) > 1:
            raise NoValue(ValueOutOfRangeError)
        return fit(a**b)
    try:
        result = a**b
    except ZeroDivisionError:
        raise NoValue(EvaluationError) from None
    except OverflowError:
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
    if isinstance(result, complex):
        raise NoValue(EvaluationError)
    return result


def number(text: str) -> int:
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise NoValue(EvaluationError)
    return fit(int(text))


def whole(value: Any) -> int:
    if isinstance(value, str):
        return number(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise NoValue(EvaluationError)
    return fit(int(value))


def real(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise NoValue(EvaluationError) from None
    return float(value)


def order(value: Any) -> Any:
    """NaN equals itself and comes last."""
    return (value != value, 0 if value != value else value) if isinstance(value, float) else value


def wrap(bits: int) -> int:
    return (bits + 2**63) % 2**64 - 2**63


def word(a: int) -> int:
    return (a + 2**31) % 2**32 - 2**31


def c_power(a: int, b: int) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) ** np.float64(b))


def converted(value: float) -> int:
    """A float as an int of 32 bits, as x86-64 converts it."""
    fits = math.isfinite(value) and word(math.trunc(value)) == math.trunc(value)
    return math.trunc(value) if fits else -(2**31)


def converted_unsigned(value: float) -> int:
    fits = math.isfinite(value) and wrap(math.trunc(value)) == math.trunc(value)
    return math.trunc(value) % 2**32 if fits else 0


def add(a: Any, b: Any) -> Any:
    return fit(a + b) if isinstance(a, int) else a + b


STRICT: dict[str, Callable[..., Any]] = {
    "add": add,
    "sub": lambda a, b: fit(a - b) if isinstance(a, int) else a - b,
    "mul": lambda a, b: fit(a * b) if isinstance(a, int) else a * b,
    "truediv": lambda a, b: divide(operator.truediv)(float(a), float(b)),
    "floordiv": divide(operator.floordiv),
    "mod": divide(operator.mod),
    "truncdiv": divide(trunc_div),
    "truncmod": divide(lambda a, b: c_remainder(a, b)),
    "pow": power,
    "neg": lambda a: fit(-a) if isinstance(a, int) else -a,
    "abs": lambda a: fit(abs(a)) if isinstance(a, int) else abs(a),
    "eq": lambda a, b: order(a) == order(b),
    "ne": lambda a, b: order(a) != order(b),
    "lt": lambda a, b: order(a) < order(b),
    "le": lambda a, b: order(a) <= order(b),
    "gt": lambda a, b: order(a) > order(b),
    "ge": lambda a, b: order(a) >= order(b),
    "min_of": lambda *values: min(values, key=order),
    "max_of": lambda *values: max(values, key=order),
    "not": operator.not_,
    "band": operator.and_,
    "bor": operator.or_,
    "bxor": operator.xor,
    "bnot": operator.invert,
    "shl": lambda a, n: wrap(a << (n % 64)),
    "shr": lambda a, n: a >> (n % 64),
    "shr_unsigned": lambda a, n: wrap((a % 2**64) >> (n % 64)),
    "wrap_int32": lambda a: word(a),
    "wrap_unsigned32": lambda a: a % 2**32,
    "multiply_bits": lambda a, b: wrap(a * b),
    "power_int32": lambda a, b: converted(c_power(a, b)),
    "power_unsigned32": lambda a, b: converted_unsigned(c_power(a, b)),
    "convert_int32": lambda a: converted(a),
    "convert_unsigned32": lambda a: converted_unsigned(a),
    "fit_int32": lambda a: a if word(a) == a else fit(2**64),
    "fit_unsigned32": lambda a: a if a % 2**32 == a else fit(2**64),
    "cat": lambda *parts: "".join(parts),
    "length": len,
    "substr": lambda s, start, n: s[start : start + n] if start >= 0 and n > 0 else "",
    "upper": str.upper,
    "lower": str.lower,
    "contains": lambda s, part: part in s,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "matches": lambda s, pattern: re.fullmatch(pattern, s) is not None,
    "to_string": lambda a: repr(a + 0.0) if isinstance(a, float) else str(a),
    "to_number": number,
    "to_int": whole,
    "to_float": real,
}


def c_remainder(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return a - trunc_div(a, b) * b
    return math.fmod(a, b)


def reference(expression: Expression, row: dict[str, Any]) -> Any:
    """The value of an expression, or NoValue."""
    if isinstance(expression, Column):
        return row[expression.name]
    if isinstance(expression, Literal):
        return expression.value
    assert isinstance(expression, Call)
    name, arguments = expression.function, expression.arguments
    if name in ("and", "or"):
        decider = name == "or"
        a = reference(arguments[0], row)
        if a is decider:
            return decider
        b = reference(arguments[1], row)
        return b if b is decider or a is not None else None
    if name == "when":
        chosen = arguments[1] if reference(arguments[0], row) is True else arguments[2]
        return to_type(arguments[1:], reference(chosen, row))
    if name == "is_null":
        return reference(arguments[0], row) is None
    if name == "fill_null":
        a = reference(arguments[0], row)
        return to_type(arguments, reference(arguments[1], row) if a is None else a)
    values = [reference(argument, row) for argument in arguments]
    if any(value is None for value in values):
        return None
    if not name.startswith("to_"):
        values = [to_type(arguments, value) for value in values]
    return STRICT[name](*values)


def to_type(arguments: tuple[Expression, ...], value: Any) -> Any:
    """An int beside a float becomes one."""
    if type(value) is int and any(bind(argument, SCHEMA).type.kind == "float" for argument in arguments):
        return float(value)
    return value


# --- generated expressions over generated rows -------------------------------------------------------

INTS = st.integers(-4, 4) | st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX, 2**32, -(2**31), 2**53 + 1])
FLOATS = st.sampled_from(
    [0.0, -0.0, 1.0, -1.5, 2.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan, 1e18, 2.0**63]
)
TEXTS = st.text(LETTERS, max_size=3) | st.sampled_from(["7", "-12", "9223372036854775808", "1.5"])
ROWS = st.tuples(
    INTS,
    INTS,
    FLOATS,
    TEXTS,
    TEXTS,
    st.booleans(),
    st.none() | INTS.filter(lambda i: i != INT64_MIN),
    st.none() | TEXTS,
    st.none() | FLOATS,
    st.none() | st.booleans(),
)


ARITHMETIC = ["add", "sub", "mul", "floordiv", "mod", "truncdiv", "truncmod", "pow"]
FLOAT_FUNCTIONS = [*ARITHMETIC, "truediv", "eq", "lt", "le", "min_of", "max_of"]


@functools.cache
def of_kind(kind: str, depth: int) -> st.SearchStrategy[Expression]:
    """Expressions of a kind, with at most `depth` calls within each other."""
    leaves: dict[str, st.SearchStrategy[Any]] = {
        "int": st.sampled_from([col("i"), col("j"), col("oi")]) | INTS.map(lit),
        "float": st.sampled_from([col("f"), col("of")]) | FLOATS.map(lit),
        "str": st.sampled_from([col("s"), col("t"), col("os")]) | TEXTS.map(lit),
        "bool": st.sampled_from([col("b"), col("ob")]) | st.booleans().map(lit),
    }
    if depth == 0:
        return leaves[kind]
    one: Callable[[str], st.SearchStrategy[Expression]] = lambda k: of_kind(k, depth - 1)  # noqa: E731
    kinds = st.sampled_from(["int", "float", "str", "bool"])

    def calls(names: str, *operands: str) -> st.SearchStrategy[Expression]:
        return st.builds(call, st.sampled_from(names.split()), *map(one, operands))

    options: dict[str, list[st.SearchStrategy[Expression]]] = {
        "int": [
            calls(
                "add sub mul floordiv mod truncdiv truncmod pow band bor bxor shl shr shr_unsigned",
                "int",
                "int",
            ),
            calls("add sub mul", "int", "int"),
            calls("neg abs bnot", "int"),
            calls("length to_number to_int", "str"),
            calls("to_int", "float"),
            calls("to_int", "bool"),
        ],
        "float": [
            calls("add sub mul truediv floordiv mod truncdiv truncmod pow", "float", "float"),
            calls("add mul truediv floordiv", "int", "float"),
            calls("truediv", "int", "int"),
            calls("neg abs", "float"),
            calls("to_float", "int"),
            calls("to_float", "str"),
        ],
        "str": [
            calls("cat add", "str", "str"),
            calls("upper lower", "str"),
            calls("substr", "str", "int", "int"),
            kinds.flatmap(lambda k: calls("to_string", k)),
        ],
        "bool": [
            kinds.flatmap(lambda k: calls("eq ne lt le gt ge", k, k)),
            calls("eq lt ge", "int", "float"),
            calls("and or", "bool", "bool"),
            calls("not", "bool"),
            calls("contains startswith endswith", "str", "str"),
            kinds.flatmap(lambda k: calls("is_null", k)),
        ],
    }
    anywhere = [
        calls("when", "bool", kind, kind),
        calls("fill_null", kind, kind),
        calls("min_of max_of", kind, kind),
    ]
    return st.one_of(leaves[kind], *options[kind], *anywhere)


EXPRESSIONS = st.sampled_from(["int", "float", "str", "bool"]).flatmap(lambda kind: of_kind(kind, 3))


def outcome(expression: Expression, row: tuple[Any, ...]) -> Any:
    """The reference's value or error, as it would be seen in the result column."""
    try:
        value = reference(expression, dict(zip(SCHEMA.names, row, strict=True)))
    except NoValue as no_value:
        return no_value.args[0]
    if type(value) is int and value == INT64_MIN and bind(expression, SCHEMA).type.nullable:
        return ValueOutOfRangeError
    return value


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def check(expression: Expression, rows: list[tuple[Any, ...]]) -> None:
    """Compare with the reference: each row alone, and all rows at once, few and many."""
    bound = bind(expression, SCHEMA)
    interner = Interner()
    interner.encode("an id that is not 0")
    codes = SCHEMA.encode_rows(rows, interner)
    result = Schema(("result",), (bound.type,))
    expected = [outcome(expression, row) for row in rows]

    def run(chosen: Any) -> list[Any]:
        evaluated = bound.evaluate(np.ascontiguousarray(chosen), interner)
        assert evaluated.dtype == np.int64 and evaluated.shape == (len(chosen),)
        return [value for (value,) in result.decode_rows(evaluated.reshape(-1, 1), interner)]

    good = []
    for i, value in enumerate(expected):
        if isinstance(value, type):
            for copies in (1, 20):  # few rows and many
                with pytest.raises(value) as error:
                    run(np.repeat(codes[i : i + 1], copies, axis=0))
                assert repr(expression) in str(error.value)
        else:
            good.append(i)
            assert same(run(codes[i : i + 1])[0], value)
    if good:
        many = good * (20 // len(good) + 1)
        assert all(map(same, run(codes[many]), [expected[i] for i in many]))
        if len(good) < len(expected):
            with pytest.raises(DbspError):
                run(codes[[*many, *(i for i in range(len(rows)) if i not in good)]])


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, st.lists(ROWS, min_size=1, max_size=6))
def test_expressions_agree_with_python(expression: Expression, rows: list[tuple[Any, ...]]) -> None:
    check(expression, rows)


ROW = (3, -2, 2.5, "aB", "1", True, None, None, None, None)


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=300, deadline=None)
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
            with pytest.raises(ValueOutOfRangeError, match="does not fit 64 bits in the row with x="):
                bound.evaluate(codes, Interner())


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12))
def test_strings_compare_by_their_text_not_their_id(pairs: list[tuple[str, str]]) -> None:
    rows = [(*ROW[:3], a, b, *ROW[5:]) for a, b in pairs]
    for name in ["eq", "ne", "lt", "le", "gt", "ge", "min_of", "max_of"]:
        check(call(name, col("s"), col("t")), rows)
        check(call(name, col("s"), "aB"), rows)
        check(call(name, col("s").upper(), col("t").lower()), rows)


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
        s.concat("x", s),
        s.cat("y"),
        s.length(),
        s.substr(1, 1),
        s.upper(),
        s.lower(),
        s.matches("a."),
    ]:
        check(expression, [ROW])
    for expression in [
        s.contains("B"),
        s.startswith("a"),
        s.endswith("B"),
        s + "!",
        "!" + s,
        x.to_string(),
        x.to_float(),
    ]:
        check(expression, [ROW])
    for expression in [
        col("t").to_number(),
        col("t").to_int(),
        min_of(x, y, 0),
        max_of(x, y, 0),
        cat(s, "-", s),
    ]:
        check(expression, [ROW])


# --- None --------------------------------------------------------------------------------------------


def values_of(expression: Expression, schema: Schema, rows: list[tuple[Any, ...]]) -> list[Any]:
    interner = Interner()
    bound = bind(expression, schema)
    codes = bound.evaluate(schema.encode_rows(rows, interner), interner)
    return [value for (value,) in Schema(("r",), (bound.type,)).decode_rows(codes.reshape(-1, 1), interner)]


@pytest.mark.parametrize("copies", [1, 10])
def test_three_valued_logic(copies: int) -> None:
    schema = Schema.of(a=bool | None, b=bool | None)
    rows = [(a, b) for a in (True, False, None) for b in (True, False, None)] * copies
    assert (
        values_of(col("a") & col("b"), schema, rows)
        == [True, False, None, False, False, False, None, False, None] * copies
    )
    assert (
        values_of(col("a") | col("b"), schema, rows)
        == [True, True, True, True, False, None, True, None, None] * copies
    )
    assert values_of(~col("a"), schema, rows[:3] + rows[6:9]) == [False] * 3 + [None] * 3


@pytest.mark.parametrize("copies", [1, 10])
def test_none_in_filters_and_choices(copies: int) -> None:
    schema = Schema.of(x=int | None)
    rows = [(None,), (1,), (-1,)] * copies
    interner = Interner()
    positive = bind(col("x") > 0, schema)
    assert positive.type == BOOL.optional()
    assert (
        positive.mask(schema.encode_rows(rows, interner), interner).tolist() == [False, True, False] * copies
    )
    sign = when(col("x") > 0).then("plus").when(col("x").is_null()).then(None).otherwise("minus")
    assert values_of(sign, schema, rows) == [None, "plus", "minus"] * copies
    assert values_of(col("x") == None, schema, rows) == [None] * 3 * copies  # noqa: E711
    assert values_of(col("x").fill_null(0) + 1, schema, rows) == [1, 2, 0] * copies
    assert bind(col("x").fill_null(0), schema).type == INT
    assert values_of(col("x") + lit(None), schema, rows) == [None] * 3 * copies
    assert values_of(lit(None, str), schema, rows) == [None] * 3 * copies


@pytest.mark.parametrize("copies", [1, 10])
def test_a_result_that_would_read_as_none_is_refused(copies: int) -> None:
    schema = Schema.of(x=int | None)
    interner = Interner()
    codes = schema.encode_rows([(INT64_MIN + 1,), (None,)] * copies, interner)
    with pytest.raises(ValueOutOfRangeError, match=r'col\("x"\) - 1: -2\*\*63 stands for None'):
        bind(col("x") - 1, schema).evaluate(codes, interner)
    # In between it is a number like any other.
    assert bind((col("x") - 1) + 1, schema).evaluate(codes, interner).tolist() == codes[:, 0].tolist()


@pytest.mark.parametrize("copies", [1, 10])
def test_only_the_side_that_counts_is_evaluated(copies: int) -> None:
    schema = Schema.of(x=int, y=int)
    rows = [(6, 0), (6, 2)] * copies
    x, y = col("x"), col("y")
    assert values_of((y != 0) & (x // y > 2), schema, rows) == [False, True] * copies
    assert values_of((y == 0) | (x // y > 2), schema, rows) == [True, True] * copies
    assert values_of(when(y != 0).then(x // y).otherwise(-1), schema, rows) == [-1, 3] * copies
    with pytest.raises(EvaluationError, match="division by zero: 6 // 0"):
        values_of((x // y > 2) & (y != 0), schema, rows)


# --- strings, objects, dates -------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 10])
def test_strings_in_between_are_not_interned(copies: int) -> None:
    schema = Schema.of(s=str)
    interner = Interner()
    codes = schema.encode_rows([("ab",)] * copies, interner)
    assert (
        bind(cat(col("s").upper(), "-", col("s")).length() + 1, schema).evaluate(codes, interner).tolist()
        == [6] * copies
    )
    assert bind(col("s").upper() == "AB", schema).evaluate(codes, interner).tolist() == [1] * copies
    assert len(interner) == 1 or "-" not in interner


def test_ord_tells_strings_apart() -> None:
    schema = Schema.of(s=str)
    for copies in (1, 10):
        first, second, again = values_of(col("s").ord(), schema, [("b",), ("a",), ("b",)] * copies)[:3]
        assert first == again != second


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-7", -7),
        ("+3", 3),
        ("0x1F", 31),
        ("-0b101", -5),
        ("007", 7),
        ("9223372036854775807", INT64_MAX),
    ],
)
def test_to_number_reads(text: str, value: int) -> None:
    assert values_of(col("s").to_number(), Schema.of(s=str), [(text,)]) == [value]


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_0", "1.0", "x", "0x", "٣", "1" * 5000, "9223372036854775808"]
)
def test_to_number_names_what_it_cannot_read(text: str) -> None:
    with pytest.raises((EvaluationError, ValueOutOfRangeError)) as error:
        values_of(col("s").to_number(), Schema.of(s=str), [(text,)])
    assert repr(text)[:40] in str(error.value) and 'col("s").to_number()' in str(error.value)


def test_to_float_names_what_it_cannot_read() -> None:
    with pytest.raises(EvaluationError, match="'1_0' is no number"):
        values_of(col("s").to_float(), Schema.of(s=str), [("1_0",)])


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(EvaluationError, match=r"'\(' is no regular expression"):
        values_of(col("s").matches("("), Schema.of(s=str), [("a",)])


@pytest.mark.parametrize("copies", [1, 10])
def test_objects_compare_by_value_and_class(copies: int) -> None:
    schema = Schema.of(o=object, n=int)
    rows = [(1, 1), (True, 1), ((1, 2), 1), ("a", 1), (0.5, 1)] * copies
    assert values_of(col("o") == 1, schema, rows) == [True, False, False, False, False] * copies
    assert values_of(col("o") == col("n"), schema, rows) == [True, False, False, False, False] * copies
    assert values_of(col("o") == (1, 2), schema, rows) == [False, False, True, False, False] * copies
    assert values_of(col("o") != (True, 2), schema, rows) == [True] * 5 * copies
    assert values_of(col("o") < 1, schema, rows) == [False, False, False, False, True] * copies
    assert values_of(col("o").to_string(), schema, rows) == ["1", "True", "(1, 2)", "a", "0.5"] * copies


@pytest.mark.parametrize("copies", [1, 10])
def test_dates_and_timestamps(copies: int) -> None:
    schema = Schema.of(d=dt.date, t=dt.datetime)
    rows = [
        (dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3)),
        (dt.date(1969, 1, 2), dt.datetime(1969, 1, 2)),
    ] * copies
    day, moment = dt.date(2000, 1, 1), dt.datetime(2000, 1, 1)
    assert values_of(col("d") < day, schema, rows) == [False, True] * copies
    assert values_of(col("t") >= moment, schema, rows) == [True, False] * copies
    assert values_of(max_of(col("d"), day), schema, rows) == [dt.date(2024, 1, 2), day] * copies
    assert values_of(col("d").to_string(), schema, rows) == ["2024-01-02", "1969-01-02"] * copies
    assert (
        values_of(col("t").to_string(), schema, rows)
        == ["2024-01-02 03:00:00", "1969-01-02 00:00:00"] * copies
    )


# --- binding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        (col("i") + 1, INT),
        (col("i") + 1.0, FLOAT),
        (col("i") / 2, FLOAT),
        (col("oi") + 1, INT.optional()),
        (col("s") + "x", STR),
        (col("s") == col("os"), BOOL.optional()),
        (when(col("b")).then(1).otherwise(2.5), FLOAT),
        (when(col("ob")).then(1).otherwise(2), INT),
        (when(col("b")).then(1).otherwise(None), INT.optional()),
        (when(col("b")).then(lit((1,))).otherwise(2), OBJECT),
        (lit(None), OBJECT.optional()),
        (lit(None, DATE), DATE.optional()),
        (lit(1, float), FLOAT),
        (lit(dt.datetime(2020, 1, 1)), TIMESTAMP),
        (col("os").is_null(), BOOL),
    ],
)
def test_types_of_results(expression: Expression, type_: Type) -> None:
    assert bind(expression, SCHEMA).type == type_


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            col("i") + col("s"),
            'col("i") + col("s"): + expects two numbers or two strings, '
            'not col("i") (int) and col("s") (str)',
        ),
        (col("nn") + 1, "no column 'nn' in (i: int,"),
        (
            col("i") & True,
            '& expects two booleans (band is the bitwise and), not col("i") (int) and True (bool)',
        ),
        (col("s") < 1, '< expects two values of one type, not col("s") (str) and 1 (int)'),
        (~col("i"), '~ expects a boolean (bnot is the bitwise not), not col("i") (int)'),
        (col("os").to_number().upper(), 'upper expects a string, not col("os").to_number() (int?)'),
        (when(col("i")).then(1).otherwise(2), "when expects a boolean and two values of one type"),
        (when(col("b")).then(1).otherwise("a"), "not col(\"b\") (bool) and 1 (int) and 'a' (str)"),
        (min_of(1, "a"), "min_of expects values of one type"),
        (col("i").length(), "length expects a string or bytes"),
        (col("b") + col("b"), "+ expects two numbers or two strings"),
        (call("frobnicate", 1), "there is no function 'frobnicate'"),
    ],
)
def test_binding_says_what_does_not_fit(expression: Expression, message: str) -> None:
    with pytest.raises(SchemaError) as error:
        bind(expression, SCHEMA)
    assert message in str(error.value)


def test_constants_must_fit() -> None:
    with pytest.raises(ValueOutOfRangeError, match="9223372036854775808 does not fit 64 bits"):
        bind(col("i") + 2**63, SCHEMA)
    with pytest.raises(DbspError, match="cannot be a value: use a tuple"):
        bind(col("i") == [1], SCHEMA)


def test_errors_name_the_expression_and_the_row() -> None:
    expression = col("i") * 2 + col("j")
    with pytest.raises(ValueOutOfRangeError) as error:
        values_of(expression, Schema.of(j=int, other=str, i=int), [(1, "a", 1), (5, "b", 2**62)])
    assert str(error.value) == (
        'col("i") * 2 + col("j"): 4611686018427387904 * 2 does not fit 64 bits '
        "in the row with j=5, i=4611686018427387904"
    )
    with pytest.raises(EvaluationError, match=r"lit\(1\) // 0: division by zero: 1 // 0$"):
        values_of(lit(1) // 0, Schema.of(x=int), [(1,)])


def test_a_failing_constant_matters_only_where_there_are_rows() -> None:
    assert values_of(lit(1) // 0, Schema.of(x=int), []) == []
    with pytest.raises(EvaluationError, match="division by zero"):
        values_of(lit(1) // 0, Schema.of(x=int), [(1,)] * 20)


def test_bound_expressions_know_their_columns_and_serve_several_interners() -> None:
    bound = bind(cat(col("t"), "x", col("s")), SCHEMA)
    assert bound.columns == (3, 4) and cat(col("t"), "x", col("s")).columns == ("t", "s")
    assert repr(bound).startswith('<cat(col("t"), \'x\', col("s")): str over (i: int')
    for n in (1, 20):
        for start in ("", "other"):
            interner = Interner()
            interner.encode(start)
            codes = bound.evaluate(SCHEMA.encode_rows([ROW] * n, interner), interner)
            assert interner.decode_many(codes) == ["1xaB"] * n


def test_no_rows() -> None:
    interner = Interner()
    for expression in [
        col("i"),
        col("i") + 1,
        cat(col("s"), "x"),
        when(col("b")).then(1 // col("i")).otherwise(2),
        lit(5),
    ]:
        assert (
            bind(expression, SCHEMA).evaluate(np.empty((0, SCHEMA.arity), np.int64), interner).tolist() == []
        )
    assert bind(lit(5), Schema((), ())).evaluate(np.empty((1, 0), np.int64), interner).tolist() == [5]
    assert (
        bind(lit(5), SCHEMA).evaluate(np.empty((20, SCHEMA.arity), np.int64), interner).tolist() == [5] * 20
    )


# --- structure and notation --------------------------------------------------------------------------


def test_structure_is_compared_by_same_as() -> None:
    assert (col("x") + 1).same_as(col("x") + 1) and hash(col("x") + 1) == hash(col("x") + 1)
    for other in [
        col("x") + 1.0,
        col("x") + True,
        col("y") + 1,
        col("x") - 1,
        1 + col("x"),
        lit(None),
        "col",
    ]:
        assert not (col("x") + 1).same_as(other)
    assert lit((1,)).key != lit((True,)).key != lit((1.0,)).key
    assert lit(math.nan).same_as(lit(math.nan)) and not lit(0.0).same_as(lit(-0.0))
    assert len({(col("x") + 1).key, (col("x") + 1).key, (col("x") + 2).key}) == 2


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"use & \| ~ in place of and, or, not"):
        bool(col("x") == 1)
    with pytest.raises(TypeError):
        1 < col("x") < 3  # noqa: B015
    with pytest.raises(AttributeError):
        col("x").name = "y"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        'col("x") + 1',
        '(col("x") + 1) * 2',
        'col("x") + 1 * col("y")',
        'col("x") - (col("y") - 1)',
        'col("x") - col("y") - 1',
        '2 ** col("x") ** 3',
        '(col("x") ** 2) ** 3',
        '-col("x") ** 2',
        '(-col("x")) ** 2',
        'col("x") * -1',
        '(-1) ** col("x")',
        '(col("x") > 1) & ~(col("y") == 2) | col("b")',
        '((col("x") == 1) == col("b")) & col("b")',
        'col("s").substr(1, 2).upper()',
        "(col(\"s\") + 'x').length()",
        "lit('a').concat(col(\"s\"))",
        "lit(1) + 2",
        "when(col(\"b\")).then(1).otherwise('a')",
        'min_of(col("x"), 1, col("y"))',
        'abs(col("x") - 1)',
        "-lit(1)",
        'lit(0) < col("x")',
        'col("x").fill_null(lit(None, STR))',
    ],
)
def test_notation_is_what_one_would_type(text: str) -> None:
    names = {"col": col, "lit": lit, "when": when, "min_of": min_of, "cat": cat, "STR": STR}
    expression = eval(text, names)
    assert eval(repr(expression), names).same_as(expression)
    if "concat" not in text:
        assert repr(expression) == text


@given(EXPRESSIONS)
def test_notation_can_be_read_back(expression: Expression) -> None:
    names = {
        "col": col,
        "lit": lit,
        "when": when,
        "min_of": min_of,
        "max_of": max_of,
        "cat": cat,
        "nan": math.nan,
        "inf": math.inf,
    }
    back = as_expression(eval(repr(expression), names))
    assert repr(back) == repr(expression)
    # A negative constant and the negation of one look alike, so compare what they compute.
    assert bind(back, SCHEMA).type == bind(expression, SCHEMA).type


def test_a_function_is_defined_once() -> None:
    # A front end may add functions of its own, but not change these.
    assert {*STRICT, "and", "or", "when", "is_null", "fill_null", "ord"} <= set(FUNCTIONS)
    with pytest.raises(SchemaError, match="there is a function 'add' already"):
        define("add", "nothing", lambda arguments: None)
