"""What follows the transactions of a connection, such as live queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbsp.data.batch import Batch

if TYPE_CHECKING:
    from dbsp.datomic.transaction import PreparedTransaction


class TransactionListener:
    """Gets every transaction of a connection, in order, also those of other processes.

    A listener cannot stop a transaction: when `step` is called, the log has it. An error of `step`
    is kept in `error`, and the listener gets no more transactions until it sets `error` to None.
    """

    error: BaseException | None = None
    """The error that ended `step`, or None."""

    def step(self, prepared: PreparedTransaction, changes: dict[int, Batch]) -> None:
        """Read the change of a transaction: the traces of the indices that change are fresh.

        `changes` has the change of each attribute, with the columns e and v.
        """

    def committed(self) -> None:
        """Act on the transaction. The connection may be used, also for another transaction.

        An error of this method ends the call of `transact`, whose transaction is committed.
        """
