"""The last level of a multi-way join, and the last two, in one loop each.

A join of edges to cycles lists many short lists at its last level. To list one value and to store
its row takes longer than the search for it, and to open the level takes longer than both. So the
values of the last level are listed in one loop, if

    the rows have no times
    the level has two members, each member reads one run, and the level binds their last columns

The level before it does this for each of its own values without opening the last level, if also

    it binds one column of each of its members, and the last level has no limits
    one member of the last level, the *fixed* one, was bound before: it has the same list each time

`dbsp.kernels.multiway` defines plan, use, level and member, and `dbsp.kernels.level_values` the
state of a level.
"""

from __future__ import annotations

from dbsp.kernels.arrays import Pointer, RunCodes
from dbsp.kernels.column_search import seek, seek_past
from dbsp.kernels.first_places import PLACES, place_after
from dbsp.kernels.jit import add_flagged, codes_at, kernel, multiply_weights
from dbsp.kernels.level_values import (
    COMMON,
    FILTERED,
    MARKING,
    STEPS,
    is_excluded,
    mark_list,
    next_common_value,
    next_filtered_value,
)
from dbsp.kernels.limits import NULL
from dbsp.kernels.prefix_ranges import HEADER, LEVEL, LIST, MEMBER, USE
from dbsp.kernels.run_search import weight_at
from dbsp.kernels.value_marks import MOST_MARKED, marked_row, next_marked


@kernel
def append_row(plan: Pointer, value: Pointer, weight: int, rows: Pointer, weights: Pointer, out: int) -> int:
    """Store the row of the bound variables after the first `out` rows; return their number then.

    A row that equals the one before is added to it if the sum of the weights fits.
    """
    width = plan[4]
    first = HEADER + plan[3]
    end = out * width
    same = out > 0
    for c in range(width):
        v = value[plan[first + c]]
        rows[end + c] = v
        same = same and rows[end + c - width] == v
    weights[out] = weight
    if same:
        total, outside = add_flagged(weights[out - 1], weight)
        if not outside:
            weights[out - 1] = total
            return out
    return out + 1


@kernel
def is_plain(plan: Pointer, last: int) -> bool:
    """Return whether a plan allows to list its last level, at `last`, in one loop."""
    if plan[5] or plan[last + 2] != 2:
        return False
    for member in range(last + LEVEL, last + LEVEL + 2 * MEMBER, MEMBER):
        column = plan[member + 2]
        if column == 0 or column != plan[member + 1] - 1 or plan[member + 3] != column + 1:
            return False
    return True


@kernel
def fixed_member(plan: Pointer, part: int, last: int) -> int:
    """Return the fixed member of a plain last level, at `last`; -1 if there is none.

    It is -1 also if the level before it, at `part`, has to open the last level.
    """
    if plan[last + 3]:
        return -1
    for m in range(plan[part + 2]):
        member = part + LEVEL + MEMBER * m
        if plan[member + 3] != plan[member + 2] + 1:
            return -1
    for m in range(2):
        if plan[last + LEVEL + MEMBER * m + 4] < plan[2] - 1:
            return m
    return -1


@kernel
def weight_before(plan: Pointer, level: int, ranges: Pointer, size: int, weight: int) -> int:
    """Multiply a weight by those of the rows without times that are fully bound before a level."""
    uses = plan[1]
    for u in range(uses):
        use = plan[6] + USE * u
        if plan[use + 4] and not plan[use + 1] and plan[use + 5] < level:
            weight = multiply_weights(weight, ranges[(plan[use + 5] * uses + u) * size + 1])
    return weight


@kernel
def append_value(
    plan: Pointer,
    last: int,
    v: int,
    value: Pointer,
    reached: Pointer,
    weight: int,
    weights1: int,
    i: int,
    weights2: int,
    j: int,
    rows: Pointer,
    weights: Pointer,
    out: int,
) -> int:
    """Bind the last variable, unless its level excludes the value, and append the row."""
    value[plan[last]] = v
    if (plan[last + 1] and v == NULL) or (plan[last + 3] and is_excluded(plan, last, value)):
        return out
    reached[plan[2]] += 1
    both = multiply_weights(weight_at(weights1, i), weight_at(weights2, j))
    appended: int = append_row(plan, value, multiply_weights(weight, both), rows, weights, out)
    return appended


