"""What follows the transactions of a connection, such as live queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from dbsp.data.batch import Batch

if TYPE_CHECKING:
    from dbsp.datomic.indices import Indices


class TransactionListener(Protocol):
    """Gets every transaction of a connection, in order, also those of other processes.

    A listener cannot stop a transaction: when `step` is called, the log has it.
    """

    def step(self, indices: Indices, t: int, changed: Mapping[int, Batch]) -> None:
        """Read the change of a transaction: the traces that change are fresh.

        `changed` has the change of each attribute, with the columns e and v. The listener keeps an
        error to itself; only interrupts are raised, after the transaction is completed.
        """

    def fail(self, error: BaseException) -> None:
        """Take note that `step` may have been interrupted, so that its result is incomplete."""

    def notify(self) -> None:
        """Act on the transaction after its commit, such as by another transaction."""
