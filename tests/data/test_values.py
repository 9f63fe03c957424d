"""Types and codes: values round-trip, codes compare like values, and wrong values are refused."""

from __future__ import annotations

import datetime as dt
import enum
import math
import zoneinfo
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.columns import code_floats, decode_column, encode_column, float_codes
from dbsp.data.interner import Interner
from dbsp.data.nested_values import struct_class
from dbsp.data.type_inference import as_type, infer_type
from dbsp.data.types import (
    BOOL,
    BYTES,
    DATE,
    DURATION,
    FLOAT,
    INSTANT,
    INT,
    OBJECT,
    STR,
    TIME,
    TIMESTAMP,
    Type,
    decimal_type,
    list_type,
    struct_type,
)
from dbsp.data.value_order import order_key, rank_codes
from dbsp.data.values import decode_value, encode_value
from dbsp.errors import InputError, SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL

LETTERS = "abZé \U0001f600"

INTS = st.integers(INT64_MIN, INT64_MAX) | st.integers(-3, 3) | st.sampled_from([INT64_MIN, INT64_MAX])
ZONES = [dt.UTC, dt.timezone(dt.timedelta(hours=-9, minutes=-30)), zoneinfo.ZoneInfo("Europe/Rome")]
INSTANTS = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29), timezones=st.just(dt.UTC))
MOMENTS = st.builds(dt.datetime.astimezone, INSTANTS, st.sampled_from(ZONES))
DURATIONS = st.integers(-INT64_MAX, INT64_MAX).map(lambda n: dt.timedelta(microseconds=n)) | st.sampled_from(
    [dt.timedelta(0), dt.timedelta(microseconds=1), dt.timedelta(microseconds=-INT64_MAX)]
)


def decimals(scale: int) -> st.SearchStrategy[Decimal]:
    """Draw decimals of 18 digits, also the largest ones."""
    limit = 10**18 - 1
    codes = st.integers(-limit, limit) | st.integers(-2, 2) | st.sampled_from([limit, -limit])
    return codes.map(lambda code: Decimal(f"{code}e-{scale}"))


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(width=16) | st.text(LETTERS, max_size=2),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    INT: INTS,
    FLOAT: st.floats(),
    BOOL: st.booleans(),
    STR: st.text(LETTERS, max_size=4),
    BYTES: st.binary(max_size=4),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(),
    INSTANT: MOMENTS,
    Type("timestamptz", zone="America/New_York"): MOMENTS,
    TIME: st.times(),
    DURATION: DURATIONS,
    decimal_type(2): decimals(2),
    decimal_type(18): decimals(18),
    list_type(INT.optional()): st.lists(st.none() | st.integers(-3, 3), max_size=3).map(tuple),
    list_type(list_type(STR)): st.lists(
        st.lists(st.text(LETTERS, max_size=2), max_size=2).map(tuple), max_size=3
    ).map(tuple),
    struct_type({"at": DATE, "to": STR.optional(), "of": list_type(DURATION)}): st.tuples(
        st.dates(),
        st.none() | st.text(LETTERS, max_size=2),
        st.lists(DURATIONS, max_size=2).map(tuple),
    ).map(struct_class(("at", "to", "of"))._make),
    OBJECT: st.tuples(NESTED)
    | st.sampled_from([Decimal("1.50"), frozenset({1, (2,)}), 7, "seven", 1.5, True]),
}
TYPES = st.sampled_from(list(VALUES))


