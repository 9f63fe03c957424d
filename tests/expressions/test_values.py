"""Values of expressions: None, choices, strings, objects and dates."""

from __future__ import annotations

import datetime as dt

import pytest

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import BOOL, INT
from dbsp.errors import EvaluationError, ValueOutOfRangeError
from dbsp.expressions import bind, cat, col, lit, max_of, when
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests.expressions.reference_expressions import values_of


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
    assert values_of(col("x") == lit(None), schema, rows) == [None] * 3 * copies
    assert values_of(col("x").fill_null(0) + 1, schema, rows) == [1, 2, 0] * copies
    assert bind(col("x").fill_null(0), schema).type == INT
    assert values_of(col("x") + lit(None), schema, rows) == [None] * 3 * copies
    assert values_of(lit(None, str), schema, rows) == [None] * 3 * copies


@pytest.mark.parametrize("copies", [1, 10])
def test_a_result_that_would_read_as_none_is_refused(copies: int) -> None:
    schema = Schema.of(x=int | None)
    interner = Interner()
    codes = schema.encode_rows([(INT64_MIN + 1,), (None,)] * copies, interner)
    with pytest.raises(
        ValueOutOfRangeError, match=r'in an optional column, got -2\*\*63: col\("x"\) - 1 with x = -922'
    ):
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
    with pytest.raises(EvaluationError, match=r"division by zero: .* with x = 6, y = 0"):
        values_of((x // y > 2) & (y != 0), schema, rows)


@pytest.mark.parametrize("copies", [1, 10])
@pytest.mark.parametrize(
    ("x", "exponent", "message"),
    [
        (0.0, -1.0, 'division by zero: col("x") ** (-1.0) with x = 0.0 [division-by-zero]'),
        (-8.0, 0.5, 'the result is not a real number: col("x") ** 0.5 with x = -8.0 [unsupported-value]'),
    ],
)
def test_powers_of_floats_without_a_result(copies: int, x: float, exponent: float, message: str) -> None:
    with pytest.raises(EvaluationError) as error:
        values_of(col("x") ** exponent, Schema.of(x=float), [(x,)] * copies)
    assert str(error.value) == message


# --- strings, objects, dates ----------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 10])
def test_strings_in_between_are_not_interned(copies: int) -> None:
    schema = Schema.of(s=str)
    interner = Interner()
    codes = schema.encode_rows([("ab",)] * copies, interner)
    assert (
        bind(cat(col("s").str.upper(), "-", col("s")).length() + 1, schema).evaluate(codes, interner).tolist()
        == [6] * copies
    )
    assert bind(col("s").str.upper() == "AB", schema).evaluate(codes, interner).tolist() == [1] * copies
    assert len(interner) == 1 or "-" not in interner


def test_ord_tells_strings_apart() -> None:
    schema = Schema.of(s=str)
    for copies in (1, 10):
        first, second, again = values_of(col("s").str.ord(), schema, [("b",), ("a",), ("b",)] * copies)[:3]
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
    assert values_of(col("s").cast(int), Schema.of(s=str), [(text,)]) == [value]


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_0", "1.0", "x", "0x", "٣", "1" * 5000, "9223372036854775808"]
)
def test_to_number_names_what_it_cannot_read(text: str) -> None:
    with pytest.raises((EvaluationError, ValueOutOfRangeError)) as error:
        values_of(col("s").cast(int), Schema.of(s=str), [(text,)])
    assert repr(text)[:40] in str(error.value) and 'col("s").cast(int)' in str(error.value)


@pytest.mark.parametrize("text", ["1_0", " 1.5", "1.5 ", " 1.5 ", "\t1", "1\n", " "])
def test_to_float_names_what_it_cannot_read(text: str) -> None:
    with pytest.raises(EvaluationError, match="the string is not a number") as error:
        values_of(col("s").cast(float), Schema.of(s=str), [(text,)])
    assert repr(text) in str(error.value)


def test_numbers_have_the_digits_of_one_script() -> None:
    for number_type in (int, float):
        with pytest.raises(EvaluationError, match="the string is not"):
            values_of(col("s").cast(number_type), Schema.of(s=str), [("٣",)])


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(EvaluationError, match=r"'\(' is not a regular expression"):
        values_of(col("s").str.matches("("), Schema.of(s=str), [("a",)])


@pytest.mark.parametrize("copies", [1, 10])
def test_objects_compare_by_value_and_class(copies: int) -> None:
    schema = Schema.of(o=object, n=int)
    rows = [(1, 1), (True, 1), ((1, 2), 1), ("a", 1), (0.5, 1)] * copies
    assert values_of(col("o") == 1, schema, rows) == [True, False, False, False, False] * copies
    assert values_of(col("o") == col("n"), schema, rows) == [True, False, False, False, False] * copies
    assert values_of(col("o") == (1, 2), schema, rows) == [False, False, True, False, False] * copies
    assert values_of(col("o") != (True, 2), schema, rows) == [True] * 5 * copies
    assert values_of(col("o") < 1, schema, rows) == [False, False, False, False, True] * copies
    assert values_of(col("o").cast(str), schema, rows) == ["1", "True", "(1, 2)", "a", "0.5"] * copies


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
    assert values_of(col("d").cast(str), schema, rows) == ["2024-01-02", "1969-01-02"] * copies
    assert (
        values_of(col("t").cast(str), schema, rows) == ["2024-01-02 03:00:00", "1969-01-02 00:00:00"] * copies
    )
