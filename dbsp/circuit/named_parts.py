"""The functions and classes that operators hold, by the names under which JSON refers to them.

A class of this package is named by its bare name, other classes and functions by `module:name`. The
reader of a circuit imports nothing: it looks names up among the functions and classes that the
caller passed.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from dbsp.data.types import Type
from dbsp.errors import ArgumentError, CircuitError, expect_present, shorten, wrong_argument
from dbsp.expressions import Call, Expression

_PACKAGE = f"{__name__.partition('.')[0]}."
Functions = Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]]
"""Functions, or functions by their written names."""


def class_name(cls: type) -> str:
    """Return the written name of a class: bare for a class of this package, else `module:name`."""
    return cls.__qualname__ if cls.__module__.startswith(_PACKAGE) else importable_name(cls)


def importable_name(value: Any) -> str:
    """Return `module:name` of a function or class.

    Raises CircuitError if that cannot be imported.
    """
    name = written_name(value)
    module, _, path = (name or "").partition(":")
    shown = path or getattr(value, "__qualname__", None) or shorten(value)
    reason = None
    if name is None:
        reason = "it has no name by which it can be imported"
    elif module == "__main__":
        reason = "it is defined in the main script"
    else:
        found: Any = sys.modules.get(module)
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is not value:
            reason = f"'{name}' is another object"
    if reason is not None:
        raise CircuitError(
            f"'{shown}' cannot be written, since {reason}; define it with def at the top level of a module",
            code="not-serialisable",
        )
    return expect_present(name, "a name")


def written_name(value: Any) -> str | None:
    """Return `module:name` of a function or class, or None if it has none, such as a lambda."""
    name = getattr(value, "__qualname__", None)
    owner = getattr(value, "__objclass__", value)  # of a method of a built-in class
    module = getattr(owner, "__module__", None)
    return None if name is None or module is None or "<" in name else f"{module}:{name}"


def functions_by_name(given: Functions) -> dict[str, Callable[..., Any]]:
    """Return functions by their written names; a mapping has names already.

    Raises ArgumentError for other values, and for a function without a name in a list.
    """
    expected = "a list of functions, or a mapping of their names"
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise wrong_argument("functions", expected, given)
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        named = {}
        for function in given:
            name = written_name(function)
            if name is None and callable(function):
                raise ArgumentError(
                    f"functions: {shorten(function)} has no name; pass a mapping of names to functions"
                )
            named[str(name)] = function
    for function in named.values():
        if not callable(function):
            raise wrong_argument("functions", expected, function)
    return named


def classes_by_name(given: Iterable[type]) -> dict[str, type]:
    """Return classes by their written names. Raises ArgumentError for other values."""
    expected = "a list of classes of operators"
    if not isinstance(given, Iterable):
        raise wrong_argument("operators", expected, given)
    found = {}
    for cls in given:
        if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
            raise wrong_argument("operators", expected, cls)
        found[class_name(cls)] = cls
    return found


def names_in(operators: Iterable[Any]) -> tuple[dict[str, Callable[..., Any]], dict[str, type]]:
    """Return the functions and classes of operators, by the names that `to_json` writes."""
    functions: dict[str, Callable[..., Any]] = {}
    classes: dict[str, type] = {}
    for part in chain.from_iterable(map(parts_of, operators)):
        if isinstance(part, Expression | Type):
            continue
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            if (name := written_name(type(part))) is not None:
                classes[name] = type(part)
        elif callable(part) and (name := written_name(part)) is not None:
            functions[name] = part
    return functions, classes


def parts_of(value: Any) -> Iterator[Any]:
    """Yield an operator, the values of its fields and all that are part of them."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, Expression):
            waiting += value.arguments if isinstance(value, Call) else ()
        elif isinstance(value, tuple):
            waiting += value
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            waiting += (getattr(value, field.name) for field in dataclasses.fields(value) if field.init)
