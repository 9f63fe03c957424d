"""Linear recursion with one column that changes: a search of a graph from each group of rows.

If all columns of a row but the last one are *carried* (`dbsp.kernels.frontier`), a row of a group
is a *value*: that of its last column. If each join finds its matches by this value, and takes the
new value from the joined row, the joins are the edges of a graph over values, and the rows that a
group derives are the values that a search reaches from those given:

    from            0      1      2      ...     values, less the least one
    starts          0      2      2      ...     where the edges from each value start
    targets         4  9   |      ...            the values to which they lead
    cells           (derivations, mark) of each value in the current group

So a value is found by its place instead of a hash. Bits of `reached`, and of `words` for those of
its words that are not 0, list the values of a group in their order. Cost and results are those of
`expand_frontier`, which serves all other linear recursion.

Whether a row was present before is found in sorted runs. If the carried columns lead in them, the
rows of a group follow each other: when the searches of a group have cost as much, they are all read
into `earlier`, which has their weights by value. Else a search for a row starts where the row of an
earlier group with the same value was found, or would be: `cursors` has this place, for each run and
value.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Mask, Rows, Words
from dbsp.kernels.bloom_filter import may_have
from dbsp.kernels.frontier import (
    CALL_MATCHES,
    COMPLETE,
    CROWDED,
    CURSOR,
    DERIVED,
    EMPTIED,
    ITERATION_WORK,
    JOIN,
    LAST,
    LATEST,
    LEFT,
    MATCH_WORK,
    MATCHES,
    MOST_WORK,
    PAUSED,
    QUEUED,
    ROW_WORK,
    STARTED,
    USED,
    was_present,
    will_exceed,
)
from dbsp.kernels.jit import add_weights, at_address, codes_at, kernel, lowest_bit
from dbsp.kernels.run_search import compare_prefix, gallop, weights_at
from dbsp.kernels.sort import compare_rows

LIMITED = LEFT + 1
"""Why `search_groups` may return, too: a group has reached the limit of iterations."""

SEARCH = 32
"""A search for a row in the runs costs as much as to read so many rows of its group."""


@kernel
def _sum_edges(starts: Codes, targets: Codes, weights: Codes, span: int) -> None:
    """Sum the weights of equal edges, and drop those of weight 0.

    An edge that was removed is in two runs until they are merged.
    """
    place_of = np.full(span, -1, np.int64)
    out = 0
    for value in range(span):
        first = out
        end = starts[value + 1]
        for edge in range(starts[value], end):
            place = place_of[targets[edge]]
            if place < 0:
                place = out
                out += 1
                place_of[targets[edge]] = place
                targets[place] = targets[edge]
                weights[place] = weights[edge]
            else:
                weights[place] = add_weights(weights[place], weights[edge])
        kept = first
        for edge in range(first, out):
            place_of[targets[edge]] = -1
            if weights[edge]:
                targets[kept] = targets[edge]
                weights[kept] = weights[edge]
                kept += 1
        out = kept
        starts[value] = first
    starts[span] = out


@kernel
def list_edges(given: Rows, plan: Codes, most: int) -> tuple[int, Codes, Codes, Codes]:
    """Return the least value, and the starts, targets and weights of the edges from each value.

    There are no starts if there are more than `most` edges or places of values, and no weights if
    all are 1. `plan` describes the joins (`dbsp.kernels.frontier`): the key of each is the last
    column of a row, and the result takes this column from the joined row. No sum of the weights of
    equal edges is below 0. O(rows of the runs + most).
    """
    none = np.empty(0, np.int64)
    width = given.shape[1]
    low = given[0, width - 1]
    high = low
    for i in range(given.shape[0]):
        low = min(low, given[i, width - 1])
        high = max(high, given[i, width - 1])
    edges = 0
    for at in range(0, plan.shape[0], JOIN + 1 + width):
        side = at_address(plan[at + 3])
        for r in range(plan[at + 2]):
            edges += side[3 * r + 2]
    if edges > most:
        return 0, none, none, none
    equal = True
    cancel = False
    for at in range(0, plan.shape[0], JOIN + 1 + width):
        k = plan[at + 1]
        column = -plan[at + JOIN + width] - 1
        side = at_address(plan[at + 3])
        for r in range(plan[at + 2]):
            run = codes_at(side[3 * r])
            weights, mask = weights_at(side[3 * r + 1])
            for j in range(side[3 * r + 2]):
                low = min(low, run[j * k + column])
                high = max(high, run[j * k + column])
                equal = equal and weights[j & mask] == 1
                cancel = cancel or weights[j & mask] < 0
    if (high >> 1) - (low >> 1) > most:  # the difference itself could be outside int64
        return 0, none, none, none
    span = high - low + 1
    if span > most:
        return 0, none, none, none
    starts = np.zeros(span + 2, np.int64)
    for at in range(0, plan.shape[0], JOIN + 1 + width):
        k = plan[at + 1]
        side = at_address(plan[at + 3])
        for r in range(plan[at + 2]):
            run = codes_at(side[3 * r])
            for j in range(side[3 * r + 2]):
                if low <= run[j * k] <= high:
                    starts[run[j * k] - low + 2] += 1
    for value in range(span):
        starts[value + 2] += starts[value + 1]
    targets = np.empty(starts[span + 1], np.int64)
    numbers = np.empty(0 if equal else targets.shape[0], np.int64)
    for at in range(0, plan.shape[0], JOIN + 1 + width):
        k = plan[at + 1]
        column = -plan[at + JOIN + width] - 1
        side = at_address(plan[at + 3])
        for r in range(plan[at + 2]):
            run = codes_at(side[3 * r])
            weights, mask = weights_at(side[3 * r + 1])
            for j in range(side[3 * r + 2]):
                if low <= run[j * k] <= high:
                    place = starts[run[j * k] - low + 1]
                    starts[run[j * k] - low + 1] += 1
                    targets[place] = run[j * k + column] - low
                    if not equal:
                        numbers[place] = weights[j & mask]
    if cancel:
        _sum_edges(starts, targets, numbers, span)
    return low, starts[: span + 1], targets, numbers


@kernel
def _reach(value: int, reached: Codes, words: Codes) -> None:
    """Add a value to those of the group."""
    reached[value >> 6] |= np.int64(1) << (value & 63)
    words[value >> 12] |= np.int64(1) << ((value >> 6) & 63)


@kernel
def _read_group(
    past: Rows,
    runs: int,
    ranges: Rows,
    width: int,
    low: int,
    earlier: Codes,
    reached: Codes,
    words: Codes,
) -> None:
    """Add the weights of the rows of a group to those of their values: rows ranges[r, 0] to
    ranges[r, 1] of run r."""
    for r in range(runs):
        run = codes_at(past[r, 0])
        weights, mask = weights_at(past[r, 1])
        for j in range(ranges[r, 0], ranges[r, 1]):
            code = run[j * width + width - 1]
            if low <= code <= low + (earlier.shape[0] - 1):
                value = code - low
                earlier[value] = add_weights(earlier[value], weights[j & mask])
                _reach(value, reached, words)


@kernel
def _was_present_from(
    row: Rows, past: Rows, committed: int, runs: int, noted: Words, cursors: Rows, value: int
) -> bool:
    """As `was_present`, for a group after those that have searched for the same value.

    The rows of one value are in the order of their groups: each search in a run continues where the
    last one for this value ended. O(1 + log gap) each.
    """
    k = row.shape[1]
    if noted.shape[0] and not may_have(row, 0, k, noted):
        runs = committed
    weight = 0
    for r in range(runs):
        run = codes_at(past[r, 0])
        at = gallop(run, k, cursors[r, value], past[r, 2], row, 0, k, 0)
        cursors[r, value] = at
        if at < past[r, 2] and compare_prefix(run, at * k, row, 0, k) == 0:
            weights, mask = weights_at(past[r, 1])
            weight = add_weights(weight, weights[at & mask])
    return weight > 0


@kernel
def search_groups(
    given: Rows,
    low: int,
    starts: Codes,
    targets: Codes,
    weights: Codes,
    cells: Rows,
    earlier: Codes,
    reached: Codes,
    words: Codes,
    queue: Codes,
    places: Codes,
    past: Rows,
    committed: int,
    runs: int,
    noted: Words,
    cursors: Rows,
    found: Rows,
    derivations: Codes,
    fresh: Mask,
    state: Codes,
    limits: Codes,
) -> int:
    """Search from one group after another; return why it stops (COMPLETE, CROWDED, PAUSED, LEFT or
    LIMITED).

    The rows with derivations go to `found`, in the columns of the stream, sorted by value within
    each group, and with them whether they have become present. `cells`, `earlier`, `reached` and
    `words` are 0 before and after each group; `queue` and the free part of `found` have room for
    all values. After CROWDED, call it again with an empty `found`; after PAUSED, as it is. `queue`
    has the values of the last group, of which those from state[CURSOR] on wait after LEFT and
    LIMITED. The limits of a frontier and of the rows of a group do not hold. O(edges from the
    values of each group), and O(log) in each run for each value, but at most O(1) for each row of
    its group. Raises OverflowError if a number of derivations is outside int64.
    """
    width = given.shape[1]
    span = cells.shape[0]
    used, first, latest = state[USED], state[STARTED], state[LATEST]
    made, derived, present = state[MATCHES], state[DERIVED], state[EMPTIED]
    pause = made + limits[CALL_MATCHES]
    leading = cursors.shape[0] == 0
    last = 0  # the column of the stream with the values
    for c in range(width):
        if places[c] == width - 1:
            last = c
    ranges = np.zeros((runs, 2), np.int64)
    row = np.empty((1, width), np.int64)
    queued = 0
    cursor = 0
    end = COMPLETE
    while first < given.shape[0] and end == COMPLETE:
        if used + span > found.shape[0]:
            end = CROWDED
            break
        if made > pause:
            end = PAUSED
            break
        group = first
        queued = 0
        cursor = 0
        while first < given.shape[0] and compare_rows(given, group, given, first, width - 1) == 0:
            value = given[first, width - 1] - low
            queue[queued] = value
            queued += 1
            cells[value, 1] = 3
            _reach(value, reached, words)
            first += 1
        for c in range(width):
            row[0, c] = given[group, places[c]]
        size = 0  # the rows of the group in the runs
        if leading:
            for r in range(runs):
                run = codes_at(past[r, 0])
                ranges[r, 0] = gallop(run, width, ranges[r, 1], past[r, 2], given, group, width - 1, 0)
                ranges[r, 1] = gallop(run, width, ranges[r, 0], past[r, 2], given, group, width - 1, 1)
                size += ranges[r, 1] - ranges[r, 0]
        searched = 0
        known = runs == 0
        iteration = 0
        rows_work = 0
        while cursor < queued:
            if iteration == limits[LAST]:
                end = LIMITED
                break
            iteration += 1
            frontier = queued
            while cursor < frontier:
                value = queue[cursor]
                cursor += 1
                made += starts[value + 1] - starts[value]
                for edge in range(starts[value], starts[value + 1]):
                    target = targets[edge]
                    mark = cells[target, 1]
                    if mark < 4 * iteration:
                        derived += 1
                        if mark == 0:
                            if not known and leading and SEARCH * searched >= size:
                                _read_group(past, runs, ranges, width, low, earlier, reached, words)
                                known = True
                            if known:
                                before = earlier[target] > 0
                            else:
                                searched += 1
                                row[0, last] = target + low
                                if leading:
                                    before = was_present(row, past, committed, runs, noted)
                                else:
                                    before = _was_present_from(
                                        row, past, committed, runs, noted, cursors, target
                                    )
                            mark = 3 if before else 1
                            if not before:
                                queue[queued] = target
                                queued += 1
                            _reach(target, reached, words)
                        cells[target, 1] = 4 * iteration + (mark & 3)
                    if weights.shape[0]:
                        cells[target, 0] = add_weights(cells[target, 0], weights[edge])
                    else:
                        cells[target, 0] += 1
            latest = max(latest, iteration)
            rows_work = limits[MATCH_WORK] * (made + derived) + limits[ROW_WORK] * (present + queued)
            if limits[ITERATION_WORK] * latest + rows_work > limits[MOST_WORK]:
                end = LEFT
                break
        present += queued
        for block in range(words.shape[0]):
            some = words[block]
            words[block] = 0
            while some:
                word = 64 * block + lowest_bit(some)
                some ^= np.int64(1) << (word & 63)
                bits = reached[word]
                reached[word] = 0
                while bits:
                    value = 64 * word + lowest_bit(bits)
                    bits ^= np.int64(1) << (value & 63)
                    if cells[value, 0]:
                        for c in range(width):
                            found[used, c] = value + low if c == last else given[group, places[c]]
                        derivations[used] = cells[value, 0]
                        fresh[used] = cells[value, 1] & 3 == 1
                        used += 1
                    cells[value, 0] = 0
                    cells[value, 1] = 0
                    earlier[value] = 0
        if will_exceed(limits[MOST_WORK], rows_work, first, given.shape[0]):
            end = LEFT
    state[USED], state[STARTED], state[LATEST] = used, first, latest
    state[MATCHES], state[DERIVED], state[EMPTIED] = made, derived, present
    state[QUEUED], state[CURSOR] = queued, cursor
    return end
