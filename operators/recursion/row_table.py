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
    STARTED,
    STATE,
    USED,
)
from dbsp.operators.groups.untimed_distinct_step import ChangedRows
from dbsp.operators.recursion.derived_rows import DerivedRows, Piece

ROOM = 64
"""The rows for which a new table has room at least."""

PIECE = 1 << 15
"""The rows for which a table of groups has room at most, unless a group has more: they fit the
cache."""


class RowTable:
    """Rows by their hash, with their derivations, and the order in which they became present.

    The columns of its rows are in an order that starts with the `carried` columns; column c of the
    stream is column places[c]. When the table is full and the next group begins, its rows become a
    piece of the result.
    """

    __slots__ = (
        "_carried",
        "_counted",
        "_given",
        "_places",
        "_queue",
        "_slots",
        "_table",
        "derived",
        "left",
        "state",
    )

    def __init__(self, given: Codes, places: Codes, carried: int) -> None:
        """Begin with rows that are present: they are the frontiers of the first iterations."""
        self._given = given
        self._carried = carried
        self._places = places
        self.derived = DerivedRows(len(places))
        """The rows of the groups that are no longer in the table."""
        self._counted = 0
        """How many of the given rows are in `derived`."""
        number, width = self._given.shape
        room = max(ROOM, 1 << (2 * number - 1).bit_length())
        if carried:
            room = min(room, PIECE)
        self._table = np.empty((room, width + 2), np.int64)
        self._queue = np.empty(room, np.int64)
        self._slots = np.zeros(max(2 * room, LEAST_HASHED), np.int64)
        self.state = np.zeros(STATE, np.int64)
        """See `dbsp.kernels.frontier`."""
        self.left = False
        """Whether the iterations have ended at the limit of work, or are expected to exceed it."""

    def expand(self, joins: Codes, present: ChangedRows, limits: Codes) -> bool:
        """Iterate until no row becomes present, or to a limit; return whether that is so.

        False means that the table has to be called again: a call makes at most about as many
        matches as the limits say. `present` are the rows that were present before. The other
        parameters, cost and errors are those of `expand_frontier`.
        """
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
        before, given = self._counted, self.given
        numbers = np.flatnonzero(self._table[:used, -2])
        all_present = len(numbers) == queued + aside - (given - before)
        rows, derivations, present = self._sorted(numbers, all_present)
        joined = self._collect(self._queue[:queued])[0] if aside else None
        waiting, _ = self._collect(self._queue[len(self._queue) - aside :])
        started = self._given[before:given].take(self._places, 1)
        self.derived.add(rows, derivations, Piece(len(rows), present, started, joined, waiting))
        self._counted = given
        self.state[EMPTIED] += queued + aside
        self.state[[USED, QUEUED, CURSOR, FRONTIER, ASIDE, GROUP]] = 0

    @property
    def given(self) -> int:
        """The number of given rows whose groups have started."""
        return int(self.state[STARTED])

    def hand_over(self) -> Codes:
        """Return the given rows of groups that have not started, and forget them."""
        rest = self._given[self.given :]
        self._given = self._given[: self.given]
        return rest

    def rest(self) -> Codes:
        """Return the given rows of groups that have not started, in the columns of the stream."""
        return self._given[self.given :].take(self._places, 1)

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
