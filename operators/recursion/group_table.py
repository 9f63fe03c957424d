"""What a table of rows by their hash and one by their value have in common.

Both iterate one group of given rows after another, and both move the rows that they have derived to
`DerivedRows`, one piece after another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dbsp.kernels.arrays import Codes
from dbsp.kernels.frontier import STARTED, STATE
from dbsp.operators.groups.untimed_distinct_step import ChangedRows
from dbsp.operators.recursion.derived_rows import DerivedRows


class GroupTable(ABC):
    """The rows of consecutive groups, and what is derived from them.

    The columns of its rows are in an order that starts with the carried columns; column c of the
    stream is column places[c].
    """

    __slots__ = ("_counted", "_given", "_places", "derived", "left", "state")

    def __init__(self, given: Codes, places: Codes) -> None:
        """Begin with rows that are present: they are the frontiers of the first iterations."""
        self._given = given
        self._places = places
        self.derived = DerivedRows(len(places))
        """The rows of the groups that are no longer in the table."""
        self._counted = 0
        """How many of the given rows are in `derived`."""
        self.state = np.zeros(STATE, np.int64)
        """See `dbsp.kernels.frontier`."""
        self.left = False
        """Whether the iterations have ended at the limit of work, or are expected to exceed it."""

    @abstractmethod
    def expand(self, joins: Codes, present: ChangedRows, limits: Codes) -> bool:
        """Iterate until no row becomes present, or to a limit; return whether that is so.

        False means that the table has to be called again: a call makes at most about as many
        matches as the limits say. `present` are the rows that were present before. The other
        parameters, cost and errors are those of `expand_frontier`.
        """

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

    def _new_given(self) -> Codes:
        """Return the given rows whose groups are in the table, in the columns of the stream."""
        before, self._counted = self._counted, self.given
        return self._given[before : self._counted].take(self._places, 1)
