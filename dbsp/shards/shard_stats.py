"""The statistics of one shard."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from dbsp.display.displayed import Displayed
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShardStats:
    """What one shard stores, and what it has sent to the others; `ShardedRun.stats` returns them.

    Examples:
        >>> from dbsp.shards.shard_stats import ShardStats
        >>> ShardStats(shard=0, process=4711, rows=2, bytes=48, file_bytes=0, values=1)
        ShardStats(shard=0, process=4711, rows=2, bytes=48, file_bytes=0, values=1, exchanges={})
    """

    shard: int
    """The number of the shard."""
    process: int
    """The id of its process."""
    rows: int
    """The number of rows kept in all traces and tables."""
    bytes: int
    """The bytes in memory of these rows."""
    file_bytes: int
    """The bytes of the files of the state that is not in memory."""
    values: int
    """The number of interned values."""
    exchanges: dict[str, Any] = field(default_factory=dict)
    """By exchange, with its number in the distributed circuit, what the shard has sent."""


class ShardStatsList(list[ShardStats], Displayed):
    """The statistics of all shards; a list in every respect."""

    _described_by = "dbsp.shards.sharded_display:stats_document"
