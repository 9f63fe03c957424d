"""Run files: the layout of a sorted run in a file that is mapped instead of read.

0       a page of 4,096 bytes for a header, which `dbsp.durable` writes when it seals the file
4,096   the rows, int64[n, k] in C order, as kernels read them
...     the weights, int64[n], unless all of them are 1; a gap may precede them
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HEADER = 4096
"""The bytes before the rows."""

DIGEST = slice(64, 80)
"""The place of the digest in the header that a checkpoint writes."""

_ITEM = 8


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

    @property
    def end(self) -> int:
        """The number of bytes of the file."""
        rows = HEADER + self.size * self.width * _ITEM
        return self.weights_at + self.size * _ITEM if self.weights_at else rows
