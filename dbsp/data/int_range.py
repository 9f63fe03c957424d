"""Ranges of ints, for columns that hold fewer values than all ints of 64 bits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dbsp.errors import ValueOutOfRangeError
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IntRange:
    """The ints from `low` to `high`, both included."""

    low: int
    high: int

    @property
    def written(self) -> str:
        """The text of the range as the type of a field of a structure.

        >>> IntRange(0, 255).written
        'int[0..255]'
        """
        return f"int[{self.low}..{self.high}]"

    @property
    def expected(self) -> str:
        """The range in the words of an error message."""
        return f"an int from {self.low} to {self.high}"

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def refusal(self, value: int) -> ValueOutOfRangeError:
        """Return the error for a value outside the range."""
        return ValueOutOfRangeError(f"expected {self.expected}, got {value}")


_WRITTEN = re.compile(r"int\[(-?\d+)\.\.(-?\d+)\]")


def read_range(text: str) -> IntRange | None:
    """Return the range with this text (see `IntRange.written`), or None for other text."""
    match = _WRITTEN.fullmatch(text)
    return None if match is None else IntRange(int(match[1]), int(match[2]))


NO_RANGES: Mapping[str, IntRange] = {}
"""The ranges of a relation whose columns may all hold any int."""
