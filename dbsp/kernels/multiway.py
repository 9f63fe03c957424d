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
`dbsp.operators.multiway_plan` writes it:

    0           slots: variables and constants of the term
    1           uses
    2           levels
    3, 4        columns of the delta and of the result
    5           time columns: the nested scopes around the term
    6, 7        where the uses' and the levels' parts begin, then their lengths in 8 and 9
    10 ...      slot of each column of the delta, slot of each column of the result, first value of each slot
    a use       columns of a row, time columns among them, columns to look at (more than there are if the term
                goes on to bind others elsewhere), slot of each of these (padded);
                for each level from 0 on: columns bound after it, and the level at which they were last more
    a level     slot of the variable, whether None is no value of it, number of uses that have it, these uses
"""

from __future__ import annotations

import numpy as np

from dbsp.batch import Codes
from dbsp.kernels.jit import add_weights, kernel, multiply_weights
from dbsp.kernels.runs import at_address

HEADER = 10
_NULL = -(2**63)
_MAX = 2**63 - 1


@kernel
def _seek(run: Codes, k: int, c: int, low: int, high: int, value: int) -> int:
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
    while low < high:
        middle = (low + high) >> 1
        if run[middle * k + c] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _pass(run: Codes, k: int, c: int, low: int, high: int, value: int) -> int:
    """The first row of low:high, sorted by column c, with more than this value."""
    if value == _MAX:
        return high
    return _seek(run, k, c, low, high, value + 1)


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
def extend_prefixes(
    rows: Codes, weights: Codes, plan: Codes, tables: Codes, now: Codes
) -> tuple[Codes, Codes, Codes]:
    """What becomes of every row of a delta by the term that `plan` describes.

    `tables` holds for each use the address of its run table and how many of its runs to read. Returns (rows,
    weights, reached): rows int64[m, result columns + time columns], not sorted; reached[l] counts the
    prefixes that were bound up to level l. The time of a row is the least upper bound of `now`, or of what
    stands behind the columns of the delta, and of the times of the rows it is made of.
    O(smallest proposals * log) per prefix and level.
    Raises OverflowError when a product or sum of weights leaves int64.
    """
    slots, uses, levels = plan[0], plan[1], plan[2]
    given, taken, depth = plan[3], plan[4], plan[5]
    use_at, level_at, use_size, level_size = plan[6], plan[7], plan[8], plan[9]
    out_at = HEADER + given
    first_at = out_at + taken
    bound_at = use_size - 2 * (levels + 1)  # within a use

    most = 1
    for u in range(uses):
        most = max(most, tables[2 * u + 1])
    # Ranges of rows that agree with the prefix, by the level at which they were narrowed.
    found = np.zeros((levels + 1, uses), np.int64)
    ranges = np.empty((levels + 1, uses, most, 3), np.int64)  # run, first row, end
    cursors = np.empty((levels + 1, uses, most), np.int64)
    proposers = np.zeros(levels + 1, np.int64)
    sums = np.ones(uses, np.int64)  # weight of each use's row, once bound
    known = np.zeros(uses, np.bool_)  # whether level 0 of a use is that of the prefix in `held`
    held = np.zeros((uses, use_size), np.int64)
    places = np.zeros((uses, most), np.int64)  # where the search for level 0 last ended
    value = np.empty(slots, np.int64)
    for s in range(slots):
        value[s] = plan[first_at + s]

    n = rows.shape[0]
    size = max(16, n)
    width = taken + depth
    out_rows = np.empty((size, width), np.int64)
    out_weights = np.empty(size, np.int64)
    out = 0
    reached = np.zeros(levels + 1, np.int64)

    for i in range(n):
        for c in range(given):
            value[plan[HEADER + c]] = rows[i, c]
        matched = True
        for u in range(uses):
            at = use_at + u * use_size
            lead = plan[at + bound_at]
            same = known[u]
            rising = known[u] and lead > 0 and value[plan[at + 3]] >= held[u, 0]
            if same:
                for c in range(lead):
                    if held[u, c] != value[plan[at + 3 + c]]:
                        same = False
                        break
            if not same:
                known[u] = True
                for c in range(lead):
                    held[u, c] = value[plan[at + 3 + c]]
                k = plan[at]
                table = at_address(tables[2 * u])
                active = 0
                for r in range(tables[2 * u + 1]):
                    run = at_address(table[3 * r])
                    high = table[3 * r + 2]
                    low = 0
                    if rising:
                        low = places[u, r]
                    for c in range(lead):
                        low = _seek(run, k, c, low, high, held[u, c])
                        if c == 0:
                            places[u, r] = low
                        if low == high or run[low * k + c] != held[u, c]:
                            high = low
                            break
                        high = low + 1 if c == k - 1 else _pass(run, k, c, low, high, held[u, c])
                    if low < high:
                        ranges[0, u, active, 0] = r
                        ranges[0, u, active, 1] = low
                        ranges[0, u, active, 2] = high
                        active += 1
                if active and lead == plan[at + 2] and plan[at + 1] == 0:
                    total = 0
                    for e in range(active):
                        run_weights = at_address(table[3 * ranges[0, u, e, 0] + 1])
                        total = add_weights(total, run_weights[ranges[0, u, e, 1]])
                    sums[u] = total
                    if total == 0:
                        active = 0
                found[0, u] = active
            if found[0, u] == 0:
                matched = False
                break
        if not matched:
            continue
        reached[0] += 1

        level = 1
        opening = True
        while level > 0:
            if level > levels:
                # Everything is bound: one row, or with times one for each that it is made at.
                if out == size:
                    out_rows, out_weights = _enlarged(out_rows, out_weights)
                    size += size
                weight = weights[i]
                for u in range(uses):
                    weight = multiply_weights(weight, sums[u])
                for c in range(taken):
                    out_rows[out, c] = value[plan[out_at + c]]
                out_weights[out] = weight
                for d in range(depth):
                    out_rows[out, taken + d] = rows[i, given + d] if rows.shape[1] > given else now[d]
                first = out
                out += 1
                if depth:
                    for u in range(uses):
                        at = use_at + u * use_size
                        coordinates = plan[at + 1]
                        if coordinates == 0 or plan[at + bound_at + 2 * levels] < plan[at + 2]:
                            continue  # its times do not matter, or not yet
                        # Every row made so far meets every time at which the use has its row; what
                        # comes of that takes the place of what was made so far.
                        k = plan[at]
                        table = at_address(tables[2 * u])
                        last = plan[at + bound_at + 2 * levels + 1]
                        until = out
                        for made in range(first, until):
                            for e in range(found[last, u]):
                                run = at_address(table[3 * ranges[last, u, e, 0]])
                                run_weights = at_address(table[3 * ranges[last, u, e, 0] + 1])
                                for j in range(ranges[last, u, e, 1], ranges[last, u, e, 2]):
                                    if out == size:
                                        out_rows, out_weights = _enlarged(out_rows, out_weights)
                                        size += size
                                    for c in range(width):
                                        out_rows[out, c] = out_rows[made, c]
                                    for d in range(coordinates):
                                        t = run[(j + 1) * k - coordinates + d]
                                        if t > out_rows[out, taken + d]:
                                            out_rows[out, taken + d] = t
                                    out_weights[out] = multiply_weights(out_weights[made], run_weights[j])
                                    # Most are made now: those of equal time are one row.
                                    into = until
                                    while into < out and not _same_time(out_rows, into, out, taken):
                                        into += 1
                                    if into < out:
                                        out_weights[into] = add_weights(out_weights[into], out_weights[out])
                                    else:
                                        out += 1
                        for made in range(until, out):
                            out_rows[first + made - until] = out_rows[made]
                            out_weights[first + made - until] = out_weights[made]
                        out = first + out - until
                level -= 1
                opening = False
                continue
            part = level_at + (level - 1) * level_size
            slot, skips, members = plan[part], plan[part + 1], plan[part + 2]
            if opening:
                fewest = _MAX
                for m in range(members):
                    u = plan[part + 3 + m]
                    at = use_at + u * use_size + bound_at
                    last = plan[at + 2 * (level - 1) + 1]
                    offers = 0
                    for e in range(found[last, u]):
                        cursors[level, u, e] = ranges[last, u, e, 1]
                        offers += ranges[last, u, e, 2] - ranges[last, u, e, 1]
                    if offers < fewest:
                        fewest = offers
                        proposers[level] = u
                opening = False
            # Find the next value that all of them have.
            p = proposers[level]
            at = use_at + p * use_size
            p_last = plan[at + bound_at + 2 * (level - 1) + 1]
            p_column = plan[at + bound_at + 2 * (level - 1)]
            p_width = plan[at]
            p_table = at_address(tables[2 * p])
            agreed = False
            v = 0
            while True:
                some = False
                for e in range(found[p_last, p]):
                    j = cursors[level, p, e]
                    if j < ranges[p_last, p, e, 2]:
                        run = at_address(p_table[3 * ranges[p_last, p, e, 0]])
                        w = run[j * p_width + p_column]
                        if not some or w < v:
                            v = w
                            some = True
                if not some:
                    break
                onward = v
                agreed = True
                for m in range(members):
                    u = plan[part + 3 + m]
                    if u == p:
                        continue
                    at = use_at + u * use_size
                    last = plan[at + bound_at + 2 * (level - 1) + 1]
                    column = plan[at + bound_at + 2 * (level - 1)]
                    k = plan[at]
                    table = at_address(tables[2 * u])
                    nearest = v
                    here = False
                    some = False
                    for e in range(found[last, u]):
                        high = ranges[last, u, e, 2]
                        run = at_address(table[3 * ranges[last, u, e, 0]])
                        j = _seek(run, k, column, cursors[level, u, e], high, v)
                        cursors[level, u, e] = j
                        if j < high:
                            w = run[j * k + column]
                            if w == v:
                                here = True
                            elif not some or w < nearest:
                                nearest = w
                                some = True
                    if not here:
                        agreed = False
                        if not some:
                            onward = _MAX
                            if v == _MAX:
                                onward = v
                        else:
                            onward = nearest
                        break
                if agreed and skips and v == _NULL:
                    agreed = False
                if agreed:
                    break
                # Nothing below `onward` can be agreed on.
                for e in range(found[p_last, p]):
                    run = at_address(p_table[3 * ranges[p_last, p, e, 0]])
                    high = ranges[p_last, p, e, 2]
                    j = cursors[level, p, e]
                    if onward > v:
                        j = _seek(run, p_width, p_column, j, high, onward)
                    else:
                        j = _pass(run, p_width, p_column, j, high, v)
                    cursors[level, p, e] = j
            if not agreed:
                level -= 1
                continue
            value[slot] = v
            # Narrow the ranges of those that have it, and pass it.
            for m in range(members):
                u = plan[part + 3 + m]
                at = use_at + u * use_size
                before = at + bound_at + 2 * (level - 1)
                last = plan[before + 1]
                column, until = plan[before], plan[before + 2]
                k = plan[at]
                table = at_address(tables[2 * u])
                active = 0
                for e in range(found[last, u]):
                    j = cursors[level, u, e]
                    high = ranges[last, u, e, 2]
                    if j == high:
                        continue
                    r = ranges[last, u, e, 0]
                    run = at_address(table[3 * r])
                    if run[j * k + column] != v:
                        continue
                    end = j + 1
                    if column < k - 1:
                        end = _pass(run, k, column, end, high, v)
                    cursors[level, u, e] = end
                    for c in range(column + 1, until):
                        j = _seek(run, k, c, j, end, v)
                        if j == end or run[j * k + c] != v:
                            end = j
                            break
                        end = j + 1 if c == k - 1 else _pass(run, k, c, j, end, v)
                    if j < end:
                        ranges[level, u, active, 0] = r
                        ranges[level, u, active, 1] = j
                        ranges[level, u, active, 2] = end
                        active += 1
                if active and until == plan[at + 2] and plan[at + 1] == 0:
                    total = 0
                    for e in range(active):
                        run_weights = at_address(table[3 * ranges[level, u, e, 0] + 1])
                        total = add_weights(total, run_weights[ranges[level, u, e, 1]])
                    sums[u] = total
                    if total == 0:
                        active = 0
                found[level, u] = active
                if active == 0:
                    agreed = False
                    # The others have to pass the value as well; their ranges do not matter.
            if agreed:
                reached[level] += 1
                level += 1
                opening = True
    return out_rows[:out], out_weights[:out], reached
