"""Units of times: the start of the unit of a time, further parts of dates, and times as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dbsp.data.timestamps import DAY, TIME_RANGES
from dbsp.data.types import INT, STR, Type
from dbsp.errors import EvaluationError
from dbsp.expressions.functions import define
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, GiveUp, Operation, StrictNode, fold
from dbsp.expressions.time_unit_names import TIME_UNITS
from dbsp.expressions.times import over_microseconds

_LENGTHS = {"week": 7 * DAY, "day": DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_LENGTHS["millisecond"] = 1_000
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_OF_DATES = TIME_UNITS[: TIME_UNITS.index("hour")]
_OF_TIMES = TIME_UNITS[TIME_UNITS.index("hour") :]
_MONDAY = -3 * DAY  # 1970-01-01 is a Thursday


def _truncated_day(day: dt.date, unit: str) -> dt.date:
    """Return the first day of the unit of a day."""
    if unit == "day":
        return day
    if unit == "week":
        return day - dt.timedelta(days=day.weekday())
    months = _MONTHS[unit]
    return dt.date(day.year, (day.month - 1) // months * months + 1, 1)


def _truncated_time(time: dt.time, unit: str) -> dt.time:
    """Return the start of the unit of a time of day; it keeps zone and fold."""
    codes = {"hour": (0, 0, 0), "minute": (time.minute, 0, 0), "second": (time.minute, time.second, 0)}
    minute, second, microsecond = codes.get(unit) or (
        time.minute,
        time.second,
        time.microsecond // 1_000 * 1_000,
    )
    return time.replace(minute=minute, second=second, microsecond=microsecond)


def _truncated_moment(moment: dt.datetime, unit: str) -> dt.datetime:
    if unit in _OF_TIMES:
        return dt.datetime.combine(moment.date(), _truncated_time(moment.timetz(), unit))
    return dt.datetime.combine(_truncated_day(moment.date(), unit), dt.time(tzinfo=moment.tzinfo))


def _starts(unit: str) -> Callable[[Any], Array]:
    """Return the kernel over microseconds since 1970."""

    def of_length(codes: Any) -> Array:
        length, start = _LENGTHS[unit], _MONDAY if unit == "week" else 0
        result: Array = codes - np.remainder(codes - start, length)
        return result

    def of_months(codes: Any) -> Array:
        months = codes.view("datetime64[us]").astype("datetime64[M]").view(np.int64)
        first = months - np.remainder(months, _MONTHS[unit])
        result: Array = first.view("datetime64[M]").astype("datetime64[us]").view(np.int64)
        return result

    return of_length if unit in _LENGTHS else of_months


def _truncate(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 2 or not isinstance(arguments[1], ConstantNode):
        return None
    argument, unit = arguments[0], arguments[1].value
    type_ = argument.type.required()
    if type_.kind in ("timestamp", "timestamptz") and unit in TIME_UNITS:
        truncated: Callable[[Any, str], Any] = _truncated_moment
    elif type_.kind == "date" and unit in _OF_DATES:
        truncated = _truncated_day
    elif type_.kind == "time" and unit in _OF_TIMES:
        truncated = _truncated_time
    else:
        return None
    operation = Operation(
        lambda value: truncated(value, unit), _over(type_, unit), fallible=type_.kind == "timestamptz"
    )
    return fold(StrictNode(type_, operation, [argument]))


def _over(type_: Type, unit: str) -> Callable[..., Array] | None:
    """Return the kernel over the codes of a type, of which dates have days."""
    kernel = over_microseconds(type_, _starts(unit))
    if kernel is None or type_.kind in ("timestamp", "time"):
        return kernel
    if type_.kind == "date":
        return lambda codes: kernel(codes) // DAY
    lowest, _ = TIME_RANGES[type_.kind]

    def in_range(codes: Any) -> Array:
        starts = kernel(codes)
        if starts.min() < lowest:  # the year of the first instants begins before them
            raise GiveUp
        return starts

    return in_range


_PARTS: dict[str, tuple[Callable[[Any], int], Callable[[Any], Array] | None]] = {
    "quarter": (lambda value: (value.month + 2) // 3, lambda codes: _months(codes) % 12 // 3 + 1),
    "week": (lambda value: value.isocalendar().week, None),
    "ordinal_day": (
        lambda value: value.timetuple().tm_yday,
        lambda codes: codes // DAY - _starts("year")(codes) // DAY + 1,
    ),
}


def _months(codes: Any) -> Array:
    months: Array = codes.view("datetime64[us]").astype("datetime64[M]").view(np.int64)
    return months


def _part(name: str) -> Callable[[Sequence[ExpressionNode]], ExpressionNode | None]:
    meaning, kernel = _PARTS[name]

    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        (argument,) = arguments
        if argument.type.kind not in ("date", "timestamp", "timestamptz"):
            return None
        vector = None if kernel is None else over_microseconds(argument.type, kernel)
        return fold(StrictNode(INT, Operation(meaning, vector), arguments))

    return resolve


def _text(value: Any, pattern: str) -> str:
    try:
        text: str = value.strftime(pattern)
    except ValueError as error:
        raise EvaluationError(
            f"strftime has no text for {value} ({error})", code="unsupported-value"
        ) from None
    return text


def _strftime(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 2 or arguments[1].type.kind != "str":
        return None
    if arguments[0].type.kind not in ("date", "time", "timestamp", "timestamptz"):
        return None
    return fold(StrictNode(STR, Operation(_text, fallible=True), arguments))


define(
    "truncate",
    f"truncate expects a timestamp and its unit; a date and {', '.join(_OF_DATES)}; or a time and "
    f"{', '.join(_OF_TIMES)}",
    _truncate,
)
for _name in _PARTS:
    define(_name, f"{_name} expects a date or a timestamp", _part(_name))
define("strftime", "strftime expects a date, a time or a timestamp, and a format as a string", _strftime)
