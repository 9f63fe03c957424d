"""The rows that the iterations of a linear recursion derive: a table for each part of the groups.

Groups iterate on their own (`dbsp.kernels.frontier`), so several threads expand the tables of
different groups. All numbers and results are those of one table with all groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.data.batch import Batch, combine
from dbsp.errors import expect_present
from dbsp.kernels import narrow_rows, sort_owned
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.frontier import CALL_MATCHES, DERIVED, EMPTIED, LATEST, MATCHES, STARTED
from dbsp.kernels.narrow_rows import widened
from dbsp.kernels.thread_count import threads
from dbsp.kernels.thread_pool import in_pieces
from dbsp.kernels.tiers import interprets_small_calls
from dbsp.operators.groups.untimed_distinct_step import ChangedRows
from dbsp.operators.recursion.group_table import GroupTable
from dbsp.operators.recursion.row_table import RowTable, set_of
from dbsp.operators.recursion.value_table import Edges, ValueTable
from dbsp.state.sorted_run import SortedRun

ALONE = 1 << 19
"""The matches of one table before its other groups are divided among the threads: some 30 ms, in
which new tables would take as long as they gain."""

TABLES = 2
"""The tables for each thread, if there is more than one. Some take longer than others."""

CALL = 1 << 22
"""Calls of the kernel end after so many matches, so that signals arrive."""

INTERPRETED_CALL = 1 << 7
"""An interpreted call ends after so many matches: it is small, and a few of them cost less than the
load of the compiler."""


class RowTables:
    """Tables of the rows of consecutive groups."""

    __slots__ = (
        "_carried",
        "_derived",
        "_divided",
        "_edges",
        "_joined",
        "_ordered",
        "_places",
        "_tables",
        "joined_in_order",
    )

    def __init__(
        self, given: Batch, order: Sequence[int], carried: int, divided: bool, graph: Codes | None
    ) -> None:
        """Begin with rows that are present: they are the frontiers of the first iterations.

        `order` are the columns of the stream as the tables have them: the `carried` ones lead. If
        there is much to do, the groups are `divided` into several tables. `graph` are the joins, if
        they are edges between values.
        """
        same = list(order) == sorted(order)
        rows = given.rows if same else given.rearranged(np.array(order)).rows
        self._carried = carried
        self._divided = divided and carried > 0 and threads() > 1
        self._ordered = carried > 0 and same
        """Whether the derived rows are sorted, one piece after another."""
        self._places = np.argsort(order)
        self._edges = None if graph is None else Edges.of(rows, graph)
        self._tables = [self._table_of(rows)]
        self._derived = self._tables[0].derived
        """The rows of all tables, after `expand`."""
        self._joined: list[StoredRows] = []
        self.joined_in_order = False
        """Whether `joined` has one or two parts, which are sorted; else they are in any order."""

    def expand(self, joins: Codes, present: ChangedRows, limits: Codes) -> None:
        """Iterate until no row becomes present, or to a limit.

        `present` are the rows that were present before. The other parameters, cost and errors are
        those of `expand_frontier`, except that the method sets the limit of matches of a call.
        """
        waiting = self._tables
        while waiting:
            limits[CALL_MATCHES] = INTERPRETED_CALL if interprets_small_calls() else CALL
            if self._divided:
                limits[CALL_MATCHES] = min(limits[CALL_MATCHES], ALONE)
            waiting = _called(waiting, joins, present, limits)
            if waiting and self._divided and self.matches >= ALONE:
                waiting += self._divide()
        for table in self._tables[1:]:
            self._derived.take_over(table.derived)

    def _divide(self) -> list[GroupTable]:
        """Return new tables, which take the groups that have not started."""
        self._divided = False
        rest = self._tables[0].hand_over()
        parts = _by_groups(rest, self._carried, TABLES * threads())
        tables = [self._table_of(part) for part in parts]
        self._tables = self._tables + tables
        return tables

    def _table_of(self, given: Codes) -> GroupTable:
        if self._edges is None:
            return RowTable(given, self._places, self._carried)
        return ValueTable(given, self._places, self._edges)

    @property
    def left(self) -> bool:
        """Whether the iterations have ended at the limit of work, or are expected to exceed it."""
        return any(table.left for table in self._tables)

    @property
    def iterations(self) -> int:
        """The greatest number of iterations of a group."""
        return max(int(table.state[LATEST]) for table in self._tables)

    @property
    def matches(self) -> int:
        """The number of matches of all joins."""
        return self._total(MATCHES)

    @property
    def derivations(self) -> int:
        """The rows that the iterations have derived, each counted once in an iteration."""
        return self._total(DERIVED)

    @property
    def given(self) -> int:
        """The number of given rows whose groups have started."""
        return self._total(STARTED)

    @property
    def queued(self) -> int:
        """The number of rows that were given, or have become present."""
        return self._total(EMPTIED)

    @property
    def joins(self) -> int:
        """The number of rows whose matches have been found."""
        return sum(map(len, self._joined))

    def take(self) -> tuple[SortedRun | None, SortedRun | None]:
        """Return the rows with derivations, whose weights are the numbers of these, and those of
        them that have become present."""
        rows = self._derived
        copied = None if rows.all_present else rows.present()
        joined: list[StoredRows] = []
        if rows.set_aside:
            joined += rows.joined()
        else:
            given = np.concatenate([piece.given for piece in rows.pieces])
            self.joined_in_order = rows.size >= narrow_rows.LARGE
            joined.append(sort_owned(given) if self.joined_in_order and not self._ordered else given)
        derived = self._run(*rows.take()) if rows.size else None
        present = derived if copied is None else self._run(copied, None) if len(copied) else None
        if present is not None and not rows.set_aside:
            joined.append(present.codes)
        self._joined = joined
        return derived, None if present is None else SortedRun.of_ones(present.codes)

    def joined(self) -> list[StoredRows]:
        """Return the rows whose matches are in the tables, those of all frontiers.

        The rows have been taken.
        """
        return self._joined

    def waiting(self) -> Batch | None:
        """Return the frontiers that are set aside, and the given rows of groups that have not
        started."""
        waiting = [piece.waiting for piece in self._derived.pieces]
        return set_of(np.concatenate(waiting + [table.rest() for table in self._tables]))

    def _run(self, codes: StoredRows, counts: Codes | None) -> SortedRun:
        """Return a run of different rows that nobody else reads; None are counts of 1."""
        # The rows of one value table are sorted within each group only.
        if self._ordered or (self._edges is None and len(self._derived.pieces) == 1):
            return SortedRun.of_set(codes) if counts is None else SortedRun(codes, counts)
        # The second one of two columns is carried: the groups are in its order.
        turned = SortedRun.transposed([codes], 0, counts)
        if turned is not None:
            return turned
        if counts is None:
            return SortedRun.of_unsorted(codes)
        batch = expect_present(combine([(widened(codes), counts)], owned=True), "rows with derivations")
        return SortedRun.of(batch.rows, batch.weights)

    def _total(self, number: int) -> int:
        return sum(int(table.state[number]) for table in self._tables)


def _called(
    tables: Sequence[GroupTable], joins: Codes, present: ChangedRows, limits: Codes
) -> list[GroupTable]:
    """Call each table once; return those that have to be called again."""
    ended = in_pieces(len(tables), lambda number: tables[number].expand(joins, present, limits))
    return [table for table, end in zip(tables, ended, strict=True) if not end]


def _by_groups(rows: Codes, carried: int, parts: int) -> list[Codes]:
    """Return at most so many parts of sorted rows, of about equal lengths; none divides a group."""
    starts = [0]
    for part in range(1, parts):
        start = max(len(rows) * part // parts, 1)
        while start < len(rows) and (rows[start, :carried] == rows[start - 1, :carried]).all():
            start += 1
        if start > starts[-1]:
            starts.append(start)
    return [
        rows[start:end] for start, end in zip(starts, [*starts[1:], len(rows)], strict=True) if start < end
    ]
