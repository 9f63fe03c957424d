"""Checks of the arguments of `compile` that are collections: folders, names, macros, functors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dbsp.errors import wrong_argument


def expect_folders(name: str, value: Iterable[str | Path]) -> tuple[Path, ...]:
    """Return the paths of a list of folders."""
    expected = "a list of folders"
    if isinstance(value, str | Path) or not isinstance(value, Iterable):
        raise wrong_argument(name, expected, value)
    folders = tuple(value)
    for folder in folders:
        if not isinstance(folder, str | Path):
            raise wrong_argument(name, expected, folder)
    return tuple(map(Path, folders))


def expect_names(name: str, value: bool | Iterable[str], expected: str) -> bool | tuple[str, ...]:
    """Return a boolean as it is, and the names of a list as a tuple."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise wrong_argument(name, f"True, False or a list of {expected}", value)
    names = tuple(value)
    for found in names:
        if not isinstance(found, str):
            raise wrong_argument(name, f"a list of {expected}", found)
    return names


def expect_functors(value: Mapping[str, Callable[..., Any]] | None) -> dict[str, Callable[..., Any]]:
    """Return the functions of functors by name."""
    expected = "a mapping from the names of functors to Python functions"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_argument("functors", expected, value)
    for name, function in value.items():
        if not isinstance(name, str):
            raise wrong_argument("functors", expected, name)
        if not callable(function):
            raise wrong_argument(f"functors[{name!r}]", "a Python function", function)
    return dict(value)


def expect_macros(value: Mapping[str, str | float] | None) -> dict[str, str]:
    """Return the texts of macros by name."""
    expected = "a mapping from the names of macros to texts or numbers"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_argument("macros", expected, value)
    for name in value:
        if not isinstance(name, str):
            raise wrong_argument("macros", expected, name)
    return {name: _macro(name, found) for name, found in value.items()}


def _macro(name: str, value: str | float) -> str:
    """Return the text of a macro."""
    try:
        if isinstance(value, str | int | float):
            return str(value)
    except ValueError:  # an int of more than 4300 digits
        pass
    raise wrong_argument(f"macros[{name!r}]", "a number of 64 bits or a text", value)
