"""The rows before a tick and those after it, in one batch with the version in a last column."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel


@kernel
def join_versions(
    old_rows: Rows, old_weights: Codes, new_rows: Rows, new_weights: Codes
) -> tuple[Rows, Codes]:
    """Return the old rows with 0 in a column more, and then the new ones with 1 there."""
    old = old_weights.shape[0]
    n = old + new_weights.shape[0]
    k = old_rows.shape[1]
    rows = np.empty((n, k + 1), np.int64)
    weights = np.empty(n, np.int64)
    for i in range(n):
        for c in range(k):
            rows[i, c] = old_rows[i, c] if i < old else new_rows[i - old, c]
        rows[i, k] = i >= old
        weights[i] = old_weights[i] if i < old else new_weights[i - old]
    return rows, weights
