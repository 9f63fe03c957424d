"""A table of rows that the iterations of a linear recursion derive (`dbsp.kernels.frontier`)."""

from __future__ import annotations

import numpy as np

from dbsp.data.batch import Batch, combine
from dbsp.kernels import collect_rows, consolidate_owned, expand_frontier
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.frontier import (
    ASIDE,
    CALL_MATCHES,
    CROWDED,
    CURSOR,
    EMPTIED,
    FRONTIER,
    FULL,
    GROUP,
    HASHED,
    LEAST_HASHED,
    LEFT,
    MATCHES,
    NEEDED,
    NEW,
    PAUSED,
    QUEUED,
    USED,
)
from dbsp.operators.groups.untimed_distinct_step import ChangedRows
from dbsp.operators.recursion.derived_rows import Piece
from dbsp.operators.recursion.group_table import GroupTable

ROOM = 64
"""The rows for which a new table has room at least."""

PIECE = 1 << 15
"""The rows for which a table of groups has room at most, unless a group has more: they fit the
cache."""


class RowTable(GroupTable):
    """Rows by their hash, with their derivations, and the order in which they became present.

    When the table is full and the next group begins, its rows become a piece of the result.
    """

    __slots__ = ("_carried", "_queue", "_slots", "_table")

    def __init__(self, given: Codes, places: Codes, carried: int) -> None:
        super().__init__(given, places)
        self._carried = carried
        number, width = given.shape
        room = max(ROOM, 1 << (2 * number - 1).bit_length())
        if carried:
            room = min(room, PIECE)
        self._table = np.empty((room, width + 2), np.int64)
        self._queue = np.empty(room, np.int64)
        self._slots = np.zeros(max(2 * room, LEAST_HASHED), np.int64)

    def expand(self, joins: Codes, present: ChangedRows, limits: Codes) -> bool:
        until = self.state[MATCHES] + limits[CALL_MATCHES]
        while True:
            end = expand_frontier(
                self._given,
                self._table,
                self._queue,
                self._slots,
                joins,
                self._places,
                self._carried,
                *present,
                self.state,
                limits,
            )
            if end == CROWDED and len(self._queue) >= PIECE and self.state[USED]:
                self._empty()
            elif end in (CROWDED, FULL):
                self._grow()
            elif end != PAUSED:
                self._empty()
                self.left = end == LEFT
                return True
            if self.state[MATCHES] >= until:
                return False

    def _grow(self) -> None:
        used, queued, new, aside, hashed = self.state[[USED, QUEUED, NEW, ASIDE, HASHED]].tolist()
        room = 2 << int(self.state[NEEDED] - 1).bit_length()
        self._table = _enlarged(self._table, used, room)
        queue = _enlarged(self._queue, queued, room)
        if new + aside:
            queue[-new - aside :] = self._queue[-new - aside :]
        self._queue = queue
        slots = np.zeros(max(2 * room, LEAST_HASHED), np.int64)
        slots[:hashed] = self._slots[:hashed]
        self._slots = slots

    def _empty(self) -> None:
        """Move the rows of the table to the derived rows."""
        used, queued, aside = self.state[[USED, QUEUED, ASIDE]].tolist()
        started = self._new_given()
        numbers = np.flatnonzero(self._table[:used, -2])
        all_present = len(numbers) == queued + aside - len(started)
        rows, derivations, present = self._sorted(numbers, all_present)
        joined = self._collect(self._queue[:queued])[0] if aside else None
        waiting, _ = self._collect(self._queue[len(self._queue) - aside :])
        self.derived.add(rows, derivations, Piece(len(rows), present, started, joined, waiting))
        self.state[EMPTIED] += queued + aside
        self.state[[USED, QUEUED, CURSOR, FRONTIER, ASIDE, GROUP]] = 0

    def _sorted(self, numbers: Codes, all_present: bool) -> tuple[Codes, Codes, Mask | None]:
        """Return rows with derivations, sorted, the numbers of these, and which are present now;
        None for all."""
        rows, derivations = self._collect(numbers)
        if all_present:
            return *consolidate_owned(rows, derivations), None
        # The numbers are sorted with the rows, as their weights, which must not be 0.
        rows, weights = consolidate_owned(rows, numbers + 1)
        derivations, marks = self._table[:, -2:].take(weights - 1, 0).T
        return rows, derivations, marks & 3 == 1

    def _collect(self, numbers: Codes) -> tuple[Codes, Codes]:
        return collect_rows(self._table, numbers, self._places)


def set_of(rows: Codes) -> Batch | None:
    return combine([(rows, np.ones(len(rows), np.int64))], owned=True) if len(rows) else None


def _enlarged(array: Codes, used: int, room: int) -> Codes:
    larger = np.empty((room, *array.shape[1:]), np.int64)
    larger[:used] = array[:used]
    return larger
