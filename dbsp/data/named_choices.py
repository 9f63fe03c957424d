"""Arguments that are one of a few words, such as a unit of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dbsp.data.schema import suggestion
from dbsp.errors import ArgumentError, shorten

C = TypeVar("C", bound=str)


def expect_choice(
    parameter: str, choices: Sequence[C], value: C, foreign: Mapping[str, str] | None = None
) -> C:
    """Return the value if it is one of the choices. Raises ArgumentError with a guess if not.

    `foreign` has the words of other libraries, with what to write.
    """
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(map(repr, choices))
        advice = foreign.get(value) if foreign and isinstance(value, str) else None
        hint = f"; {advice}" if advice else suggestion(value, choices)
        raise ArgumentError(f"{parameter}= expects one of {known}, got {shorten(value)}{hint}")
    return value
