"""Incremental merging of two sorted runs."""

from __future__ import annotations

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import copy_rows
from dbsp.kernels.jit import add_weights, kernel
from dbsp.kernels.sort import compare_rows


@kernel
def merge_some(
    a_rows: Rows,
    a_weights: Codes,
    b_rows: Rows,
    b_weights: Codes,
    out_rows: Rows,
    out_weights: Codes,
    state: Codes,
    fuel: int,
) -> bool:
    """Continue merging a and b into out for at most `fuel` rows; return whether it is complete.

    `state` holds the three positions (in a, in b, in out) between calls. The weights of equal rows
    are summed, and a row whose sum is 0 is dropped: a retraction cancels its insertion. Weights
    that are all 1 may be a single one (see `dbsp.kernels.run_search`).
    """
    i, j, out = state[0], state[1], state[2]
    n, m, k = a_rows.shape[0], b_rows.shape[0], a_rows.shape[1]
    a_mask = -1 if a_weights.shape[0] == n else 0
    b_mask = -1 if b_weights.shape[0] == m else 0
    while fuel > 0 and i < n and j < m:
        order = compare_rows(a_rows, i, b_rows, j, k)
        fuel -= 1
        if order < 0:
            for c in range(k):
                out_rows[out, c] = a_rows[i, c]
            out_weights[out] = a_weights[i & a_mask]
            i += 1
            out += 1
        elif order > 0:
            for c in range(k):
                out_rows[out, c] = b_rows[j, c]
            out_weights[out] = b_weights[j & b_mask]
            j += 1
            out += 1
        else:
            total = add_weights(a_weights[i & a_mask], b_weights[j & b_mask])
            if total != 0:
                for c in range(k):
                    out_rows[out, c] = a_rows[i, c]
                out_weights[out] = total
                out += 1
            i += 1
            j += 1
    # One side is finished: copy the rest of the other as a block, within the fuel.
    if j == m and i < n and fuel > 0:
        size = min(fuel, n - i)
        copy_rows(a_rows, i, out_rows, out, size)
        for c in range(size):
            out_weights[out + c] = a_weights[(i + c) & a_mask]
        i += size
        out += size
        fuel -= size
    if i == n and j < m and fuel > 0:
        size = min(fuel, m - j)
        copy_rows(b_rows, j, out_rows, out, size)
        for c in range(size):
            out_weights[out + c] = b_weights[(j + c) & b_mask]
        j += size
        out += size
    state[0], state[1], state[2] = i, j, out
    return bool(i == n and j == m)
