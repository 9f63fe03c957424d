"""Incremental merging of two sorted runs."""

from __future__ import annotations

from dbsp.kernels.arrays import Codes, Pointer, Rows, RunCodes
from dbsp.kernels.jit import add_weights, at_address, codes_at, kernel
from dbsp.kernels.run_search import compare_run_rows, weights_at


@kernel
def _leading_ones(weights: Pointer, start: int, size: int) -> int:
    """Return how many of weights[start : start + size] are 1 before the first other one."""
    for c in range(size):
        if weights[start + c] != 1:
            return c
    return size


@kernel
def _append_rest(
    rows: RunCodes,
    weights: int,
    start: int,
    size: int,
    k: int,
    out_rows: RunCodes,
    out_weights: int,
    out: int,
) -> int:
    """Append rows[start : start + size] to out; return how many.

    The addresses of weights are those of a run table. Without room for weights, stop before the
    first weight other than 1.
    """
    stored, mask = weights_at(weights)
    if out_weights:
        summed = at_address(out_weights)
        for c in range(size):
            summed[out + c] = stored[(start + c) & mask]
    elif mask:
        size = _leading_ones(stored, start, size)
    for c in range(size * k):
        out_rows[out * k + c] = rows[start * k + c]
    return size


@kernel
def merge_runs(table: Rows, k: int, state: Codes, fuel: int) -> bool:
    """Continue merging two sorted runs for at most `fuel` rows; return whether it is complete.

    The runs, of k columns each, are the first two in `table` (see `dbsp.kernels.run_search`), and
    the third has the address of the rows of the result, narrow or not. `state` holds the three
    positions (in the first run, in the second, in the result) between calls. The weights of equal
    rows are summed, and a row whose sum is 0 is dropped: a retraction cancels its insertion.

    The address of the weights of the result may be 0. Then no weights are written, since all of
    them are 1, and the merge stops before the first other one with state[3] = 1.
    """
    i, j, out = state[0], state[1], state[2]
    a, b, out_rows = codes_at(table[0, 0]), codes_at(table[1, 0]), codes_at(table[2, 0])
    a_weights, a_mask = weights_at(table[0, 1])
    b_weights, b_mask = weights_at(table[1, 1])
    n, m = table[0, 2], table[1, 2]
    weighted = table[2, 1] != 0
    out_weights = at_address(table[2, 1])
    stopped = False
    while fuel > 0 and i < n and j < m:
        order = compare_run_rows(a, i * k, b, j * k, k)
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
                out_rows[out * k + c] = a[i * k + c]
            i += 1
        else:
            for c in range(k):
                out_rows[out * k + c] = b[j * k + c]
        if order >= 0:
            j += 1
        if weight != 0:
            out += 1
        fuel -= 1
    # One side is finished: copy the rest of the other as a block, within the fuel.
    if j == m and i < n and fuel > 0 and not stopped:
        rest = min(fuel, n - i)
        size = _append_rest(a, table[0, 1], i, rest, k, out_rows, table[2, 1], out)
        stopped = size < rest
        i += size
        out += size
        fuel -= size
    if i == n and j < m and fuel > 0 and not stopped:
        rest = min(fuel, m - j)
        size = _append_rest(b, table[1, 1], j, rest, k, out_rows, table[2, 1], out)
        stopped = size < rest
        j += size
        out += size
    state[0], state[1], state[2] = i, j, out
    if stopped:
        state[3] = 1
    return bool(i == n and j == m)
