"""The iterations of a linear recursion in one call: rows, and what is derived from them.

Some columns may be *carried*: every join derives a row with the same values in them. Then a row
depends on rows with its own carried values only, its *group*, and each group iterates on its own.
A closure is a search from one node after another: the rows of one search fit the processor's cache.
The carried columns lead in all rows here; without any, all rows are one group.

A *table* has the rows of the groups, one group after another. Two numbers follow the columns of
each row: its derivations so far, and a mark, 4 * iteration + 2 * earlier + present, with the latest
iteration of its group that derived it. A row is present if it was so before these iterations (it is
`earlier`) or has a derivation. `slots` find a row of the current group by its hash (open
addressing); there are twice as many of them as the table has room for. Those in use are a power of
two, at least twice the rows of the group; all others are 0.

`queue` has the numbers of the present rows in the order in which they became so. Those of one
iteration are its *frontier*: the next iteration joins them with the runs of every join. The end of
`queue` has the frontiers of groups that have ended at a limit, and before them the rows that the
current iteration has derived and that were not present before it.

A join is described by JOIN numbers and two lists of columns:

    JOIN numbers   the columns of its key, the columns of its runs, the number of its runs, the
                   address of their run table
    the key        the columns of a row that are equal to the leading columns of a run
    the result     for each column: column v of the row for v >= 0, column -v - 1 of the run else
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows, RunCodes, Words
from dbsp.kernels.bloom_filter import may_have
from dbsp.kernels.copies import first_rows
from dbsp.kernels.jit import add_weights, at_address, codes_at, kernel
from dbsp.kernels.run_search import compare_prefix, gallop, weights_at
from dbsp.kernels.sort import compare_rows

JOIN = 4
"""How many numbers of a join come before its lists of columns."""

(
    USED,
    QUEUED,
    CURSOR,
    FRONTIER,
    NEW,
    ASIDE,
    EMPTIED,
    STARTED,
    GROUP,
    HASHED,
    ITERATION,
    LATEST,
    MATCHES,
    DERIVED,
    NEEDED,
) = range(15)
"""The numbers of the state: the rows in the table; the rows in the queue; the next row of the queue
to join; the end of the frontier; the absent rows that this iteration has derived; the rows of the
frontiers that are set aside; the rows that were queued or set aside before the table was emptied;
the given rows whose groups have started; the first row of the current group in the table; the slots
in use; the iteration of this group, at least 1; the greatest number of iterations of a group; the
matches of all joins so far; the rows that the iterations have derived, each counted once in an
iteration; and the rows for which the table needs room to continue."""

STATE = 15

MUCH_ROOM = 1 << 12
"""With room for so many rows, a run with up to four times as many rows is indexed, else with up to
an eighth: small tables stand for few searches, often of an interpreted kernel."""

BLOCK = 64
"""So many derived rows are looked up together."""

CACHED = 1 << 10
"""The rows of a group of so many fit the cache that is closest to the processor."""

LEAST_HASHED = 16
"""The least number of slots in use."""

CALL_MATCHES, MOST_QUEUED, MOST_ROWS, LAST, MOST_WORK, ITERATION_WORK, MATCH_WORK, ROW_WORK = range(8)
"""The limits: the matches of one call; the rows of a frontier and of a group, and the last
iteration, at which a group is set aside; the work at which all iterations end; the work of an
iteration, of each match and derived row, and of each row of the queue."""

LIMITS = 8

KNOWN = 8
"""When the rows have taken one in so many parts of the limit of work, the groups so far show what
all groups need."""

EXCESS = 2
"""The iterations end if all groups are expected to need so many times the limit of work."""

COMPLETE, FULL, CROWDED, PAUSED, LEFT = range(5)
"""Why `expand_frontier` returns: no rows are left, or only frontiers that are set aside; the table
has no room; it has little room for the next group, which does not need the rows of those before;
the matches that one call may make are made; or the limit of work is reached, or will be exceeded by
far."""


@kernel
def _search(run: RunCodes, k: int, low: int, high: int, keys: Rows, i: int, m: int) -> int:
    """Return the first row in run[low:high] whose m leading columns are not before keys[i]."""
    while low < high:
        middle = (low + high) >> 1
        if compare_prefix(run, middle * k, keys, i, m) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _near_slot(rows: Rows, i: int, first: int, k: int, size: int) -> int:
    """Return where the search for columns[first:k] of row i starts in `size` slots, a power of two.

    Rows that differ only in the low bits of their last column have neighbouring slots: iterations
    often visit neighbours one after another, and these share a line of the cache.
    """
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for c in range(first, k - 1):
        mixed = (mixed ^ np.uint64(rows[i, c])) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    value = np.uint64(rows[i, k - 1])
    mixed = (mixed ^ (value >> np.uint64(3))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = ((mixed >> np.uint64(32)) << np.uint64(3)) | (value & np.uint64(7))
    slot: int = np.int64(mixed & np.uint64(size - 1))  # type: ignore[assignment]
    return slot


@kernel
def _find_slots(
    table: Rows, slots: Codes, carried: int, group: int, used: int, hashed: int, rows: int
) -> int:
    """Insert the rows of the table from `group` on into slots for so many rows; return their
    number."""
    for slot in range(hashed):
        slots[slot] = 0
    size = LEAST_HASHED
    while size < 2 * rows:
        size *= 2
    for number in range(group, used):
        slot = _near_slot(table, number, carried, table.shape[1] - 2, size)
        while slots[slot] != 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = number + 1
    return size


@kernel
def collect_rows(table: Rows, numbers: Codes, places: Codes) -> tuple[Rows, Codes]:
    """Return the rows of a table with these numbers, and their derivations. O(numbers).

    Column c of the result is column places[c] of the table.
    """
    n = numbers.shape[0]
    k = table.shape[1] - 2
    rows = np.empty((n, k), np.int64)
    found = np.empty(n, np.int64)
    for i in range(n):
        number = numbers[i]
        for c in range(k):
            rows[i, c] = table[number, places[c]]
        found[i] = table[number, k]
    return rows, found


@kernel
def _list_starts(joins: Codes, width: int, room: int, runs: int) -> tuple[Rows, Codes]:
    """Index the leading column of each run that is small for the room, and dense.

    Returns for each run of a join the least value, the number of values, and where its starts are;
    and for each value of a run the first row with this value or a greater one. O(room).
    """
    spans = np.zeros((runs, 3), np.int64)
    total = 0
    search = 0
    at = 0
    while at < joins.shape[0]:
        table = at_address(joins[at + 3])
        for r in range(joins[at + 2]):
            size = table[3 * r + 2]
            if joins[at] and 0 < size <= (room << 2 if room >= MUCH_ROOM else room >> 3):
                run = codes_at(table[3 * r])
                low = run[0]
                span = run[(size - 1) * joins[at + 1]] - low
                if 0 <= span < size << 2:
                    spans[search, 0] = low
                    spans[search, 1] = span + 1
                    spans[search, 2] = total
                    total += span + 2
            search += 1
        at += JOIN + joins[at] + width
    starts = np.empty(total, np.int64)
    search = 0
    at = 0
    while at < joins.shape[0]:
        k = joins[at + 1]
        table = at_address(joins[at + 3])
        for r in range(joins[at + 2]):
            if spans[search, 1]:
                run = codes_at(table[3 * r])
                size = table[3 * r + 2]
                row = 0
                for value in range(spans[search, 1] + 1):
                    while row < size and run[row * k] - spans[search, 0] < value:
                        row += 1
                    starts[spans[search, 2] + value] = row
            search += 1
        at += JOIN + joins[at] + width
    return spans, starts


@kernel
def was_present(row: Rows, past: Rows, committed: int, runs: int, noted: Words) -> bool:
    """Return whether the weights of a row in the runs have a positive sum."""
    k = row.shape[1]
    if noted.shape[0] and not may_have(row, 0, k, noted):
        runs = committed
    weight = 0
    for r in range(runs):
        run = codes_at(past[r, 0])
        size = past[r, 2]
        at = _search(run, k, 0, size, row, 0, k)
        if at < size and compare_prefix(run, at * k, row, 0, k) == 0:
            weights, mask = weights_at(past[r, 1])
            weight = add_weights(weight, weights[at & mask])
    return weight > 0


@kernel
def will_exceed(most: int, work: int, started: int, given: int) -> bool:
    """Return whether the rows of all groups are expected to need far more than the limit `most`.

    `work` is what the groups of the first `started` of the given rows have needed. The groups that
    have not started are expected to be like those before.
    """
    return work > most // KNOWN and work * (given / started) > 1.0 * EXCESS * most


@kernel
def expand_frontier(
    given: Rows,
    table: Rows,
    queue: Codes,
    slots: Codes,
    joins: Codes,
    places: Codes,
    carried: int,
    past: Rows,
    committed: int,
    runs: int,
    noted: Words,
    state: Codes,
    limits: Codes,
) -> int:
    """Iterate until no row becomes present; return why it stops (COMPLETE, FULL, PAUSED or LEFT).

    Linear semi-naive evaluation: the frontier F' of the next iteration is, with a frontier F,

        F' = distinct(sum over the joins of (F join E)) - present

    The first frontier are the given rows, sorted by their `carried` leading columns. Column c of a
    row of the stream is column places[c] here. A row that is new in the table was present before if
    its weights in the first `runs` runs of the run table `past` have a positive sum. The filter
    `noted` has the rows of the runs from `committed` on, or no words. After FULL, call it again
    with more room in the table, in the queue and in the slots; after CROWDED, with an empty table
    and queue, or as after FULL; after PAUSED, as it is. O(matches), and O(log) for each search in a
    run. Raises OverflowError if a number of derivations is outside int64.
    """
    room = table.shape[0]
    width = table.shape[1] - 2
    searches = 0
    widest = 1
    at = 0
    while at < joins.shape[0]:
        searches += joins[at + 2]
        widest = max(widest, joins[at])
        at += JOIN + joins[at] + width
    spans, starts = _list_starts(joins, width, room, searches)
    ranges = np.empty((searches, 2), np.int64)
    key = np.empty((1, widest), np.int64)
    row = np.empty((1, width), np.int64)
    block = np.empty((BLOCK, width + 1), np.int64)
    found = np.empty((BLOCK, 2), np.int64)
    size = 0
    used, queued, cursor, frontier = state[USED], state[QUEUED], state[CURSOR], state[FRONTIER]
    new, aside, first_given, group = state[NEW], state[ASIDE], state[STARTED], state[GROUP]
    hashed, iteration, latest = state[HASHED], state[ITERATION], state[LATEST]
    made, derived = state[MATCHES], state[DERIVED]
    pause = made + limits[CALL_MATCHES]
    end = -1
    while end < 0:
        if cursor == queued and new == 0:
            if first_given == given.shape[0]:
                end = COMPLETE
                break
            until = first_given + 1
            while until < given.shape[0] and compare_rows(given, first_given, given, until, carried) == 0:
                until += 1
            rows = max(until - first_given, used - group)  # the next group is like the one before
            if used + 2 * rows > room:
                state[NEEDED] = used + 2 * rows
                end = CROWDED
                break
            hashed = _find_slots(table, slots, carried, 0, 0, hashed, rows)
            group = used
            for i in range(first_given, until):
                for c in range(width):
                    table[used, c] = given[i, c]
                table[used, width] = 0
                table[used, width + 1] = 3
                slot = _near_slot(table, used, carried, width, hashed)
                while slots[slot] != 0:
                    slot = (slot + 1) & (hashed - 1)
                queue[queued] = used
                used += 1
                queued += 1
                slots[slot] = used
            first_given = until
            frontier = queued
            iteration = 1
        while cursor < frontier:
            source = queue[cursor]
            # First find all matches of the row: its result must fit.
            matches = 0
            search = 0
            at = 0
            while at < joins.shape[0]:
                m = joins[at]
                k = joins[at + 1]
                for c in range(m):
                    key[0, c] = table[source, joins[at + JOIN + c]]
                side = at_address(joins[at + 3])
                for r in range(joins[at + 2]):
                    low = 0
                    high = side[3 * r + 2]
                    if spans[search, 1]:
                        value = key[0, 0] - spans[search, 0]
                        if 0 <= value < spans[search, 1]:
                            low = starts[spans[search, 2] + value]
                            high = starts[spans[search, 2] + value + 1]
                        else:
                            high = 0
                    if m > 1 or (m == 1 and spans[search, 1] == 0):
                        run = codes_at(side[3 * r])
                        low = _search(run, k, low, high, key, 0, m)
                        high = gallop(run, k, low, high, key, 0, m, 1)
                    ranges[search, 0] = low
                    ranges[search, 1] = high
                    matches += high - low
                    search += 1
                at += JOIN + m + width
            needed = used + size + matches
            fits = needed <= room
            if fits:
                if 2 * (needed - group) > hashed:
                    hashed = _find_slots(table, slots, carried, group, used, hashed, needed - group)
                if size + matches > block.shape[0]:
                    block = first_rows(block, size, 2 * (size + matches))
                search = 0
                at = 0
                while at < joins.shape[0]:
                    k = joins[at + 1]
                    result = at + JOIN + joins[at]
                    side = at_address(joins[at + 3])
                    for r in range(joins[at + 2]):
                        run = codes_at(side[3 * r])
                        weights, mask = weights_at(side[3 * r + 1])
                        for j in range(ranges[search, 0], ranges[search, 1]):
                            for c in range(width):
                                v = joins[result + c]
                                block[size, c] = table[source, v] if v >= 0 else run[j * k - v - 1]
                            block[size, width] = weights[j & mask]
                            size += 1
                        search += 1
                    at = result + width
                cursor += 1
                made += matches
            elif size == 0:
                state[NEEDED] = needed
                end = FULL
                break
            if fits and size < BLOCK and cursor < frontier and made <= pause:
                continue
            # Add the derived rows of the block to the table.
            for first in range(0, size, BLOCK):
                count = min(BLOCK, size - first)
                for b in range(count):
                    found[b, 0] = _near_slot(block, first + b, carried, width, hashed)
                    found[b, 1] = slots[found[b, 0]]
                if used - group > CACHED:
                    # Read the rows without a branch, so that the processor waits for several of
                    # them at the same time. A read whose result is not stored would be dropped.
                    for b in range(count):
                        found[b, 1] = table[max(found[b, 1] - 1, 0), 0]
                for b in range(count):
                    slot = found[b, 0]
                    number = -1
                    while slots[slot] != 0:
                        number = slots[slot] - 1
                        for c in range(carried, width):
                            if table[number, c] != block[first + b, c]:
                                number = -1
                                break
                        if number >= 0:
                            break
                        slot = (slot + 1) & (hashed - 1)
                    if number < 0:
                        number = used
                        used += 1
                        slots[slot] = used
                        for c in range(width):
                            table[number, c] = block[first + b, c]
                        table[number, width] = 0
                        table[number, width + 1] = 0
                        if runs:
                            for c in range(width):
                                row[0, c] = block[first + b, places[c]]
                            if was_present(row, past, committed, runs, noted):
                                table[number, width + 1] = 3
                    mark = table[number, width + 1]
                    if mark >> 2 != iteration:
                        table[number, width + 1] = 4 * iteration + (mark & 3)
                        derived += 1
                        if mark & 1 == 0:
                            new += 1
                            queue[room - aside - new] = number
                    table[number, width] = add_weights(table[number, width], block[first + b, width])
            size = 0
            if fits and made > pause and cursor < frontier:
                end = PAUSED
                break
        if end >= 0:
            break
        # A row of the queue is behind all rows that are still to be read: both are absent rows.
        for place in range(room - aside - new, room - aside):
            number = queue[place]
            if table[number, width] > 0:
                table[number, width + 1] |= 1
                queue[queued] = number
                queued += 1
        new = 0
        latest = max(latest, iteration)
        rows_work = limits[MATCH_WORK] * (made + derived)
        rows_work += limits[ROW_WORK] * (state[EMPTIED] + queued + aside)
        work = limits[ITERATION_WORK] * latest + rows_work
        waiting = queued - cursor
        if waiting and (
            waiting > limits[MOST_QUEUED]
            or used - group > limits[MOST_ROWS]
            or iteration >= limits[LAST]
            or work > limits[MOST_WORK]
        ):
            # From the end on, since the places may overlap.
            for place in range(waiting):
                aside += 1
                queue[room - aside] = queue[queued - 1 - place]
            queued = cursor
        frontier = queued
        iteration += 1
        left = work > limits[MOST_WORK]
        if cursor == queued:
            left |= will_exceed(limits[MOST_WORK], rows_work, first_given, given.shape[0])
        if left:
            end = LEFT
        elif made > pause:
            end = PAUSED
    state[USED], state[QUEUED], state[CURSOR], state[FRONTIER] = used, queued, cursor, frontier
    state[NEW], state[ASIDE], state[STARTED], state[GROUP] = new, aside, first_given, group
    state[HASHED], state[ITERATION], state[LATEST] = hashed, iteration, latest
    state[MATCHES], state[DERIVED] = made, derived
    return end
