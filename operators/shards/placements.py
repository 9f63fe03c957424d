"""Placements: on which shards the rows of a stream are.

| placement     | the row x is on                                                          |
|---------------|--------------------------------------------------------------------------|
| by columns    | the shard of the hash of these columns of x; by no columns: the first    |
| everywhere    | every shard; each has the whole stream                                   |
| unknown       | some shard; equal rows of several changes may be on different shards     |

The value of a stream is the sum of its parts on the shards, except for a stream that is everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Placement:
    """The shards of the rows of a stream; make one with `by`, or use one of the constants."""

    columns: tuple[int, ...] | None
    """The columns whose hash places a row, in the order in which they are hashed."""
    copied: bool = False

    @property
    def keyed(self) -> bool:
        """Whether equal rows are always on one shard."""
        return self.columns is not None

    def moved(self, targets: Sequence[int | None]) -> Placement:
        """Return the placement after column c becomes column `targets[c]`; None drops it."""
        if self.columns is None:
            return self
        moved = [targets[column] for column in self.columns]
        kept = tuple(column for column in moved if column is not None)
        return by(kept) if len(kept) == len(moved) else UNKNOWN

    def text(self, schema: Schema) -> str:
        """Return the placement in words."""
        if self.columns is None:
            return "on every shard" if self.copied else "on unknown shards"
        names = ", ".join(schema.names[column] for column in self.columns)
        return f"placed by ({names})" if names else "on the first shard"


def by(columns: Sequence[int]) -> Placement:
    """Return the placement by the hash of these columns."""
    return Placement(tuple(columns))


FIRST_SHARD = by(())
EVERYWHERE = Placement(None, copied=True)
UNKNOWN = Placement(None)