@kernel
def append_common_values(
    plan: Pointer,
    last: int,
    marks: Pointer,
    marked: bool,
    run1: RunCodes,
    k1: int,
    weights1: int,
    low1: int,
    high1: int,
    run2: RunCodes,
    k2: int,
    weights2: int,
    low2: int,
    high2: int,
    value: Pointer,
    reached: Pointer,
    weight: int,
    rows: Pointer,
    weights: Pointer,
    out: int,
) -> int:
    """Append a row for each value that two lists of the last level share; return their number.

    A list is the last column of some rows of a run. `marked` is whether `marks` has the values of
    the first one.
    """
    i, j = low1, low2
    if marked and high2 - low2 <= STEPS * (high1 - low1):
        while True:
            j = next_marked(marks, run2, k2, k2 - 1, j, high2)
            if j == high2:
                return out
            v = run2[j * k2 + k2 - 1]
            i = marked_row(marks, v)
            if i < high1 and run1[i * k1 + k1 - 1] != v:
                # Another value of this place has an earlier row.
                i = seek(run1, k1, k1 - 1, i, high1, v)
            if i < high1 and run1[i * k1 + k1 - 1] == v:
                out = append_value(
                    plan, last, v, value, reached, weight, weights1, i, weights2, j, rows, weights, out
                )
            j += 1
    while i < high1 and j < high2:
        v = run1[i * k1 + k1 - 1]
        v2 = run2[j * k2 + k2 - 1]
        if v < v2:
            i = seek(run1, k1, k1 - 1, i + 1, high1, v2)
        elif v2 < v:
            j = seek(run2, k2, k2 - 1, j + 1, high2, v)
        else:
            out = append_value(
                plan, last, v, value, reached, weight, weights1, i, weights2, j, rows, weights, out
            )
            i += 1
            j += 1
    return out


@kernel
def fits_last_level(plan: Pointer, state: Pointer, ranges: Pointer, size: int, room: int) -> bool:
    """Return whether an open plain level can list its values in one loop, with so much room."""
    part, uses = state[0], plan[1]
    if state[1] != COMMON and not (state[1] <= FILTERED and state[7]):
        return False
    fewest = room + 1
    for member in range(part + LEVEL, part + LEVEL + 2 * MEMBER, MEMBER):
        at = (plan[member + 4] * uses + plan[member]) * size + LIST
        fewest = min(fewest, ranges[at + 5] - ranges[at + 4])
    return bool(fewest <= room)


@kernel
def list_last_level(
    plan: Pointer,
    state: Pointer,
    marks: Pointer,
    value: Pointer,
    ranges: Pointer,
    size: int,
    reached: Pointer,
    weight: int,
    rows: Pointer,
    weights: Pointer,
    out: int,
) -> int:
    """Append the rows of all values of the last level, which is open; return their number.

    `fits_last_level` has returned True. `weight` is that of the row of the delta.
    """
    part, uses, levels = state[0], plan[1], plan[2]
    first = state[2] if state[7] else 0
    member = part + LEVEL + MEMBER * first
    k1 = plan[member + 1]
    at1 = (plan[member + 4] * uses + plan[member]) * size + LIST
    member = part + LEVEL + MEMBER * (1 - first)
    k2 = plan[member + 1]
    at2 = (plan[member + 4] * uses + plan[member]) * size + LIST
    appended: int = append_common_values(
        plan,
        part,
        marks,
        state[7] != 0,
        codes_at(ranges[at1]),
        k1,
        ranges[at1 + 1],
        ranges[at1 + 4],
        ranges[at1 + 5],
        codes_at(ranges[at2]),
        k2,
        ranges[at2 + 1],
        ranges[at2 + 4],
        ranges[at2 + 5],
        value,
        reached,
        weight_before(plan, levels, ranges, size, weight),
        rows,
        weights,
        out,
    )
    return appended