def identical(a: Any, b: Any) -> bool:
    """Return whether values are equal and of one class, at all depths;

    NaN is itself, -0.0 is 0.0.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(identical, a, b))
    return bool(a == b) or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


@st.composite
def columns(draw: st.DrawFn) -> tuple[Type, list[Any]]:
    type_ = draw(TYPES)
    if not draw(st.booleans()):
        return type_, draw(st.lists(VALUES[type_], max_size=8))
    values = VALUES[type_].filter(lambda value: not (type_ == INT and value == INT64_MIN))
    return type_.optional(), draw(st.lists(st.none() | values, max_size=8))


@given(columns())
def test_a_column_round_trips(column: tuple[Type, list[Any]]) -> None:
    type_, values = column
    interner = Interner()
    codes = encode_column(type_, values, interner)
    assert codes.dtype == np.int64 and codes.shape == (len(values),)
    assert all(map(identical, decode_column(type_, codes, interner), values))


@given(columns())
def test_one_value_has_the_code_it_has_in_a_column(column: tuple[Type, list[Any]]) -> None:
    type_, values = column
    interner = Interner()
    codes = encode_column(type_, values, interner)
    assert [encode_value(type_, value, interner) for value in values] == codes.tolist()
    decoded = [decode_value(type_, code, interner) for code in codes.tolist()]
    assert all(map(identical, decoded, decode_column(type_, codes, interner)))


@given(
    st.sampled_from([INT, FLOAT, BOOL, DATE, TIMESTAMP]).flatmap(
        lambda t: st.tuples(st.just(t), VALUES[t], VALUES[t])
    )
)
def test_ordered_codes_compare_like_their_values(case: tuple[Type, Any, Any]) -> None:
    type_, a, b = case
    assert type_.ordered_codes
    code_a, code_b = (encode_value(type_, value, Interner()) for value in (a, b))
    if a != a or b != b:  # NaN is last and equals itself
        assert (code_a < code_b) == (a == a and b != b)
    else:
        assert (code_a < code_b) == (a < b) and (code_a == code_b) == (a == b)


@given(st.lists(st.floats(allow_subnormal=True), max_size=20))
def test_float_codes_in_bulk_agree_with_single_ones_and_round_trip(values: list[float]) -> None:
    codes = float_codes(np.array(values, np.float64))
    assert codes.tolist() == [encode_value(FLOAT, value, Interner()) for value in values]
    assert all(map(identical, code_floats(codes).tolist(), values))


def test_minus_zero_is_zero_and_every_nan_is_one_value() -> None:
    other_nan = np.array([0xFFF8000000000123], np.uint64).view(np.float64)
    assert encode_value(FLOAT, -0.0, Interner()) == encode_value(FLOAT, 0.0, Interner())
    assert math.copysign(1, decode_value(FLOAT, encode_value(FLOAT, -0.0, Interner()), Interner())) == 1
    assert len(set(float_codes(np.array([math.nan, -math.nan, other_nan[0]])).tolist())) == 1
    assert encode_value(FLOAT, float(other_nan[0]), Interner()) == encode_value(FLOAT, math.nan, Interner())
    assert encode_value(FLOAT, math.nan, Interner()) > encode_value(FLOAT, math.inf, Interner())


@given(st.lists(st.none() | NESTED, max_size=8))
def test_ranks_of_objects_follow_the_order_of_values_with_none_first(values: list[Any]) -> None:
    interner = Interner()
    interner.encode("an id that is not 0")
    codes = encode_column(OBJECT.optional(), values, interner)
    ranks = rank_codes(OBJECT.optional(), codes, interner).tolist()
    for a, rank_a in zip(values, ranks, strict=True):
        for b, rank_b in zip(values, ranks, strict=True):
            assert (rank_a < rank_b) == (order_key(a) < order_key(b))


@given(st.lists(st.text(LETTERS, max_size=3), max_size=10))
def test_ranks_of_strings_are_in_string_order(values: list[str]) -> None:
    interner = Interner()
    ranks = rank_codes(STR, encode_column(STR, values, interner), interner)
    assert [values[i] for i in np.argsort(ranks, kind="stable")] == sorted(values)


def test_none_has_the_lowest_code_and_only_optional_columns_hold_it() -> None:
    interner = Interner()
    assert encode_value(STR.optional(), None, interner) == NULL == INT64_MIN
    assert encode_value(INT, INT64_MIN, interner) == INT64_MIN
    for type_ in VALUES:
        with pytest.raises(InputError, match="got None; to allow None, declare the column optional"):
            encode_value(type_, None, interner)
    with pytest.raises(ValueOutOfRangeError, match=r"in an optional column, got -2\*\*63"):
        encode_value(INT.optional(), INT64_MIN, interner)
    with pytest.raises(ValueOutOfRangeError, match=r"row 2, column 'x': .*, got -2\*\*63"):
        encode_column(INT.optional(), [1, None, INT64_MIN], interner, "x")
    with pytest.raises(ValueOutOfRangeError, match=r"row 1, column 'x': .*, got -2\*\*63"):
        encode_column(INT.optional(), [1, INT64_MIN], interner, "x")


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30])
def test_ints_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(ValueOutOfRangeError, match=f"expected an int from .*, got {value}"):
        encode_value(INT, value, Interner())
    with pytest.raises(ValueOutOfRangeError, match=f"row 1, column 'n': expected an int .*, got {value}"):
        encode_column(INT, [0, value], Interner(), "n")
    with pytest.raises(
        ValueOutOfRangeError, match=r"expected a float, got the int 1000.*, which is too large"
    ):
        encode_column(FLOAT, [1.5, 10**400], Interner(), "n")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (INT, True),
        (INT, 1.0),
        (INT, "1"),
        (FLOAT, True),
        (FLOAT, "1"),
        (BOOL, 1),
        (STR, b"a"),
        (STR, 1),
        (BYTES, "a"),
        (DATE, dt.datetime(2020, 1, 1)),
        (DATE, "2020-01-01"),
        (TIMESTAMP, dt.date(2020, 1, 1)),
    ],
)
def test_values_of_another_type_are_refused(type_: Type, value: Any) -> None:
    message = f"expected {type_.kind}, got .* of type {type(value).__name__}"
    with pytest.raises(InputError, match=message):
        encode_value(type_, value, Interner())
    with pytest.raises(InputError, match=f"row 0, column 'c': {message}"):
        encode_column(type_, [value], Interner(), "c")


def test_unhashable_objects_are_refused_with_advice() -> None:
    with pytest.raises(
        InputError, match=r"row 1: \[1\] of type list cannot be a value: it is not hashable; use a tuple"
    ):
        encode_column(OBJECT, [(1,), [1]], Interner())
    with pytest.raises(InputError, match=r"it is not hashable \["):
        encode_value(OBJECT, {"a": 1}, Interner())


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def test_numpy_scalars_and_subclasses_become_plain_values() -> None:
    interner = Interner()
    for type_, given_value, plain in [
        (INT, np.int32(5), 5),
        (INT, np.uint8(5), 5),
        (INT, Level.HIGH, 3),
        (FLOAT, np.float32(0.5), 0.5),
        (FLOAT, 2, 2.0),
        (FLOAT, np.int64(2), 2.0),
        (BOOL, np.True_, True),
        (STR, np.str_("a"), "a"),
        (STR, Colour.RED, "red"),
        (BYTES, np.bytes_(b"a"), b"a"),
        (DATE, np.datetime64("2020-02-03"), dt.date(2020, 2, 3)),
        (TIMESTAMP, np.datetime64("2020-02-03T04:05:06.7", "ns"), dt.datetime(2020, 2, 3, 4, 5, 6, 700_000)),
    ]:
        assert identical(decode_value(type_, encode_value(type_, given_value, interner), interner), plain)
        (back,) = decode_column(type_, encode_column(type_, [given_value], interner), interner)
        assert identical(back, plain)


def test_timestamps_with_and_without_a_zone_are_not_mixed() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    aware, naive = dt.datetime(2024, 5, 6, 7, tzinfo=zone), dt.datetime(2024, 5, 6, 7)
    for values in ([naive, aware], [naive] * 9 + [aware]):
        with pytest.raises(InputError, match=r"expected a timestamp without zone, got 2024-05-06T07:00"):
            encode_column(TIMESTAMP, values, Interner())
        with pytest.raises(InputError, match="expected a timestamp with a zone, got 2024-05-06T07:00:00"):
            encode_column(INSTANT, values[::-1], Interner())
    codes = encode_column(INSTANT, [aware], Interner())
    assert decode_column(INSTANT, codes, Interner()) == [aware]
    assert decode_column(INSTANT, codes, Interner())[0].tzinfo is dt.UTC
    with pytest.raises(ValueOutOfRangeError, match="expected a timestamp from 0001-01-02 to 9999-12-30"):
        encode_column(INSTANT, [dt.datetime(1, 1, 1, tzinfo=zone)], Interner())


@pytest.mark.parametrize(
    ("spec", "type_"),
    [
        (int, INT),
        (np.int64, INT),
        (float, FLOAT),
        (bool, BOOL),
        (str, STR),
        (bytes, BYTES),
        (dt.date, DATE),
        (dt.datetime, TIMESTAMP),
        (tuple, OBJECT),
        (tuple[int, str], OBJECT),
        (object, OBJECT),
        (Any, OBJECT),
        (Decimal, decimal_type(6)),
        (dt.timedelta, DURATION),
        (dt.time, TIME),
        (list[int | None], list_type(INT.optional())),
        ({"a": int, "b": list[str]}, struct_type({"a": INT, "b": list_type(STR)})),
        (int | None, INT.optional()),
        (None | str, STR.optional()),
        (int | str, OBJECT),
        (int | str | None, OBJECT.optional()),
        ("date", DATE),
        ("float?", FLOAT.optional()),
        (STR, STR),
    ],
)
def test_as_type(spec: Any, type_: Type) -> None:
    assert as_type(spec) == type_


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("integer", "write 'int'"),
        ("datetime", "write 'timestamp'"),
        ("String", "write 'str'"),
        ("int | None", "write 'int?'"),
        ("list[varchar]", "write 'str'"),
        ("flaot", "did you mean 'float'?"),
    ],
)
def test_the_error_of_an_unknown_type_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(SchemaError) as raised:
        as_type(text)
    assert raised.value.message.endswith(f"; {hint}")


def test_other_values_are_not_types() -> None:
    with pytest.raises(SchemaError, match="unknown type 'colour'; the types are int, float"):
        as_type("colour")
    with pytest.raises(SchemaError, match=r"expected the type of the elements of a list; write list\[int\]"):
        as_type(list)
    with pytest.raises(SchemaError, match=r"dict cannot be the type of a column, .* not hashable; use tuple"):
        as_type(dict)
    with pytest.raises(SchemaError, match=r"expected a type such as .*; got 3"):
        as_type(3)
    with pytest.raises(SchemaError, match=r"expected a type such as .*; got None"):
        as_type(None)
    for spec in (pl.Int64, pl.Int64()):  # types of columns, not classes of values
        with pytest.raises(SchemaError, match=r"expected a type such as .*; got Int64"):
            as_type(spec)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2], INT),
        ([1, 2.5], FLOAT),
        ([True, 1], OBJECT),
        (["a", None], STR.optional()),
        ([None], OBJECT.optional()),
        ([], OBJECT),
        ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)], OBJECT),
        ([(1, 2)], OBJECT),
    ],
)
def test_infer_type(values: list[Any], type_: Type) -> None:
    assert infer_type(values) == type_


def test_types_describe_themselves() -> None:
    assert (str(INT), str(STR.optional()), repr(DATE), repr(DATE.optional())) == (
        "int",
        "str?",
        "DATE",
        "DATE.optional()",
    )
    assert INT.optional().optional().required() == INT
    assert [type_.kind for type_ in VALUES if type_.interned] == [
        *("str", "bytes", "list", "list", "struct", "object")
    ]
