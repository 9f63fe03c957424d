"""The iterations of a linear recursion in one call: rows, and what is derived from them.

A *table* has the rows that the iterations have derived. Two numbers follow the columns of each row:
its derivations so far, and a mark, 2 * iteration + present, with the latest iteration that derived
it. A row is present if it was so before or has a derivation. `slots` find a row by its hash (open
addressing); there are twice as many of them as the table has room for, a power of two.

`queue` has the numbers of the present rows in the order in which they became so. Those of one
iteration are its *frontier*: the next iteration joins them with the runs of every join. The end of
`queue` has the rows that the current iteration has derived and that were not present before it.

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
from dbsp.kernels.hashing import mix_columns
from dbsp.kernels.jit import add_weights, at_address, codes_at, kernel
from dbsp.kernels.run_search import compare_prefix, gallop, weights_at

JOIN = 4
"""How many numbers of a join come before its lists of columns."""

USED, QUEUED, CURSOR, FRONTIER, NEW, ITERATION, MATCHES, DERIVED, NEEDED = range(9)
"""The numbers of the state: the rows in the table; the rows in the queue; the next row of the queue
to join; the end of the frontier; the absent rows that this iteration has derived; this iteration,
at least 1; the matches of all joins so far; the rows that the iterations have derived, each counted
once in an iteration; and the rows for which the table needs room to continue."""

STATE = 9

BLOCK = 64
"""So many derived rows are looked up together."""

CALL_MATCHES, MOST_QUEUED, MOST_ROWS, LAST, MOST_WORK, ITERATION_WORK, MATCH_WORK, ROW_WORK = range(8)
"""The limits: the matches of one call; the rows of a frontier and of the table, the last iteration,
and the work, at which an iteration ends with LEFT; the work of an iteration, of each match and
derived row, and of each row of the queue."""

LIMITS = 8

COMPLETE, FULL, PAUSED, LEFT = range(4)
"""Why `expand_frontier` returns: no rows are left, the table has no room, the matches that one call
may make are made, or an iteration has ended at a limit."""


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
def _near_slot(rows: Rows, i: int, k: int, size: int) -> int:
    """Return where the search for k columns of row i starts in `size` slots, a power of two.

    Rows that differ only in the low bits of their last column have neighbouring slots: iterations
    often visit neighbours one after another, and these share a line of the cache.
    """
    mixed = mix_columns(rows, i, k - 1)
    value = np.uint64(rows[i, k - 1])
    mixed = (mixed ^ (value >> np.uint64(3))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = ((mixed >> np.uint64(32)) << np.uint64(3)) | (value & np.uint64(7))
    slot: int = np.int64(mixed & np.uint64(size - 1))  # type: ignore[assignment]
    return slot


@kernel
def insert_rows(table: Rows, used: int, slots: Codes) -> None:
    """Insert the first `used` rows of a table, all different, into slots that are all 0."""
    size = slots.shape[0]
    for number in range(used):
        slot = _near_slot(table, number, table.shape[1] - 2, size)
        while slots[slot] != 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = number + 1


@kernel
def collect_rows(table: Rows, numbers: Codes) -> tuple[Rows, Codes]:
    """Return the rows of a table with these numbers, and their derivations. O(numbers)."""
    n = numbers.shape[0]
    k = table.shape[1] - 2
    rows = np.empty((n, k), np.int64)
    found = np.empty(n, np.int64)
    for i in range(n):
        number = numbers[i]
        for c in range(k):
            rows[i, c] = table[number, c]
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
            if joins[at] and 0 < size <= room >> 3:
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
def _was_present(table: Rows, i: int, past: Rows, committed: int, runs: int, noted: Words) -> int:
    """Return 1 if the weights of row i in the runs have a positive sum, else 0."""
    k = table.shape[1] - 2
    if noted.shape[0] and not may_have(table, i, k, noted):
        runs = committed
    weight = 0
    for r in range(runs):
        run = codes_at(past[r, 0])
        size = past[r, 2]
        at = _search(run, k, 0, size, table, i, k)
        if at < size and compare_prefix(run, at * k, table, i, k) == 0:
            weights, mask = weights_at(past[r, 1])
            weight = add_weights(weight, weights[at & mask])
    return 1 if weight > 0 else 0


@kernel
def _absorb(
    block: Rows,
    size: int,
    places: Rows,
    table: Rows,
    slots: Codes,
    queue: Codes,
    past: Rows,
    committed: int,
    runs: int,
    noted: Words,
    state: Codes,
) -> None:
    """Add derivations of the rows of a block to the table; the last column has their number.

    First it reads the slots and the rows that are there, without a branch: so the processor waits
    for several of them at the same time.
    """
    width = table.shape[1] - 2
    mask = slots.shape[0] - 1
    iteration = state[ITERATION]
    for b in range(size):
        places[b, 0] = _near_slot(block, b, width, slots.shape[0])
        places[b, 1] = slots[places[b, 0]]
    for b in range(size):
        # Only a read whose result is stored is not dropped by the compiler.
        places[b, 1] = table[max(places[b, 1] - 1, 0), 0]
    count = state[USED]
    for b in range(size):
        slot = places[b, 0]
        number = -1
        while slots[slot] != 0:
            number = slots[slot] - 1
            for c in range(width):
                if table[number, c] != block[b, c]:
                    number = -1
                    break
            if number >= 0:
                break
            slot = (slot + 1) & mask
        if number < 0:
            number = count
            slots[slot] = count + 1
            for c in range(width):
                table[count, c] = block[b, c]
            table[count, width] = 0
            table[count, width + 1] = _was_present(table, count, past, committed, runs, noted)
            count += 1
        mark = table[number, width + 1]
        if mark >> 1 != iteration:
            table[number, width + 1] = 2 * iteration + (mark & 1)
            state[DERIVED] += 1
            if mark & 1 == 0:
                state[NEW] += 1
                queue[queue.shape[0] - state[NEW]] = number
        table[number, width] = add_weights(table[number, width], block[b, width])
    state[USED] = count


@kernel
def expand_frontier(
    table: Rows,
    queue: Codes,
    slots: Codes,
    joins: Codes,
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

    A row that is new in the table was present before if its weights in the first `runs` runs of the
    run table `past` have a positive sum. The filter `noted` has the rows of the runs from
    `committed` on, or no words. After FULL, call it again with more room in the
    table and in the queue; after PAUSED, as it is. O(matches), and O(log) for each search in
    a run. Raises OverflowError if a number of derivations is outside int64.
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
    block = np.empty((BLOCK, width + 1), np.int64)
    places = np.empty((BLOCK, 2), np.int64)
    size = 0
    pause = state[MATCHES] + limits[CALL_MATCHES]
    while True:
        iteration = state[ITERATION]
        while state[CURSOR] < state[FRONTIER]:
            source = queue[state[CURSOR]]
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
            needed = state[USED] + size + matches
            if needed > room:
                _absorb(block, size, places, table, slots, queue, past, committed, runs, noted, state)
                state[NEEDED] = state[USED] + matches
                return FULL
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
                        if size == BLOCK:
                            _absorb(
                                block, size, places, table, slots, queue, past, committed, runs, noted, state
                            )
                            size = 0
                    search += 1
                at = result + width
            state[CURSOR] += 1
            state[MATCHES] += matches
            if state[MATCHES] > pause and state[CURSOR] < state[FRONTIER]:
                _absorb(block, size, places, table, slots, queue, past, committed, runs, noted, state)
                return PAUSED
        _absorb(block, size, places, table, slots, queue, past, committed, runs, noted, state)
        size = 0
        # A row of the queue is behind all rows that are still to be read: both are absent rows.
        queued = state[QUEUED]
        for place in range(room - state[NEW], room):
            number = queue[place]
            if table[number, width] > 0:
                table[number, width + 1] |= 1
                queue[queued] = number
                queued += 1
        state[NEW] = 0
        state[QUEUED] = state[FRONTIER] = queued
        state[ITERATION] = iteration + 1
        waiting = queued - state[CURSOR]
        if waiting == 0:
            return COMPLETE
        work = limits[ITERATION_WORK] * iteration + limits[ROW_WORK] * queued
        work += limits[MATCH_WORK] * (state[MATCHES] + state[DERIVED])
        if (
            waiting > limits[MOST_QUEUED]
            or state[USED] > limits[MOST_ROWS]
            or iteration >= limits[LAST]
            or work > limits[MOST_WORK]
        ):
            return LEFT
        if state[MATCHES] > pause:
            return PAUSED
