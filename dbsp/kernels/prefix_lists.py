"""Prefixes of a multi-way join on several shards: unsorted rows that look up values in a relation.

    find_prefixes     the rows of each run that agree with a prefix: its *bounds*
    list_values       the values of the last column in the bounds, each with the sum of its weights
    group_requests    which lists of another relation the prefixes need: the *requests*
    intersect_lists   extend each prefix by the values of its list that are in its bounds as well
    expand_lists      extend each prefix by the values of its own list
    test_values       keep the prefixes whose last variable is in their bounds

The bounds of prefix i are int64[2 * runs]: the first row of each run and its end. A prefix whose
product of weights is outside int64 has the weight 0 from then on, which no other prefix has. It may
match no row of the next relation, so only the caller can say whether that is an error.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.column_search import seek, seek_past
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.jit import codes_at, kernel, multiply_flagged
from dbsp.kernels.limits import NULL
from dbsp.kernels.prefix_ranges import TOGETHER
from dbsp.kernels.run_search import weight_at
from dbsp.kernels.wide_sums import add_wide, fit_weight


@kernel
def agrees(rows: Rows, i: int, j: int, columns: Codes) -> bool:
    """Return whether two rows agree in some columns."""
    for c in range(columns.shape[0]):  # noqa: SIM110  (there are no generators in kernels)
        if rows[i, columns[c]] != rows[j, columns[c]]:
            return False
    return True


@kernel
def product_or_mark(a: int, b: int) -> int:
    """Return a * b, or 0 if the product is outside int64; neither is 0 otherwise."""
    product, outside = multiply_flagged(a, b)
    return 0 if outside else product


@kernel
def find_prefixes(rows: Rows, columns: Codes, table: Rows, runs: int, k: int) -> Rows:
    """Return the bounds of each row: the run rows that begin with its values in `columns`.

    `k` is the number of columns of the runs. Many searches in a run advance together, so that the
    processor waits for the memory of all of them at the same time. A row that agrees with the row
    before costs no search. O(rows * runs * log run).
    """
    n, m = rows.shape[0], columns.shape[0]
    leaders = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        if i == 0 or not agrees(rows, i - 1, i, columns):
            leaders[count] = i
            count += 1
    bounds = np.empty((n, 2 * runs), np.int64)
    firsts = np.empty(TOGETHER, np.int64)
    ends = np.empty(TOGETHER, np.int64)
    wanted = np.empty(TOGETHER, np.int64)
    for r in range(runs):
        run = codes_at(table[r, 0])
        size = table[r, 2]
        for start in range(0, count, TOGETHER):
            together = min(TOGETHER, count - start)
            for i in range(together):
                firsts[i] = 0
                ends[i] = 0
                wanted[i] = rows[leaders[start + i], columns[0]]
            left = size
            while left > 0:
                half = (left + 1) >> 1
                for i in range(together):
                    firsts[i] += half * (run[(firsts[i] + half - 1) * k] < wanted[i])
                for i in range(together):
                    ends[i] += half * (run[(ends[i] + half - 1) * k] <= wanted[i])
                left -= half
            for i in range(together):
                row = leaders[start + i]
                low = firsts[i]
                high = ends[i]
                for c in range(1, m):
                    value = rows[row, columns[c]]
                    low = seek(run, k, c, low, high, value)
                    if low == high or run[low * k + c] != value:
                        high = low
                        break
                    high = low + 1 if c == k - 1 else seek_past(run, k, c, low + 1, high, value)
                bounds[row, 2 * r] = low
                bounds[row, 2 * r + 1] = high
    at = 0
    for i in range(n):
        if at < count and leaders[at] == i:
            at += 1
        else:
            for c in range(2 * runs):
                bounds[i, c] = bounds[i - 1, c]
    return bounds


@kernel
def count_bounds(bounds: Rows) -> Codes:
    """Return the number of run rows in the bounds of each prefix; rows that cancel count."""
    n, width = bounds.shape
    counts = np.zeros(n, np.int64)
    for i in range(n):
        for c in range(0, width, 2):
            counts[i] += bounds[i, c + 1] - bounds[i, c]
    return counts


@kernel
def list_values(
    bounds: Rows, table: Rows, runs: int, k: int, excludes_null: bool
) -> tuple[Codes, Codes, Codes]:
    """Return the values of the last column in the bounds of each prefix, which are in order.

    Returns (lengths, values, weights): the values of all prefixes one after the other. The weights
    of a value in several runs add up, and a value of weight 0 is left out.
    """
    n = bounds.shape[0]
    total = 0
    for i in range(n):
        for r in range(runs):
            total += bounds[i, 2 * r + 1] - bounds[i, 2 * r]
    lengths = np.empty(n, np.int64)
    values = np.empty(total, np.int64)
    weights = np.empty(total, np.int64)
    cursors = np.empty(runs, np.int64)
    out = 0
    for i in range(n):
        first = out
        for r in range(runs):
            cursors[r] = bounds[i, 2 * r]
        while True:
            found = False
            least = 0
            for r in range(runs):
                if cursors[r] < bounds[i, 2 * r + 1]:
                    value = codes_at(table[r, 0])[cursors[r] * k + k - 1]
                    if not found or value < least:
                        found = True
                        least = value
            if not found:
                break
            high = low = 0
            for r in range(runs):
                at = cursors[r]
                if at < bounds[i, 2 * r + 1] and codes_at(table[r, 0])[at * k + k - 1] == least:
                    high, low = add_wide(high, low, weight_at(table[r, 1], at))
                    cursors[r] = at + 1
            weight = fit_weight(high, low)
            if weight != 0 and not (excludes_null and least == NULL):
                values[out] = least
                weights[out] = weight
                out += 1
        lengths[i] = out - first
    return lengths, values[:out], weights[:out]


@kernel
def group_requests(
    rows: Rows, columns: Codes, chosen: Codes, source: int, fewest: Codes, least: Codes
) -> tuple[Codes, Codes]:
    """Return the request of each row with chosen[i] = `source`, or -1; and a row of each request.

    A request is for the list of the key in `columns`, which has fewest[i] values. It pays if the
    neighbouring rows with this key would send as many values themselves, least[i] each.
    """
    n = rows.shape[0]
    numbers = np.full(n, -1)
    firsts = np.empty(n, np.int64)
    count = 0
    i = 0
    while i < n:
        if chosen[i] != source:
            i += 1
            continue
        end = i
        sent = 0
        while end < n and chosen[end] == source and agrees(rows, i, end, columns):
            sent += least[end]
            end += 1
        if sent >= fewest[i]:
            for j in range(i, end):
                numbers[j] = count
            firsts[count] = i
            count += 1
        i = end
    return numbers, firsts[:count]


@kernel
def intersect_lists(
    rows: Rows,
    weights: Codes,
    width: int,
    numbers: Codes,
    ends: Codes,
    values: Codes,
    value_weights: Codes,
    bounds: Rows,
    table: Rows,
    runs: int,
    k: int,
) -> tuple[Rows, Codes]:
    """Extend each row by the values of its list that are in the last column within its bounds.

    Row i has the list numbers[i], or none for -1; list l ends at ends[l] in `values`, whose values
    are in order. Returns the first `width` columns with the value, and the products of the weights.
    O(shorter * log (longer / shorter)) per row and run.
    """
    out_rows = np.empty((max(16, rows.shape[0]), width + 1), np.int64)
    out_weights = np.empty(max(16, rows.shape[0]), np.int64)
    out = 0
    used = np.empty(runs, np.int64)
    cursors = np.empty(runs, np.int64)
    c = k - 1
    listed = codes_at(values.ctypes.data)
    for i in range(rows.shape[0]):
        number = numbers[i]
        if number < 0:
            continue
        p = ends[number - 1] if number else 0
        stop = ends[number]
        active = 0
        for r in range(runs):
            if bounds[i, 2 * r] < bounds[i, 2 * r + 1]:
                used[active] = r
                cursors[active] = bounds[i, 2 * r]
                active += 1
        if active == 1:
            r = used[0]
            run = codes_at(table[r, 0])
            j, high = bounds[i, 2 * r], bounds[i, 2 * r + 1]
            while p < stop and j < high:
                value = listed[p]
                other = run[j * k + c]
                if value == other:
                    if out == out_weights.shape[0]:
                        out_rows = first_rows(out_rows, out, 2 * out)
                        out_weights = first_codes(out_weights, out, 2 * out)
                    for column in range(width):
                        out_rows[out, column] = rows[i, column]
                    out_rows[out, width] = value
                    weight = product_or_mark(value_weights[p], weight_at(table[r, 1], j))
                    out_weights[out] = product_or_mark(weights[i], weight)
                    out += 1
                    p += 1
                    j += 1
                elif value < other:
                    p = seek(listed, 1, 0, p + 1, stop, other)
                else:
                    j = seek(run, k, c, j + 1, high, value)
            continue
        while p < stop:
            value = listed[p]
            found = False
            more = False
            least = 0
            upper = lower = 0
            for a in range(active):
                r = used[a]
                high = bounds[i, 2 * r + 1]
                run = codes_at(table[r, 0])
                at = seek(run, k, c, cursors[a], high, value)
                cursors[a] = at
                if at < high:
                    other = run[at * k + c]
                    if other == value:
                        found = True
                        upper, lower = add_wide(upper, lower, weight_at(table[r, 1], at))
                    if not more or other < least:
                        least = other
                    more = True
            if not more:
                break
            if not found:
                p = seek(listed, 1, 0, p + 1, stop, least)
                continue
            weight = fit_weight(upper, lower)
            if weight != 0:
                if out == out_weights.shape[0]:
                    out_rows = first_rows(out_rows, out, 2 * out)
                    out_weights = first_codes(out_weights, out, 2 * out)
                for column in range(width):
                    out_rows[out, column] = rows[i, column]
                out_rows[out, width] = value
                weight = product_or_mark(value_weights[p], weight)
                out_weights[out] = product_or_mark(weights[i], weight)
                out += 1
            p += 1
    return out_rows[:out], out_weights[:out]


@kernel
def expand_lists(
    rows: Rows, weights: Codes, width: int, lengths: Codes, values: Codes, value_weights: Codes
) -> tuple[Rows, Codes]:
    """Extend the first `width` columns of each row by each of its values, `lengths[i]` many."""
    out_rows = np.empty((values.shape[0], width + 1), np.int64)
    out_weights = np.empty(values.shape[0], np.int64)
    out = 0
    for i in range(rows.shape[0]):
        for _ in range(lengths[i]):
            for c in range(width):
                out_rows[out, c] = rows[i, c]
            out_rows[out, width] = values[out]
            out_weights[out] = product_or_mark(weights[i], value_weights[out])
            out += 1
    return out_rows, out_weights


@kernel
def test_values(
    rows: Rows, weights: Codes, bounds: Rows, column: int, table: Rows, runs: int, k: int
) -> tuple[Rows, Codes]:
    """Keep the rows whose value of `column` is in the last column of a run within their bounds.

    With the column -1 the bounds are those of whole run rows. Weights are multiplied. A row with
    the bounds of the row before continues where its search ended.
    """
    n, width = rows.shape
    out_rows = np.empty((n, width), np.int64)
    out_weights = np.empty(n, np.int64)
    out = 0
    cursors = np.zeros(runs, np.int64)
    for i in range(n):
        found = False
        upper = lower = 0
        for r in range(runs):
            at, high = bounds[i, 2 * r], bounds[i, 2 * r + 1]
            if at == high:
                continue
            if column >= 0:
                run = codes_at(table[r, 0])
                same = i > 0 and bounds[i - 1, 2 * r] == at and rows[i - 1, column] <= rows[i, column]
                if same and bounds[i - 1, 2 * r + 1] == high:
                    at = cursors[r]
                at = seek(run, k, k - 1, at, high, rows[i, column])
                cursors[r] = at
                if at == high or run[at * k + k - 1] != rows[i, column]:
                    continue
            found = True
            upper, lower = add_wide(upper, lower, weight_at(table[r, 1], at))
        weight = fit_weight(upper, lower) if found else 0
        if weight != 0:
            for c in range(width):
                out_rows[out, c] = rows[i, c]
            out_weights[out] = product_or_mark(weights[i], weight)
            out += 1
    return out_rows[:out], out_weights[:out]
