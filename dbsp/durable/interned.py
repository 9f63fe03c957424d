"""The values of an interner on disk: strings as Arrow strings, anything else pickled.

Ids count up from 0, so a piece of the interner is a number to begin with and a list of values. Reading what
is pickled runs code that it names: a checkpoint is for whoever wrote it.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dbsp.errors import CheckpointError
from dbsp.values import shorten


def values_table(values: Sequence[Any]) -> pa.Table:
    """Values as a table of two columns, of which each row fills one. Raises CheckpointError."""
    texts = [value if _is_text(value) else None for value in values]
    others = [
        None if text is not None else _pickled(value) for text, value in zip(texts, values, strict=True)
    ]
    return pa.table(
        {"text": pa.array(texts, pa.large_string()), "other": pa.array(others, pa.large_binary())}
    )


def table_values(table: pa.Table) -> list[Any]:
    """The values of such a table."""
    texts, others = table.column("text").to_pylist(), table.column("other").to_pylist()
    return [pickle.loads(other) if text is None else text for text, other in zip(texts, others, strict=True)]


def _is_text(value: Any) -> bool:
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates are strings and no UTF-8
        return False
    return True


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        raise CheckpointError(
            f"{shorten(value)} of type {type(value).__name__} cannot be written to a checkpoint: {error}"
        ) from None
