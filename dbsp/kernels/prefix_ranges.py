"""Ranges of rows that agree with a prefix: the searches of one level of a multi-way join.

`dbsp.kernels.multiway` defines plan, use, level and member. The rows of a use that agree with a
prefix are a list of ranges, one per run with such rows. All lists are in one array, one list per
level and use, since a use keeps the list of the last level that bound one of its columns:

    LIST    number of ranges, weight of the row (if all its columns are bound)
    then per range RANGE numbers
            address of the run, address of its weights, first row, end,
            cursor of the next level and its end: the rows whose values are within its limits

The *limits* of a level are bounds of its variable, computed from values that are bound already. A
limit whose sum overflows does not apply.
"""

from __future__ import annotations

from dbsp.kernels.arrays import Pointer, Rows, RunCodes
from dbsp.kernels.jit import add_flagged, codes_at, kernel
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.run_search import weight_at
from dbsp.kernels.wide_sums import add_wide, fit_weight

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
def seek(run: RunCodes, k: int, c: int, low: int, high: int, value: int) -> int:
    """Return the first row of low:high, sorted by column c, with at least this value.

    Gallops to a near row in O(log distance), and bisects for a far one.
    """
    step = 1
    probe = low
    while probe < high and step < 128:
        if run[probe * k + c] < value:
            low = probe + 1
            probe = low + step
            step += step
        else:
            high = probe
            break
    # Bisect without a branch on the comparison, since the processor mispredicts half of them.
    left = high - low
    while left > 0:
        half = (left + 1) >> 1
        low += half * (run[(low + half - 1) * k + c] < value)
        left -= half
    return low


@kernel
def seek_past(run: RunCodes, k: int, c: int, low: int, high: int, value: int) -> int:
    """Return the first row of low:high, sorted by column c, with more than this value."""
    if value == INT64_MAX:
        return high
    return seek(run, k, c, low, high, value + 1)


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
                places[at + i] = low + half * (run[(low + half - 1) * k] < v)
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
            high = low + 1 if c == k - 1 else seek_past(run, k, c, low + 1, high, v)
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
def find_limits(plan: Pointer, part: int, value: Pointer) -> tuple[int, int]:
    """Return the least and the largest value that the limits of a level allow."""
    least, most = INT64_MIN, INT64_MAX
    first = part + LEVEL + MEMBER * plan[part + 2]
    for at in range(first, first + LIMIT * plan[part + 3], LIMIT):
        bound, overflow = add_flagged(value[plan[at + 1]], plan[at + 2])
        if overflow:
            continue
        if plan[at] == AT_LEAST:
            if plan[at + 3]:
                if bound == INT64_MAX:
                    return INT64_MAX, INT64_MIN
                bound += 1
            least = max(least, bound)
        elif plan[at] == AT_MOST:
            if plan[at + 3]:
                if bound == INT64_MIN:
                    return INT64_MAX, INT64_MIN
                bound -= 1
            most = min(most, bound)
    return least, most


@kernel
def is_excluded(plan: Pointer, part: int, value: Pointer) -> bool:
    """Return whether a limit of a level excludes the value of its variable, and only this value."""
    first = part + LEVEL + MEMBER * plan[part + 2]
    for at in range(first, first + LIMIT * plan[part + 3], LIMIT):
        if plan[at] == OTHER_THAN:
            bound, overflow = add_flagged(value[plan[at + 1]], plan[at + 2])
            if not overflow and bound == value[plan[part]]:
                return True
    return False


