"""Displays of Z-sets: a table of the first rows, with types in the header and weights in colour.

The cost depends on the rows shown only. So a large Z-set shows its first rows in the order in which
they are stored; a small one is sorted by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.display.amounts import row_count
from dbsp.display.document import (
    Column,
    Document,
    Row,
    Span,
    Style,
    Table,
    line,
    muted,
    printable,
    strong,
    value_span,
)
from dbsp.errors import counted

if TYPE_CHECKING:
    from dbsp.data.indexed_zset import IndexedZSet
    from dbsp.data.zset import ZSet

SHOWN_ROWS = 20
SHOWN_COLUMNS = 30
_SORTED = 1_000
"""A Z-set of more rows is not sorted."""
_NUMERIC = ("int", "float", "decimal")
_WIDEST_NAME = 40


def zset_document(zset: ZSet, key: int = 0) -> Document:
    """Return the display of a Z-set; its first `key` columns are marked as its key."""
    title = line(strong("Z-set"), muted(f"  {row_count(len(zset))}"))
    return Document(title, (zset_table(zset, key=key),))


def index_document(index: IndexedZSet) -> Document:
    """Return the display of an indexed Z-set."""
    return zset_document(index.to_zset(), index.key_schema.arity)


def view_document(view: ZSet) -> Document:
    """Return the display of a view: its weights are numbers of copies, and not changes."""
    title = line(strong("view"), muted(f"  {row_count(len(view))}"))
    return Document(title, (zset_table(view, changes=False),))


def zset_table(zset: ZSet, limit: int = SHOWN_ROWS, *, key: int = 0, changes: bool | None = None) -> Table:
    """Return the first rows of a Z-set with their weights.

    If they are `changes`, they are coloured as additions and retractions. By default they are if a
    row shown has a negative weight.
    """
    rows = first_rows(zset, limit)
    coloured = any(weight < 0 for _, weight in rows) if changes is None else changes
    signed = changes is None or changes
    arity = min(zset.arity, SHOWN_COLUMNS)
    columns = schema_columns(zset.schema, key)
    shown = [_row(row[:arity], weight, signed, coloured) for row, weight in rows]
    notes = []
    if len(zset) > len(rows):
        notes.append(f"and {len(zset) - len(rows):,} more rows" if rows else row_count(len(zset)))
    elif not rows:
        notes.append("no rows")
    if zset.arity > arity:
        notes.append(f"and {zset.arity - arity:,} more columns")
    return Table((*columns, Column("weight", numeric=True)), tuple(shown), "; ".join(notes))


def schema_columns(schema: Schema, key: int = 0) -> tuple[Column, ...]:
    """Return the heads of the first columns of a schema; the first `key` of them are the key."""
    return tuple(
        Column(printable(name, _WIDEST_NAME), printable(str(type_), _WIDEST_NAME), _numeric(type_), at < key)
        for at, (name, type_) in enumerate(
            zip(schema.names[:SHOWN_COLUMNS], schema.types[:SHOWN_COLUMNS], strict=True)
        )
    )


def schema_document(schema: Schema) -> Document:
    """Return the display of a schema: a table without rows."""
    more = schema.arity - SHOWN_COLUMNS
    note = f"and {more:,} more columns" if more > 0 else "" if schema.arity else "no columns"
    title = line(strong("Schema"), muted(f"  {counted(schema.arity, 'column')}"))
    return Document(title, (Table(schema_columns(schema), (), note),))


def first_rows(zset: ZSet, limit: int) -> Sequence[tuple[tuple[Any, ...], int]]:
    """Return the first rows with their weights. O(limit) for a large Z-set.

    Objects are not sorted: their order calls code of their classes, which may raise.
    """
    if len(zset) <= _SORTED and all(type_.kind != "object" for type_ in zset.schema.types):
        return zset.items()[:limit]
    stored = zset.stored
    rows = zset.schema.decode_rows(stored.rows[:limit], zset.interner)
    return list(zip(rows, stored.weights[:limit].tolist(), strict=True))


def _row(row: Sequence[Any], weight: int, signed: bool, coloured: bool) -> Row:
    style = Style.ADDED if weight > 0 else Style.REMOVED
    shown = Span(f"{weight:+,}", style) if signed or weight < 0 else Span(f"{weight:,}")
    return Row((*map(value_span, row), shown), style if coloured else Style.PLAIN)


def _numeric(type_: Type) -> bool:
    return type_.kind in _NUMERIC
