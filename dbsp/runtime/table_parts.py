"""Divide a change that is read by chunks into changes that fit into memory one at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any

from dbsp.data.column_chunks import Chunk, RowSource
from dbsp.data.schema import Schema
from dbsp.data.table_forms import chunks_of, gathered, is_table
from dbsp.data.zset import ZSet
from dbsp.errors import DbspError
from dbsp.runtime.input_changes import InputChange, add_relation
from dbsp.runtime.ports import InputPort

PART_ROWS = 1 << 18
"""A part ends with the chunk that reaches this many rows."""


class _Chunks(RowSource):
    """Some chunks of a table."""

    def __init__(self, table: Any, chunks: Sequence[Chunk]) -> None:
        self._table = table
        self._chunks = chunks

    def __repr__(self) -> str:
        return repr(self._table)

    def chunks(self, schema: Schema) -> Iterator[Chunk]:
        return iter(self._chunks)


def parts_of(
    changes: Mapping[str, InputChange] | None, ports: Mapping[str, InputPort]
) -> Iterator[Mapping[str, InputChange] | None]:
    """Yield changes that have the same meaning in this order as these changes.

    The first part has everything but tables, the following ones have the chunks of the tables,
    input by input.
    """
    if not isinstance(changes, Mapping):
        yield changes  # the run refuses it
        return
    given = {name: _collected(change) if name in ports else change for name, change in changes.items()}
    tables = {name: change for name, change in given.items() if name in ports and _is_chunked(change)}
    yield {name: change for name, change in given.items() if name not in tables}
    for name, table in tables.items():
        for part in _parts(table, ports[name]):
            yield {name: part}


def is_repeatable(change: InputChange) -> bool:
    """Return whether a change is a table that can be read several times, such as a file."""
    return isinstance(change, RowSource) and change.repeatable


def first_parts(changes: Mapping[str, InputChange], ports: Mapping[str, InputPort]) -> dict[str, InputChange]:
    """Return the beginning of each table that can be read again, and all changes in memory."""
    found: dict[str, InputChange] = {}
    for name, change in changes.items():
        if is_repeatable(change) and name in ports:
            parts = _parts(change, ports[name])
            first = next(parts, None)
            parts.close()
            if first is not None:
                found[name] = first
        elif isinstance(change, list | Mapping | ZSet):
            found[name] = change
    return found


def _collected(change: Any) -> Any:
    """Return an iterator as a list of rows, or as a table that reads other tables one by one."""
    return gathered(change) if isinstance(change, Iterator) else change


def _is_chunked(change: Any) -> bool:
    return is_table(change) and not isinstance(change, Mapping | ZSet)


def _parts(table: Any, port: InputPort) -> Generator[RowSource, None, None]:
    waiting: list[Chunk] = []
    rows = 0
    try:
        chunks = chunks_of(table, port.columns)
        with closing(chunks) if isinstance(chunks, Generator) else nullcontext():  # closes files
            for chunk in chunks:
                waiting.append(chunk)
                rows += chunk.rows
                if rows >= PART_ROWS:
                    yield _Chunks(table, waiting)
                    waiting, rows = [], 0
    except DbspError as error:
        add_relation(error, port.relation)
        raise
    if waiting:
        yield _Chunks(table, waiting)
