"""Read Parquet files that were verified, with a limit for what they unpack to."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.durable.sealed_files import unreadable

_UNPACKED = 1_000
_ALWAYS = 1 << 28
"""A file may unpack to this many times its size, or to this many bytes; a file that claims more is
made to exhaust the memory."""


def read_parquet(path: Path, content: bytearray | memoryview, rows: int | None = None) -> pa.Table:
    """Return the table in a Parquet file of this content, which has this number of rows if known.

    Raises CheckpointError.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)))
        footer = file.metadata
        rows = footer.num_rows if rows is None else rows
        if footer.num_rows != rows:
            raise unreadable(path, f"expected {rows:,} rows, got {footer.num_rows:,}")
        written = sum(
            footer.row_group(group).column(column).total_uncompressed_size
            for group in range(footer.num_row_groups)
            for column in range(footer.num_columns)
        )
        # Equal values that follow each other take almost no space in the file.
        unpacked = max(written, 8 * rows * footer.num_columns)
        if unpacked > max(_ALWAYS, _UNPACKED * len(content)):
            raise unreadable(path, f"its {len(content):,} bytes unpack to {unpacked:,} bytes")
        table = file.read()
    except (OSError, pa.ArrowException, MemoryError) as error:
        raise unreadable(path, str(error)) from None
    if table.num_rows != rows and table.num_columns:
        raise unreadable(path, f"expected {rows:,} rows, got {table.num_rows:,}")
    return table
