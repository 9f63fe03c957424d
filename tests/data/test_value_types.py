"""Decimals, times, durations, timestamps with zones, lists and structs as columns."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
import typing
import zoneinfo
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Schema, ZSet, col, from_json, lit
from dbsp.data.columns import encode_column
from dbsp.data.decimals import decimal_code, decimal_of, half_even
from dbsp.data.frames import decode_table
from dbsp.data.interner import Interner
from dbsp.data.timestamps import duration_text, read_duration, zone_of
from dbsp.data.type_inference import as_type, infer_type
from dbsp.data.type_text import read_type
from dbsp.data.types import Type
from dbsp.data.value_order import rank_codes
from dbsp.durable import Store
from dbsp.durable.code_ranges import check_codes
from dbsp.errors import DbspError, InputError, SchemaError, ValueOutOfRangeError

ROME = zoneinfo.ZoneInfo("Europe/Rome")
LIMIT = 10**18 - 1
HOUR = dt.timedelta(hours=1)

durations = st.integers(-(2**63) + 1, 2**63 - 1).map(lambda n: dt.timedelta(microseconds=n))
cents = st.integers(-LIMIT, LIMIT).map(lambda code: Decimal(f"{code}e-2"))
zones = st.sampled_from([dt.UTC, ROME])
instants = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29), timezones=st.just(dt.UTC))
moments = st.builds(dt.datetime.astimezone, instants, zones)  # not local times that no clock shows
words = st.lists(st.none() | st.text("ab", max_size=2), max_size=3)
places = st.fixed_dictionaries({"city": st.text("xyz", max_size=2), "zip": st.none() | st.integers(0, 3)})

SCHEMA = Schema.of(
    length=dt.timedelta | None,
    clock=dt.time,
    price="decimal(18, 2)?",
    at="timestamptz(Europe/Rome)",
    words=list[str | None],
    place={"city": str, "zip": int | None},
    visits="list[{day: date, paid: decimal(18, 2)}]",
)
visits = st.lists(st.fixed_dictionaries({"day": st.dates(), "paid": cents}), max_size=2)
rows = st.lists(
    st.tuples(st.none() | durations, st.times(), st.none() | cents, moments, words, places, visits),
    max_size=7,
)


def plain(value: Any) -> Any:
    """Return a value as rows show it, but with plain tuples for structs."""
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def as_set(zset: ZSet) -> set[Any]:
    return {plain(row) for row in zset.rows()}


@given(rows)
def test_rows_come_out_as_they_went_in(given_rows: list[Any]) -> None:
    zset = ZSet(given_rows, SCHEMA)
    assert as_set(zset) == {plain(row) for row in given_rows}
    assert all(row[3].tzinfo is ROME for row in zset.rows())
    assert pickle.loads(pickle.dumps(zset)) == zset
    assert pickle.loads(pickle.dumps(zset.rows())) == zset.rows()


@given(rows)
def test_frames_keep_the_values(given_rows: list[Any]) -> None:
    zset = ZSet(given_rows, SCHEMA)
    table = zset.to_arrow()
    for back in (
        ZSet.from_arrow(table, "weight", SCHEMA),
        ZSet.from_polars(zset.to_polars(), "weight", SCHEMA),
    ):
        assert back == zset
    if len(zset):
        assert (
            ZSet.from_arrow(table, "weight")
            .schema.describe()
            .startswith(("length: duration?, clock: time", "length: duration, clock: time"))
        )
        assert as_set(ZSet.from_arrow(table, "weight")) == as_set(zset)
        assert as_set(ZSet.from_pandas(zset.to_pandas(), "weight", SCHEMA)) == as_set(zset)


def test_pandas_and_polars_have_their_own_types() -> None:
    zset = ZSet([(HOUR, dt.time(1), Decimal("1.5"), dt.datetime(2024, 7, 1, tzinfo=ROME), ["a"], {"x": 1})])
    assert str(zset.to_pandas().dtypes.iloc[0]).startswith("timedelta64")
    assert str(zset.to_pandas().dtypes.iloc[3]) == "datetime64[us, Europe/Rome]"
    types = zset.to_polars().dtypes
    assert types[:3] == [pl.Duration("us"), pl.Time(), pl.Decimal(18, 1)]
    assert types[4:6] == [pl.List(pl.String), pl.Struct({"x": pl.Int64})]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_durations_and_times_of_every_unit(unit: str) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    clock = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    table = pa.table(
        {
            "d": pa.array([-3 * scale, None], pa.duration(unit)),
            "t": pa.array([7 * scale, 0], pa.int64() if unit in ("us", "ns") else pa.int32()).cast(clock),
        }
    )
    found = ZSet.from_arrow(table)
    assert found.schema.describe() == "d: duration?, t: time"
    assert found.rows() == [(None, dt.time(0)), (dt.timedelta(seconds=-3), dt.time(0, 0, 7))]


def test_arrow_values_that_would_lose_digits_are_refused() -> None:
    cases: list[tuple[pa.Array, str]] = [
        (pa.array([1000, 1001], pa.duration("ns")), "expected a duration in whole microseconds, got 1001 ns"),
        (pa.array([1], pa.time64("ns")), "expected a time in whole microseconds, got 1 ns"),
        (pa.array([2**62], pa.duration("s")), "column 'x': Casting from duration"),
    ]
    for array, message in cases:
        with pytest.raises(ValueOutOfRangeError, match=message):
            ZSet.from_arrow(pa.table({"x": array}))
    long = pa.table({"x": pa.array([Decimal("1.234")], pa.decimal128(38, 3))})
    assert ZSet.from_arrow(long).schema.describe() == "x: object"
    assert ZSet.from_arrow(long, schema={"x": "decimal(18, 3)"}).rows() == [(Decimal("1.234"),)]
    with pytest.raises(ValueOutOfRangeError, match="at most 2 digits after the point, got Decimal"):
        ZSet.from_arrow(long, schema={"x": "decimal(18, 2)"})
    with pytest.raises(InputError, match="expected a timestamp without zone"):
        ZSet.from_arrow(pa.table({"x": pa.array([0], pa.timestamp("us", "UTC"))}), schema={"x": dt.datetime})


def test_slices_of_arrow_arrays() -> None:
    table = pa.table(
        {
            "p": pa.array([Decimal("1.5"), None, Decimal("-2.5"), Decimal("7.0")], pa.decimal128(9, 1)),
            "l": pa.array([[1], None, [2, 3], []], pa.list_(pa.int64())),
            "s": pa.array([{"a": 1}, {"a": 2}, None, {"a": None}], pa.struct([("a", pa.int64())])),
        }
    )
    whole = list(ZSet.from_arrow(table))
    assert len(whole) == 4
    parts = ZSet.from_arrow(table.slice(1, 2))
    assert parts.to_dict() == {(None, None, (2,)): 1, (Decimal("-2.5"), (2, 3), None): 1}
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert ZSet.from_arrow(chunked) == ZSet.from_arrow(table)


@pytest.mark.parametrize(
    ("value", "type_", "message"),
    [
        (Decimal("0.001"), "decimal(18, 2)", "at most 2 digits after the point, got Decimal('0.001')"),
        (Decimal("1e17"), "decimal(18, 2)", "at most 16 digits before the point and 2 after it"),
        (Decimal("1e999999"), "decimal(18, 2)", "at most 16 digits before the point"),
        (10**18, "decimal(18, 0)", "at most 18 digits before the point"),
        (Decimal("NaN"), "decimal(18, 2)", "expected a decimal number, got NaN"),
        (0.5, "decimal(18, 2)", "got 0.5 of type float; write Decimal('0.5')"),
        (None, "decimal(18, 2)", "expected decimal, got None; to allow None"),
        (True, "decimal(18, 2)", "expected decimal, got True of type bool"),
        (dt.timedelta.max, "duration", "a duration of at most 292,471 years"),
        (dt.timedelta.min, "duration", "a duration of at most 292,471 years"),
        (3, "duration", "expected duration, got 3 of type int"),
        (pd.NaT, "duration", "expected duration, got None"),
        (np.timedelta64("NaT"), "duration", "expected duration, got None"),
        (np.timedelta64(1, "Y"), "duration", "expected duration, got "),
        (pd.NA, "duration", "expected duration, got None; to allow None, declare the column optional"),
        (pd.NA, "int", "expected int, got None; to allow None, declare the column optional"),
        (np.timedelta64(1, "s"), "int", "expected int, got np.timedelta64(1,'s') of type timedelta64"),
        (np.timedelta64(1, "s"), "float?", "expected float, got np.timedelta64(1,'s') of type timedelta64"),
        (pd.NaT, "date", "expected date, got None; to allow None, declare the column optional"),
        ([pd.NaT], "list[timestamp]?", "element 0: expected timestamp, got None; to allow None"),
        (np.timedelta64(1, "ns"), "duration", "a duration in whole microseconds"),
        (pd.Timedelta(1, "ns"), "duration", "a duration in whole microseconds"),
        (dt.time(1, tzinfo=dt.UTC), "time", "expected a time of day without zone, got 01:00:00+00:00"),
        ("01:00", "time", "expected time, got '01:00' of type str"),
        (dt.datetime(2024, 1, 1), "timestamptz", "expected a timestamp with a zone, got 2024-01-01"),
        (dt.datetime(2024, 1, 1, tzinfo=ROME), "timestamp", 'declare the column as "timestamptz"'),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC), "timestamptz", "from 0001-01-02 to 9999-12-30"),
        (3, "list[int]", "expected a list, got 3 of type int"),
        ("ab", "list[str]", "expected a list, got 'ab' of type str"),
        ([1, "x"], "list[int]", "element 1: expected int, got 'x'"),
        (None, "list[int]", "expected a list, got None"),
        ({"x": 1}, "{x: int, y: int}", "a struct of the fields x, y, got the fields x"),
        ({"x": 1, "y": "a"}, "{x: int, y: int}", "field 'y': expected int, got 'a'"),
        ((1,), "{x: int, y: int}", "a struct of the fields x, y, got 1 value"),
        (None, "{x: int}", "a struct of the fields x, got None"),
        (7, "{x: int}", "a struct of the fields x, got 7 of type int"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, type_: str, message: str) -> None:
    for rows in ([(value,)], [(value,)] * 9):
        with pytest.raises(DbspError) as caught:
            ZSet(rows, {"x": type_})
        assert message in str(caught.value)
        assert "row 0, column 'x': " in str(caught.value)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (pd.NaT, "timestamp?"),
        (pd.NaT, "timestamptz?"),
        (pd.NaT, "date?"),
        (pd.NaT, "duration?"),
        (np.datetime64("NaT"), "timestamp?"),
        (np.datetime64("NaT"), "date?"),
        (np.timedelta64("NaT"), "duration?"),
        *((pd.NA, f"{kind}?") for kind in ("int", "float", "bool", "str", "decimal", "duration", "time")),
    ],
)
def test_missing_values_of_numpy_and_pandas_are_none(value: Any, type_: str) -> None:
    for count in (1, 9):
        assert ZSet([(value,)] * count, {"x": type_}).to_dict() == {(None,): count}
        assert ZSet([([value, None],)] * count, {"x": f"list[{type_}]"}).to_dict() == {((None, None),): count}


def test_values_of_numpy_and_pandas() -> None:
    given_rows = [
        (np.timedelta64(3, "s"), [np.int64(1)]),
        (pd.Timedelta(hours=1), np.array([1, 2])),
        (np.timedelta64(-5000, "ns"), (3,)),
    ]
    found = ZSet(given_rows, {"d": dt.timedelta, "l": list[int]}).to_dict()
    assert set(found) == {
        (dt.timedelta(seconds=3), (1,)),
        (HOUR, (1, 2)),
        (dt.timedelta(microseconds=-5), (3,)),
    }
    assert ZSet([(np.timedelta64(3000, "ns"),)], {"x": object}).rows() == [(dt.timedelta(microseconds=3),)]


def test_decimals_do_not_depend_on_the_context() -> None:
    import decimal

    with decimal.localcontext() as context:
        context.prec = 3
        zset = ZSet([(Decimal("123456789.25"),)], {"x": "decimal(18, 2)"})
        assert zset.rows() == [(Decimal("123456789.25"),)]


@given(st.integers(-(10**40), 10**40), st.integers(-(10**20), 10**20).filter(bool))
def test_half_even(a: int, b: int) -> None:
    from fractions import Fraction

    assert half_even(a, b) == round(Fraction(a, b))


@given(st.integers(-LIMIT, LIMIT), st.integers(0, 18))
def test_the_code_of_a_decimal(code: int, scale: int) -> None:
    assert decimal_code(decimal_of(code, scale), scale) == code
    assert decimal_of(code, scale) == Decimal(f"{code}e-{scale}")


@given(durations)
def test_the_text_of_a_duration(value: dt.timedelta) -> None:
    assert read_duration(duration_text(value)) == value
    assert pd.Timedelta(hours=3).isoformat() == "P0DT3H0M0S" and read_duration("P0DT3H0M0S") == 3 * HOUR


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1Y", "1 day", "P1DT", "PT1.1234567S", "P9" + "9" * 30 + "D"]
)
def test_texts_that_are_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match="a duration"):
        read_duration(text)


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "decimal(18, 0)?",
        "timestamptz(+05:30)",
        "list[list[int?]?]",
        "{a: decimal(18, 4), b: list[{c: timestamptz(Europe/Rome)?, d: {e: str}}]?}",
    ],
)
def test_the_text_of_a_type(text: str) -> None:
    type_ = as_type(text)
    assert type_.written == text == str(type_)
    assert read_type(type_.written) == type_
    assert eval(repr(type_), {"as_type": as_type}) == type_
    assert Schema.of(x=text).describe() == f"x: {text}"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("decimal(10, 2)", "decimals have 18 digits, got 'decimal(10, 2)'; write 'decimal(18, 2)'"),
        ("decimal(18, 19)", "expected 0 to 18 digits after the point of a decimal, got 19"),
        ("timestamptz(Mars/Base)", "unknown time zone 'Mars/Base'"),
        ("list[object]", "the element of a list has the type object"),
        (list[typing.Any], "the element of a list has the type object"),
        ({"x": object}, "field 'x' has the type object"),
        ({}, "a struct needs at least one field"),
        ("{}", "a struct needs at least one field"),
        ({"two words": int}, "expected a name such as 'city'"),
        ({"class": int}, "expected a name such as 'city'"),
        ("{x}", "expected a type for every field"),
        ("{x: int, x: str}", "field 'x' occurs twice"),
        ({"x": 3}, "field 'x': expected a type such as"),
        ("list", "expected the types of the parts"),
        ("struct?", "expected the types of the parts"),
        (list, "write list[int]"),
    ],
)
def test_types_that_are_refused(spec: Any, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        as_type(spec)
    assert message in str(caught.value)


def test_a_type_checks_its_parameters() -> None:
    with pytest.raises(SchemaError, match="expected a time zone for the type 'timestamptz'"):
        Type("timestamptz")
    with pytest.raises(SchemaError, match="expected a time zone for the type 'timestamptz'"):
        Type("int", zone="UTC")
    with pytest.raises(SchemaError, match="expected 0 to 18 digits"):
        Type("int", scale=2)
    assert zone_of("-03:30").utcoffset(None) == -dt.timedelta(hours=3, minutes=30)


class Address(NamedTuple):
    city: str
    zip: int | None


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Named(typing.TypedDict):
    name: str
    tags: list[str]


def test_classes_as_types_of_structs() -> None:
    assert str(as_type(Address)) == "{city: str, zip: int?}"
    assert str(as_type(list[Point])) == "list[{x: int, y: int}]"
    assert str(as_type(Named | None)) == "{name: str, tags: list[str]}?"
    schema = {"a": Address, "b": list[Point], "c": Named}
    zset = ZSet([(Address("Rome", 1), [Point(1, 2)], {"tags": [], "name": "n"})], schema)
    ((address, points, named),) = zset.rows()
    assert (address.city, points[0].y, named.tags) == ("Rome", 2, ())
    assert address == Address("Rome", 1) and hash(address) == hash(Address("Rome", 1))


def test_types_of_values() -> None:
    def inferred(*values: Any) -> str:
        return str(infer_type(values))

    moment = dt.datetime(2024, 1, 1)
    assert inferred(HOUR, None) == "duration?"
    assert inferred(Decimal("1.50"), Decimal("7"), 3) == "decimal(18, 2)"
    assert inferred(Decimal("1e20")) == "object"
    assert inferred(Decimal("1e17"), Decimal("0.01")) == "object"
    assert inferred(Decimal("NaN")) == "object"
    assert inferred(moment.replace(tzinfo=ROME)) == "timestamptz(Europe/Rome)"
    assert inferred(moment.replace(tzinfo=ROME), moment.replace(tzinfo=dt.UTC)) == "timestamptz(UTC)"
    assert inferred([1], [], [None]) == "list[int?]"
    assert inferred({"a": 1}, {"a": None}) == "{a: int?}"
    assert inferred((1, 2)) == "object"
    with pytest.raises(InputError, match="expected a timestamp without zone"):
        ZSet([(moment,), (moment.replace(tzinfo=ROME),)])


# --- order ----------------------------------------------------------------------------------------


def sort_key(value: Any) -> Any:
    if value is None:
        return (0,)
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    return (1, tuple(map(sort_key, value)) if isinstance(value, list) else value)


@given(rows)
def test_rows_are_sorted_by_value(given_rows: list[Any]) -> None:
    keys = [tuple(map(sort_key, map(_listed, row))) for row in ZSet(given_rows, SCHEMA).rows()]
    assert keys == sorted(keys)
    for at, type_ in enumerate(SCHEMA.types):
        values, interner = [row[at] for row in given_rows], Interner()
        ranks = rank_codes(type_, encode_column(type_, values, interner), interner).tolist()
        for a, x in zip(ranks, values, strict=True):
            assert [a < b for b in ranks] == [sort_key(x) < sort_key(y) for y in values]


def _listed(value: Any) -> Any:
    return list(map(_listed, value)) if isinstance(value, tuple) else value


# --- circuits -------------------------------------------------------------------------------------


def copying() -> Circuit:
    circuit = Circuit("copy")
    source = circuit.input("in", schema=SCHEMA)
    circuit.output("all", source)
    circuit.output("set", source.distinct())
    circuit.output("late", source.filter(col("length") > HOUR))
    return circuit


@given(rows)
def test_a_circuit_of_all_types_is_written_as_json(given_rows: list[Any]) -> None:
    circuit = from_json(copying().to_json())
    result = circuit.start().step({"in": given_rows})
    assert result["all"] == ZSet(given_rows, SCHEMA)
    expected = [row for row in given_rows if row[0] is not None and row[0] > HOUR]
    assert result["late"] == ZSet(expected, SCHEMA)


def test_a_checkpoint_has_all_types(tmp_path: Path) -> None:
    at = dt.datetime(2024, 7, 1, 12, tzinfo=ROME)
    visit = {"day": dt.date(2024, 1, 1), "paid": Decimal("1.25")}
    first = (HOUR, dt.time(1), Decimal("-1.5"), at, ["a", None], {"city": "Rome", "zip": None}, [visit])
    second = (None, dt.time(2), None, at, [], {"city": "Bonn", "zip": 1}, [visit, visit])
    for snapshots in (False, True):
        folder = tmp_path / str(snapshots)
        run = copying().start(checkpoint=Store(folder, sync=False))
        run.step({"in": [first]})
        if snapshots:
            assert isinstance(run.log, Store)
            run.log.snapshot()
        run.step({"in": [second, second]})
        assert run.log is not None
        run.log.close()
        run = copying().start(checkpoint=Store(folder, sync=False))
        assert run.view("all") == ZSet({plain(first): 1, plain(second): 2}, SCHEMA)
        assert as_set(run.step({"in": {plain(first): -1}})["set"]) == {plain(first)}
        assert as_set(run.view("set")) == {plain(second)}
        assert run.log is not None
        run.log.close()


# --- codes of files, operators ------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "other", "message"),
    [
        ("list[int]", "a text", "is not a list"),
        ("list[int]", ("a", "b"), "is not a list"),
        ("list[int]", (1, 2**70), "is not a list"),
        ("list[time]", (1, -1), "column 'element' of type time has the code -1"),
        ("{a: int}", "a text", "is not a struct"),
        ("list[{a: int}]", (0,), "is not a struct"),
    ],
)
def test_codes_of_a_file_are_checked(type_: str, other: Any, message: str) -> None:
    interner = Interner()
    interner.encode("first")
    code = interner.encode(other)
    with pytest.raises(ValueError, match=message):
        check_codes(np.array([[code]]), Schema.of(x=type_), interner)


@pytest.mark.parametrize("kind", ["time", "duration", "timestamptz", "decimal"])
def test_codes_out_of_range_are_found(kind: str) -> None:
    with pytest.raises(ValueError, match=f"column 'x' of type {kind}.* has the code"):
        check_codes(np.array([[-(2**63)]]), Schema.of(x=kind), Interner())


def test_codes_of_values_pass() -> None:
    row = (None, dt.time(1), None, dt.datetime(2024, 1, 1, tzinfo=ROME), ["a"], {"city": "", "zip": 1}, [])
    zset = ZSet([row], SCHEMA)
    check_codes(zset.stored.rows, SCHEMA, zset.interner)


def test_decimals_of_two_scales_are_not_compared_by_their_codes() -> None:
    circuit = Circuit("scales")
    a, b = circuit.input("a", p="decimal(18, 2)"), circuit.input("b", p="decimal(18, 3)")
    for use in (
        lambda: a.join(b, on="p"),
        lambda: a + b,
        lambda: a.join(b, on="p", how="semi"),
        lambda: a - b,
    ):
        with pytest.raises(SchemaError):
            use()
    both = a.map(p=col("p").cast("decimal(18, 3)")).join(b, on="p")
    circuit.output("both", both)
    zoned = circuit.input("c", t="timestamptz(Europe/Rome)").join(circuit.input("d", t="timestamptz"), on="t")
    circuit.output("zoned", zoned)
    at = dt.datetime(2024, 7, 1, tzinfo=ROME)
    run = circuit.start()
    result = run.step(
        {
            "a": [(Decimal("1.5"),), (Decimal("0.15"),)],
            "b": [(Decimal("1.5"),), (Decimal("1.502"),)],
            "c": [(at,)],
            "d": [(at.astimezone(dt.UTC),)],
        }
    )
    assert result["both"].rows() == [(Decimal("1.500"),)]
    assert result["zoned"].rows() == [(at,)]


def test_a_decimal_column_takes_a_table_of_another_scale() -> None:
    table = pa.table({"p": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(9, 2))})
    assert ZSet.from_arrow(table, schema={"p": "decimal(18, 1)"}).rows() == [(Decimal("1.5"),), (Decimal(2),)]
    assert ZSet.from_arrow(pa.table({"p": [1, 2]}), schema={"p": Decimal}).rows() == [
        (Decimal(1),),
        (Decimal(2),),
    ]


def test_ranges_and_windows_take_timedeltas() -> None:
    circuit = Circuit("windows")
    a = circuit.input("a", t="timestamptz(Europe/Rome)", c=dt.time, d=dt.timedelta)
    circuit.output("windows", a.window("t", HOUR).select("window_start"))
    pairs = a.range_join(a.rename(c2="c", t2="t", d2="d"), left="c", right="c2", low=-HOUR, high=HOUR)
    circuit.output("pairs", pairs.select("c", "c2"))
    near = a.range_join(a.rename(c2="c", t2="t", d2="d"), left="d", right="d2", low=HOUR, high=HOUR)
    circuit.output("near", near.select("d", "d2"))
    late = a.watermark("t", HOUR).late
    circuit.output("late", late.select("c"))
    first = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ROME)
    run = circuit.start()
    result = run.step({"a": [(first, dt.time(1), HOUR), (first + 2 * HOUR, dt.time(3), 2 * HOUR)]})
    starts = [row[0] for row in result["windows"].rows()]
    assert starts == [first.replace(minute=0), (first + 2 * HOUR).replace(minute=0)]
    assert result["pairs"].rows() == [(dt.time(1), dt.time(1)), (dt.time(3), dt.time(3))]
    assert result["near"].rows() == [(HOUR, 2 * HOUR)]
    assert run.step({"a": [(first, dt.time(9), HOUR)]})["late"].rows() == [(dt.time(9),)]


@given(rows)
def test_the_weight_of_a_row_is_found(given_rows: list[Any]) -> None:
    zset, half = ZSet(given_rows, SCHEMA), ZSet(given_rows[::2], SCHEMA)
    for row in given_rows:
        assert zset[row] == sum(plain(row) == plain(other) for other in given_rows)
        assert half[row] == sum(plain(row) == plain(other) for other in given_rows[::2])


def test_lists_and_structs_are_tuples_among_objects() -> None:
    zset = ZSet([([1, 2], {"a": (3,)})], {"x": list[int], "y": {"a": list[int]}})
    schema, interner = Schema.of(x=object, y=object), Interner()
    objects = schema.decode_rows(zset.recoded(schema, interner).rows, interner)
    assert [type(value) for value in objects[0]] == [tuple, tuple]
    assert objects == [((1, 2), ((3,),))]


def test_the_zone_of_a_constant_is_written_as_json() -> None:
    circuit = Circuit("constants")
    source = circuit.input("in", x=int)
    at = dt.datetime(2024, 7, 1, 12, tzinfo=ROME)
    constants = {
        "at": lit(at),
        "d": lit(HOUR),
        "p": lit(Decimal("1.50")),
        "c": lit(dt.time(1)),
        "l": lit([{"a": [1]}]),
    }
    circuit.output("out", source.map(**constants))
    read = from_json(circuit.to_json())
    for one in (circuit, read):
        result = one.start().step({"in": [(1,)]})["out"]
        assert result.schema.describe() == (
            "at: timestamptz(Europe/Rome), d: duration, p: decimal(18, 2), c: time, l: list[{a: list[int]}]"
        )
        assert result.rows() == [(at, HOUR, Decimal("1.50"), dt.time(1), (((1,),),))]


def test_a_table_has_the_arrow_types_that_the_caller_chooses() -> None:
    zset = ZSet([(Decimal("1.50"), [1])], {"p": "decimal(18, 2)", "l": list[int]})
    types = {"p": pa.decimal128(10, 3), "l": pa.large_list(pa.int32())}
    table = decode_table(zset.stored.rows, zset.schema, zset.interner, types)
    assert table.schema.types == list(types.values())
    assert table.to_pylist() == [{"p": Decimal("1.500"), "l": [1]}]
    with pytest.raises(
        SchemaError, match=r"column 'p': the values cannot be converted to the Arrow type decimal"
    ):
        decode_table(zset.stored.rows, zset.schema, zset.interner, {"p": pa.decimal128(10, 0)})
