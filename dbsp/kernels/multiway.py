"""Extending prefixes variable by variable: one delta term of a multi-way join.

    for each row of the delta, its variables bound, and each level with its variable v in turn:
        count       how many v each relation offers below what is bound; the smallest proposes
        propose     its values of v, in order
        intersect   every other relation that has v keeps or drops the value, galloping along
    and multiply by the weight of every relation's row once the row is bound as a whole

The generic join (Ngo, Re, Rudra, SIGMOD Record 2013) of one term, in the manner of Delta-BiGJoin (Ammar
et al., VLDB 2018): depth first, so what is kept at any time is one prefix and a range of rows per
relation and level. Presence decides about a prefix, never the sum of the weights below it.

A *use* is one relation as one term reads it: a run table (see `dbsp.kernels.runs`) whose columns come in
the order in which the term binds them. What a term does is written in one array of numbers, its *plan*;
`dbsp.operators.joins.multiway_plan` writes it:

    HEADER      slots (variables and constants), uses, levels, columns of the delta, columns of the result,
                time columns, where the uses' and where the levels' parts begin
    then        slots of the columns of the delta, then of the result's, then the first value of each slot
    each use    USE numbers: columns of a row, time columns among them, columns bound at level 0, whether it
                is bound as a whole at level 0, whether in the end, the last level that binds columns of
                it, where in the plan the slots of its level 0 stand
    the slots of each use's level 0
    each level  slot of the variable, whether None is no value of it, number of members, then for each of
                these MEMBER numbers: the use, columns of a row, the first column that the level binds, the
                one after the last, the level that bound those before, whether it is bound as a whole now
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import add_weights, kernel, multiply_weights
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL
from dbsp.kernels.runs import at_address

HEADER = 8
USE = 7
MEMBER = 6

# The rows of a use that agree with a prefix are a list of ranges, one per run that has any. Lists are in one
# array, one per level and use, since a use keeps the list of the last level that bound a column of it:
#     number of ranges, weight of the row (if bound as a whole), then per range
#     address of the run, address of its weights, first row, end, cursor of the level that goes on from here
_LIST = 2
_RANGE = 5

_TOGETHER = 32
"""So many rows of the delta are looked up side by side."""


@kernel
def _seek(run: Any, k: int, c: int, low: int, high: int, value: int) -> int:
    """The first row of low:high, sorted by column c, with at least this value.

    Galloping finds what is near in O(log distance); what is far is bisected.
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
    # Bisect without a branch on what is compared: half of them would be guessed wrong.
    left = high - low
    while left > 0:
        half = (left + 1) >> 1
        low += half * (run[(low + half - 1) * k + c] < value)
        left -= half
    return low


@kernel
def _pass(run: Any, k: int, c: int, low: int, high: int, value: int) -> int:
    """The first row of low:high, sorted by column c, with more than this value."""
    if value == INT64_MAX:
        return high
    return _seek(run, k, c, low, high, value + 1)


@kernel
def _weigh(ranges: Any, to: int) -> bool:
    """Note the weight of a row that is bound as a whole, its sum over the runs; whether it is not 0."""
    total = 0
    for at in range(to + _LIST, to + _LIST + _RANGE * ranges[to], _RANGE):
        total = add_weights(total, at_address(ranges[at + 1])[ranges[at + 2]])
    ranges[to + 1] = total
    return total != 0


@kernel
def _place(
    rows: Codes, first: int, count: int, column: int, value: int, table: Any, runs: int, k: int, places: Any
) -> None:
    """Where the rows of each run begin whose first column is at least that of each of some rows of the delta.

    `column` is that of the delta, or -1 for a constant `value`. All searches in a run go on step by step
    side by side: the processor waits for the memory of all of them at once.
    """
    for r in range(runs):
        run = at_address(table[3 * r])
        at = r * _TOGETHER
        if count == 1:
            # A row alone is faster with branches: the processor goes ahead on the side it guesses.
            low = 0
            high = table[3 * r + 2]
            v = rows[first, column] if column >= 0 else value
            while low < high:
                middle = (low + high) >> 1
                if run[middle * k] < v:
                    low = middle + 1
                else:
                    high = middle
            places[at] = low
            continue
        for i in range(count):
            places[at + i] = 0
        left = table[3 * r + 2]
        while left > 0:
            half = (left + 1) >> 1
            for i in range(count):
                low = places[at + i]
                v = rows[first + i, column] if column >= 0 else value
                places[at + i] = low + half * (run[(low + half - 1) * k] < v)
            left -= half


