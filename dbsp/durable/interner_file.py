"""The values of an interner on disk: strings as Arrow strings, cells as codes, others pickled.

Ids count up from 0, so a piece of the interner is its first id and a table of values. Unpickling
can run arbitrary code: open only checkpoints from trusted sources.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa

from dbsp.data.interner import CELL, Interner
from dbsp.data.types import Layout
from dbsp.errors import CheckpointError, shorten


def values_table(interner: Interner, start: int, end: int) -> pa.Table:
    """Return the values with ids from `start` to `end`, in order. Raises CheckpointError.

    Each row has a value in one of the columns text, other and fields: fields are the codes of a
    constructed value, and the column layout has its layout.
    """
    values = interner.decode_many(range(start, end))
    texts = [value if _is_text(value) else None for value in values]
    layouts: list[str | None] = [None] * len(values)
    fields: list[list[int] | None] = [None] * len(values)
    others: list[bytes | None] = [None] * len(values)
    written: dict[Layout, str] = {}
    for place, value in enumerate(values):
        if value is CELL:
            layout, fields[place] = interner.cells.cell(start + place)
            if layout not in written:
                written[layout] = json.dumps([layout.constructor, layout.nested])
            layouts[place] = written[layout]
        elif texts[place] is None:
            others[place] = _pickled(value)
    return pa.table(
        {
            "text": pa.array(texts, pa.large_string()),
            "other": pa.array(others, pa.large_binary()),
            "layout": pa.array(layouts, pa.dictionary(pa.int32(), pa.string())),
            "fields": pa.array(fields, pa.large_list(pa.int64())),
        }
    )


def restore_values(interner: Interner, table: pa.Table) -> None:
    """Add the values of such a table to an interner, which then gives them their previous ids."""
    layouts: dict[str, Layout] = {}
    columns = (table.column(name).to_pylist() for name in ("text", "other", "layout", "fields"))
    for text, other, written, fields in zip(*columns, strict=True):
        if fields is None:
            interner.encode(pickle.loads(other) if text is None else text)
            continue
        if written not in layouts:
            constructor, nested = json.loads(written)
            layouts[written] = Layout(constructor, tuple(nested))
        interner.construct_one(layouts[written], fields)


def _is_text(value: Any) -> bool:
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # a string with a lone surrogate has no UTF-8 form
        return False
    return True


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        raise CheckpointError(
            f"cannot write {shorten(value)} of type {type(value).__name__} to a checkpoint: {error}",
            code="checkpoint-write",
        ) from None
