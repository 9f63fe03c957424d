"""Connections: a database that transactions change.

A transaction is prepared on the current facts, applied to the indices, and written to the log,
which decides it; then the listeners and the indices complete it. Any failure before that undoes it.
Several processes may connect to one folder: a writer locks the log, and first applies what others
have written.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.datomic.database import Database, TransactionReport
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.indices import Indices
from dbsp.datomic.log_loading import (
    decode_stored,
    encode_prepared,
    encode_segment,
    load,
    new_indices,
    prepared_from,
)
from dbsp.datomic.log_store import LogStore
from dbsp.datomic.open_transaction import OpenTransaction
from dbsp.datomic.query import Functions, bind_live_query
from dbsp.datomic.schema_data import schema_transaction
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.datomic.subscription import QueryDelta, Subscription
from dbsp.datomic.table_transaction import prepare_columns
from dbsp.datomic.time_points import TimePoint, number_of
from dbsp.datomic.transaction import PreparedTransaction, prepare
from dbsp.datomic.transaction_listener import TransactionListener
from dbsp.datomic.transaction_log import LoggedTransaction, TransactionLog
from dbsp.errors import (
    ArgumentError,
    CheckpointError,
    CheckpointWarning,
    CircuitError,
    choice,
    wrong_argument,
)


class Durability(StrEnum):
    """When a transaction is on the disk."""

    COMMIT = "commit"
    GROUP = "group"


DurabilityName: TypeAlias = Literal["commit", "group"]
"""The name of a value."""


SEGMENT: Final = 4096
"""After this many transactions, the log gets a segment of them."""

SEGMENT_AT_CLOSE: Final = 512
"""With fewer transactions than this, `close` writes no segment: they are read in no time."""


class Connection:
    """A connection to a database, as `connect` returns it.

    A connection serves one transaction at a time; others, in other threads, wait. Database values
    may be read from any thread. It is a context manager, which closes it.
    """

    def __init__(self, name: str, indices: Indices, store: LogStore | None, read_only: bool) -> None:
        self._name = name
        self._indices = indices
        self._store = store
        self._read_only = read_only
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._frame: FrameType | None = None
        """The latest call that took the lock, until it notifies the listeners."""
        self._work: OpenTransaction | None = None
        self._closed = False
        self._db = Database(indices.snapshot())
        self._listeners: list[TransactionListener] = []
        self._committed: deque[TransactionListener] = deque()
        """The listeners that have seen a transaction and do not know of its commit yet."""
        self._notifying = threading.RLock()
        """Held while listeners act on commits, so that they act in the order of transactions."""
        self._segmented = 0 if store is None else store.segmented()
        if store is not None:
            weakref.finalize(self, _close_store, store, self._process)

    # --- transactions -----------------------------------------------------------------------------

    def transact(self, tx_data: Any) -> TransactionReport:
        """Execute a transaction, and return when it is durable.

        It is all or nothing: after an error the database is as it was before. Cost: O(n log n) for
        n operations, plus one fsync with `durability="commit"`.

        Parameters:
            tx_data: a list of operations and maps, as Python data, EDN text, or a form that
                `dbsp.edn.read_forms` has returned.

        Returns:
            A report with the database before and after it, its datoms and its tempids.

        Raises:
            InputError: an operation is not acceptable.
            SchemaError: the transaction uses an unknown attribute.
            CheckpointError: the log cannot be written, or the connection is closed.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {":db/valueType": ":db.type/string"}})
            >>> report = conn.transact([{":db/id": "ada", ":name": "Ada"}])
            >>> report.db_after.datoms(":aevt", ":name")[0].v
            'Ada'
        """

        return self._transact(lambda now: prepare(self._indices, tx_data, now=now, database=self._db))

    def transact_table(self, table: Any, *, entities: Any = None, key: Any = None) -> TransactionReport:
        """Execute the transaction that asserts the values of a table: one row is one entity.

        Columns are converted as a whole: millions of values per second. A missing value asserts
        nothing.

        Parameters:
            table: a mapping from attributes to columns, or a data frame whose columns have the
                names of attributes. A column is a list, an array of NumPy or Arrow, or a series of
                pandas or Polars. In an Arrow list, an attribute of cardinality many has several
                values. In Arrow, texts stand for symbols and UUIDs, structs for tuples.
            entities: the column of the entities. None: each row is a new entity, or the known one
                with the same unique identity.
            key: a unique attribute among the columns that finds known entities, also if it is only
                `:db.unique/value`; each row needs a value of it.

        Returns:
            A report, as for `transact`.

        Raises:
            InputError: a value is not acceptable; the message has its column and row.
            SchemaError: a column is not an attribute.
            CheckpointError: the log cannot be written, or the connection is closed.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True, schema={":name": {}, ":born": {}})
            >>> conn.transact_table({":name": ["Ada", "Alan"], ":born": [1815, 1912]})
            <TransactionReport t 2, 5 datoms>
        """
        return self._transact(
            lambda now: prepare_columns(self._indices, table, now=now, entities=entities, key=key)
        )

    def transact_prepared(
        self, prepare_at: Callable[[Facts, dt.datetime], PreparedTransaction]
    ) -> TransactionReport:
        """Execute the transaction that a function prepares from the current facts, for a time.

        No other transaction comes between the function and its transaction.
        """
        return self._transact(lambda now: prepare_at(self._indices, now))

    def _transact(self, prepare_at: Callable[[dt.datetime], PreparedTransaction]) -> TransactionReport:
        """Execute the transaction that a function prepares for a time."""
        self._check_use("transact")
        with self._lock:
            self._start_use("transact", sys._getframe())
            self._check_writable()
            self._begin()
            report = self._execute(prepare_at)
            self._write_segment(SEGMENT)
            self._frame = None
        self._call_committed()
        return report

    def _define(self, schema: Any) -> None:
        """Execute the transaction that defines a schema, unless the database has it already."""
        with self._lock:
            self._start_use("connect", sys._getframe())
            self._check_writable()
            self._begin()
            try:
                with self._indices.lock:
                    prepared = prepare(self._indices, schema, now=dt.datetime.now(dt.UTC), file="<schema>")
                # The time of the transaction is always one of its datoms.
                if len(prepared.datoms) > 1:
                    self._execute(lambda now: prepared)
            finally:
                self._settle()

    def _begin(self) -> None:
        """Become the only writer of the log, and apply the transactions of others."""
        if self._store is not None:
            try:
                self._store.begin()
                self._catch_up()
            except BaseException:
                self._settle()
                raise

    def _execute(self, prepare_at: Callable[[dt.datetime], PreparedTransaction]) -> TransactionReport:
        before = self._db
        try:
            with self._indices.lock:
                prepared = prepare_at(dt.datetime.now(dt.UTC))
            work = self._work = OpenTransaction(prepared, self._indices, self._store, self._listeners)
            work.apply()
            work.record(None if self._store is None else encode_prepared(prepared, self._indices))
        finally:
            self._settle()
        return TransactionReport(before, self._db, prepared)

    def _catch_up(self) -> None:
        """Apply the transactions that other processes have written."""
        store, indices = self._store, self._indices
        if store is None:
            return
        for row in store.read_after(indices.basis_t):
            with indices.lock:
                prepared = prepared_from(decode_stored(store, row, indices.interner), indices)
            work = self._work = OpenTransaction(prepared, indices, None, self._listeners)
            try:
                work.apply()
                work.record(None)
            finally:
                self._settle_work()

    def _settle(self) -> None:
        """Complete or undo what a transaction has left, and let other writers in."""
        self._settle_work()
        if self._store is not None and self._store.writing:
            self._store.rollback()

    def _settle_work(self) -> None:
        work = self._work
        if work is None:
            return
        interrupt = work.settle()
        if self._db.basis_t != self._indices.basis_t:
            self._db = Database(self._indices.snapshot())
        self._committed += work.notified
        self._work = None
        if interrupt is not None:
            raise interrupt

    def _call_committed(self) -> None:
        with self._notifying:
            while self._committed:
                self._committed.popleft().committed()

    # --- reading ----------------------------------------------------------------------------------

    def db(self) -> Database:
        """Return the current database, a value that later transactions do not change. O(1).

        Returns:
            The database after the latest transaction of this connection.

        Raises:
            CheckpointError: the connection belongs to another process.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect()
            >>> before = conn.db()
            >>> report = conn.transact([{":db/doc": "something"}])
            >>> before.basis_t, conn.db().basis_t
            (0, 1)
        """
        self._check_process()
        if self._work is not None and not self._lock.locked():
            # An interrupt has ended a transaction; complete or undo it first.
            with self._lock:
                self._settle()
        return self._db

    def sync(self) -> Database:
        """Apply the transactions that other processes have written to the folder.

        A connection also does so at the start of each transaction. Cost: that of the transactions.

        Returns:
            The current database.

        Raises:
            CheckpointError: the log cannot be read, or the connection is closed.

        Examples:
            >>> from dbsp.datomic import connect
            >>> first, second = connect("shared"), connect("shared")
            >>> _ = first.transact([{":db/doc": "something"}])
            >>> second.db().basis_t, second.sync().basis_t
            (0, 1)
            >>> first.close(); second.close()
        """
        self._check_use("sync")
        with self._lock:
            self._start_use("sync", sys._getframe())
            try:
                self._catch_up()
            finally:
                self._settle()
            self._frame = None
        self._call_committed()
        return self._db

    @ends_at_caller
    def subscribe(
        self,
        query: Any,
        *inputs: Any,
        since: TimePoint | None = None,
        functions: Functions | None = None,
        on_delta: Callable[[QueryDelta], Any] | None = None,
    ) -> Subscription:
        """Make a query live: its rows now, and the exact change by every later transaction.

        Cost: that of the query. A transaction then costs what it changes in the query, whatever the
        size of the database.

        Parameters:
            query: the query, as EDN text or Python data. Its source `$` is this connection.
            inputs: the other arguments, in the order of `:in`.
            since: start with the database as of this point in time: t, a transaction's id, or a
                time with a zone. The changes of all later transactions are replayed first.
            functions: Python functions and aggregates by the names that the query calls them. They
                must depend on their arguments only.
            on_delta: called with each change after its transaction is committed; it may use the
                connection. Without it the changes wait for `Subscription.deltas`.

        Returns:
            The live query.

        Raises:
            CompileError: the query has errors; the text shows each with its line.
            InputError: an argument does not fit `:in`.
            EvaluationError: a function of the query raises an error.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":age": {":db/valueType": ":db.type/long"}})
            >>> first = conn.transact([[":db/add", 1, ":age", 17]])
            >>> live = conn.subscribe("[:find ?e :in $ ?least :where [?e :age ?a] [(>= ?a ?least)]]", 18)
            >>> _ = conn.transact([[":db/add", 1, ":age", 18]])
            >>> live.deltas()
            [QueryDelta(t=3, rows=[((1,), 1)])]
            >>> conn.subscribe("[:find ?a :where [_ :age ?a]]", since=first.t).deltas()
            [QueryDelta(t=3, rows=[((17,), -1), ((18,), 1)])]
        """
        self._check_use("subscribe")
        with self._lock, self._indices.lock:
            self._start_use("subscribe", sys._getframe())
            start = None if since is None else number_of(since, self._indices.log, "subscribe")
            database = self._db if start is None else self._db.as_of(start)
            bound = bind_live_query(query, database, inputs, functions or {})
            live = Subscription(bound, self._indices, start, self._unsubscribe, on_delta)
            self._listeners.append(live)
            self._frame = None
        with self._notifying:
            try:
                live.committed()
            except BaseException:
                live.close()
                raise
        return live

    def _unsubscribe(self, live: Subscription) -> None:
        with contextlib.suppress(ValueError):  # a second call
            self._listeners.remove(live)

    @property
    def log(self) -> TransactionLog:
        """The transactions up to the current database."""
        self._check_process()
        return TransactionLog(self._db.base)

    def tx_range(
        self, start: TimePoint | None = None, end: TimePoint | None = None
    ) -> Iterator[LoggedTransaction]:
        """Return the transactions from `start` (included) to `end` (excluded).

        Cost: O(log n + datoms); each transaction is decoded when it is reached.

        Parameters:
            start: the first transaction: its t, its id, or a time with a zone. None: the first one.
            end: the transaction after the last one, likewise. None: there is no end.

        Returns:
            An iterator over the transactions, with their datoms.

        Raises:
            ArgumentError: `start` or `end` is not a point in time.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True)
            >>> _ = conn.transact([[":db/add", 1, ":name", "Ada"]])
            >>> [(each.t, each.datoms[0].v) for each in conn.tx_range()]
            [(1, 'Ada')]
        """
        return self.log.tx_range(start, end)

    # --- closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Make all transactions durable, and close the log. A second call does nothing.

        Database values can still be read.

        Raises:
            CheckpointError: the log cannot be written.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect("closed")
            >>> conn.close()
            >>> conn.db().basis_t
            0
        """
        self._check_use("close")
        with self._lock:
            if self._closed:
                return
            self._start_use("close", sys._getframe())
            try:
                if self._store is not None:
                    if not self._read_only:
                        self._write_segment(SEGMENT_AT_CLOSE)
                    self._store.close()
            finally:
                self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ", read-only" if self._read_only else ""
        return f"<Connection to {self._name}, t {self._db.basis_t}{state}>"

    # --- use --------------------------------------------------------------------------------------

    # A `with` statement on the lock itself releases it after any interrupt; a context manager in
    # Python may be interrupted, too.

    def _check_use(self, name: str) -> None:
        """Raise an error if a caller of this method is a transaction, which has the lock."""
        self._check_process()
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame is self._frame:
                raise CircuitError(
                    f"{name}: a transaction is running and has called this method; call it after the "
                    "transaction",
                    code="transaction-in-progress",
                )
            frame = frame.f_back

    def _start_use(self, name: str, frame: FrameType) -> None:
        """Complete or undo earlier work; the caller, in this frame, has the lock."""
        if self._closed:
            raise CheckpointError(
                f"{name}: the connection to {self._name} is closed; connect again", code="connection-closed"
            )
        self._frame = frame
        self._settle()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise CheckpointError(
                f"the connection to {self._name} belongs to process {self._process}, from which this process "
                "was forked; connect again in the forked process",
                code="checkpoint-in-use",
            )

    def _check_writable(self) -> None:
        if self._read_only:
            raise CheckpointError(
                f"transact: {self._name} is connected with read_only=True; connect without it to write",
                code="checkpoint-write",
            )

    def _write_segment(self, least: int) -> None:
        """Write the transactions since the last segment as one, if they are at least so many."""
        store, last = self._store, self._indices.basis_t
        if store is None or last - self._segmented < least:
            return
        try:
            store.begin()
            try:
                self._segmented = max(store.segmented(), self._segmented)
                if last > self._segmented:
                    first = self._segmented + 1
                    store.write_segment(first, last, encode_segment(self._indices, first, last))
                    store.commit()
                    self._segmented = last
            finally:
                store.rollback()
        except CheckpointError as error:
            warnings.warn(
                f"{self._name}: no segment was written, so the next connection takes longer; {error.message}",
                CheckpointWarning,
                stacklevel=3,
            )


