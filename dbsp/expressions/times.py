"""Arithmetic of dates, times, timestamps and durations, and their parts.

    timestamp - timestamp = duration      timestamp +- duration = timestamp
    date - date = duration                date +- duration = date, for whole days
    time - time = duration                duration +- duration = duration
    duration * int = duration             duration / int = duration, rounded half to even
    duration / duration = float           duration // duration = int, duration % duration = duration

A timestamp with a zone is an instant: a day later is 24 hours later, also when clocks change. Its
year, hour and other parts are those of its zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dbsp.data.timestamps import DAY, naive, zone_of
from dbsp.data.types import DATE, DURATION, FLOAT, INT, STR, TIME, TIMESTAMP, Type
from dbsp.errors import EvaluationError
from dbsp.expressions import arithmetic as ints
from dbsp.expressions import strings  # noqa: F401  (its functions are extended)
from dbsp.expressions.coded import (
    LARGEST_EXACT,
    coded,
    coded_node,
    nonzero,
    ratio,
    ratio_vector,
    rounded,
    rounded_vector,
)
from dbsp.expressions.functions import Overload, Resolver, define, extend, overloads
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, GiveUp, Operation, StrictNode

_MOMENTS = ("timestamp", "timestamptz")
_KINDS = ("date", "time", *_MOMENTS)


def _days(duration: int) -> int:
    days, rest = divmod(duration, DAY)
    if rest:
        raise EvaluationError(
            'a date changes by whole days only; convert it with cast("timestamp")', code="value-out-of-range"
        )
    return days


def _days_vector(duration: Any) -> Any:
    if np.any(np.remainder(duration, DAY)):
        raise GiveUp
    return np.floor_divide(duration, DAY)


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _minus(a: Any, b: Any) -> Any:
    return a - b


def _kinds(arguments: Sequence[ExpressionNode]) -> tuple[str, ...]:
    return tuple(argument.type.kind for argument in arguments)


def _add(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if _kinds(arguments)[0] == "duration":
        arguments = arguments[::-1]
    kinds = _kinds(arguments)
    if kinds[1] != "duration":
        return None
    if kinds[0] == "date":
        return coded_node(
            DATE,
            lambda a, b: a + _days(b),
            lambda a, b: ints.add_vector(a, _days_vector(b)),
            arguments,
        )
    if kinds[0] not in (*_MOMENTS, "duration"):
        return None
    return coded_node(arguments[0].type.required(), _plus, ints.add_vector, arguments)


def _sub(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    kinds = _kinds(arguments)
    if kinds == ("date", "date"):
        return coded_node(
            DURATION, lambda a, b: (a - b) * DAY, lambda a, b: np.subtract(a, b) * DAY, arguments
        )
    if kinds[0] == kinds[1] and kinds[0] in (*_MOMENTS, "time"):
        return coded_node(DURATION, _minus, ints.sub_vector, arguments)
    if kinds == ("date", "duration"):
        return coded_node(
            DATE,
            lambda a, b: a - _days(b),
            lambda a, b: ints.sub_vector(a, _days_vector(b)),
            arguments,
        )
    if kinds[1] == "duration" and kinds[0] in (*_MOMENTS, "duration"):
        return coded_node(arguments[0].type.required(), _minus, ints.sub_vector, arguments)
    return None


def _of_durations(
    operands: tuple[Type, ...],
    result: Type,
    meaning: Callable[..., Any],
    kernel: Callable[..., Array] | None,
    *,
    fallible: bool = True,
) -> Overload:
    return Overload(operands, result, coded(operands, result, meaning, kernel, fallible=fallible))


_TWO = (DURATION, DURATION)
_BY_INT = (DURATION, INT)
extend("add", _add)
extend("sub", _sub)
extend(
    "mul",
    overloads(
        _of_durations(_BY_INT, DURATION, lambda a, b: a * b, ints.mul_vector),
        _of_durations((INT, DURATION), DURATION, lambda a, b: a * b, ints.mul_vector),
    ),
)
extend(
    "truediv",
    overloads(
        _of_durations(_TWO, FLOAT, ratio, ratio_vector),
        _of_durations(_BY_INT, DURATION, rounded, rounded_vector),
    ),
)
extend(
    "floordiv",
    overloads(
        _of_durations(_TWO, INT, lambda a, b: a // nonzero(b), ints.floordiv_vector),
        _of_durations(_BY_INT, DURATION, lambda a, b: a // nonzero(b), ints.floordiv_vector),
    ),
)
extend("mod", overloads(_of_durations(_TWO, DURATION, lambda a, b: a % nonzero(b), ints.mod_vector)))
extend("neg", overloads(_of_durations((DURATION,), DURATION, lambda a: -a, np.negative, fallible=False)))
extend("abs", overloads(_of_durations((DURATION,), DURATION, abs, np.abs, fallible=False)))


# --- parts ----------------------------------------------------------------------------------------
# The value of a part is an attribute of Python's object; the kernels compute it from the codes.


def _unit(unit: str) -> Callable[[Any], Array]:
    """Return the kernel that counts the units since 1970 of codes in microseconds."""

    def count(codes: Any) -> Array:
        units: Array = codes.view("datetime64[us]").astype(f"datetime64[{unit}]").view(np.int64)
        return units

    return count


def _day_of_month(codes: Any) -> Array:
    days = codes.view("datetime64[us]").astype("datetime64[D]")
    result: Array = (days - days.astype("datetime64[M]").astype("datetime64[D]")).view(np.int64) + 1
    return result


_PARTS: dict[str, tuple[Callable[[Any], int], Callable[[Any], Array], str]] = {
    # name: (the part of a Python value, the kernel over microseconds, the kinds without it)
    "year": (lambda value: value.year, lambda codes: _unit("Y")(codes) + 1970, "time"),
    "month": (lambda value: value.month, lambda codes: _unit("M")(codes) % 12 + 1, "time"),
    "day": (lambda value: value.day, _day_of_month, "time"),
    "weekday": (lambda value: value.weekday(), lambda codes: (_unit("D")(codes) + 3) % 7, "time"),
    "hour": (lambda value: value.hour, lambda codes: codes // 3_600_000_000 % 24, "date"),
    "minute": (lambda value: value.minute, lambda codes: codes // 60_000_000 % 60, "date"),
    "second": (lambda value: value.second, lambda codes: codes // 1_000_000 % 60, "date"),
    "microsecond": (lambda value: value.microsecond, lambda codes: codes % 1_000_000, "date"),
}


def _part(name: str) -> Resolver:
    meaning, kernel, without = _PARTS[name]

    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        (argument,) = arguments
        kind = argument.type.kind
        if kind not in _KINDS or kind == without:
            return None
        return StrictNode(INT, Operation(meaning, over_microseconds(argument.type, kernel)), arguments)

    return resolve


def over_microseconds(type_: Type, kernel: Callable[[Any], Array]) -> Callable[..., Array] | None:
    """Return a kernel over microseconds as one over the codes of a type; None in other zones."""
    if type_.kind == "date":
        return lambda codes: kernel(codes * DAY)
    if type_.kind == "timestamptz" and type_.zone != "UTC":
        return None
    return lambda codes: kernel(np.ascontiguousarray(codes))


for _name, _entry in _PARTS.items():
    define(
        _name, f"{_name} expects a {'date' if _entry[2] == 'time' else 'time'} or a timestamp", _part(_name)
    )


# --- conversions ----------------------------------------------------------------------------------


def _moment_part(
    result: Type, meaning: Callable[[Any], Any], kernel: Callable[[Any], Array], also: Resolver
) -> Resolver:
    """Return the resolver of a conversion of timestamps, in the zone of the column."""

    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        (argument,) = arguments
        if argument.type.kind not in _MOMENTS:
            return also(arguments)
        vector = over_microseconds(argument.type, kernel)
        return StrictNode(result, Operation(meaning, vector), arguments)

    return resolve


def _identity(value: Any) -> Any:
    return value


def _read_date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        reason = "the string is not a date such as 2024-05-31"
        raise EvaluationError(reason, code="invalid-conversion") from None


def _read_timestamp(text: str) -> dt.datetime:
    try:
        value = dt.datetime.fromisoformat(text)
    except ValueError:
        value = None
    if value is None or value.tzinfo is not None:
        reason = "the string is not a timestamp without zone such as 2024-05-31 12:00:00"
        raise EvaluationError(reason, code="invalid-conversion")
    return value


def _midnight(value: dt.date) -> dt.datetime:
    return dt.datetime(value.year, value.month, value.day)


define(
    "to_date",
    "cast to date expects a timestamp, a date or a string",
    _moment_part(
        DATE,
        lambda value: value.date(),
        lambda codes: codes // DAY,
        overloads(
            Overload((DATE,), DATE, Operation(_identity, _identity)),
            Overload((STR,), DATE, Operation(_read_date, fallible=True)),
        ),
    ),
)
define(
    "to_time",
    "cast to time expects a timestamp or a time",
    _moment_part(
        TIME,
        lambda value: value.time(),
        lambda codes: codes % DAY,
        overloads(Overload((TIME,), TIME, Operation(_identity, _identity))),
    ),
)
define(
    "to_timestamp",
    "cast to timestamp expects a timestamp, a date or a string",
    _moment_part(
        TIMESTAMP,
        lambda value: value.replace(tzinfo=None, fold=0),
        _identity,
        overloads(
            Overload((DATE,), TIMESTAMP, Operation(_midnight, lambda codes: codes * DAY)),
            Overload((STR,), TIMESTAMP, Operation(_read_timestamp, fallible=True)),
        ),
    ),
)


def _zone(arguments: Sequence[ExpressionNode]) -> str | None:
    """Return the zone that the second argument names."""
    if (
        len(arguments) != 2
        or not isinstance(arguments[1], ConstantNode)
        or arguments[1].type.kind != STR.kind
    ):
        return None
    zone_of(arguments[1].value)
    name: str = arguments[1].value
    return name


def _in_zone(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    zone = _zone(arguments)
    if zone is None or arguments[0].type.kind != "timestamptz":
        return None
    result = Type("timestamptz", zone=zone)
    return StrictNode(result, coded([result], result, _identity, _identity, fallible=False), arguments[:1])


def _from_zone(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    zone = _zone(arguments)
    if zone is None or arguments[0].type.kind != "timestamp":
        return None
    result, info = Type("timestamptz", zone=zone), zone_of(zone)
    if zone == "UTC":
        operation = coded([TIMESTAMP], result, _identity, _identity)
    else:
        operation = Operation(lambda value: naive(value).replace(tzinfo=info), fallible=True)
    return StrictNode(result, operation, arguments[:1])


define("in_zone", "in_zone expects a timestamp with a zone, and the name of a zone", _in_zone)
define("from_zone", "from_zone expects a timestamp without zone, and the name of its zone", _from_zone)

_SECOND = 1_000_000


def _seconds_vector(codes: Any) -> Array:
    if np.abs(codes).max() > LARGEST_EXACT:
        raise GiveUp
    result: Array = codes / _SECOND
    return result


define(
    "total_seconds",
    "total_seconds expects a duration",
    overloads(
        _of_durations((DURATION,), FLOAT, lambda code: code / _SECOND, _seconds_vector, fallible=False)
    ),
)
define(
    "total_microseconds",
    "total_microseconds expects a duration",
    overloads(_of_durations((DURATION,), INT, _identity, _identity, fallible=False)),
)
define(
    "microseconds",
    "microseconds expects an int",
    overloads(_of_durations((INT,), DURATION, _identity, _identity)),
)
extend(
    "to_string",
    overloads(
        Overload((TIME,), STR, Operation(str)),
        Overload((Type("timestamptz", zone="UTC"),), STR, Operation(str)),
        Overload((DURATION,), STR, Operation(str)),
    ),
)
