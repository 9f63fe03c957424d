"""The start of a unit of time, further parts of dates, and times as text, against plain Python."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbsp import col, lit
from dbsp.data.schema import Schema
from dbsp.errors import ArgumentError, EvaluationError, SchemaError, ValueOutOfRangeError
from dbsp.expressions import bind
from dbsp.expressions.time_unit_names import TIME_UNITS
from tests.expressions.agreement import agree
from tests.expressions.reference_expressions import values_of
from tests.profiles import examples

ROME = zoneinfo.ZoneInfo("Europe/Rome")
AWARE = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29)).map(
    lambda value: value.replace(tzinfo=dt.UTC).astimezone(ROME)
)
DATES = st.dates() | st.dates(dt.date(1968, 1, 1), dt.date(1972, 12, 31))
TIMES = st.datetimes() | st.datetimes(dt.datetime(1969, 12, 1), dt.datetime(1970, 2, 1))


def start(value: dt.datetime, unit: str) -> dt.datetime:
    """The start of a unit, found by counting up from the start of the year or back by days."""
    value = value.replace(microsecond=value.microsecond - value.microsecond % 1000)
    for small in ("millisecond", "second", "minute", "hour"):
        if unit == small:
            return value
        value -= {
            "millisecond": dt.timedelta(microseconds=value.microsecond),
            "second": dt.timedelta(seconds=value.second),
            "minute": dt.timedelta(minutes=value.minute),
            "hour": dt.timedelta(hours=value.hour),
        }[small]
    while {
        "day": False,
        "week": value.weekday() != 0,
        "month": value.day != 1,
        "quarter": value.day != 1 or value.month not in (1, 4, 7, 10),
        "year": value.day != 1 or value.month != 1,
    }[unit]:
        value -= dt.timedelta(days=1)
    return value


@pytest.mark.parametrize("unit", TIME_UNITS)
@settings(max_examples=examples(15), deadline=None)
@given(rows=st.lists(st.tuples(TIMES, DATES, st.times()), min_size=1, max_size=6))
@example(rows=[(dt.datetime.max, dt.date.max, dt.time.max), (dt.datetime.min, dt.date.min, dt.time.min)])
def test_truncate(unit: Any, rows: list[tuple[Any, ...]]) -> None:
    schema = Schema.of(t=dt.datetime, d=dt.date, c=dt.time)
    agree(col("t").dt.truncate(unit), schema, rows, lambda t, d, c: start(t, unit))
    if unit in ("hour", "minute", "second", "millisecond"):
        on_a_day = lambda t, d, c: start(dt.datetime.combine(dt.date(2000, 1, 1), c), unit).time()  # noqa: E731
        agree(col("c").dt.truncate(unit), schema, rows, on_a_day)
        with pytest.raises(SchemaError, match="truncate expects a timestamp and its unit; a date and year"):
            bind(col("d").dt.truncate(unit), schema)
    else:
        midnight = dt.time()
        of_date = lambda t, d, c: start(dt.datetime.combine(d, midnight), unit).date()  # noqa: E731
        agree(col("d").dt.truncate(unit), schema, rows, of_date)
        with pytest.raises(SchemaError, match=r'or a time and hour, .* got col\("c"\) \(time\)'):
            bind(col("c").dt.truncate(unit), schema)


@settings(max_examples=examples(30), deadline=None)
@given(st.sampled_from(TIME_UNITS), st.lists(st.tuples(AWARE), min_size=1, max_size=6))
def test_truncate_uses_the_zone_of_the_column(unit: Any, rows: list[tuple[Any, ...]]) -> None:
    def in_rome(z: dt.datetime) -> dt.datetime:
        return start(z.replace(tzinfo=None), unit).replace(tzinfo=ROME, fold=z.fold if kept else 0)

    def in_utc(z: dt.datetime) -> dt.datetime:
        return start(z.astimezone(dt.UTC).replace(tzinfo=None), unit).replace(tzinfo=dt.UTC)

    kept = unit in ("hour", "minute", "second", "millisecond")
    rows = [row for row in rows if row[0].year > 1]
    agree(col("z").dt.truncate(unit), Schema.of(z="timestamptz(Europe/Rome)"), rows, in_rome)
    agree(col("z").dt.truncate(unit), Schema.of(z="timestamptz(UTC)"), rows, in_utc)


def test_truncate_at_the_end_of_summer_time() -> None:
    schema = Schema.of(z="timestamptz(Europe/Rome)")
    # 02:30 occurs twice on this day; the hours that contain it are two hours.
    first, second = (dt.datetime(2024, 10, 27, 2, 30, tzinfo=ROME, fold=fold) for fold in (0, 1))
    for copies in (1, 10):
        hours = values_of(col("z").dt.truncate("hour"), schema, [(first,), (second,)] * copies)
        utc = [hour.astimezone(dt.UTC).hour for hour in hours]
        assert utc == [0, 1] * copies


def test_a_start_before_the_first_instant_is_an_error() -> None:
    row = (dt.datetime(1, 1, 2, 12, tzinfo=dt.UTC),)
    for copies in (1, 10):
        with pytest.raises(ValueOutOfRangeError):
            values_of(col("z").dt.truncate("year"), Schema.of(z="timestamptz(UTC)"), [row] * copies)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.none() | TIMES, DATES, AWARE), min_size=1, max_size=6))
@example([(dt.datetime.max, dt.date.max, dt.datetime(2024, 12, 31, 23, 30, tzinfo=ROME))])
def test_parts_and_text(rows: list[tuple[Any, ...]]) -> None:
    schema = Schema.of(t="timestamp?", d=dt.date, z="timestamptz(Europe/Rome)")
    first = lambda t, d, z: (d.month - 1) // 3 + 1  # noqa: E731
    agree(col("d").dt.quarter(), schema, rows, first)
    agree(col("t").dt.quarter(), schema, rows, lambda t, d, z: t and (t.month - 1) // 3 + 1)
    agree(col("d").dt.ordinal_day(), schema, rows, lambda t, d, z: (d - dt.date(d.year, 1, 1)).days + 1)
    agree(col("z").dt.ordinal_day(), schema, rows, lambda t, d, z: int(z.strftime("%j")))
    agree(col("t").dt.week(), schema, rows, lambda t, d, z: t and int(t.strftime("%V")))
    agree(col("d").dt.week(), schema, rows, lambda t, d, z: d.isocalendar()[1])
    agree(
        col("z").dt.strftime("%H:%M %z"),
        schema,
        rows,
        lambda t, d, z: f"{z.hour:02}:{z.minute:02} {z.strftime('%z')}",
    )
    agree(col("d").dt.strftime("%d.%m"), schema, rows, lambda t, d, z: f"{d.day:02}.{d.month:02}")


def test_wrong_units_and_types() -> None:
    with pytest.raises(
        ArgumentError, match=r"unit= expects one of 'year', .*, got 'months'; did you mean 'month'\?"
    ):
        col("t").dt.truncate("months")  # type: ignore[arg-type]
    schema = Schema.of(t=dt.datetime, n=int, c=dt.time)
    for expression, message in [
        (col("n").dt.truncate("day"), "truncate expects a timestamp and its unit"),
        (col("c").dt.quarter(), "quarter expects a date or a timestamp"),
        (col("c").dt.week(), "week expects a date or a timestamp"),
        (col("n").dt.ordinal_day(), "ordinal_day expects a date or a timestamp"),
        (col("n").dt.strftime("%d"), "strftime expects a date, a time or a timestamp, and a format as a str"),
        (col("t").dt.strftime(1), "strftime expects a date, a time or a timestamp, and a format as a string"),
    ]:
        with pytest.raises(SchemaError, match=message):
            bind(expression, schema)
    for expression in [col("t").dt.truncate("day"), col("t").dt.week(), col("t").dt.strftime("%d")]:
        assert eval(repr(expression), {"col": col, "lit": lit}).same_as(expression)


def test_a_format_that_python_refuses() -> None:
    day, format_ = dt.date(2024, 5, 6), "a\0b\ud800"
    text = col("t").dt.strftime(format_)
    try:
        expected = day.strftime(format_)
    except ValueError:
        with pytest.raises(
            EvaluationError, match=r"strftime has no text for 2024-05-06 \(.*\): col\(\"t\"\)"
        ):
            values_of(text, Schema.of(t=dt.date), [(day,)])
    else:  # since Python 3.13
        assert values_of(text, Schema.of(t=dt.date), [(day,)]) == [expected]
