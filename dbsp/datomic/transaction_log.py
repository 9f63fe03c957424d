"""The log of a database as users read it: transactions with their datoms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

from dbsp.datomic.bootstrap import START
from dbsp.datomic.datom import Datom
from dbsp.datomic.datom_rows import datoms_from
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.frozen_facts import FrozenFacts
from dbsp.datomic.indices import microseconds
from dbsp.datomic.time_points import TimePoint, number_of


class LoggedTransaction(NamedTuple):
    """A transaction of the log.

    Attributes:
        t: its number.
        tx: the id of its entity.
        instant: its time.
        datoms: what it asserted and retracted.
    """

    t: int
    tx: int
    instant: dt.datetime
    datoms: tuple[Datom, ...]


class TransactionLog:
    """The transactions of a database up to the time when this object was made.

    Iterating yields each `LoggedTransaction`, from t = 1; `len` is their number.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(open_schema=True)
        >>> _ = conn.transact([[":db/add", 1, ":name", "Ada"]])
        >>> _ = conn.transact([[":db/add", 1, ":name", "Grace"]])
        >>> [(each.t, [datom.v for datom in each.datoms if datom.e == 1]) for each in conn.log]
        [(1, ['Ada']), (2, ['Ada', 'Grace'])]
    """

    __slots__ = ("_facts",)

    def __init__(self, facts: FrozenFacts) -> None:
        self._facts = facts

    def tx_range(
        self, start: TimePoint | None = None, end: TimePoint | None = None
    ) -> Iterator[LoggedTransaction]:
        """Return the transactions from `start` (included) to `end` (excluded).

        Cost: O(log n + datoms); each transaction is decoded when it is reached.

        Parameters:
            start: the first transaction: its t, its id, or a time with a zone. None: the first one.
            end: the transaction after the last one, likewise. None: there is no end.

        Returns:
            An iterator over the transactions.

        Raises:
            ArgumentError: `start` or `end` is not a point in time.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True)
            >>> reports = [conn.transact([{":number": number}]) for number in range(5)]
            >>> [each.t for each in conn.log.tx_range(2, reports[3].tx)]
            [2, 3]
        """
        first = 1 if start is None else self._number(start, "start")
        last = self._facts.basis_t if end is None else self._number(end, "end") - 1
        return map(self._transaction, range(first, min(last, self._facts.basis_t) + 1))

    def _number(self, point: TimePoint, name: str) -> int:
        """Return the first transaction at a point in time or after it."""
        if isinstance(point, dt.datetime) and point.tzinfo is not None:
            log = self._facts.log
            return log.latest_until(microseconds(point) - 1, log.transactions) + 1
        return number_of(point, self._facts.log, name)

    def _transaction(self, t: int) -> LoggedTransaction:
        facts = self._facts
        log = facts.log
        rows = log.rows(log.start(t), log.start(t + 1))
        datoms = datoms_from(rows, facts.schema, facts.interner)
        instant = START + dt.timedelta(microseconds=log.instant(t))
        return LoggedTransaction(t, TX0 + t, instant, tuple(datoms))

    def __iter__(self) -> Iterator[LoggedTransaction]:
        return self.tx_range()

    def __len__(self) -> int:
        return self._facts.basis_t

    def __repr__(self) -> str:
        return f"<TransactionLog of {len(self)} transactions>"
