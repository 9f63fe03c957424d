"""Format rows as aligned columns for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dbsp.data.batch import Batch
from dbsp.data.zset import ZSet
from dbsp.io.results import literal_of

LIMIT = 20
"""The number of rows shown by default."""

_MANY = 100_000
_WIDEST = 60


def table_of(zset: ZSet, limit: int | None = LIMIT) -> Iterator[str]:
    """Yield a header with the column names, at most `limit` rows, and the number of rows.

    Rows are sorted by value. A very large relation shows its first rows in code order instead, so
    that the cost depends only on the rows shown.
    """
    total = len(zset)
    shown = zset
    if limit is not None and total > max(limit, _MANY):
        first = Batch(zset.stored.rows[:limit], zset.stored.weights[:limit])
        shown = ZSet.wrap(zset.schema, zset.interner, first)
    rows = [row for row, _ in shown.items()][:limit]
    if zset.schema.arity:
        yield from aligned(zset.schema.names, [[literal_of(value) for value in row] for row in rows], rows)
    counted = "1 row" if total == 1 else f"{total:,} rows"
    yield f"({counted})" if len(rows) == total else f"({counted}, {len(rows):,} shown)"


def aligned(
    names: Sequence[str], cells: Sequence[Sequence[str]], values: Sequence[Sequence[Any]] = ()
) -> Iterator[str]:
    """Yield columns of text under their names; columns of numbers are right-aligned."""
    numeric = [
        bool(values) and all(isinstance(row[column], int | float) for row in values)
        for column in range(len(names))
    ]
    short = [[_short(cell) for cell in row] for row in cells]
    widths = [max(len(row[column]) for row in [list(names), *short]) for column in range(len(names))]
    yield _line(names, widths, numeric)
    yield "  ".join("─" * width for width in widths)
    for row in short:
        yield _line(row, widths, numeric)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = (
        cell.rjust(width) if numeric else cell.ljust(width)
        for cell, width, numeric in zip(cells, widths, right, strict=True)
    )
    return "  ".join(placed).rstrip()


def _short(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..."
