"""Ranges of ints: which values a column may hold, where these are fewer than all of 64 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbsp.data.values import INT64_MAX
from dbsp.errors import ValueOutOfRangeError


@dataclass(frozen=True, slots=True)
class IntRange:
    """The ints from `low` to `high`. `name` is how a field of a structure is written that holds them."""

    name: str
    low: int
    high: int
    expected: str

    def fit(self, value: int) -> int:
        """The value; ValueError, saying what was expected, for one outside."""
        if self.low <= value <= self.high:
            return value
        raise ValueError(self.expected)

    def refusal(self, value: int) -> ValueOutOfRangeError:
        """What is wrong with a value outside."""
        if value < 0 == self.low:
            return ValueOutOfRangeError(f"{value} is less than 0, so it is no unsigned")
        return ValueOutOfRangeError(f"{value} does not fit 32 bits ({self.low} to {self.high})")


UNSIGNED = IntRange("unsigned", 0, INT64_MAX, "an unsigned number, which is not negative")
"""The unsigned of 64 bits, of which the lower half is kept."""

NUMBER_32 = IntRange("int32", -(2**31), 2**31 - 1, "a whole number of 32 bits (-2^31 to 2^31-1)")
UNSIGNED_32 = IntRange("unsigned32", 0, 2**32 - 1, "an unsigned number of 32 bits (0 to 2^32-1)")

RANGES: Mapping[str, IntRange] = {one.name: one for one in (UNSIGNED, NUMBER_32, UNSIGNED_32)}

NO_RANGES: Mapping[str, IntRange] = {}
"""Of columns that may hold all ints."""