@kernel
def list_last_levels(
    plan: Pointer,
    state: Pointer,
    last_state: Pointer,
    fixed: int,
    marks: Pointer,
    last_marks: Pointer,
    marking: bool,
    indices: Pointer,
    value: Pointer,
    ranges: Pointer,
    size: int,
    reached: Pointer,
    weight: int,
    rows: Pointer,
    weights: Pointer,
    out: int,
    until: int,
) -> tuple[bool, int, int]:
    """Append the rows of the remaining values of the level before the last one.

    This level is open, and each of its members has one range. Returns (stopped, value, rows): it
    stops at a value if there is no room for its rows before `until`, or if a list of the last level
    is in several runs; then the last level has to be opened. `weight` is that of the row of the
    delta. Adds to reached[l] the number of prefixes.

    The fixed list is marked when the searches for its values have taken as long. `marking` is
    whether there is memory for marks; else it stays the list to be marked of `last_state`.
    """
    uses, levels = plan[1], plan[2]
    part, last = state[0], last_state[0]
    member = last + LEVEL + MEMBER * fixed
    k1 = plan[member + 1]
    at1 = (plan[member + 4] * uses + plan[member]) * size
    run1, weights1 = codes_at(ranges[at1 + LIST]), ranges[at1 + LIST + 1]
    low1, high1 = ranges[at1 + LIST + 2], ranges[at1 + LIST + 3]
    member = last + LEVEL + MEMBER * (1 - fixed)
    other, k2 = plan[member], plan[member + 1]
    at2 = (plan[member + 4] * uses + other) * size
    varies = plan[member + 4] == levels - 1
    single = ranges[at1] == 1 and (varies or ranges[at2] == 1)
    run2, weights2, low2, high2 = run1, weights1, low1, high1
    if not varies:
        run2, weights2 = codes_at(ranges[at2 + LIST]), ranges[at2 + LIST + 1]
        low2, high2 = ranges[at2 + LIST + 2], ranges[at2 + LIST + 3]
    weight = weight_before(plan, levels - 1, ranges, size, weight)
    marked = last_state[2] == fixed and (
        last_state[3] == ranges[at1 + LIST] and last_state[4] == low1 and last_state[5] == high1
    )
    spent = 0
    while True:
        if state[1] == COMMON:
            found, v = next_common_value(plan, part, ranges, size, uses)
        else:
            found, v = next_filtered_value(plan, state, marks, indices, ranges, size, uses)
        if not found:
            return False, 0, out
        if not single or high1 - low1 > until - out:
            return True, v, out
        value[plan[part]] = v
        product = weight
        for m in range(plan[part + 2]):
            member = part + LEVEL + MEMBER * m
            u, k, column = plan[member], plan[member + 1], plan[member + 2]
            at = (plan[member + 4] * uses + u) * size + LIST
            run = codes_at(ranges[at])
            j = ranges[at + 4]
            end = j + 1
            if column == 0 and indices[PLACES * u]:
                end = place_after(run, k, indices, PLACES * u, j, v)
            elif column < k - 1:
                end = seek_past(run, k, column, end, ranges[at + 5], v)
            ranges[at + 4] = end
            if plan[member + 5]:
                product = multiply_weights(product, weight_at(ranges[at + 1], j))
            if varies and u == other:
                run2, weights2, low2, high2 = run, ranges[at + 1], j, end
        if (plan[part + 3] and is_excluded(plan, part, value)) or (plan[part + 1] and v == NULL):
            continue
        reached[levels - 1] += 1
        out = append_common_values(
            plan,
            last,
            last_marks,
            marked,
            run1,
            k1,
            weights1,
            low1,
            high1,
            run2,
            k2,
            weights2,
            low2,
            high2,
            value,
            reached,
            product,
            rows,
            weights,
            out,
        )
        if not marked:
            spent += MARKING * min(high1 - low1, high2 - low2)
            if spent >= high1 - low1 and high1 - low1 <= MOST_MARKED:
                last_state[6] = fixed
                if marking:
                    mark_list(plan, last_state, last_marks, ranges, size, uses)
                    marked = True
