"""Merging of sorted runs: of two in pieces, in place or at once, and of several small ones."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Pointer, Rows, RunCodes
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.jit import add_weights, at_address, codes_at, kernel
from dbsp.kernels.limits import INT64_MIN
from dbsp.kernels.run_search import code_of_pair, compare_prefix, compare_run_rows, gallop, weights_at

LONGER = 16
"""A run with so many times the rows of the other one is merged in stretches: all rows between two
rows of the other one are found by a search, and copied at once."""


@kernel
def _stretch(run: RunCodes, start: int, size: int, way: int, other: RunCodes, at: int, k: int) -> int:
    """Return how many of `size` rows from `start` on come before the row at other[at:].

    If `way` is -1, go back from `start`, and return how many rows come after the other one.
    Exponential search: O(1 + log result).
    """
    low, high = 0, size
    step = 1
    while low < high:
        probe = min(low + step, high) - 1
        if compare_run_rows(run, (start + way * probe) * k, other, at, k) == -way:
            low = probe + 1
            step += step
        else:
            high = probe
            break
    while low < high:
        middle = (low + high) >> 1
        if compare_run_rows(run, (start + way * middle) * k, other, at, k) == -way:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _leading_ones(weights: Pointer, start: int, size: int) -> int:
    """Return how many of weights[start : start + size] are 1 before the first other one."""
    for c in range(size):
        if weights[start + c] != 1:
            return c
    return size


@kernel
def _append(
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
def _prepend(
    rows: RunCodes,
    weights: int,
    end: int,
    size: int,
    k: int,
    out_rows: RunCodes,
    out_weights: int,
    out: int,
) -> int:
    """Write rows[end - size : end] before row `out` of the result, from the last one; return how
    many.

    The addresses of weights are those of a run table. Without room for weights, stop at the first
    weight other than 1.
    """
    stored, mask = weights_at(weights)
    if out_weights:
        summed = at_address(out_weights)
        for c in range(1, size + 1):
            summed[out - c] = stored[(end - c) & mask]
    elif mask:
        for c in range(size):
            if stored[end - 1 - c] != 1:
                size = c
                break
    for c in range(1, size * k + 1):
        out_rows[out * k - c] = rows[end * k - c]
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
    longer = 1 if m - j > LONGER * (n - i) else -1 if n - i > LONGER * (m - j) else 0
    while fuel > 0 and (i < n or j < m):
        if i == n:
            order = 1
        elif j == m:
            order = -1
        else:
            order = compare_run_rows(a, i * k, b, j * k, k)
        if order != 0 and (order == longer or i == n or j == m):
            if order < 0:
                rest = min(fuel, n - i)
                some = rest if j == m else _stretch(a, i, rest, 1, b, j * k, k)
                size = _append(a, table[0, 1], i, some, k, out_rows, table[2, 1], out)
                i += size
            else:
                rest = min(fuel, m - j)
                some = rest if i == n else _stretch(b, j, rest, 1, a, i * k, k)
                size = _append(b, table[1, 1], j, some, k, out_rows, table[2, 1], out)
                j += size
            out += size
            fuel -= size
            if size < some:
                state[3] = 1
                break
            continue
        if order < 0:
            weight = a_weights[i & a_mask]
        elif order > 0:
            weight = b_weights[j & b_mask]
        else:
            weight = add_weights(a_weights[i & a_mask], b_weights[j & b_mask])
        if weighted:
            out_weights[out] = weight
        elif weight != 1 and weight != 0:
            state[3] = 1
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
    state[0], state[1], state[2] = i, j, out
    return bool(i == n and j == m)


@kernel
def _negated(weight: int) -> int:
    if weight == INT64_MIN:
        raise OverflowError("weight: the negation of a weight is outside the 64-bit range")
    return -weight


@kernel
def _place_of(pair: int) -> int:
    """Return a number that sorts as a narrow pair."""
    return (code_of_pair(pair, 0) << 32) | (code_of_pair(pair, 1) + 2**31)


@kernel
def _subtract_pairs(table: Rows) -> int:
    """As `subtract_runs`, for narrow pairs: each is one word, so a row takes half of the time."""
    a, b, out_rows = at_address(table[0, 0] - 1), at_address(table[1, 0] - 1), at_address(table[2, 0] - 1)
    a_weights, a_mask = weights_at(table[0, 1])
    b_weights, b_mask = weights_at(table[1, 1])
    out_weights = at_address(table[2, 1])
    n, m = table[0, 2], table[1, 2]
    i = j = out = 0
    while i < n or j < m:
        if i < n and j < m and a[i] == b[j]:
            pair = a[i]
            weight = add_weights(a_weights[i & a_mask], _negated(b_weights[j & b_mask]))
            i += 1
            j += 1
        elif j == m or (i < n and _place_of(a[i]) < _place_of(b[j])):
            pair, weight = a[i], a_weights[i & a_mask]
            i += 1
        else:
            pair, weight = b[j], _negated(b_weights[j & b_mask])
            j += 1
        if weight != 0:
            out_rows[out] = pair
            out_weights[out] = weight
            out += 1
    return out


@kernel
def subtract_runs(table: Rows, k: int) -> int:
    """Write a - b for the first two sorted runs of a run table; return how many rows that are.

    The third entry of the table is the result, with room for all rows, which are narrow or not, and
    for a weight of each. O(rows). Raises OverflowError if a weight is outside int64.
    """
    if k == 2 and table[0, 0] & table[1, 0] & table[2, 0] & 1:
        return _subtract_pairs(table)
    a, b, out_rows = codes_at(table[0, 0]), codes_at(table[1, 0]), codes_at(table[2, 0])
    a_weights, a_mask = weights_at(table[0, 1])
    b_weights, b_mask = weights_at(table[1, 1])
    out_weights = at_address(table[2, 1])
    n, m = table[0, 2], table[1, 2]
    i = j = out = 0
    while i < n or j < m:
        order = 1 if i == n else -1 if j == m else compare_run_rows(a, i * k, b, j * k, k)
        if order < 0:
            weight = a_weights[i & a_mask]
        else:
            weight = _negated(b_weights[j & b_mask])
            if order == 0:
                weight = add_weights(a_weights[i & a_mask], weight)
        if weight != 0:
            for c in range(k):
                out_rows[out * k + c] = a[i * k + c] if order < 0 else b[j * k + c]
            out_weights[out] = weight
            out += 1
        i += 1 if order <= 0 else 0
        j += 1 if order >= 0 else 0
    return out


@kernel
def merge_backward(table: Rows, k: int, state: Codes) -> bool:
    """Merge two sorted runs from their ends to their starts; return whether it is complete.

    The arguments are those of `merge_runs`, but `state` holds where the rows end that are left in
    each run, and where the free rows of the result end. So the result may be in the memory of the
    first run, if that has room for the rows of both. Dropped rows leave a gap before the result.
    O(rows).
    """
    i, j, out = state[0], state[1], state[2]
    a, b, out_rows = codes_at(table[0, 0]), codes_at(table[1, 0]), codes_at(table[2, 0])
    a_weights, a_mask = weights_at(table[0, 1])
    b_weights, b_mask = weights_at(table[1, 1])
    weighted = table[2, 1] != 0
    out_weights = at_address(table[2, 1])
    longer = 1 if i > LONGER * j else -1 if j > LONGER * i else 0
    while i > 0 or j > 0:
        # A row of the result is written after the rows of the first run that are left.
        if i == 0:
            order = -1
        elif j == 0:
            order = 1
        else:
            order = compare_run_rows(a, (i - 1) * k, b, (j - 1) * k, k)
        if order != 0 and (order == longer or i == 0 or j == 0):
            if order > 0:
                some = i if j == 0 else _stretch(a, i - 1, i, -1, b, (j - 1) * k, k)
                size = _prepend(a, table[0, 1], i, some, k, out_rows, table[2, 1], out)
                i -= size
            else:
                some = j if i == 0 else _stretch(b, j - 1, j, -1, a, (i - 1) * k, k)
                size = _prepend(b, table[1, 1], j, some, k, out_rows, table[2, 1], out)
                j -= size
            out -= size
            if size < some:
                state[0], state[1], state[2], state[3] = i, j, out, 1
                return False
            continue
        if order > 0:
            weight = a_weights[(i - 1) & a_mask]
        elif order < 0:
            weight = b_weights[(j - 1) & b_mask]
        else:
            weight = add_weights(a_weights[(i - 1) & a_mask], b_weights[(j - 1) & b_mask])
        if weight != 0:
            if weighted:
                out_weights[out - 1] = weight
            elif weight != 1:
                state[0], state[1], state[2], state[3] = i, j, out, 1
                return False
            out -= 1
            if order >= 0:
                for c in range(k):
                    out_rows[out * k + c] = a[(i - 1) * k + c]
            else:
                for c in range(k):
                    out_rows[out * k + c] = b[(j - 1) * k + c]
        if order >= 0:
            i -= 1
        if order <= 0:
            j -= 1
    state[0], state[1], state[2] = i, j, out
    return True


@kernel
def sum_runs(table: Rows, first: int, count: int, k: int) -> tuple[Rows, Codes]:
    """Return the sum of `count` sorted runs of k columns, from the one at `first` in a run table.

    The newest runs are usually the smallest, so they are merged first: the others are copied once
    or twice. O(rows * log), and O(rows) for each run that is not smaller than all newer ones.
    """
    total = 0
    for r in range(first, first + count):
        total += table[r, 2]
    rows = np.empty((total, k), np.int64)
    weights = np.empty(total, np.int64)
    out_rows = np.empty((total, k), np.int64)
    out_weights = np.empty(total, np.int64)
    size = 0
    for r in range(first + count - 1, first - 1, -1):
        run = codes_at(table[r, 0])
        stored, mask = weights_at(table[r, 1])
        length = table[r, 2]
        i = out = 0
        for j in range(size + 1):
            # The rows of the older run before row j of the newer ones, and all of them at the end.
            until = gallop(run, k, i, length, rows, j, k, 0) if j < size else length
            while i < until:
                for c in range(k):
                    out_rows[out, c] = run[i * k + c]
                out_weights[out] = stored[i & mask]
                out += 1
                i += 1
            if j == size:
                break
            weight = weights[j]
            if i < length and compare_prefix(run, i * k, rows, j, k) == 0:
                weight = add_weights(weight, stored[i & mask])
                i += 1
            if weight != 0:
                for c in range(k):
                    out_rows[out, c] = rows[j, c]
                out_weights[out] = weight
                out += 1
        rows, out_rows = out_rows, rows
        weights, out_weights = out_weights, weights
        size = out
    if size < total:
        return first_rows(rows, size, size), first_codes(weights, size, size)
    return rows, weights
