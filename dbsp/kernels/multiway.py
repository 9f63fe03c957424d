"""Extension of prefixes variable by variable: one delta term of a multi-way join.

    for each row of the delta, with its variables bound, and each level with its variable v in turn:
        count       the values of v in each relation below the prefix and within the limits of v;
                    the smallest one proposes
        propose     its values of v, in order
        intersect   every other relation with v keeps or drops the value; it gallops to it
    and multiply by the weight of the row of each relation when all its columns are bound

The generic join (Ngo, Re, Rudra, SIGMOD Record 2013) of one term, in the manner of Delta-BiGJoin
(Ammar et al., VLDB 2018): depth first, so the state is one prefix and a range of rows per relation
and level (`dbsp.kernels.prefix_ranges`). A prefix matches by presence of rows, not by the sum of
their weights.

A *use* is one relation as one term reads it: a run table (see `dbsp.kernels.run_search`) whose
columns are in the order in which the term binds them. The *plan* of a term is its steps as one
array of numbers, which `dbsp.operators.joins.multiway_plan` writes:

    HEADER      slots (variables and constants), uses, levels, columns of the delta, columns of the
                result, time columns, where the parts of the uses and of the levels start
    then        slots of the columns of the delta and of the result, first value of each slot
    each use    USE numbers: columns of a row, time columns among them, columns bound at level 0,
                whether all are bound at level 0, whether all are bound in the end, the last level
                that binds one of them, where in the plan the slots of its level 0 are
    the slots of each use's level 0
    each level  slot of the variable, whether it excludes None, number of members, number of limits
                then for each member MEMBER numbers: the use, columns of a row, the first column
                that the level binds, the column after the last, the level that bound the columns
                before, whether all are bound now
                then for each limit LIMIT numbers: its kind, the slot and the number whose sum is
                the limit, whether this value itself is outside
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Pointer, Rows
from dbsp.kernels.copies import copy_codes, copy_rows, first_codes, first_rows
from dbsp.kernels.first_places import PLACES, describe_places, write_places
from dbsp.kernels.jit import at_address, codes_at, kernel, multiply_weights
from dbsp.kernels.last_levels import (
    append_row,
    fits_last_level,
    fixed_member,
    is_plain,
    list_last_level,
    list_last_levels,
    weight_before,
)
from dbsp.kernels.level_values import (
    COMMON,
    MET,
    STATE,
    is_excluded,
    mark_list,
    next_common_value,
    next_filtered_value,
    next_value,
    open_level,
)
from dbsp.kernels.limits import INT64_MAX, NULL
from dbsp.kernels.match_room import PIECE, more_room
from dbsp.kernels.prefix_ranges import (
    HEADER,
    LEVEL,
    LIMIT,
    LIST,
    MEMBER,
    RANGE,
    TOGETHER,
    USE,
    bind_value,
    match_delta_row,
    search_first_column,
)
from dbsp.kernels.run_search import weights_at
from dbsp.kernels.value_marks import MARKED_SIZE
from dbsp.kernels.wide_sums import add_wide

FEWEST = 64
"""A delta of up to so many rows indexes no run."""

SEARCHES, VALUES = 8, 64
"""The most rows of an indexed run for each row of the delta, if values of the delta are searched in
it, and if proposed values are: each row has many of them."""


@kernel
def _enlarge(rows: Rows, weights: Codes) -> tuple[Rows, Codes]:
    """The same rows in arrays of twice the length."""
    n = weights.shape[0]
    return first_rows(rows, n, 2 * n), first_codes(weights, n, 2 * n)


@kernel
def _same_time(rows: Rows, i: int, j: int, arity: int) -> bool:
    """Return whether two rows have the same time, which is in the columns from `arity` on."""
    for c in range(arity, rows.shape[1]):  # noqa: SIM110  (there are no generators in kernels)
        if rows[i, c] != rows[j, c]:
            return False
    return True


@kernel
def _with_times(
    rows: Rows, weights: Codes, first: int, plan: Pointer, ranges: Pointer, size: int
) -> tuple[Rows, Codes, int]:
    """Replace the last row, at `first`, by one row per combination of the times in all uses.

    Returns the arrays, enlarged if necessary, and where the rows end.
    """
    uses, arity, depth = plan[1], plan[4], plan[5]
    out = first + 1
    for u in range(uses):
        use = plan[6] + USE * u
        k, coordinates = plan[use], plan[use + 1]
        if coordinates == 0 or not plan[use + 4]:
            continue  # it has no times, or is not fully bound
        source = (plan[use + 5] * uses + u) * size
        until = out
        for row in range(first, until):
            for at in range(source + LIST, source + LIST + RANGE * ranges[source], RANGE):
                run = codes_at(ranges[at])
                run_weights, mask = weights_at(ranges[at + 1])
                for j in range(ranges[at + 2], ranges[at + 3]):
                    if out == weights.shape[0]:
                        rows, weights = _enlarge(rows, weights)
                    for c in range(arity + depth):
                        rows[out, c] = rows[row, c]
                    for d in range(coordinates):
                        time = run[(j + 1) * k - coordinates + d]
                        rows[out, arity + d] = max(rows[out, arity + d], time)
                    weights[out] = multiply_weights(weights[row], run_weights[j & mask])
                    # Rows of equal time are one row.
                    into = until
                    while into < out and not _same_time(rows, into, out, arity):
                        into += 1
                    joined = False
                    if into < out:
                        high, total = add_wide(weights[into] >> 63, weights[into], weights[out])
                        # A sum that does not fit stays in two rows, since others may cancel it.
                        joined = high == total >> 63
                        if joined:
                            weights[into] = total
                    if not joined:
                        out += 1
        # The new rows replace those from which they were computed.
        copy_rows(rows, until, rows, first, out - until)
        copy_codes(weights, until, weights, first, out - until)
        out = first + out - until
    return rows, weights, out


@kernel
def _rows_in(tables: Codes, use: int) -> int:
    """Return the number of rows in the runs that a use reads."""
    table = at_address(tables[2 * use])
    total = 0
    for r in range(tables[2 * use + 1]):
        total += table[3 * r + 2]
    return total


@kernel
def append_matches(
    rows: Rows,
    weights: Codes,
    term: Codes,
    tables: Codes,
    now: Codes,
    reached: Codes,
    out_rows: Rows,
    out_weights: Codes,
    out: int,
) -> tuple[Rows, Codes, int]:
    """Append the rows of `extend_by_levels` to the first `out` rows of arrays with some room.

    Returns the arrays, enlarged if necessary, and where the rows end.
    """
    plan = at_address(term.ctypes.data)
    slots, uses, levels, delta_columns, result_columns, depth = (
        plan[0],
        plan[1],
        plan[2],
        plan[3],
        plan[4],
        plan[5],
    )
    first_value = HEADER + delta_columns + result_columns
    most = 0
    widest = 0
    for u in range(uses):
        most = max(most, tables[2 * u + 1])
        widest = max(widest, plan[plan[6] + USE * u + 2])
    size = LIST + RANGE * most
    # All state while the term runs, in one array read by address.
    bound_size = 1 + widest
    stride = min(TOGETHER, rows.shape[0])  # fewer cache lines for one row
    search_size = bound_size + most * stride
    states_at = uses * search_size
    state_size = STATE + MET * uses
    indices_at = states_at + state_size * (levels + 1)
    value_at = indices_at + PLACES * uses
    kept_at = value_at + slots
    order_at = kept_at + 2 * stride
    scratch = np.empty(order_at + uses, np.int64)
    indices = at_address(scratch.ctypes.data + 8 * indices_at)
    value = at_address(scratch.ctypes.data + 8 * value_at)
    for u in range(uses):
        scratch[u * search_size] = 0
        turn = u
        while turn and _rows_in(tables, scratch[order_at + turn - 1]) > _rows_in(tables, u):
            scratch[order_at + turn] = scratch[order_at + turn - 1]
            turn -= 1
        scratch[order_at + turn] = u
    part = plan[7]
    for level in range(1, levels + 1):
        at = states_at + state_size * level
        for number in range(state_size):
            scratch[at + number] = 0
        scratch[at] = part
        scratch[at + 2] = scratch[at + 6] = -1
        part += LEVEL + MEMBER * plan[part + 2] + LIMIT * plan[part + 3]
    before, last = states_at + state_size * (levels - 1), states_at + state_size * levels
    plain = levels > 0 and is_plain(plan, scratch[last])
    fixed = -1
    if plain and levels > 1:
        fixed = fixed_member(plan, scratch[before], scratch[last])
    for s in range(slots):
        value[s] = plan[first_value + s]
    # Index the first column of a run if many searches follow.
    index_size = 0
    for u in range(uses):
        indices[PLACES * u] = 0
        use = plan[6] + USE * u
        table = at_address(tables[2 * u])
        paid = rows.shape[0] * (SEARCHES if plan[use + 2] else VALUES)
        if rows.shape[0] > FEWEST and tables[2 * u + 1] == 1 and table[2] <= paid and plan[use]:
            needed = describe_places(codes_at(table[0]), plan[use], table[2], indices, PLACES * u)
            indices[PLACES * u] = needed
            index_size += needed
    room = (levels + 1) * uses * size
    work = np.empty(room + index_size + 1, np.int64)
    for u in range(uses):
        needed = indices[PLACES * u]
        if needed:
            table = at_address(tables[2 * u])
            address = work.ctypes.data + 8 * room
            write_places(codes_at(table[0]), plan[plan[6] + USE * u], table[2], indices, PLACES * u, address)
            room += needed
    marks = np.empty(0, np.int64)
    marking = wanted = False

    piece = PIECE
    until = min(out_weights.shape[0], piece)

    for start in range(0, rows.shape[0], TOGETHER):
        # Search the small relations first: most delta rows end there.
        count = min(TOGETHER, rows.shape[0] - start)
        kept = at_address(scratch.ctypes.data + 8 * kept_at)
        for i in range(count):
            kept[i] = i
        for turn in range(uses):
            u = scratch[order_at + turn]
            use = plan[6] + USE * u
            if plan[use + 2] and count:
                slot = plan[plan[use + 6]]
                column = -1
                for c in range(delta_columns):
                    if plan[HEADER + c] == slot:
                        column = c
                found_at = at_address(scratch.ctypes.data + 8 * (u * search_size + bound_size))
                table = at_address(tables[2 * u])
                count = search_first_column(
                    rows,
                    start,
                    kept,
                    count,
                    column,
                    value[slot],
                    table,
                    tables[2 * u + 1],
                    plan[use],
                    found_at,
                    stride,
                    indices,
                    PLACES * u,
                )
        for turn in range(count):
            # Read the addresses again for each row: numba frees an array that later code does not
            # mention.
            ranges = at_address(work.ctypes.data)
            if wanted and not marking:
                # Not below: numba counts the references of an array in each round of a loop that
                # may replace it.
                marks = np.zeros(levels * MARKED_SIZE, np.int64)
                marking = True
            marks_at = marks.ctypes.data
            states = scratch.ctypes.data + 8 * states_at
            counts = at_address(reached.ctypes.data)
            result, sums = at_address(out_rows.ctypes.data), at_address(out_weights.ctypes.data)
            i = start + scratch[kept_at + turn]
            for c in range(delta_columns):
                value[plan[HEADER + c]] = rows[i, c]
            matched = True
            for u in range(uses):
                bound = scratch.ctypes.data + 8 * u * search_size
                found_at = at_address(bound + 8 * (bound_size + i - start))
                table = at_address(tables[2 * u])
                use = plan[6] + USE * u
                bound = at_address(bound)
                matched = match_delta_row(
                    plan,
                    use,
                    table,
                    tables[2 * u + 1],
                    value,
                    bound,
                    found_at,
                    stride,
                    ranges,
                    u * size,
                    indices,
                    PLACES * u,
                )
                if not matched:
                    break
            if not matched:
                continue
            reached[0] += 1
            level = 1
            opens = True
            while level > 0:
                if level > levels:
                    # All variables are bound.
                    if out >= until:
                        out_rows, out_weights, out, piece = more_room(
                            out_rows, out_weights, out, piece, INT64_MAX
                        )
                        until = min(out_weights.shape[0], piece)
                        result = at_address(out_rows.ctypes.data)
                        sums = at_address(out_weights.ctypes.data)
                    weight = weight_before(plan, levels + 1, ranges, size, weights[i])
                    if depth:
                        out_weights[out] = weight
                        for c in range(result_columns):
                            out_rows[out, c] = value[plan[HEADER + delta_columns + c]]
                        for d in range(depth):
                            out_rows[out, result_columns + d] = (
                                rows[i, delta_columns + d] if rows.shape[1] > delta_columns else now[d]
                            )
                        out_rows, out_weights, out = _with_times(
                            out_rows, out_weights, out, plan, ranges, size
                        )
                    else:
                        out = append_row(plan, value, weight, result, sums, out)
                    level -= 1
                    opens = False
                    continue
                state = at_address(states + 8 * state_size * level)
                bits = at_address(marks_at + 8 * MARKED_SIZE * (level - 1))
                if opens:
                    open_level(plan, state, indices, value, ranges, size, uses)
                    if state[6] >= 0 and marking:
                        mark_list(plan, state, bits, ranges, size, uses)
                    elif state[6] >= 0:
                        wanted = True
                    opens = False
                    if plain and level == levels and fits_last_level(plan, state, ranges, size, until - out):
                        out = list_last_level(
                            plan, state, bits, value, ranges, size, counts, weights[i], result, sums, out
                        )
                        level -= 1
                        continue
                part, proposer = state[0], state[1]
                if fixed >= 0 and level == levels - 1 and proposer < 0:
                    last_state = at_address(states + 8 * state_size * levels)
                    found, v, out = list_last_levels(
                        plan,
                        state,
                        last_state,
                        fixed,
                        bits,
                        at_address(marks_at + 8 * MARKED_SIZE * level),
                        marking,
                        indices,
                        value,
                        ranges,
                        size,
                        counts,
                        weights[i],
                        result,
                        sums,
                        out,
                        until,
                    )
                    wanted = wanted or last_state[6] >= 0
                elif proposer >= 0:
                    found, v = next_value(plan, part, proposer, ranges, size, uses)
                elif proposer == COMMON:
                    found, v = next_common_value(plan, part, ranges, size, uses)
                else:
                    found, v = next_filtered_value(plan, state, bits, indices, ranges, size, uses)
                if not found:
                    level -= 1
                    continue
                value[plan[part]] = v
                nonempty = bind_value(plan, part, level, v, indices, ranges, size, uses)
                if nonempty and plan[part + 3]:
                    nonempty = not is_excluded(plan, part, value)
                if nonempty and not (plan[part + 1] and v == NULL):
                    reached[level] += 1
                    level += 1
                    opens = True
    return out_rows, out_weights, out


@kernel
def extend_by_levels(
    rows: Rows, weights: Codes, term: Codes, tables: Codes, now: Codes, reached: Codes
) -> tuple[Rows, Codes]:
    """Join every row of a delta with the other relations by the plan `term`.

    `tables` holds for each use the address of its run table and the number of runs to read.
    Returns (rows, weights): rows int64[m, result columns + time columns], not sorted. Adds to
    reached[l] the number of prefixes bound up to level l. The time of a row is the least upper
    bound of `now` (or of the time columns of the delta) and of the times of the joined rows.
    O(smallest proposals * log) per prefix and level. Raises OverflowError if a product or sum of
    weights is outside int64.
    """
    out_rows = np.empty((max(16, rows.shape[0]), term[4] + term[5]), np.int64)
    out_weights = np.empty(max(16, rows.shape[0]), np.int64)
    out_rows, out_weights, out = append_matches(
        rows, weights, term, tables, now, reached, out_rows, out_weights, 0
    )
    return out_rows[:out], out_weights[:out]
