"""Arguments that are one of a few words, such as a unit of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dbsp.data.schema import suggestion
from dbsp.errors import ArgumentError, shorten

C = TypeVar("C", bound=str)


def expect_choice(parameter: str, choices: Sequence[C], value: C) -> C:
    """Return the value if it is one of the choices. Raises ArgumentError with a guess if not."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(map(repr, choices))
        hint = suggestion(value, choices)
        raise ArgumentError(f"{parameter}= expects one of {known}, got {shorten(value)}{hint}")
    return value
