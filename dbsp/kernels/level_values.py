"""The values of one level of a multi-way join: count, propose and intersect.

`dbsp.kernels.multiway` defines plan, use, level and member, `dbsp.kernels.prefix_ranges` the lists
of ranges and their cursors. The *limits* of a level are bounds of its variable, computed from
values that are bound already. A limit whose sum overflows does not apply.

If the list of each member is one range, the proposer lists its values and the other members are
searched in turn. A member may exclude most values by its marks (`dbsp.kernels.value_marks`), and
the whole run is searched by its places (`dbsp.kernels.first_places`). The state of a level is

    STATE   part of the plan; how it lists its values: the proposer, or COMMON, or FILTERED minus
            the proposer; the member whose list is marked or -1, the run, first row and end of this
            list; the member whose list is to be marked before the next opening, or -1; whether this
            opening reads the marks
    then per member MET numbers
            its latest list: the run, first row and end, and the values proposed to it so far
"""

from __future__ import annotations

from dbsp.kernels.arrays import Pointer
from dbsp.kernels.column_search import seek, seek_past
from dbsp.kernels.first_places import PLACES, first_place
from dbsp.kernels.jit import add_flagged, codes_at, kernel
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.prefix_ranges import AT_LEAST, AT_MOST, LEVEL, LIMIT, LIST, MEMBER, OTHER_THAN, RANGE
from dbsp.kernels.value_marks import MOST_MARKED, erase_marks, mark_values, marked_row, next_marked

STATE = 8

MET = 4

COMMON = -1
"""The way of two members that both skip to the values of the other."""

FILTERED = -2
"""The way of a proposer each of whose values is searched in the other members."""

STEPS = 32
"""A search in a list takes as long as this many tests of marks."""

MARKING = 8
"""The intersection with a value takes as long as marking so many."""


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
def open_level(
    plan: Pointer, state: Pointer, indices: Pointer, value: Pointer, ranges: Pointer, size: int, uses: int
) -> None:
    """Count: move the cursors of a level to its first values; choose the member that proposes.

    It is the one with the fewest values. The cursors and their ends leave out the values outside
    the limits of the level.
    """
    part = state[0]
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
    state[1] = proposer
    if single:
        state[1] = choose_filter(plan, state, indices, ranges, size, uses, proposer, fewest)


@kernel
def choose_filter(
    plan: Pointer,
    state: Pointer,
    indices: Pointer,
    ranges: Pointer,
    size: int,
    uses: int,
    proposer: int,
    fewest: int,
) -> int:
    """Return how a level with one range for each member lists its values.

    A list that is met again is to be marked when the values proposed to it have cost as much.
    """
    part, marked = state[0], state[2]
    members = plan[part + 2]
    state[7] = 0
    if marked >= 0:
        member = part + LEVEL + MEMBER * marked
        at = (plan[member + 4] * uses + plan[member]) * size + LIST
        if ranges[at] != state[3] or ranges[at + 2] != state[4] or ranges[at + 3] != state[5]:
            marked = -1
    placed = False
    for m in range(members):
        member = part + LEVEL + MEMBER * m
        at = (plan[member + 4] * uses + plan[member]) * size + LIST
        offers = ranges[at + 5] - ranges[at + 4]
        if m != marked and proposer == marked and offers <= STEPS * fewest:
            # To test the marks of more values is faster than to search for fewer of them.
            proposer = m
            fewest = offers
        if plan[member + 2] == 0 and indices[PLACES * plan[member]]:
            placed = placed or m != proposer
        elif marked < 0 and members > 1:
            met = STATE + MET * m
            low, high = ranges[at + 2], ranges[at + 3]
            if ranges[at] == state[met] and low == state[met + 1] and high == state[met + 2]:
                state[met + 3] += fewest
                if MARKING * state[met + 3] >= high - low and high - low <= MOST_MARKED:
                    state[6] = m
            else:
                state[met] = ranges[at]
                state[met + 1] = low
                state[met + 2] = high
                state[met + 3] = fewest
    if marked >= 0 and marked != proposer:
        state[7] = 1
    elif members == 2 and not placed:
        return COMMON
    return FILTERED - proposer


@kernel
def mark_list(plan: Pointer, state: Pointer, marks: Pointer, ranges: Pointer, size: int, uses: int) -> None:
    """Mark the list that `choose_filter` has chosen, instead of the one marked before."""
    part = state[0]
    if state[2] >= 0:
        member = part + LEVEL + MEMBER * state[2]
        run = codes_at(state[3])
        erase_marks(marks, run, plan[member + 1], plan[member + 2], state[4], state[5])
    member = part + LEVEL + MEMBER * state[6]
    at = (plan[member + 4] * uses + plan[member]) * size + LIST
    state[2] = state[6]
    state[3] = ranges[at]
    state[4] = ranges[at + 2]
    state[5] = ranges[at + 3]
    state[6] = -1
    run = codes_at(state[3])
    mark_values(marks, run, plan[member + 1], plan[member + 2], state[4], state[5])


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
def next_filtered_value(
    plan: Pointer,
    state: Pointer,
    marks: Pointer,
    indices: Pointer,
    ranges: Pointer,
    size: int,
    uses: int,
) -> tuple[bool, int]:
    """Do `next_value` for members with one range each: search each value of the proposer."""
    part, proposer, marked = state[0], FILTERED - state[1], state[7] != 0
    member = part + LEVEL + MEMBER * proposer
    at = (plan[member + 4] * uses + plan[member]) * size + LIST
    k, c = plan[member + 1], plan[member + 2]
    run = codes_at(ranges[at])
    i, high = ranges[at + 4], ranges[at + 5]
    while i < high:
        if marked:
            i = next_marked(marks, run, k, c, i, high)
            if i == high:
                break
        v = run[i * k + c]
        shared = True
        for m in range(plan[part + 2]):
            if m == proposer:
                continue
            member = part + LEVEL + MEMBER * m
            u, k2, c2 = plan[member], plan[member + 1], plan[member + 2]
            at2 = (plan[member + 4] * uses + u) * size + LIST
            run2 = codes_at(ranges[at2])
            high2 = ranges[at2 + 5]
            if c2 == 0 and indices[PLACES * u]:
                j = first_place(run2, k2, ranges[at2 + 3], indices, PLACES * u, v)
            else:
                j = ranges[at2 + 4]
                if marked and m == state[2]:
                    row = marked_row(marks, v)
                    # Another value of this place may have a later row.
                    if run2[row * k2 + c2] == v:
                        j = row
                j = seek(run2, k2, c2, j, high2, v)
            if j >= high2:
                return False, 0
            ranges[at2 + 4] = j
            v2 = run2[j * k2 + c2]
            if v2 != v:
                shared = False
                i = seek(run, k, c, i + 1, high, v2)
                break
        if shared:
            ranges[at + 4] = i
            return True, v
    return False, 0
