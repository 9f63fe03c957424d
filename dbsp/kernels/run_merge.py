"""Incremental merging of two sorted runs."""

from __future__ import annotations

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import copy_rows
from dbsp.kernels.jit import add_weights, kernel
from dbsp.kernels.sort import compare_rows


@kernel
def _leading_ones(weights: Codes, start: int, size: int) -> int:
    """Return how many of weights[start : start + size] are 1 before the first other one."""
    for c in range(size):
        if weights[start + c] != 1:
            return c
    return size


@kernel
def _append_rest(
    rows: Rows, weights: Codes, start: int, fuel: int, out_rows: Rows, out_weights: Codes, out: int
) -> int:
    """Append rows from `start` on to out, at most `fuel`; return how many.

    Without room for weights, stop before the first weight other than 1.
    """
    n = rows.shape[0]
    size: int = min(fuel, n - start)
    stored = weights.shape[0] == n
    if out_weights.shape[0] == out_rows.shape[0]:
        mask = -1 if stored else 0
        for c in range(size):
            out_weights[out + c] = weights[(start + c) & mask]
    elif stored:
        size = _leading_ones(weights, start, size)
    copy_rows(rows, start, out_rows, out, size)
    return size


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

    `out_weights` may be shorter than `out_rows`. Then no weights are written, since all of them are
    1, and the merge stops before the first other one with state[3] = 1.
    """
    i, j, out = state[0], state[1], state[2]
    n, m, k = a_rows.shape[0], b_rows.shape[0], a_rows.shape[1]
    a_mask = -1 if a_weights.shape[0] == n else 0
    b_mask = -1 if b_weights.shape[0] == m else 0
    weighted = out_weights.shape[0] == out_rows.shape[0]
    stopped = False
    while fuel > 0 and i < n and j < m:
        order = compare_rows(a_rows, i, b_rows, j, k)
        if order < 0:
            weight = a_weights[i & a_mask]
        elif order > 0:
            weight = b_weights[j & b_mask]
        else:
            weight = add_weights(a_weights[i & a_mask], b_weights[j & b_mask])
        if weighted:
            out_weights[out] = weight
        elif weight != 1 and weight != 0:
            stopped = True
            break
        if order <= 0:
            for c in range(k):
                out_rows[out, c] = a_rows[i, c]
            i += 1
        else:
            for c in range(k):
                out_rows[out, c] = b_rows[j, c]
        if order >= 0:
            j += 1
        if weight != 0:
            out += 1
        fuel -= 1
    # One side is finished: copy the rest of the other as a block, within the fuel.
    if j == m and i < n and fuel > 0 and not stopped:
        size = _append_rest(a_rows, a_weights, i, fuel, out_rows, out_weights, out)
        stopped = size < min(fuel, n - i)
        i += size
        out += size
        fuel -= size
    if i == n and j < m and fuel > 0 and not stopped:
        size = _append_rest(b_rows, b_weights, j, fuel, out_rows, out_weights, out)
        stopped = size < min(fuel, m - j)
        j += size
        out += size
    state[0], state[1], state[2] = i, j, out
    if stopped:
        state[3] = 1
    return bool(i == n and j == m)