@kernel
def _begin(
    plan: Any, use: int, table: Any, runs: int, value: Any, held: Any, places: Any, ranges: Any, to: int
) -> bool:
    """Find the rows of a use that agree with the row of the delta at hand; whether there are any.

    `held` is whether it was ever asked and what it last had to agree with, `places` where the search in each
    run begins (see `_place`), `to` where its list of ranges is to stand.
    """
    k, lead, slots = plan[use], plan[use + 2], plan[use + 6]
    same = held[0] == 1
    for c in range(lead):
        if held[c + 1] != value[plan[slots + c]]:
            same = False
    if same:
        return bool(ranges[to] > 0)
    held[0] = 1
    for c in range(lead):
        held[c + 1] = value[plan[slots + c]]
    at = to + _LIST
    for r in range(runs):
        run = at_address(table[3 * r])
        high = table[3 * r + 2]
        low = places[r * _TOGETHER] if lead else 0
        for c in range(lead):
            v = held[c + 1]
            if c:
                low = _seek(run, k, c, low, high, v)
            if low == high or run[low * k + c] != v:
                high = low
                break
            high = low + 1 if c == k - 1 else _pass(run, k, c, low + 1, high, v)
        if low < high:
            ranges[at] = table[3 * r]
            ranges[at + 1] = table[3 * r + 1]
            ranges[at + 2] = low
            ranges[at + 3] = high
            at += _RANGE
    ranges[to] = (at - to - _LIST) // _RANGE
    if plan[use + 3] and not _weigh(ranges, to):
        ranges[to] = 0
    return bool(ranges[to] > 0)


@kernel
def _open(plan: Any, part: int, ranges: Any, size: int, uses: int) -> int:
    """Count: put the cursors of a level where its values begin; returns the member that offers fewest.

    Or -1, for two members with one range each.
    """
    fewest = INT64_MAX
    proposer = 0
    single = True
    members = plan[part + 2]
    for m in range(members):
        member = part + 3 + MEMBER * m
        source = (plan[member + 4] * uses + plan[member]) * size
        offers = 0
        if ranges[source] != 1:
            single = False
        for at in range(source + _LIST, source + _LIST + _RANGE * ranges[source], _RANGE):
            ranges[at + 4] = ranges[at + 2]
            offers += ranges[at + 3] - ranges[at + 2]
        if offers < fewest:
            fewest = offers
            proposer = m
    return -1 if single and members == 2 else proposer


@kernel
def _next_of_pair(plan: Any, part: int, ranges: Any, size: int, uses: int) -> tuple[bool, int]:
    """As `_next`, for two members with one range of rows each: the usual case, and a tight loop."""
    member = part + 3
    at = (plan[member + 4] * uses + plan[member]) * size + _LIST
    k, c = plan[member + 1], plan[member + 2]
    member += MEMBER
    at2 = (plan[member + 4] * uses + plan[member]) * size + _LIST
    k2, c2 = plan[member + 1], plan[member + 2]
    run, run2 = at_address(ranges[at]), at_address(ranges[at2])
    i, high = ranges[at + 4], ranges[at + 3]
    i2, high2 = ranges[at2 + 4], ranges[at2 + 3]
    while i < high and i2 < high2:
        v = run[i * k + c]
        v2 = run2[i2 * k2 + c2]
        if v == v2:
            ranges[at + 4] = i
            ranges[at2 + 4] = i2
            return True, v
        if v < v2:
            i = _seek(run, k, c, i + 1, high, v2)
        else:
            i2 = _seek(run2, k2, c2, i2 + 1, high2, v)
    return False, 0


@kernel
def _reach(ranges: Any, source: int, k: int, c: int, value: int) -> tuple[bool, int]:
    """Move the cursors of a list of ranges to the least value in column c that is at least this one."""
    some = False
    least = INT64_MAX
    for at in range(source + _LIST, source + _LIST + _RANGE * ranges[source], _RANGE):
        run = at_address(ranges[at])
        j = ranges[at + 4]
        high = ranges[at + 3]
        if j < high and run[j * k + c] < value:
            j = _seek(run, k, c, j + 1, high, value)
            ranges[at + 4] = j
        if j < high:
            some = True
            least = min(least, run[j * k + c])
    return some, least


@kernel
def _next(plan: Any, part: int, proposer: int, ranges: Any, size: int, uses: int) -> tuple[bool, int]:
    """Propose and intersect: move the cursors to the next value that all members of a level have.

    The proposer names its values in order; where another member has none of it, the proposer moves on to
    the least value that that one has behind it.
    """
    onward = INT64_MIN
    while True:
        member = part + 3 + MEMBER * proposer
        source = (plan[member + 4] * uses + plan[member]) * size
        some, v = _reach(ranges, source, plan[member + 1], plan[member + 2], onward)
        if not some:
            return False, 0
        onward = v
        for m in range(plan[part + 2]):
            if m != proposer:
                member = part + 3 + MEMBER * m
                source = (plan[member + 4] * uses + plan[member]) * size
                some, onward = _reach(ranges, source, plan[member + 1], plan[member + 2], v)
                if not some:
                    return False, 0
                if onward != v:
                    break
        if onward == v:
            return True, v


