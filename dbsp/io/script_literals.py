"""The literals of change scripts as values of a column's type."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from dbsp.data.types import Type
from dbsp.kernels.limits import INT64_MAX, INT64_MIN


def fit_value(type_: Type, value: Any) -> Any:
    """The value of a literal in a column of a type without structure; None is nil.

    Raises ValueError, with what was expected, if it does not fit.
    """
    if value is None:
        if not type_.nullable:
            raise ValueError("a value, got nil")
        return None
    return _FIT[type_.kind](value)


def read_number(token: str) -> int | float:
    """The number that a literal spells; an int of more than 4,000 digits is one that no column holds."""
    lowered = token.lower().lstrip("+-")
    sign = -1 if token.startswith("-") else 1
    if lowered.startswith(("0x", "0b")):
        return sign * int(lowered, 0)
    if lowered.isdigit():
        return sign * int(lowered) if len(lowered) <= 4000 else sign * (INT64_MAX + 2)
    # One NaN object for all, so that the row it stands in is equal to itself as a key.
    return math.nan if lowered == "nan" else float(token)


def _fit_int(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"a whole number, got {_describe(value)}")
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError("a whole number of 64 bits (-2^63 to 2^63-1)")
    return value


def _fit_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a number, got {_describe(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number that a float can hold") from None


def _fit_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false, got {_describe(value)}")
    return value


def _fit_str(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text in double quotes, got {_describe(value)}")
    return value


def _fit_date(value: Any) -> dt.date:
    try:
        return dt.date.fromisoformat(_fit_str(value))
    except ValueError:
        raise ValueError('a date such as "2024-01-31"') from None


def _fit_timestamp(value: Any) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(_fit_str(value))
    except ValueError:
        raise ValueError('a time such as "2024-01-31T12:00:00"') from None


def _refuse(value: Any) -> Any:
    raise ValueError("a value of a type that change scripts cannot write")


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a text"
    return "a whole number" if isinstance(value, int) else "a number with a fraction"


_FIT: dict[str, Callable[[Any], Any]] = {
    "int": _fit_int,
    "float": _fit_float,
    "bool": _fit_bool,
    "str": _fit_str,
    "date": _fit_date,
    "timestamp": _fit_timestamp,
    "bytes": _refuse,
    "object": _refuse,
}
