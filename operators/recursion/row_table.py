"""The table of rows that the iterations of a linear recursion derive (`dbsp.kernels.frontier`)."""

from __future__ import annotations

import numpy as np

from dbsp.data.batch import Batch, combine
from dbsp.kernels import expand_frontier, insert_rows
from dbsp.kernels.arrays import Codes
from dbsp.kernels.frontier import (
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
from dbsp.operators.groups.untimed_distinct_step import ChangedRows

ROOM = 64
"""The rows for which a new table has room at least."""


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
        those of `expand_frontier`.
        """
        while True:
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
        table = self._table[: self.state[USED]]
        table = table[table[:, -2] != 0]
        return combine([(_rows(table), table[:, -2].copy())], owned=True) if len(table) else None

    def present(self, derived: Batch | None) -> Batch | None:
        """Return the rows that have become present, all of which are `derived`."""
        if derived is not None and len(derived) == self.state[QUEUED] - self._given:
            return derived.with_units()
        return _set_of(self._table[self._queue[self._given : self.state[QUEUED]]])

    def joined(self) -> Codes:
        """Return the rows whose matches are in the table, those of all frontiers, in any order."""
        joined = int(self.state[CURSOR])
        if joined == self.state[USED]:
            return _rows(self._table[:joined])
        return _rows(self._table[self._queue[:joined]])

    def waiting(self) -> Batch | None:
        """Return the frontier of the next iteration."""
        return _set_of(self._table[self._queue[self.state[CURSOR] : self.state[QUEUED]]])


def _rows(table: Codes) -> Codes:
    return np.ascontiguousarray(table[:, :-2])


def _set_of(table: Codes) -> Batch | None:
    return combine([(_rows(table), np.ones(len(table), np.int64))], owned=True) if len(table) else None


def _with_room(array: Codes, used: int, room: int) -> Codes:
    larger = np.empty((room, *array.shape[1:]), np.int64)
    larger[:used] = array[:used]
    return larger
