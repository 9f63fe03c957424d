"""A transaction that has started and has not ended.

An exception may end a transaction at any bytecode: a signal handler raises, an allocation fails. So
the connection notes the transaction before it changes anything. A transaction that the log has is
completed, any other one is undone. Both can be repeated: if an interrupt prevents it, the next use
of the connection does it.
"""

from __future__ import annotations

from dbsp.data.batch import Batch
from dbsp.datomic.indices import Indices
from dbsp.datomic.log_store import LogStore, StoredTransaction
from dbsp.datomic.transaction import PreparedTransaction
from dbsp.datomic.transaction_listener import TransactionListener


class OpenTransaction:
    """The work on one transaction.

    Parameters:
        indices: the indices that it changes.
        store: the log, or None for a database in memory.
        listeners: what to notify; the list is read when the transaction is decided.
    """

    def __init__(
        self,
        prepared: PreparedTransaction,
        indices: Indices,
        store: LogStore | None,
        listeners: list[TransactionListener],
    ) -> None:
        self.prepared = prepared
        self._indices = indices
        self._store = store
        self._listeners = listeners
        self._row: StoredTransaction | None = None
        self._changes: dict[int, Batch] = {}
        self._waiting: list[TransactionListener] | None = None
        """The listeners that have not seen the transaction yet."""
        self._stepping: TransactionListener | None = None
        self.notified: list[TransactionListener] = []
        """The listeners that have seen the transaction."""
        self.decided = False

    def apply(self) -> None:
        """Change the indices."""
        self._changes = self._indices.apply(self.prepared)

    def record(self, row: StoredTransaction | None) -> None:
        """Write the transaction to the log, which decides it; None if the log has it already."""
        if self._store is not None and row is not None:
            self._row = row
            self._store.append(row)
            self._store.commit()
        self.decided = True

    def settle(self) -> BaseException | None:
        """Complete a decided transaction, undo another one. If interrupted, call it again.

        Returns an interrupt that ended a listener, for the caller to raise.
        """
        if not self.decided and self._store is not None:
            if self._store.writing:
                self._store.rollback()
            elif self._row is not None and self._store.has(self._row):
                self.decided = True  # an interrupt came right after the commit
        if not self.decided:
            self._indices.rollback()
            return None
        interrupt = self._notify()
        self._indices.commit()
        return interrupt

    def _notify(self) -> BaseException | None:
        """Step the listeners that are left; return an interrupt that ended one of them."""
        if self._waiting is None:
            self._waiting = [each for each in self._listeners if each.error is None]
        interrupt: BaseException | None = None
        while self._waiting:
            listener = self._waiting[0]
            if self._stepping is listener:
                # The caller got the interrupt before, and calls again.
                listener.error = KeyboardInterrupt("an interrupt came while the listener read a transaction")
            else:
                self._stepping = listener
                try:
                    listener.step(self.prepared, self._changes)
                    self.notified.append(listener)
                except BaseException as error:
                    listener.error = error
                    if not isinstance(error, Exception):
                        interrupt = error
            del self._waiting[0]
            self._stepping = None
        return interrupt
