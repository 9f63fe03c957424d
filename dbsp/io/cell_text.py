"""Read one cell of a file: from its text to a value, or a ValueError with the expected form."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from dbsp.data.int_range import IntRange
from dbsp.data.types import Type
from dbsp.kernels.limits import INT64_MAX, INT64_MIN


class OutOfRange(ValueError):
    """A number is outside the range of its column; the message is the expected range."""

    code = "value-out-of-range"


class NotInt64(OutOfRange):
    """A whole number has more than 64 bits."""

    def __init__(self) -> None:
        super().__init__("a whole number of 64 bits (-2^63 to 2^63-1)")


def in_range(range_: IntRange | None, read: Callable[[Type, Any], Any], type_: Type, value: Any) -> Any:
    """Return what `read(type_, value)` returns.

    Raises OutOfRange, which names the range if there is one, for a value outside of it.
    """
    try:
        found = read(type_, value)
    except NotInt64:
        if range_ is None:
            raise
        raise OutOfRange(range_.expected) from None
    if range_ is not None and found not in range_:
        raise OutOfRange(range_.expected)
    return found


def code_of(error: ValueError) -> str:
    """Return the code of the error for a cell that does not fit its column."""
    return str(getattr(error, "code", "wrong-type"))


_INTEGER = re.compile(r"[ ]*([+-]?)(?:(0[xX][0-9a-fA-F]+)|(0[bB][01]+)|([0-9]+))[ ]*")
_FLOAT = re.compile(
    r"[ ]*[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)[ ]*",
    re.I,
)


def _integer(text: str) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError("a whole number")
    sign, hexadecimal, binary, decimal = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    elif len(decimal) > 4000:  # int() refuses more digits, and such a number does not fit in 64 bits
        value = INT64_MAX + 2  # so that its negation does not fit either
    else:
        value = int(decimal)
    value = -value if sign == "-" else value
    if not INT64_MIN <= value <= INT64_MAX:
        raise NotInt64
    return value


def _float(text: str) -> float:
    if _FLOAT.fullmatch(text) is None:
        raise ValueError("a number")
    return float(text)


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("true", "1"):
        return True
    if lowered in ("false", "0"):
        return False
    raise ValueError("true or false")


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise ValueError("a date such as 2024-01-31") from None


def _timestamp(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time such as 2024-01-31T12:00:00") from None


CELLS: dict[str, Callable[[str], Any]] = {
    "int": _integer,
    "float": _float,
    "bool": _boolean,
    "str": str,
    "date": _date,
    "timestamp": _timestamp,
}


def arrow_type(type_: Type) -> Any:
    """Return the Arrow type of a column of this type."""
    import pyarrow as pa

    types = {
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "str": pa.dictionary(pa.int32(), pa.string()),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
    }
    return types[type_.kind]
