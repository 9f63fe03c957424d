"""Convert the literals of change scripts to values of a column's type."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from dbsp.data.types import Type
from dbsp.io.cell_text import NotInt64, OutOfRange
from dbsp.kernels.limits import INT64_MAX, INT64_MIN


def fit_value(type_: Type, value: Any) -> Any:
    """Return the value of a literal in a column of a type without structure; None is nil.

    Raises ValueError with the expected form if the literal does not fit.
    """
    if value is None:
        if not type_.nullable:
            raise ValueError("a value, got nil")
        return None
    return _FIT.get(type_.kind, _refuse)(value)


def read_number(token: str) -> int | float:
    """Return the number of a literal; an int of more than 4,000 digits becomes one out of range."""
    lowered = token.lower().lstrip("+-")
    sign = -1 if token.startswith("-") else 1
    if lowered.startswith(("0x", "0b")):
        return sign * int(lowered, 0)
    if lowered.isdigit():
        return sign * int(lowered) if len(lowered) <= 4000 else sign * (INT64_MAX + 2)
    # Always the same NaN object, so that rows with NaN are equal as keys of a dictionary.
    return math.nan if lowered == "nan" else float(token)


def _fit_int(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"a whole number, got {_describe(value)}")
    if not INT64_MIN <= value <= INT64_MAX:
        raise NotInt64
    return value


def _fit_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a number, got {_describe(value)}")
    try:
        return float(value)
    except OverflowError:
        raise OutOfRange("a number within the range of a float") from None


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
    raise ValueError("a value of a type that change scripts do not support")


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
}
