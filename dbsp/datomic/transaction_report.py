"""The result of a transaction."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from dbsp.datomic.datom import Datom
from dbsp.datomic.datom_rows import datoms_from
from dbsp.errors import counted

if TYPE_CHECKING:
    from dbsp.datomic.database import Database
    from dbsp.datomic.transaction import PreparedTransaction


class TransactionReport:
    """What a transaction did.

    Attributes:
        db_before: the database before the transaction.
        db_after: the database after it.
        t: the number of the transaction.
        tx: the id of its entity.
        tempids: the id of each entity that the transaction names by a tempid.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(open_schema=True)
        >>> report = conn.transact([{":db/id": "ada", ":name": "Ada"}])
        >>> report
        <TransactionReport t 1, 4 datoms>
        >>> report.tempids, report.db_before.basis_t, report.db_after.basis_t
        ({'ada': 1}, 0, 1)
    """

    def __init__(self, db_before: Database, db_after: Database, prepared: PreparedTransaction) -> None:
        self.db_before = db_before
        self.db_after = db_after
        self.t = prepared.t
        self.tx = prepared.tx
        self.tempids: dict[Any, int] = prepared.tempids
        self._rows = prepared.datoms

    @cached_property
    def tx_data(self) -> tuple[Datom, ...]:
        """The datoms that the transaction added to the log. Decoded at the first use, O(datoms)."""
        return tuple(datoms_from(self._rows, self.db_after.schema, self.db_after.interner))

    def __repr__(self) -> str:
        return f"<TransactionReport t {self.t}, {counted(len(self._rows), 'datom')}>"
