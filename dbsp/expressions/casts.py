"""Which function converts values to a type, and the notation of this call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbsp.data.type_inference import as_type
from dbsp.data.types import Type, decimal_type
from dbsp.errors import SchemaError

_FUNCTIONS = {
    "int": "to_int",
    "float": "to_float",
    "str": "to_string",
    "date": "to_date",
    "time": "to_time",
    "timestamp": "to_timestamp",
}
"""The function that converts to each kind of type."""

_WRITTEN = {
    "to_int": "int",
    "to_number": "int",
    "to_float": "float",
    "to_string": "str",
    "to_date": '"date"',
    "to_time": '"time"',
    "to_timestamp": '"timestamp"',
}
"""The type that a function converts to, as a user writes it."""


def cast_call(type: Any) -> tuple[Any, ...]:
    """Return the function that converts values to a type, and its further arguments."""
    wanted = as_type(type).required()
    if wanted.kind == "decimal":
        return ("to_decimal", wanted.scale)
    if wanted.kind not in _FUNCTIONS:
        raise SchemaError(
            f"cast expects int, float, str, a decimal, date, time or timestamp, got {wanted}"
            f"{_advice(wanted)}",
            code="wrong-type",
        )
    return (_FUNCTIONS[wanted.kind],)


def _advice(wanted: Type) -> str:
    if wanted.kind == "bool":
        return "; write a comparison, such as x != 0"
    if wanted.kind == "timestamptz":
        return "; call dt.from_zone() or dt.in_zone()"
    return ""


def cast_text(function: str, arguments: Sequence[str]) -> str | None:
    """Return the notation of a conversion after the dot; None for another function."""
    if function == "to_decimal" and len(arguments) == 1 and arguments[0].isdecimal():
        return f'cast("{decimal_type(int(arguments[0]))}")'
    return f"cast({_WRITTEN[function]})" if function in _WRITTEN and not arguments else None
