"""A table of rows that differ in one column within their group (`dbsp.kernels.group_search`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dbsp.kernels import list_edges, search_groups
from dbsp.kernels.arrays import Codes
from dbsp.kernels.frontier import CALL_MATCHES, CROWDED, CURSOR, LEFT, MATCHES, PAUSED, QUEUED, USED
from dbsp.operators.groups.untimed_distinct_step import ChangedRows
from dbsp.operators.recursion.derived_rows import Piece
from dbsp.operators.recursion.group_table import GroupTable

PIECE = 1 << 15
"""A table has room for so many rows beside those of one group: they fit the cache."""

PLACES = 1 << 3
"""There may be so many places of values for each given row, and so many edges: to list them is part
of the cost of the rows."""

MOST_PLACES = 1 << 18
"""At most so many places of values: a search of a few values reads cells that are far apart."""


class Edges(NamedTuple):
    """The joins of a linear recursion as edges between values, less the least value `low`."""

    low: int
    starts: Codes
    targets: Codes
    weights: Codes
    """One for each target, or no weights if all are 1."""

    @classmethod
    def of(cls, given: Codes, joins: Codes) -> Edges | None:
        """Return the edges, None if they are too many for the given rows, or too far apart.

        The values are those of the last column of the rows; the joins derive this column from it.
        """
        edges = cls(*list_edges(given, joins, min(PLACES * len(given), MOST_PLACES)))
        return edges if len(edges.starts) else None


class ValueTable(GroupTable):
    """The rows of consecutive groups, found by their value while their group iterates."""

    __slots__ = (
        "_cells",
        "_cursors",
        "_derivations",
        "_earlier",
        "_edges",
        "_found",
        "_fresh",
        "_queue",
        "_reached",
        "_words",
    )

    def __init__(self, given: Codes, places: Codes, edges: Edges) -> None:
        super().__init__(given, places)
        self._edges = edges
        span = len(edges.starts) - 1
        words = (span + 63) >> 6
        self._cells = np.zeros((span, 2), np.int64)
        self._earlier = np.zeros(span, np.int64)
        self._reached = np.zeros(words, np.int64)
        self._words = np.zeros((words + 63) >> 6, np.int64)
        self._queue = np.empty(span, np.int64)
        self._cursors: Codes | None = None
        room = span + PIECE
        self._found = np.empty((room, len(places)), np.int64)
        self._derivations = np.empty(room, np.int64)
        self._fresh = np.empty(room, np.bool_)

    def expand(self, joins: Codes, present: ChangedRows, limits: Codes) -> bool:
        until = self.state[MATCHES] + limits[CALL_MATCHES]
        cursors = self._cursors_in(present)
        while True:
            end = search_groups(
                self._given,
                *self._edges,
                self._cells,
                self._earlier,
                self._reached,
                self._words,
                self._queue,
                self._places,
                *present,
                cursors,
                self._found,
                self._derivations,
                self._fresh,
                self.state,
                limits,
            )
            if end == PAUSED:
                return False
            self._empty()
            self.left = end == LEFT
            if end != CROWDED:
                return True
            if self.state[MATCHES] >= until:
                return False

    def _cursors_in(self, present: ChangedRows) -> Codes:
        """Return where searches in the runs continue, for each run and value.

        They are not used if the carried columns lead.
        """
        if self._cursors is None:
            leading = self._places[-1] == len(self._places) - 1
            shape = (0 if leading else present.runs, len(self._cells))
            self._cursors = np.zeros(shape, np.int64)
        return self._cursors

    def _empty(self) -> None:
        """Move the rows of the table to the derived rows."""
        used, queued, cursor = self.state[[USED, QUEUED, CURSOR]].tolist()
        rows, fresh = self._found[:used], self._fresh[:used]
        started = self._new_given()
        waiting = self._of_last_group(self._queue[cursor:queued])
        joined = None
        if len(waiting):  # at a limit
            new, counts = np.unique(np.concatenate([rows[fresh], waiting]), axis=0, return_counts=True)
            joined = np.concatenate([started, new[counts == 1]])
        present = None if fresh.all() else fresh.copy()
        self.derived.add(rows, self._derivations[:used], Piece(used, present, started, joined, waiting))
        self.state[USED] = 0

    def _of_last_group(self, values: Codes) -> Codes:
        """Return the rows with these values in the last group, in the columns of the stream."""
        rows = np.repeat(self._given[self.given - 1 : self.given], len(values), 0)
        rows[:, -1] = values + self._edges.low
        return rows.take(self._places, 1)
