"""Sorting and consolidation of rows: the canonical form of a Z-set.

A row that fits a word of 64 bits, by the ranges of its columns, is packed into one, and a
least-significant-digit radix sort sorts the words. Most relations do (ids of a few million). Then
no rows are moved, since the sorted keys are unpacked again. The keys are sorted in the memory of
the result, so that a sort allocates its result only. `dbsp.kernels.wide_order` sorts
wider rows.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import copy_codes, first_codes, first_rows
from dbsp.kernels.jit import kernel
from dbsp.kernels.packed_keys import pack_keys, plan_word, radix_sort, sum_equal_keys, unpack_keys
from dbsp.kernels.wide_order import FEW, compare_columns, row_order
from dbsp.kernels.wide_sums import add_wide, fit_weight


@kernel
def compare_rows(a: Rows, i: int, b: Rows, j: int, k: int) -> int:
    """Return -1, 0 or 1: whether k columns of row a[i] sort before, with or after b[j]."""
    for c in range(k):
        if a[i, c] != b[j, c]:
            return -1 if a[i, c] < b[j, c] else 1
    return 0


@kernel
def _is_sorted(rows: Rows, columns: Codes) -> bool:
    for i in range(1, rows.shape[0]):  # noqa: SIM110  (a generator does not compile)
        if compare_columns(rows, i - 1, i, columns) > 0:
            return False
    return True


@kernel
def is_sorted(rows: Rows) -> bool:
    """Return whether the rows are in ascending order. O(n) up to the first one that is not."""
    return _is_sorted(rows, np.arange(rows.shape[1]))


@kernel
def _sum_equal(rows: Rows, weights: Codes, columns: Codes, out_rows: Rows, out_weights: Codes) -> int:
    """Sum the weights of equal neighbours, drop the zeros; return the number of rows.

    The output may be the input arrays, with all columns in order: no row moves towards the end.
    """
    n, k = rows.shape[0], columns.shape[0]
    out = 0
    i = 0
    while i < n:
        total = weights[i]
        j = i + 1
        if j < n and compare_columns(rows, i, j, columns) == 0:
            high = total >> 63
            while j < n and compare_columns(rows, i, j, columns) == 0:
                high, total = add_wide(high, total, weights[j])
                j += 1
            total = fit_weight(high, total)
        if total != 0:
            for c in range(k):
                out_rows[out, c] = rows[i, columns[c]]
            out_weights[out] = total
            out += 1
        i = j
    return out


@kernel
def _first(rows: Rows, weights: Codes, size: int) -> tuple[Rows, Codes]:
    """Return the first rows: in the same memory if nearly all of it is used, else in new arrays."""
    n = rows.shape[0]
    if size == n:
        return rows, weights
    if size >= n - n // 8:
        return rows[:size], weights[:size]
    return first_rows(rows, size, size), first_codes(weights, size, size)


@kernel
def _leading(order: Codes) -> int:
    """Return how many leading columns of a permutation decide the order of sorted rows.

    The columns after them are in their own order: so are the rows, where the leading ones are
    equal.
    """
    for column in range(order.shape[0] - 1, 0, -1):
        if order[column - 1] > order[column]:
            return column
    return 0


@kernel
def _sorted_by_order(rows: Rows, weights: Codes, columns: Codes, leading: int) -> tuple[Rows, Codes]:
    n, k = rows.shape[0], columns.shape[0]
    order = row_order(rows, columns[:leading])
    sorted_rows = np.empty((n, k), np.int64)
    sorted_weights = np.empty(n, np.int64)
    for i in range(n):
        sorted_weights[i] = weights[order[i]]
        for c in range(k):
            sorted_rows[i, c] = rows[order[i], columns[c]]
    size = _sum_equal(sorted_rows, sorted_weights, np.arange(k), sorted_rows, sorted_weights)
    return _first(sorted_rows, sorted_weights, size)


@kernel
def _consolidate(
    rows: Rows, weights: Codes, columns: Codes, out_rows: Rows, out_weights: Codes, distinct: bool
) -> tuple[Rows, Codes]:
    """Consolidate these columns of the rows.

    The output arrays are empty, or the input arrays, with all columns in order: then the result is
    in their memory. If `distinct`, the columns are a permutation, the rows are consolidated, and
    the result may have no weights, which means that all are 1.
    """
    n, k = rows.shape[0], columns.shape[0]
    if k == 0:
        high = total = 0
        for i in range(n):
            high, total = add_wide(high, total, weights[i])
        total = fit_weight(high, total)
        size = 1 if total != 0 else 0
        return np.empty((size, 0), np.int64), np.full(size, total)
    leading = _leading(columns) if distinct else k
    if _is_sorted(rows, columns[:leading]):
        found = out_rows if out_rows.shape[0] == n else np.empty((n, k), np.int64)
        sums = out_weights if out_weights.shape[0] == n else np.empty(n, np.int64)
        return _first(found, sums, _sum_equal(rows, weights, columns, found, sums))
    if n <= FEW:
        return _sorted_by_order(rows, weights, columns, leading)
    low, shift, bits = plan_word(rows, columns)
    if bits > 64:
        return _sorted_by_order(rows, weights, columns, leading)
    # The keys are at the start of the memory of the result, and move to its end and back.
    found = out_rows if out_rows.shape[0] == n else np.empty((n, k), np.int64)
    memory = found.reshape(n * k)
    keys = memory[:n]
    keys_to = memory[(k - 1) * n :] if k > 1 else np.empty(n, np.int64)
    pack_keys(rows, columns, low, shift, keys)
    skip = shift[leading - 1]
    units = True
    for i in range(n):
        if weights[i] != 1:
            units = False
            break
    if units and distinct:
        moved = radix_sort(keys, keys_to, out_weights, out_weights, False, skip, bits)
        unpack_keys(keys_to if moved else keys, n, moved, low, shift, bits, found)
        return found, out_weights
    # Weights that are all 1 are not sorted: the result gets the counts of equal keys.
    sums = out_weights if out_weights.shape[0] == n else np.empty(n, np.int64)
    if not units:
        copy_codes(weights, 0, sums, 0, n)
    sums_to = np.empty(0 if units else n, np.int64)
    moved = radix_sort(keys, keys_to, sums, sums_to, not units, skip, bits)
    if moved:
        keys = keys_to
        if not units:
            sums = sums_to
    size = sum_equal_keys(keys, sums, units, sums)
    unpack_keys(keys, size, moved, low, shift, bits, found)
    return _first(found, sums, size)


@kernel
def _consolidate_columns(rows: Rows, weights: Codes, columns: Codes, distinct: bool) -> tuple[Rows, Codes]:
    no_rows = np.empty((0, columns.shape[0]), np.int64)
    return _consolidate(rows, weights, columns, no_rows, np.empty(0, np.int64), distinct)


@kernel
def consolidate(rows: Rows, weights: Codes) -> tuple[Rows, Codes]:
    """Sort the rows, sum the weights of equal rows and drop the zeros.

    rows int64[n, k] in any order, weights int64[n]; returns the canonical pair in new arrays. O(n)
    per 8 or 11 bits of the packed row. Raises OverflowError if a weight is outside int64.
    """
    return _consolidate_columns(rows, weights, np.arange(rows.shape[1]), False)


@kernel
def consolidate_owned(rows: Rows, weights: Codes) -> tuple[Rows, Codes]:
    """As `consolidate`, for arrays that nobody else reads: the result may be in their memory."""
    return _consolidate(rows, weights, np.arange(rows.shape[1]), rows, weights, False)


@kernel
def sort_owned(rows: Rows) -> Rows:
    """Sort different rows that nobody else reads, usually in their own memory. O(n) as above."""
    n, k = rows.shape
    columns = np.arange(k)
    if k == 0 or _is_sorted(rows, columns):
        return rows
    low, shift, bits = plan_word(rows, columns)
    if bits > 64 or n <= FEW:
        order = row_order(rows, columns)
        found = np.empty((n, k), np.int64)
        for i in range(n):
            for c in range(k):
                found[i, c] = rows[order[i], c]
        return found
    # The keys move as in `_consolidate`.
    memory = rows.reshape(n * k)
    keys = memory[:n]
    keys_to = memory[(k - 1) * n :] if k > 1 else np.empty(n, np.int64)
    pack_keys(rows, columns, low, shift, keys)
    none = np.empty(0, np.int64)
    moved = radix_sort(keys, keys_to, none, none, False, 0, bits)
    unpack_keys(keys_to if moved else keys, n, moved, low, shift, bits, rows)
    return rows


@kernel
def consolidate_few(rows: Rows, weights: Codes) -> int:
    """Consolidate few rows in their own memory; return how many are left. O(n^2).

    It returns no arrays: to return two takes longer than to sort ten rows.
    """
    n, k = rows.shape
    for i in range(1, n):
        j = i
        while j > 0 and compare_rows(rows, j - 1, rows, j, k) > 0:
            for c in range(k):
                rows[j - 1, c], rows[j, c] = rows[j, c], rows[j - 1, c]
            weights[j - 1], weights[j] = weights[j], weights[j - 1]
            j -= 1
    return _sum_equal(rows, weights, np.arange(k), rows, weights)


@kernel
def project(rows: Rows, weights: Codes, columns: Codes) -> tuple[Rows, Codes]:
    """Return the given columns, in that order, consolidated: a bag projection, or a permutation."""
    return _consolidate_columns(rows, weights, columns, False)


@kernel
def rearrange(rows: Rows, weights: Codes, order: Codes) -> tuple[Rows, Codes]:
    """As `project`, for all columns of consolidated rows. No weights mean that each one is 1."""
    return _consolidate_columns(rows, weights, order, True)


@kernel
def with_time(rows: Rows, time: Codes) -> Rows:
    """Return the rows followed by `time`: the iterations of the nested scopes, outermost first."""
    n, k = rows.shape
    depth = time.shape[0]
    timed = np.empty((n, k + depth), np.int64)
    for i in range(n):
        for c in range(k):
            timed[i, c] = rows[i, c]
        for d in range(depth):
            timed[i, k + d] = time[d]
    return timed
