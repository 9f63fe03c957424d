"""Ranges of rows that agree with a prefix: the searches of one level of a multi-way join.

`dbsp.kernels.multiway` defines plan, use, level and member. The rows of a use that agree with a
prefix are a list of ranges, one per run with such rows. All lists are in one array, one list per
level and use, since a use keeps the list of the last level that bound one of its columns:

    LIST    number of ranges, weight of the row (if all its columns are bound)
    then per range RANGE numbers
            address of the run, address of its weights, first row, end,
            cursor of the next level and its end: the rows whose values are within its limits
"""

from __future__ import annotations

from dbsp.kernels.arrays import Pointer, Rows
from dbsp.kernels.column_search import seek, seek_past
from dbsp.kernels.first_places import PLACES, first_place, place_after
from dbsp.kernels.jit import choose, codes_at, kernel
from dbsp.kernels.run_search import weight_at
from dbsp.kernels.wide_sums import add_wide, fit_weight

HEADER = 8
"""How many numbers of a plan come before its lists."""

USE = 7
"""How many numbers of a plan describe a use."""

LEVEL = 4
"""How many numbers of a plan describe a level, without its members and limits."""

MEMBER = 6
"""How many numbers of a plan describe a member of a level."""

LIMIT = 4
"""How many numbers of a plan describe a limit of a level."""

AT_LEAST, AT_MOST, OTHER_THAN = 0, 1, 2
"""The kinds of limits."""

LIST = 2
RANGE = 6

TOGETHER = 32
"""How many rows of the delta are searched together."""


@kernel
def sum_row_weight(ranges: Pointer, to: int) -> bool:
    """Store the weight of a fully bound row, its sum over the runs; return whether it is not 0."""
    high = total = 0
    for at in range(to + LIST, to + LIST + RANGE * ranges[to], RANGE):
        high, total = add_wide(high, total, weight_at(ranges[at + 1], ranges[at + 2]))
    total = fit_weight(high, total)
    ranges[to + 1] = total
    return total != 0


@kernel
def search_first_column(
    rows: Rows,
    first: int,
    kept: Pointer,
    count: int,
    column: int,
    value: int,
    table: Pointer,
    runs: int,
    k: int,
    places: Pointer,
    stride: int,
    indices: Pointer,
    index: int,
) -> int:
    """Keep the delta rows of a block whose value is in the first column of a run.

    The rows of the block are first + kept[i] for i < count, `stride` at most; returns how many of
    them stay in `kept`, which has room for 2 * stride numbers. Their places are the first row of
    each run with at least their value; those in run r start at places[r * stride]. `column` is the
    column of the delta, or -1 for a constant `value`. All searches in a run advance together, so
    that the processor waits for the memory of all of them at the same time. A row that has the
    value of the row before costs no search.
    """
    leaders = 0
    last = value
    for i in range(count):
        v = rows[first + kept[i], column] if column >= 0 else value
        if i == 0 or v != last:
            kept[stride + leaders] = kept[i]
            leaders += 1
            last = v
    for r in range(runs):
        run = codes_at(table[3 * r])
        at = r * stride
        if indices[index]:
            for leader in range(stride, stride + leaders):
                i = kept[leader]
                v = rows[first + i, column] if column >= 0 else value
                places[at + i] = first_place(run, k, table[3 * r + 2], indices, index, v)
            continue
        if leaders == 1:
            # A single row is faster with branches, since the processor continues on the predicted
            # side.
            low = 0
            high = table[3 * r + 2]
            i = kept[stride]
            v = rows[first + i, column] if column >= 0 else value
            while low < high:
                middle = (low + high) >> 1
                if run[middle * k] < v:
                    low = middle + 1
                else:
                    high = middle
            places[at + i] = low
            continue
        for leader in range(stride, stride + leaders):
            places[at + kept[leader]] = 0
        left = table[3 * r + 2]
        while left > 0:
            half = (left + 1) >> 1
            for leader in range(stride, stride + leaders):
                i = kept[leader]
                low = places[at + i]
                v = rows[first + i, column] if column >= 0 else value
                places[at + i] = choose(run[(low + half - 1) * k] < v, low + half, low)
            left -= half
    stay = 0
    leader = stride
    found = False
    for i in range(count):
        row = kept[i]
        source = kept[leader - 1] if leader > stride else row
        if leader < stride + leaders and kept[leader] == row:
            leader += 1
            source = row
            found = False
            v = rows[first + row, column] if column >= 0 else value
            for r in range(runs):
                low = places[r * stride + row]
                if low < table[3 * r + 2] and codes_at(table[3 * r])[low * k] == v:
                    found = True
                    break
        if found:
            for r in range(runs):
                places[r * stride + row] = places[r * stride + source]
            kept[stay] = row
            stay += 1
    return stay


