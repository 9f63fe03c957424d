"""The entries of run tables (see `dbsp.kernels.run_search`)."""

from __future__ import annotations

from dbsp.kernels.arrays import Codes, StoredRows


def run_entry(rows: StoredRows, weights: Codes) -> tuple[int, int, int]:
    """Return the entry of a sorted run; `weights` may be a single 1 if all weights are 1."""
    narrow = rows.itemsize == 4
    implicit = len(weights) < len(rows)
    return rows.ctypes.data + narrow, weights.ctypes.data + implicit, len(rows)
