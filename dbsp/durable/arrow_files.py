"""Write the parts of a checkpoint as Arrow files, and read them back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dbsp.errors import CheckpointError
from dbsp.kernels.arrays import Codes


def arrow_bytes(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read_arrow(path: Path) -> pa.Table:
    """Return the table of an Arrow IPC file. Raises CheckpointError if it cannot be read."""
    try:
        with pa.OSFile(str(path)) as source:
            return pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise CheckpointError(f"cannot read {path}: {error}", code="checkpoint-unreadable") from None


def run_bytes(rows: Codes, weights: Codes) -> pa.Buffer:
    """Return rows int64[n, k] with their weights as an Arrow file of k + 1 columns."""
    columns = [pa.array(np.ascontiguousarray(rows[:, c])) for c in range(rows.shape[1])]
    names = [f"c{c}" for c in range(len(columns))]
    return arrow_bytes(pa.Table.from_arrays([*columns, pa.array(weights)], [*names, "weight"]))


def read_run(path: Path) -> tuple[Codes, Codes]:
    """Return the rows and weights that `run_bytes` wrote."""
    table = read_arrow(path)
    rows = np.empty((table.num_rows, table.num_columns - 1), np.int64)
    for c in range(rows.shape[1]):
        rows[:, c] = table.column(c).to_numpy()
    return rows, np.array(table.column("weight").to_numpy())


def small_bytes(runs: Sequence[tuple[Codes, Codes]]) -> pa.Buffer:
    """Return many small sorted runs as one Arrow file; each row has the bytes of one sorted run."""
    rows = [np.ascontiguousarray(rows).tobytes() for rows, _ in runs]
    weights = [np.ascontiguousarray(weights).tobytes() for _, weights in runs]
    binary = pa.large_binary()
    return arrow_bytes(pa.table({"rows": pa.array(rows, binary), "weights": pa.array(weights, binary)}))


def read_small(path: Path) -> list[tuple[Codes, Codes]]:
    """Return the sorted runs that `small_bytes` wrote; the rows of each are one flat array."""
    table = read_arrow(path)
    columns = [[codes_of(cell) for cell in table.column(name)] for name in ("rows", "weights")]
    return list(zip(*columns, strict=True))


def codes_of(cell: pa.Scalar) -> Codes:
    """Return a copy of a binary cell as an array."""
    buffer = cell.as_buffer()
    return np.frombuffer(buffer, np.int64).copy() if buffer.size else np.empty(0, np.int64)
