"""Run files: the layout of a sorted run in a file that is mapped instead of read.

0       a page of 4,096 bytes for a header, which `dbsp.durable` writes when it seals the file
4,096   the rows, int64[n, k] or int32[n, k] in C order, as kernels read them
...     the weights, int64[n], unless all of them are 1; a gap may precede them, which aligns them
"""

from __future__ import annotations

from pathlib import Path

from dbsp.lazy_dataclass import dataclass

HEADER = 4096
"""The bytes before the rows."""

DIGEST = slice(64, 80)
"""The place of the digest in the header that a checkpoint writes."""

_WEIGHT = 8
"""The bytes of a weight."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file with one sorted run of `size` rows of `width` columns."""

    path: Path
    width: int
    size: int
    weights_at: int
    """The place of the weights in the file; 0 if all weights are 1."""
    largest: int
    """The largest absolute weight, or a bound of it."""
    digest: str = ""
    """The checksum that the manifest of a checkpoint names; empty for a file of no checkpoint."""
    item: int = 8
    """The bytes of a code: 8 or 4."""

    @property
    def end(self) -> int:
        """The number of bytes of the file."""
        if self.weights_at:
            return self.weights_at + self.size * _WEIGHT
        return self.end_of_rows

    @property
    def end_of_rows(self) -> int:
        """The place after the rows; the weights are not before it."""
        return HEADER + self.size * self.width * self.item


def aligned(place: int) -> int:
    """Return the first place of a weight that is not before a place in a file."""
    return place + -place % _WEIGHT