def connect(
    path: str | os.PathLike[str] = ":memory:",
    *,
    schema: Any = None,
    open_schema: bool = False,
    read_only: bool = False,
    durability: Durability | DurabilityName = Durability.COMMIT,
) -> Connection:
    """Connect to a database, and create it if it does not exist.

    The folder of a database has the file `log.sqlite`, the log of its transactions, and belongs to
    any number of processes. Opening reads the log: about one second per million datoms.

    Parameters:
        path: the folder of the database; ":memory:" for a new database that is not stored.
        schema: attributes to define: a map from names to definitions, as in DataScript, or
            transaction data. What the database has already stays as it is.
        open_schema: whether transactions may use attributes without defining them; such an
            attribute accepts any value. A property of the database, stored in it.
        read_only: whether the connection only reads, and picks up transactions by `sync`.
        durability: "commit" if each transaction is on the disk when `transact` returns; "group" if
            transactions share an fsync, at most 10 ms later. Both survive the end of the process in
            any way; the transactions of these milliseconds may not survive a power loss.

    Returns:
        The connection.

    Raises:
        CheckpointError: the folder cannot be read or written, or is damaged.
        ArgumentError: an option has another value, or the database was created without
            `open_schema`.
        InputError: the schema is not valid.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect("people", schema={":name": {":db/valueType": ":db.type/string"}})
        >>> _ = conn.transact([{":name": "Ada"}])
        >>> conn.close()
        >>> connect("people", read_only=True)
        <Connection to people, t 2, read-only>
    """
    group = choice("durability", Durability, durability) is Durability.GROUP
    if not isinstance(path, str | os.PathLike):
        raise wrong_argument("path", "a folder or ':memory:'", path)
    name = os.fspath(path)
    if name == ":memory:":
        if read_only:
            raise ArgumentError("read_only: a database in memory is new and empty; give the path of a folder")
        connection = Connection(name, new_indices(open_schema), None, False)
    else:
        meta = {"open_schema": str(open_schema).lower()}
        store = LogStore(Path(name), meta, read_only=read_only, group=group)
        try:
            stored_open = store.meta("open_schema") == "true"
            if open_schema and not stored_open:
                raise ArgumentError(
                    f"open_schema: the database in {name} was created without it; define the attributes by "
                    "transactions"
                )
            with SHARED_LOCK:
                indices = load(store, stored_open)
            connection = Connection(name, indices, store, read_only)
        except BaseException:
            store.close()
            raise
    if schema is not None:
        connection._define(schema_transaction(schema))
    return connection


def _close_store(store: LogStore, process: int) -> None:
    """Close the log of a connection that nobody has closed; a forked child leaves it alone."""
    if os.getpid() == process:
        store.close()
