"""The ranges of Datalog's ints of 32 and 64 bits, with messages that use the Datalog types."""

from __future__ import annotations

from dbsp.data.int_range import IntRange
from dbsp.kernels.limits import INT64_MAX
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WordRange(IntRange):
    """The values of a kind of ints. `name` identifies the range in the names of functions."""

    name: str
    description: str

    @property
    def expected(self) -> str:
        return self.description


UNSIGNED = WordRange(0, INT64_MAX, "unsigned", "an unsigned number (0 to 2^63-1)")
"""The unsigned of 64 bits; the engine stores only the lower half of its range."""

NUMBER_32 = WordRange(-(2**31), 2**31 - 1, "int32", "a whole number of 32 bits (-2^31 to 2^31-1)")
UNSIGNED_32 = WordRange(0, 2**32 - 1, "unsigned32", "an unsigned number of 32 bits (0 to 2^32-1)")