@kernel
def _narrow(plan: Any, part: int, level: int, v: int, ranges: Any, size: int, uses: int) -> bool:
    """Keep what has the value in each member of a level, and move the cursors past it.

    False if one of them has nothing left: the row that it binds as a whole has the weight 0, or a variable
    that stands in several of its columns has not the value in all of them.
    """
    kept = True
    for m in range(plan[part + 2]):
        member = part + 3 + MEMBER * m
        u, k, column, until = plan[member], plan[member + 1], plan[member + 2], plan[member + 3]
        source = (plan[member + 4] * uses + u) * size
        to = (level * uses + u) * size
        new = to + _LIST
        for at in range(source + _LIST, source + _LIST + _RANGE * ranges[source], _RANGE):
            run = at_address(ranges[at])
            j, high = ranges[at + 4], ranges[at + 3]
            if j == high or run[j * k + column] != v:
                continue
            end = j + 1
            if column < k - 1:
                end = _pass(run, k, column, end, high, v)
            ranges[at + 4] = end
            for c in range(column + 1, until):
                j = _seek(run, k, c, j, end, v)
                if j == end or run[j * k + c] != v:
                    end = j
                    break
                end = j + 1 if c == k - 1 else _pass(run, k, c, j + 1, end, v)
            if j < end:
                ranges[new] = ranges[at]
                ranges[new + 1] = ranges[at + 1]
                ranges[new + 2] = j
                ranges[new + 3] = end
                new += _RANGE
        ranges[to] = (new - to - _LIST) // _RANGE
        if new == to + _LIST or (plan[member + 5] and not _weigh(ranges, to)):
            kept = False
    return kept


@kernel
def _enlarged(rows: Codes, weights: Codes) -> tuple[Codes, Codes]:
    n = weights.shape[0]
    more_rows = np.empty((2 * n, rows.shape[1]), np.int64)
    more_weights = np.empty(2 * n, np.int64)
    more_rows[:n] = rows
    more_weights[:n] = weights
    return more_rows, more_weights


@kernel
def _same_time(rows: Codes, i: int, j: int, arity: int) -> bool:
    """Whether two rows have the same time, which is in the columns from `arity` on."""
    for c in range(arity, rows.shape[1]):  # noqa: SIM110  (there are no generators in kernels)
        if rows[i, c] != rows[j, c]:
            return False
    return True


@kernel
def _with_times(
    rows: Codes, weights: Codes, first: int, plan: Any, ranges: Any, size: int
) -> tuple[Codes, Codes, int]:
    """The last row, at `first`, as the rows that come of it when all uses have their rows at some times.

    Returns the arrays, larger if need be, and where they end.
    """
    uses, arity, depth = plan[1], plan[4], plan[5]
    out = first + 1
    for u in range(uses):
        use = plan[6] + USE * u
        k, coordinates = plan[use], plan[use + 1]
        if coordinates == 0 or not plan[use + 4]:
            continue  # its times do not matter, or not yet
        source = (plan[use + 5] * uses + u) * size
        until = out
        for made in range(first, until):
            for at in range(source + _LIST, source + _LIST + _RANGE * ranges[source], _RANGE):
                run = at_address(ranges[at])
                run_weights = at_address(ranges[at + 1])
                for j in range(ranges[at + 2], ranges[at + 3]):
                    if out == weights.shape[0]:
                        rows, weights = _enlarged(rows, weights)
                    for c in range(arity + depth):
                        rows[out, c] = rows[made, c]
                    for d in range(coordinates):
                        time = run[(j + 1) * k - coordinates + d]
                        rows[out, arity + d] = max(rows[out, arity + d], time)
                    weights[out] = multiply_weights(weights[made], run_weights[j])
                    # Most are made now: those of equal time are one row.
                    into = until
                    while into < out and not _same_time(rows, into, out, arity):
                        into += 1
                    if into < out:
                        weights[into] = add_weights(weights[into], weights[out])
                    else:
                        out += 1
        # They take the place of the rows that they come of.
        for made in range(until, out):
            rows[first + made - until] = rows[made]
            weights[first + made - until] = weights[made]
        out = first + out - until
    return rows, weights, out


