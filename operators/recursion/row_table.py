"""The table of rows that the iterations of a linear recursion derive (`dbsp.kernels.frontier`)."""

from __future__ import annotations

import numpy as np

from dbsp.data.batch import Batch, combine
from dbsp.kernels import collect_rows, expand_frontier, insert_rows
from dbsp.kernels.arrays import Codes
from dbsp.kernels.frontier import (
    CALL_MATCHES,
    CURSOR,
    FRONTIER,
    FULL,
    ITERATION,
    NEEDED,
    NEW,
    PAUSED,
    QUEUED,
    STATE,
    USED,
)
from dbsp.kernels.tiers import interprets_small_calls
from dbsp.operators.groups.untimed_distinct_step import ChangedRows

ROOM = 64
"""The rows for which a new table has room at least."""

CALL = 1 << 22
"""A call of the kernel ends after so many matches, so that signals arrive."""

INTERPRETED_CALL = 1 << 7
"""An interpreted call ends after so many matches: it is small, and a few of them cost less than the
load of the compiler."""


class RowTable:
    """Rows by their hash, with their derivations, and the order in which they became present."""

    __slots__ = ("_given", "_queue", "_slots", "_table", "state")

    def __init__(self, given: Codes) -> None:
        """Begin with rows that are present: they are the frontier of the first iteration."""
        number, width = given.shape
        room = max(ROOM, 1 << (2 * number - 1).bit_length())
        self._given = number
        self._table = np.empty((room, width + 2), np.int64)
        self._queue = np.empty(room, np.int64)
        self._slots = np.zeros(2 * room, np.int64)
        self._table[:number, :-2] = given
        self._table[:number, -2:] = 0, 1
        self._queue[:number] = np.arange(number)
        insert_rows(self._table, number, self._slots)
        self.state = np.zeros(STATE, np.int64)
        """See `dbsp.kernels.frontier`."""
        self.state[[USED, QUEUED, FRONTIER]] = number
        self.state[ITERATION] = 1

    def expand(self, joins: Codes, present: ChangedRows, limits: Codes) -> None:
        """Iterate until no row becomes present, or to a limit.

        `present` are the rows that were present before. The other parameters, cost and errors are
        those of `expand_frontier`, except that the method sets the limit of matches of a call.
        """
        while True:
            limits[CALL_MATCHES] = INTERPRETED_CALL if interprets_small_calls() else CALL
            end = expand_frontier(
                self._table,
                self._queue,
                self._slots,
                joins,
                *present,
                self.state,
                limits,
            )
            if end == FULL:
                self._grow()
            elif end != PAUSED:
                return

    def _grow(self) -> None:
        used, queued, new = self.state[[USED, QUEUED, NEW]].tolist()
        room = 2 << int(self.state[NEEDED] - 1).bit_length()
        self._table = _with_room(self._table, used, room)
        queue = _with_room(self._queue, queued, room)
        if new:
            queue[-new:] = self._queue[-new:]
        self._queue = queue
        self._slots = np.zeros(2 * room, np.int64)
        insert_rows(self._table, used, self._slots)

    def derived(self) -> Batch | None:
        """Return the rows with derivations; their weights are the numbers of these."""
        numbers = np.flatnonzero(self._table[: self.state[USED], -2])
        return combine([collect_rows(self._table, numbers)], owned=True) if len(numbers) else None

    def present(self, derived: Batch | None) -> Batch | None:
        """Return the rows that have become present, all of which are `derived`."""
        if derived is not None and len(derived) == self.state[QUEUED] - self._given:
            return derived.with_units()
        return _set_of(self._queued(self._given, QUEUED))

    def joined(self) -> Codes:
        """Return the rows whose matches are in the table, those of all frontiers, in any order."""
        return self._queued(0, CURSOR)

    def waiting(self) -> Batch | None:
        """Return the frontier of the next iteration."""
        return _set_of(self._queued(int(self.state[CURSOR]), QUEUED))

    def _queued(self, start: int, end: int) -> Codes:
        rows, _ = collect_rows(self._table, self._queue[start : self.state[end]])
        return rows


def _set_of(rows: Codes) -> Batch | None:
    return combine([(rows, np.ones(len(rows), np.int64))], owned=True) if len(rows) else None


def _with_room(array: Codes, used: int, room: int) -> Codes:
    larger = np.empty((room, *array.shape[1:]), np.int64)
    larger[:used] = array[:used]
    return larger