@kernel
def match_delta_row(
    plan: Pointer,
    use: int,
    table: Pointer,
    runs: int,
    value: Pointer,
    bound: Pointer,
    places: Pointer,
    stride: int,
    ranges: Pointer,
    to: int,
    indices: Pointer,
    index: int,
) -> bool:
    """Find the rows of a use that agree with the current row of the delta; return whether any does.

    `bound` is whether there was a search before, and its values. `places` is where the search in
    each run starts, at distances of `stride` (see `search_first_column`), and `to` is the position
    of the list of ranges.
    """
    k, lead, slots = plan[use], plan[use + 2], plan[use + 6]
    same = bound[0] == 1
    for c in range(lead):
        if bound[c + 1] != value[plan[slots + c]]:
            same = False
    if same:
        return bool(ranges[to] > 0)
    bound[0] = 1
    for c in range(lead):
        bound[c + 1] = value[plan[slots + c]]
    at = to + LIST
    for r in range(runs):
        run = codes_at(table[3 * r])
        high = table[3 * r + 2]
        low = places[r * stride] if lead else 0
        for c in range(lead):
            v = bound[c + 1]
            if c:
                low = seek(run, k, c, low, high, v)
            if low == high or run[low * k + c] != v:
                high = low
                break
            if c == k - 1:
                high = low + 1
            elif c == 0 and indices[index]:
                high = place_after(run, k, indices, index, low, v)
            else:
                high = seek_past(run, k, c, low + 1, high, v)
        if low < high:
            ranges[at] = table[3 * r]
            ranges[at + 1] = table[3 * r + 1]
            ranges[at + 2] = low
            ranges[at + 3] = high
            at += RANGE
    ranges[to] = (at - to - LIST) // RANGE
    if plan[use + 3] and not sum_row_weight(ranges, to):
        ranges[to] = 0
    return bool(ranges[to] > 0)


@kernel
def bind_value(
    plan: Pointer, part: int, level: int, v: int, indices: Pointer, ranges: Pointer, size: int, uses: int
) -> bool:
    """Keep the rows with the value in each member of a level, and move the cursors past them.

    Returns False if a member has no row left: its fully bound row has weight 0, or the variable is
    in several of its columns and no row has the value in all of them.
    """
    matched = True
    for m in range(plan[part + 2]):
        member = part + LEVEL + MEMBER * m
        u, k, column, until = plan[member], plan[member + 1], plan[member + 2], plan[member + 3]
        source = (plan[member + 4] * uses + u) * size
        to = (level * uses + u) * size
        list_end = to + LIST
        for at in range(source + LIST, source + LIST + RANGE * ranges[source], RANGE):
            run = codes_at(ranges[at])
            j, high = ranges[at + 4], ranges[at + 5]
            if j == high or run[j * k + column] != v:
                continue
            end = j + 1
            if column == 0 and indices[PLACES * u]:
                end = place_after(run, k, indices, PLACES * u, j, v)
            elif column < k - 1:
                end = seek_past(run, k, column, end, high, v)
            ranges[at + 4] = end
            for c in range(column + 1, until):
                j = seek(run, k, c, j, end, v)
                if j == end or run[j * k + c] != v:
                    end = j
                    break
                end = j + 1 if c == k - 1 else seek_past(run, k, c, j + 1, end, v)
            if j < end:
                ranges[list_end] = ranges[at]
                ranges[list_end + 1] = ranges[at + 1]
                ranges[list_end + 2] = j
                ranges[list_end + 3] = end
                list_end += RANGE
        ranges[to] = (list_end - to - LIST) // RANGE
        if list_end == to + LIST or (plan[member + 5] and not sum_row_weight(ranges, to)):
            matched = False
    return matched
