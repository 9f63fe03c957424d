"""Check that the fields of an operator have their declared types, for operators read from JSON."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from dbsp.errors import CircuitError, shorten


def check_fields(value: Any) -> None:
    """Raise CircuitError if a field of a dataclass has a value of another type than declared."""
    cls: Any = type(value)
    hints = _hints(cls)
    for field in dataclasses.fields(value):
        found = getattr(value, field.name)
        if field.init and not fits(found, hints[field.name]):
            raise CircuitError(
                f"{type(value).__qualname__}.{field.name}: expected {field.type}, got {shorten(found)}",
                code="invalid-circuit-file",
            )


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def fits(value: Any, declared: Any) -> bool:
    """Return whether a value has a type; True for annotations that are not checked."""
    if declared is Any:
        return True
    origin = typing.get_origin(declared)
    arguments = typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if arguments[1:] == (...,):
            return all(fits(part, arguments[0]) for part in value)
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if origin is Callable or declared is Callable:
        return callable(value)
    if declared is None or declared is type(None):
        return value is None
    if declared is float:
        return type(value) in (int, float)
    if declared is int:
        return type(value) is int
    if isinstance(declared, type):
        return isinstance(value, declared)
    return True
