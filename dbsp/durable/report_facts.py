"""The facts of a report about a folder: a name, a text for people and a value for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dbsp.errors import CheckpointError, counted
from dbsp.lazy_dataclass import dataclass

Watch: TypeAlias = Callable[[str], None]
"""A function that takes the current step of long work, as text."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a report; a name that begins with blanks belongs to the line before it."""

    name: str
    text: str
    value: Any
    """The same as JSON."""


def attempted(action: Callable[[], object]) -> Iterator[CheckpointError]:
    """Yield the error if an action raises one."""
    try:
        action()
    except CheckpointError as error:
        yield error


def rows_text(number: int) -> str:
    """Return a number of rows in words."""
    return counted(number, "row") if number < 1_000 else f"{number:,} rows"


def bytes_text(size: int) -> str:
    """Return a number of bytes with a unit, in at most four digits."""
    for unit in ("bytes", "kB", "MB"):
        if size < 10_000:
            return f"{size:,} {unit}"
        size //= 1_000
    return f"{size:,} GB"
