"""isin, between, coalesce, rounding, cast and hash, against plain Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbsp import coalesce, col, lit
from dbsp.data.object_hashes import mix, object_hash
from dbsp.data.schema import Schema
from dbsp.errors import ArgumentError, DbspError, EvaluationError, SchemaError, ValueOutOfRangeError
from dbsp.expressions import bind
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests.expressions.agreement import agree
from tests.expressions.random_expressions import FLOATS, INTS, TEXTS
from tests.expressions.reference_expressions import order, values_of
from tests.profiles import examples

DECIMALS = st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(-20, 20)
CENTS = DECIMALS.map(lambda code: Decimal(f"{code}e-2"))
DAYS = st.dates() | st.sampled_from([dt.date(1970, 1, 1), dt.date(1969, 12, 31)])

COLUMNS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (int | None, INTS.filter(lambda value: value > INT64_MIN)),
    "float": (float | None, FLOATS),
    "str": (str | None, TEXTS),
    "bool": (bool | None, st.booleans()),
    "date": ("date?", DAYS),
    "decimal": ("decimal(18, 2)?", CENTS),
    "bytes": (bytes | None, st.binary(max_size=1)),
    "list": (list[float] | None, st.lists(FLOATS, min_size=1, max_size=1).map(tuple)),
}


def equal(a: Any, b: Any) -> bool:
    return equal(a[0], b[0]) if a and b and isinstance(a, tuple) else bool(order(a) == order(b))


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(COLUMNS)), st.data())
def test_isin(kind: str, data: st.DataObject) -> None:
    type_, values = COLUMNS[kind]
    constants = data.draw(st.lists(values, max_size=5))
    rows = [(value,) for value in data.draw(st.lists(st.none() | values, min_size=1, max_size=9))]
    rows += [(value,) for value in constants[:1]]
    written = list(map(list, constants)) if kind == "list" else constants  # a tuple is an object
    agree(
        col("x").isin(written),
        Schema.of(x=type_),
        rows,
        lambda x: None if x is None else any(equal(x, constant) for constant in constants),
    )


def test_isin_of_other_types_and_collections() -> None:
    rows: list[tuple[Any, ...]] = [(2, 2.0, Decimal("2.50")), (3, math.nan, Decimal("0.01"))] * 8
    schema = Schema.of(i=int, f=float, p="decimal(18, 2)")
    for expression, found in [
        (col("i").isin([2.0, 2.5]), [True, False]),
        (col("i").isin([Decimal("2.00"), Decimal("2.5"), Decimal("3.01")]), [True, False]),
        (col("f").isin({2, 7}), [True, False]),
        (col("f").isin((math.nan,)), [False, True]),
        (col("p").isin([Decimal("0.010"), Decimal("2.501"), Decimal(10) ** 17]), [False, True]),
        (col("p").isin([2, 3]), [False, False]),
        (col("i").isin([]), [False, False]),
        (lit(2).isin(frozenset([2, 2.5])), [True, True]),
    ]:
        assert values_of(expression, schema, rows) == found * 8
        assert values_of(expression, schema, rows[:2]) == found


def test_isin_of_objects_compares_values_of_one_class() -> None:
    rows: list[tuple[Any, ...]] = [(1,), (True,), ("a",), (None,)] * 5
    assert (
        values_of(col("o").isin([True, "a"]), Schema.of(o="object?"), rows) == [False, True, True, None] * 5
    )


def test_isin_of_a_set_has_one_order() -> None:
    assert repr(col("s").isin({"b", "a", "c"})) == "col(\"s\").isin(['a', 'b', 'c'])"
    assert repr(col("s").isin(["b", "a", "b"])) == "col(\"s\").isin(['b', 'a'])"
    names = {"col": col, "lit": lit}
    for expression in [col("s").isin(["b", "a"]), lit("a").isin(["b"]), (col("x") + 1).isin([])]:
        assert eval(repr(expression), names).same_as(expression)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("abc", "expects a collection of constants such as [1, 2], got 'abc' of type str; to comp"),
        (7, "expects a collection of constants such as [1, 2], got 7 of type int; to compare with one val"),
        ([1, None], "expects values that are not None, because a comparison with None is None; add | x.is"),
        ([col("y")], 'expects constants, got the expression col("y"); compare with it by =='),
    ],
)
def test_isin_refuses_what_is_not_a_constant(values: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        col("x").isin(values)
    assert message in str(error.value)


def test_isin_refuses_other_types() -> None:
    with pytest.raises(SchemaError, match=r"isin expects a value and constants of its type.*'a' \(str\)"):
        bind(col("x").isin([1, "a"]), Schema.of(x=int))


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(["both", "left", "right", "neither"]),
    st.lists(st.tuples(st.none() | FLOATS, FLOATS, FLOATS), min_size=1, max_size=9),
)
def test_between(closed: Any, rows: list[tuple[Any, ...]]) -> None:
    def meaning(x: float | None, low: float, high: float) -> bool | None:
        if x is None:
            return None
        above = order(low) <= order(x) if closed in ("both", "left") else order(low) < order(x)
        return above and (order(x) <= order(high) if closed in ("both", "right") else order(x) < order(high))

    schema = Schema.of(x=float | None, a=float, b=float)
    agree(col("x").between(col("a"), col("b"), closed), schema, rows, meaning)


def test_between_at_its_bounds() -> None:
    schema, rows = Schema.of(x=int), [(x,) for x in range(5)]
    for closed, found in {"both": [1, 2, 3], "left": [1, 2], "right": [2, 3], "neither": [2]}.items():
        agree(col("x").between(1, 3, closed), schema, rows, lambda x, found=found: x in found)  # type: ignore[arg-type]


def test_between_refuses_an_unknown_word_with_a_guess() -> None:
    with pytest.raises(
        ArgumentError,
        match=r"closed= expects one of 'both', 'left', 'right', 'neither', got 'lefft'; did you mean 'left'",
    ):
        col("x").between(1, 2, "lefft")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"closed= expects one of .*, got True"):
        col("x").between(1, 2, True)  # type: ignore[arg-type]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(*[st.none() | INTS.filter(lambda i: i > INT64_MIN)] * 3), min_size=1, max_size=9))
def test_coalesce(rows: list[tuple[Any, ...]]) -> None:
    schema = Schema.of(a=int | None, b=int | None, c=int | None)
    chosen = coalesce(col("a"), col("b"), col("c"))
    agree(chosen, schema, rows, lambda *values: next((v for v in values if v is not None), None))
    agree(coalesce(col("a"), 5), schema, rows, lambda a, b, c: 5 if a is None else a)
    assert not bind(coalesce(col("a"), 5), schema).type.nullable


def test_coalesce_evaluates_only_what_it_needs() -> None:
    schema = Schema.of(a=int | None, b=int)
    agree(
        coalesce(col("a"), 10 // col("b")),
        schema,
        [(1, 0), (None, 2), (None, 0)],
        lambda a, b: a if a is not None else 10 // b if b else EvaluationError,
    )


# --- rounding -------------------------------------------------------------------------------------

TIES = st.builds(
    lambda whole, digits: (2 * whole + 1) / (2 * 10.0**digits),
    st.integers(-(10**6), 10**6),
    st.integers(0, 6),
)


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 18), st.lists(FLOATS | st.floats() | TIES, min_size=1, max_size=20))
@example(2, [2.675, 1.005, 0.125, -0.125, 5e-324, 1e308, 4503599627370497.5, -0.4])
@example(1, [0.25, 0.35, -0.05, 0.15, 2.0**52 - 0.5, 2.0**53])
@example(0, [0.5, 1.5, -0.5, 2.5])
def test_round_of_floats_is_that_of_python(digits: int, values: list[float]) -> None:
    agree(
        col("x").round(digits),
        Schema.of(x=float),
        [(value,) for value in values],
        lambda x: round(x, digits) if math.isfinite(x) else x,
    )


def whole(rounding: Callable[[Any], int]) -> Callable[[Any], Any]:
    return lambda x: None if x is None else float(rounding(x)) if math.isfinite(x) else x


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.none() | FLOATS | st.floats(), min_size=1, max_size=20))
def test_floor_and_ceil_of_floats(values: list[float | None]) -> None:
    schema, rows = Schema.of(x=float | None), [(value,) for value in values]
    agree(col("x").floor(), schema, rows, whole(math.floor))
    agree(col("x").ceil(), schema, rows, whole(math.ceil))
    agree(col("x").round(), schema, rows, whole(round))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.none() | CENTS, INTS), min_size=1, max_size=9))
@example([(Decimal(f"{code}e-2"), 0) for code in (-101, -100, -50, -1, 0, 1, 50, 100, 150, 250)])
def test_rounding_of_decimals_and_ints(rows: list[tuple[Any, ...]]) -> None:
    schema = Schema.of(p="decimal(18, 2)?", i=int)

    def by(rounding: str) -> Callable[[Any, int], Any]:
        return lambda p, i: None if p is None else p.to_integral_value(rounding)

    agree(col("p").floor(), schema, rows, by(decimal.ROUND_FLOOR))
    agree(col("p").ceil(), schema, rows, by(decimal.ROUND_CEILING))
    agree(col("p").round(), schema, rows, by(decimal.ROUND_HALF_EVEN))
    assert str(bind(col("p").floor(), schema).type) == "decimal(18, 0)?"
    for expression in [col("i").floor(), col("i").ceil(), col("i").round(), col("i").round(3)]:
        agree(expression, schema, rows, lambda p, i: i)


def test_rounding_refuses_other_types() -> None:
    schema = Schema.of(s=str, x=float, n=int)
    for expression, message in [
        (col("s").floor(), r'floor expects a number, got col\("s"\) \(str\)'),
        (col("s").ceil(), r'ceil expects a number, got col\("s"\) \(str\)'),
        (col("s").round(1), r"round expects a number, and the number of digits after the point, got col"),
        (col("x").round(19), "expected 0 to 18 digits after the point of a number, got 19"),
        (col("x").round(-1), "expected 0 to 18 digits after the point of a number, got -1"),
    ]:
        with pytest.raises(SchemaError, match=message):
            bind(expression, schema)


# --- cast -----------------------------------------------------------------------------------------

CASTS: list[tuple[Any, Any, Any, list[tuple[Any, Any]]]] = [
    # (type of the column, type of the cast, its notation, values with their results)
    (float | None, int, "int", [(2.9, 2), (-2.9, -2), (None, None), (math.nan, EvaluationError)]),
    (float | None, int, "int", [(1e30, ValueOutOfRangeError), (-(2.0**62), -(2**62))]),
    (bool, int, "int", [(True, 1), (False, 0)]),
    (str, int, "int", [("-7", -7), ("0x1F", 31), ("7.5", EvaluationError)]),
    (int, float, "float", [(INT64_MAX, float(INT64_MAX)), (-3, -3.0)]),
    (str, "float", "float", [("2.5", 2.5), ("nan", math.nan), ("x", EvaluationError)]),
    (int | None, str, "str", [(5, "5"), (None, None)]),
    (float, str, "str", [(-0.0, "0.0"), (math.inf, "inf")]),
    (dt.date, str, "str", [(dt.date(2024, 5, 6), "2024-05-06")]),
    (dt.datetime, "date", '"date"', [(dt.datetime(1969, 12, 31, 23), dt.date(1969, 12, 31))]),
    (dt.datetime, dt.time, '"time"', [(dt.datetime(1969, 12, 31, 23), dt.time(23))]),
    (dt.date, dt.datetime, '"timestamp"', [(dt.date(1969, 1, 2), dt.datetime(1969, 1, 2))]),
    (float, "decimal(18, 1)", '"decimal(18, 1)"', [(0.25, Decimal("0.2")), (math.inf, EvaluationError)]),
    (str, "date", '"date"', [("2024-02-29", dt.date(2024, 2, 29)), ("2023-02-29", EvaluationError)]),
    (
        str | None,
        "timestamp",
        '"timestamp"',
        [
            ("2024-02-29 01:02:03.5", dt.datetime(2024, 2, 29, 1, 2, 3, 500_000)),
            ("2024-02-29", dt.datetime(2024, 2, 29)),
            (None, None),
            ("2024-02-29T00:00:00+01:00", EvaluationError),
            ("noon", EvaluationError),
        ],
    ),
]


@pytest.mark.parametrize(("column", "type_", "notation", "pairs"), CASTS)
def test_cast(column: Any, type_: Any, notation: str, pairs: list[tuple[Any, Any]]) -> None:
    expression = col("x").cast(type_)
    assert repr(expression) == f'col("x").cast({notation})'
    assert eval(repr(expression), {"col": col}).same_as(expression)
    results = dict(enumerate(result for _, result in pairs))
    schema = Schema.of(x=column)
    for at, (value, _) in enumerate(pairs):
        agree(expression, schema, [(value,)], lambda x, at=at: results[at])
    found = bind(expression, schema).type
    assert found.nullable == schema.types[0].nullable


def test_cast_refuses_types_without_conversion() -> None:
    for type_, message in [
        (bool, r"cast expects int, float, str, a decimal, date, time or timestamp, got bool; write a compar"),
        ("timestamptz(UTC)", r"got timestamptz.*; call dt.from_zone\(\) or dt.in_zone\(\)"),
        (list[int], r"got list\[int\]"),
    ]:
        with pytest.raises(SchemaError, match=message):
            col("x").cast(type_)
    with pytest.raises(SchemaError, match="unknown type 'itn'; did you mean 'int'"):
        col("x").cast("itn")
    with pytest.raises(SchemaError, match=r'cast to date expects .*, got col\("x"\) \(int\)'):
        bind(col("x").cast("date"), Schema.of(x=int))


# --- hash -----------------------------------------------------------------------------------------


def signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(INTS, st.none() | TEXTS), min_size=1, max_size=9))
def test_hash_is_that_of_the_shards(rows: list[tuple[Any, ...]]) -> None:
    schema = Schema.of(i=int, s=str | None)
    agree(col("i").hash(), schema, rows, lambda i, s: signed(mix(0, i % 2**64)))
    agree(
        col("s").hash(),
        schema,
        rows,
        lambda i, s: None if s is None else signed(mix(0, object_hash(s))),
    )


@pytest.mark.parametrize(
    ("type_", "a", "b"),
    [
        (float | None, math.nan, 0.0),
        (bool | None, True, False),
        ("date?", dt.date(1970, 1, 1), dt.date(1969, 1, 1)),
        ("decimal(18, 2)?", Decimal("0.01"), Decimal("1.00")),
        (bytes | None, b"a", b"b"),
        (list[str] | None, ("a", "b"), ("b", "a")),
        ("{x: int, y: str}?", {"x": 1, "y": "a"}, {"x": 1, "y": "b"}),
        ("object?", 1, True),
    ],
)
def test_hash_of_every_type(type_: Any, a: Any, b: Any) -> None:
    schema, rows = Schema.of(x=type_), [(a,), (b,), (None,), (a,)]
    alone = [values_of(col("x").hash(), schema, [row])[0] for row in rows]
    assert alone[0] == alone[3] != alone[1] and alone[2] is None
    assert values_of(col("x").hash(), schema, rows * 5) == alone * 5


def test_errors_of_evaluation_name_the_expression_and_the_row() -> None:
    with pytest.raises(DbspError, match=r'nan has no integer part: col\("x"\)\.cast\(int\) with x = nan'):
        values_of(col("x").cast(int), Schema.of(x=float), [(math.nan,)])
