"""The table of rows that the iterations of a linear recursion derive (`dbsp.kernels.frontier`)."""

from __future__ import annotations

import numpy as np

from dbsp.data.batch import Batch, combine
from dbsp.kernels import expand_frontier, insert_rows
from dbsp.kernels.arrays import Codes
from dbsp.kernels.frontier import (
    COMPLETE,
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

ROOM = 64
"""The rows for which a new table has room at least."""


class RowTable:
    """Rows by their hash, with their derivations, and the order in which they became present."""

    __slots__ = ("_found", "_given", "_marks", "_queue", "_rows", "_slots", "state")

    def __init__(self, given: Codes) -> None:
        """Begin with rows that are present: they are the frontier of the first iteration."""
        number, width = given.shape
        room = max(ROOM, 1 << (2 * number - 1).bit_length())
        self._given = number
        self._rows = np.empty((room, width), np.int64)
        self._found = np.empty(room, np.int64)
        self._marks = np.empty(room, np.int64)
        self._queue = np.empty(room, np.int64)
        self._slots = np.zeros(2 * room, np.int64)
        self._rows[:number] = given
        self._found[:number] = 0
        self._marks[:number] = 1
        self._queue[:number] = np.arange(number)
        insert_rows(self._rows, number, self._slots)
        self.state = np.zeros(STATE, np.int64)
        """See `dbsp.kernels.frontier`."""
        self.state[[USED, QUEUED, FRONTIER]] = number
        self.state[ITERATION] = 1

    def expand(self, joins: Codes, past: Codes, past_runs: int, limits: Codes) -> bool:
        """Iterate until no row becomes present, or to a limit; return whether it is complete.

        Parameters, cost and errors are those of `expand_frontier`.
        """
        while True:
            end = expand_frontier(
                self._rows,
                self._found,
                self._marks,
                self._queue,
                self._slots,
                joins,
                past,
                past_runs,
                self.state,
                limits,
            )
            if end == FULL:
                self._grow()
            elif end != PAUSED:
                return bool(end == COMPLETE)

    def _grow(self) -> None:
        used, queued, new = self.state[[USED, QUEUED, NEW]].tolist()
        room = 2 << int(self.state[NEEDED] - 1).bit_length()
        self._rows = _with_room(self._rows, used, room)
        self._found = _with_room(self._found, used, room)
        self._marks = _with_room(self._marks, used, room)
        queue = _with_room(self._queue, queued, room)
        if new:
            queue[-new:] = self._queue[-new:]
        self._queue = queue
        self._slots = np.zeros(2 * room, np.int64)
        insert_rows(self._rows, used, self._slots)

    def derived(self) -> Batch | None:
        """Return the rows with derivations; their weights are the numbers of these."""
        used = int(self.state[USED])
        found = self._found[self._given : used]
        if found.all() and not self._found[: self._given].any():
            return combine([(self._rows[self._given : used], found)])
        places = np.flatnonzero(self._found[:used])
        return combine([(self._rows[places], self._found[places])], owned=True) if len(places) else None

    def present(self, derived: Batch | None) -> Batch | None:
        """Return the rows that have become present, all of which are `derived`."""
        if derived is not None and len(derived) == self.state[QUEUED] - self._given:
            return derived.with_units()
        return _set_of(self._rows[self._queue[self._given : self.state[QUEUED]]])

    def joined(self) -> Codes:
        """Return the rows whose matches are in the table, those of all frontiers, in any order."""
        joined = int(self.state[CURSOR])
        return self._rows[:joined] if joined == self.state[USED] else self._rows[self._queue[:joined]]

    def waiting(self) -> Batch | None:
        """Return the frontier of the next iteration."""
        return _set_of(self._rows[self._queue[self.state[CURSOR] : self.state[QUEUED]]])


def _set_of(rows: Codes) -> Batch | None:
    return combine([(rows, np.ones(len(rows), np.int64))], owned=True) if len(rows) else None


def _with_room(array: Codes, used: int, room: int) -> Codes:
    larger = np.empty((room, *array.shape[1:]), np.int64)
    larger[:used] = array[:used]
    return larger
