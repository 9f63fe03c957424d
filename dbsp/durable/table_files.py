"""Tables in one sealed file: a JSON value, and a Parquet file for each table.

The tables are Parquet and not Arrow, because a reader of Arrow allocates what a length says.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.durable.parquet_files import read_parquet
from dbsp.durable.sealed_files import Sealed, decoding, read_sealed, seal, unreadable

_LENGTH = struct.Struct("<Q")


def sealed_tables(name: str, head: Any, tables: Sequence[pa.Table]) -> Sealed:
    """Return a file for the place `name`. Raises TypeError for a head that is not JSON."""
    contents = []
    for table in tables:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="none", use_dictionary=False)
        contents.append(sink.getvalue())
    sizes = [[table.num_rows, len(content)] for table, content in zip(tables, contents, strict=True)]
    written = json.dumps([head, sizes]).encode()
    return seal(name, [_LENGTH.pack(len(written)) + written, *contents])


def read_tables(path: Path, name: str, digest: str | None = None) -> tuple[Any, list[pa.Table]]:
    """Return the JSON value and the tables of a file of `sealed_tables`, after verifying it.

    With `digest`, the file must be the one with this checksum. Raises CheckpointError.
    """
    content = read_sealed(path, name, digest).content
    tables = []
    with decoding(path):
        at = _LENGTH.size + int.from_bytes(content[: _LENGTH.size], "little")
        head, sizes = json.loads(bytes(content[_LENGTH.size : at]))
        for rows, size in sizes:
            tables.append(read_parquet(path, content[at : at + size], rows))
            at += size
    if at != len(content):
        raise unreadable(path, "its tables have another size than the file")
    return head, tables
