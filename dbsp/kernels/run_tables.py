"""Entries of run tables (see `dbsp.kernels.run_search`), and the merge of two runs by them."""

from __future__ import annotations

import numpy as np

from dbsp.kernels import merge_runs
from dbsp.kernels.arrays import Codes, StoredRows


def run_entry(rows: StoredRows, weights: Codes) -> tuple[int, int, int]:
    """Return the entry of a sorted run; `weights` may be a single 1 if all weights are 1."""
    narrow = rows.itemsize == 4
    implicit = len(weights) < len(rows)
    return rows.ctypes.data + narrow, weights.ctypes.data + implicit, len(rows)


def merge_some(
    a_rows: StoredRows,
    a_weights: Codes,
    b_rows: StoredRows,
    b_weights: Codes,
    out_rows: StoredRows,
    out_weights: Codes,
    state: Codes,
    fuel: int,
) -> bool:
    """Continue merging a and b into out for at most `fuel` rows; return whether it is complete.

    `state` is that of `merge_runs`, and `out_weights` may be shorter than `out_rows`: then no
    weights are written, and the merge stops before the first one other than 1 with state[3] = 1.
    """
    sides = (a_rows, a_weights), (b_rows, b_weights), (out_rows, out_weights)
    table = np.array([run_entry(*side) for side in sides], np.int64)
    if len(out_weights) < len(out_rows):
        table[2, 1] = 0
    return merge_runs(table, a_rows.shape[1], state, fuel)