@kernel
def extend_prefixes(
    rows: Codes, weights: Codes, term: Codes, tables: Codes, now: Codes, reached: Codes
) -> tuple[Codes, Codes]:
    """What becomes of every row of a delta by the term whose plan is given.

    `tables` holds for each use the address of its run table and how many of its runs to read. Returns (rows,
    weights): rows int64[m, result columns + time columns], not sorted. To reached[l] is added how many
    prefixes were bound up to level l. The time of a row is the least upper bound of `now`, or of what
    stands behind the columns of the delta, and of the times of the rows it is made of.
    O(smallest proposals * log) per prefix and level.
    Raises OverflowError when a product or sum of weights leaves int64.
    """
    plan = at_address(term.ctypes.data)
    slots, uses, levels, given, taken, depth = plan[0], plan[1], plan[2], plan[3], plan[4], plan[5]
    first_value = HEADER + given + taken
    most = 0
    widest = 0
    for u in range(uses):
        most = max(most, tables[2 * u + 1])
        widest = max(widest, plan[plan[6] + USE * u + 2])
    size = _LIST + _RANGE * most
    # All that is kept while the term runs, in one array read by address.
    held_size = 1 + widest
    search_size = held_size + most * _TOGETHER
    parts_at = uses * search_size
    value_at = parts_at + 2 * (levels + 1)
    scratch = np.empty(value_at + slots, np.int64)
    work = np.empty((levels + 1) * uses * size + 1, np.int64)
    parts = at_address(scratch.ctypes.data + 8 * parts_at)  # per level: its part of the plan, its proposer
    value = at_address(scratch.ctypes.data + 8 * value_at)
    for u in range(uses):
        scratch[u * search_size] = 0
    part = plan[7]
    for level in range(1, levels + 1):
        parts[2 * level] = part
        part += 3 + MEMBER * plan[part + 2]
    for s in range(slots):
        value[s] = plan[first_value + s]

    out_rows = np.empty((max(16, rows.shape[0]), taken + depth), np.int64)
    out_weights = np.empty(max(16, rows.shape[0]), np.int64)
    out = 0

    for i in range(rows.shape[0]):
        # Taken anew for each row: an array that no later code mentions would be let go.
        ranges = at_address(work.ctypes.data)
        if i % _TOGETHER == 0:
            count = min(_TOGETHER, rows.shape[0] - i)
            for u in range(uses):
                use = plan[6] + USE * u
                if plan[use + 2]:
                    slot = plan[plan[use + 6]]
                    column = -1
                    for c in range(given):
                        if plan[HEADER + c] == slot:
                            column = c
                    places = at_address(scratch.ctypes.data + 8 * (u * search_size + held_size))
                    table = at_address(tables[2 * u])
                    _place(rows, i, count, column, value[slot], table, tables[2 * u + 1], plan[use], places)
        for c in range(given):
            value[plan[HEADER + c]] = rows[i, c]
        matched = True
        for u in range(uses):
            held = scratch.ctypes.data + 8 * u * search_size
            places = at_address(held + 8 * (held_size + i % _TOGETHER))
            table = at_address(tables[2 * u])
            use = plan[6] + USE * u
            held = at_address(held)
            matched = _begin(plan, use, table, tables[2 * u + 1], value, held, places, ranges, u * size)
            if not matched:
                break
        if not matched:
            continue
        reached[0] += 1
        level = 1
        if levels:
            parts[3] = _open(plan, parts[2], ranges, size, uses)
        while level > 0:
            if level > levels:
                # Everything is bound.
                if out == out_weights.shape[0]:
                    out_rows, out_weights = _enlarged(out_rows, out_weights)
                weight = weights[i]
                for u in range(uses):
                    use = plan[6] + USE * u
                    if plan[use + 4] and not plan[use + 1]:
                        weight = multiply_weights(weight, ranges[(plan[use + 5] * uses + u) * size + 1])
                out_weights[out] = weight
                for c in range(taken):
                    out_rows[out, c] = value[plan[HEADER + given + c]]
                if depth:
                    for d in range(depth):
                        out_rows[out, taken + d] = rows[i, given + d] if rows.shape[1] > given else now[d]
                    out_rows, out_weights, out = _with_times(out_rows, out_weights, out, plan, ranges, size)
                else:
                    out += 1
                level -= 1
                continue
            part, proposer = parts[2 * level], parts[2 * level + 1]
            if proposer < 0:
                agreed, v = _next_of_pair(plan, part, ranges, size, uses)
            else:
                agreed, v = _next(plan, part, proposer, ranges, size, uses)
            if not agreed:
                level -= 1
                continue
            value[plan[part]] = v
            kept = _narrow(plan, part, level, v, ranges, size, uses)
            if kept and not (plan[part + 1] and v == NULL):
                reached[level] += 1
                level += 1
                if level <= levels:
                    parts[2 * level + 1] = _open(plan, parts[2 * level], ranges, size, uses)
    return out_rows[:out], out_weights[:out]