@kernel
def open_level(plan: Pointer, part: int, value: Pointer, ranges: Pointer, size: int, uses: int) -> int:
    """Count: move the cursors of a level to its first values; return the member with fewest values.

    The cursors and their ends leave out the values outside the limits of the level. Returns -1 for
    two members with one range each.
    """
    least, most = INT64_MIN, INT64_MAX
    if plan[part + 3]:
        least, most = find_limits(plan, part, value)
    fewest = INT64_MAX
    proposer = 0
    single = True
    members = plan[part + 2]
    for m in range(members):
        member = part + LEVEL + MEMBER * m
        source = (plan[member + 4] * uses + plan[member]) * size
        offers = 0
        if ranges[source] != 1:
            single = False
        for at in range(source + LIST, source + LIST + RANGE * ranges[source], RANGE):
            low, high = ranges[at + 2], ranges[at + 3]
            if least > INT64_MIN or most < INT64_MAX:
                k, c, run = plan[member + 1], plan[member + 2], codes_at(ranges[at])
                low = seek(run, k, c, low, high, least)
                high = seek_past(run, k, c, low, high, most)
            ranges[at + 4] = low
            ranges[at + 5] = high
            offers += high - low
        if offers < fewest:
            fewest = offers
            proposer = m
    return -1 if single and members == 2 else proposer


@kernel
def next_common_value(plan: Pointer, part: int, ranges: Pointer, size: int, uses: int) -> tuple[bool, int]:
    """Do `next_value` in a tight loop for the usual case: two members, one range each."""
    member = part + LEVEL
    at = (plan[member + 4] * uses + plan[member]) * size + LIST
    k, c = plan[member + 1], plan[member + 2]
    member += MEMBER
    at2 = (plan[member + 4] * uses + plan[member]) * size + LIST
    k2, c2 = plan[member + 1], plan[member + 2]
    run, run2 = codes_at(ranges[at]), codes_at(ranges[at2])
    i, high = ranges[at + 4], ranges[at + 5]
    i2, high2 = ranges[at2 + 4], ranges[at2 + 5]
    while i < high and i2 < high2:
        v = run[i * k + c]
        v2 = run2[i2 * k2 + c2]
        if v == v2:
            ranges[at + 4] = i
            ranges[at2 + 4] = i2
            return True, v
        if v < v2:
            i = seek(run, k, c, i + 1, high, v2)
        else:
            i2 = seek(run2, k2, c2, i2 + 1, high2, v)
    return False, 0


@kernel
def advance_cursors(ranges: Pointer, source: int, k: int, c: int, value: int) -> tuple[bool, int]:
    """Move the cursors of a list of ranges to the least value in column c from `value` on."""
    found = False
    least = INT64_MAX
    for at in range(source + LIST, source + LIST + RANGE * ranges[source], RANGE):
        run = codes_at(ranges[at])
        j = ranges[at + 4]
        high = ranges[at + 5]
        if j < high and run[j * k + c] < value:
            j = seek(run, k, c, j + 1, high, value)
            ranges[at + 4] = j
        if j < high:
            found = True
            least = min(least, run[j * k + c])
    return found, least


@kernel
def next_value(
    plan: Pointer, part: int, proposer: int, ranges: Pointer, size: int, uses: int
) -> tuple[bool, int]:
    """Propose and intersect: move the cursors to the next value that all members of a level have.

    The proposer lists its values in order. If another member lacks one, the proposer skips to the
    next value of that member.
    """
    least = INT64_MIN
    while True:
        member = part + LEVEL + MEMBER * proposer
        source = (plan[member + 4] * uses + plan[member]) * size
        found, v = advance_cursors(ranges, source, plan[member + 1], plan[member + 2], least)
        if not found:
            return False, 0
        least = v
        for m in range(plan[part + 2]):
            if m != proposer:
                member = part + LEVEL + MEMBER * m
                source = (plan[member + 4] * uses + plan[member]) * size
                found, least = advance_cursors(ranges, source, plan[member + 1], plan[member + 2], v)
                if not found:
                    return False, 0
                if least != v:
                    break
        if least == v:
            return True, v


@kernel
def bind_value(plan: Pointer, part: int, level: int, v: int, ranges: Pointer, size: int, uses: int) -> bool:
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
            if column < k - 1:
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
