"""Cut a micro-batch into several ticks: by a number of rows, or by windows of event time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.durable.sealed_files import Sealed, decoding
from dbsp.durable.table_files import read_tables, sealed_tables
from dbsp.errors import InputError
from dbsp.lazy_dataclass import dataclass

_UNITS = {"microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6}
_UNITS |= {"day": 24 * _UNITS["hour"], "week": 7 * 24 * _UNITS["hour"]}

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Cut:
    """How a micro-batch becomes ticks: one tick, unless a number of rows or a window is given."""

    rows: int = 0
    """The maximum number of rows of each source in a tick; 0 for no limit."""
    window: int = 0
    """Microseconds of event time in a tick, counted from 1970-01-01; 0 for no windows."""
    times: Mapping[str, str] = field(default_factory=dict)
    """The column of event time, by source. Rows of other sources are in the first tick."""

    def ticks(self, tables: Tables) -> list[Tables]:
        """Return the tables of each tick, in order; at least one tick.

        Cost: O(n log n) with windows, O(n) without. Raises InputError if an event time is null or
        not a time.
        """
        ticks = self._windows(tables) if self.window else [tables]
        if not self.rows:
            return ticks
        return [part for tick in ticks for part in _slices(tick, self.rows)]

    def _windows(self, tables: Tables) -> list[Tables]:
        windows: dict[int, Tables] = {}
        remaining = {name: table for name, table in tables.items() if name not in self.times}
        for name, column in self.times.items():
            if name in tables:
                for number, table in _by_window(tables[name], name, column, self.window):
                    windows.setdefault(number, {})[name] = table
        ticks = [windows[number] for number in sorted(windows)] or [{}]
        ticks[0] |= remaining
        return ticks


def _by_window(table: pa.Table, name: str, column: str, window: int) -> list[tuple[int, pa.Table]]:
    times = table.column(column)
    if not pa.types.is_timestamp(times.type) and not pa.types.is_date(times.type):
        raise InputError(
            f"event_time: expected a timestamp or date column, got {column!r} of type {times.type}",
            where=f"source '{name}'",
            code="wrong-type",
        )
    if times.null_count:
        rows = "1 row" if times.null_count == 1 else f"{times.null_count:,} rows"
        raise InputError(
            f"the event time {column!r} is null in {rows}", where=f"source '{name}'", code="missing-value"
        )
    zone = times.type.tz if pa.types.is_timestamp(times.type) else None
    at = np.asarray(pc.cast(times, pa.timestamp("us", zone)).cast(pa.int64()).to_numpy(), np.int64)
    numbers = at // window
    return [(int(n), table.filter(pa.array(numbers == n))) for n in np.unique(numbers)]


def _slices(tables: Tables, rows: int) -> list[Tables]:
    longest = max((table.num_rows for table in tables.values()), default=0)
    return [
        {name: table.slice(start, rows) for name, table in tables.items() if start < table.num_rows}
        for start in range(0, max(longest, 1), rows)
    ]


def microseconds(duration: str) -> int:
    """Parse a duration such as "10 minutes" or "1 day". Raises InputError."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", duration.lower())
    if match is None or match[2] not in _UNITS or not int(match[1]):
        raise InputError(
            f"tickWindow expects a duration such as '30 seconds', '1 minute' or '1 day', got {duration!r}",
            code="invalid-option",
        )
    return int(match[1]) * _UNITS[match[2]]


def sealed_ticks(place: str, ticks: list[Tables]) -> Sealed:
    """Return a file of the tables of the ticks of one micro-batch."""
    sources = [list(tables) for tables in ticks]
    return sealed_tables(place, sources, [table for tables in ticks for table in tables.values()])


def read_ticks(path: Path, place: str) -> list[Tables]:
    """Read a file of `sealed_ticks`. Raises CheckpointError."""
    sources, tables = read_tables(path, place)
    following = iter(tables)
    with decoding(path):
        return [{str(name): next(following) for name in names} for names in sources]
