"""Deliver the changes of a live query over facts to a target of Spark.

    transaction t --> live query --> delta --> the target, as tick t

The number t of a transaction is the tick of its delta. Targets know the latest tick that they have,
so after a restart the live query replays the transactions after it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dbsp.datomic import Connection, Database, QueryDelta, Subscription
from dbsp.datomic.query import Functions, bind_live_query
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.datomic.time_points import TimePoint, number_of
from dbsp.errors import ArgumentError, DbspError, InputError, wrong_argument
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.spark.live_sink_record import LiveSinkCheckpoint, LiveSinkRecord, instant_of, query_text
from dbsp.spark.port_binding import sink_struct
from dbsp.spark.query_columns import QueryColumns, query_columns
from dbsp.spark.spark_types import arrow_types
from dbsp.spark.targets import FolderTarget, Opening, Target, local_path, target_of


class LiveSink:
    """A live query whose changes go to a target of Spark; `dbsp.spark.subscribe` makes one.

    Each transaction of the connection delivers its change before `transact` returns. An error of
    the target is raised there; the transaction is committed. The sink keeps the change and repeats
    it with the next one, or when `deliver` is called. A sink is a context manager, which closes it.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":name": {":db/valueType": ":db.type/string"}})
        >>> with dbsp.spark.subscribe(conn, "[:find ?n :where [_ :name ?n]]", target="out/names") as sink:
        ...     report = conn.transact([{":name": "Ada"}])
        ...     print(sink.t == report.t)
        True
    """

    def __init__(
        self,
        connection: Connection,
        columns: QueryColumns,
        operator: SparkSink,
        target: Target,
        checkpoint: LiveSinkCheckpoint,
    ) -> None:
        self._connection = connection
        self._columns = columns
        self._operator = operator
        self._target = target
        self._arrow = arrow_types(sink_struct(operator, columns.struct))
        self._checkpoint = checkpoint
        self._lock = threading.RLock()
        self._waiting: deque[QueryDelta] = deque()
        self._delivering = False
        self._view: Counter[tuple[Any, ...]] = Counter()
        """The rows after the latest tick, for a target that has the whole view."""
        record = checkpoint.record
        self._reached = max(record.since, record.reached, target.latest)
        self._live: Subscription | None = None

    def start(self, query: Any, inputs: Sequence[Any], functions: Functions, database: Database) -> None:
        """Deliver what the target lacks, and follow the transactions."""
        start = self._reached
        begins = start == self._checkpoint.record.since and self._target.latest < start
        if begins or self._operator.encoding == "view" or not start:
            with SHARED_LOCK:
                rows = bind_live_query(query, database.as_of(start), inputs, functions).rows()
            if rows and not start:
                raise InputError(
                    "the query has rows before the first transaction, since it reads the attributes of the"
                    " system, and ticks count from 1; subscribe after the first transaction",
                    where=self._operator.where,
                    code="invalid-argument",
                )
            if begins:
                self._arrive(QueryDelta(start, [(row, 1) for row in rows]))
            else:
                self._view.update(rows)
        self._live = self._connection.subscribe(
            query, *inputs, since=start, functions=functions, on_delta=self._arrive
        )

    @property
    def t(self) -> int:
        """The number of the latest transaction whose change has arrived."""
        return self._reached

    def _arrive(self, delta: QueryDelta) -> None:
        with self._lock:
            self._waiting.append(delta)
            self._flush()

    def _flush(self) -> None:
        """Deliver the waiting changes in their order; the first one stays until it has arrived."""
        if self._delivering:
            return  # the target has used the connection; the caller of the target continues
        self._delivering = True
        try:
            while self._waiting:
                self._write(self._waiting[0])
                self._reached = self._waiting.popleft().t
        finally:
            self._delivering = False

    def _write(self, delta: QueryDelta) -> None:
        replaces = self._operator.encoding == "view"
        if not (delta.rows or replaces):
            return
        try:
            view = self._view
            if replaces:
                view = view.copy()
                for row, weight in delta.rows:
                    view[row] += weight
            zset = self._columns.zset(() if replaces else delta.rows)
            table = self._operator.table(
                zset, lambda: self._columns.zset((row, n) for row, n in view.items() if n), self._arrow
            )
            self._target.write(table, delta.t)
            self._view = view
        except DbspError as error:
            error.where = error.where or self._operator.where
            raise

    def deliver(self) -> None:
        """Apply the transactions of other processes, and deliver all changes that wait.

        Raises:
            DbspError: the target has failed again, or a function of the query has raised an error,
                which has stopped the sink; start it again with `dbsp.spark.subscribe`.
            CheckpointError: the connection is closed.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn, other = connect("both", schema={":name": {}}), connect("both")
            >>> sink = dbsp.spark.subscribe(conn, "[:find ?e :where [?e :name]]", target="out/e")
            >>> report = other.transact([{":name": "Ada"}])
            >>> sink.deliver()
            >>> sink.t == report.t
            True
            >>> sink.close()
        """
        self._connection.sync()
        with self._lock:
            self._flush()
        if self._live is not None:
            self._live.deltas()  # raises the error that has stopped the live query

    def close(self) -> None:
        """Stop following transactions, and record what has arrived.

        The next start delivers changes that wait.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> sink = dbsp.spark.subscribe(conn, "[:find ?e :where [?e :name]]", target="out/closed")
            >>> sink.close()
        """
        live = self._live
        if live is None:
            return
        self._live = None
        live.close()
        try:
            # Changes of other threads arrive before this returns.
            with contextlib.suppress(DbspError):
                self._connection.sync()
                with self._lock:
                    if not self._waiting:
                        self._reached = max(self._reached, live.t)
            record = self._checkpoint.record
            record.reached = self._reached
            record.instant = instant_of(self._connection.db(), record.reached)
            record.delivered = max(record.delivered, self._target.latest)
            self._checkpoint.save()
        finally:
            self._checkpoint.release()

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
        return f"<LiveSink to {self._target.describe()}, t {self.t}>"


def subscribe(
    connection: Any,
    query: Any,
    *inputs: Any,
    target: Any,
    since: TimePoint | None = None,
    checkpoint: str | PathLike[str] | None = None,
    encoding: str = "weight",
    column: str = "",
    schema: Any = None,
    functions: Functions | None = None,
    session: Any = None,
    sync: bool = True,
) -> LiveSink:
    """Deliver the changes of a live query to a folder, a table or a function, each exactly once.

    The change by transaction t is tick t: the rows of the query with their weights, and in folders
    and tables a column `tick`. The first tick has the result of the query at the start. Each
    transaction delivers its change before `transact` returns.

    With a checkpoint, a later call continues after the latest tick of the target, even if the
    process ended at any time, by replaying the transactions after it. The guarantees of each target
    are those of `dbsp.spark.Pipeline.sink`.

    Parameters:
        connection: the connection to the database.
        query: the query, as for `conn.subscribe`. Its variables name the columns, `:keys` renames
            them. Maps of pull expressions have no columns.
        inputs: the other arguments of the query.
        target: as for `Pipeline.sink`: a folder, the name of a table, or a function(DataFrame, t).
        since: the transaction to start at, by default the latest one. A sink that continues ignores
            it.
        checkpoint: a folder for the record of the sink, on this machine.
        encoding: "weight", "operations", "append" or "view", as for `Pipeline.sink`.
        column: the column of the weight or operation.
        schema: the Spark types (StructType or DDL) of columns other than longs, refs, doubles and
            strings. A string column takes keywords, symbols and UUIDs.
        functions: the functions of the query, as for `conn.subscribe`.
        session: the SparkSession of tables and functions; by default the active one.
        sync: whether written files survive a power failure.

    Returns:
        The sink, which follows the transactions until it is closed.

    Raises:
        ArgumentError: the first argument is not a connection, or the database does not have the
            transaction of `since`.
        CompileError: the query has errors.
        SchemaError: a column has no Spark type, or no name of its own.
        InputError: the target or the encoding is unknown, or the query has a limit or a pull
            expression.
        CheckpointError: the target has the data of another sink, or lost ticks; the checkpoint is
            of another query; or the database lacks transactions that the sink has.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":name": {":db/valueType": ":db.type/string"}})
        >>> def show(frame, t):
        ...     print(t, frame.collect())
        >>> names, session = "[:find ?n :where [_ :name ?n]]", dbsp.spark.session()
        >>> with dbsp.spark.subscribe(conn, names, target=show, session=session):
        ...     _ = conn.transact([{":name": "Ada"}])
        2 [Row(n='Ada', weight=1)]
    """
    if not isinstance(connection, Connection):
        raise wrong_argument("connection", "a connection of dbsp.datomic.connect", connection)
    called = functions or {}
    database = connection.sync()
    with SHARED_LOCK:
        bound = bind_live_query(query, database, inputs, called)
    if bound.query.limit is not None or bound.query.offset:
        raise InputError(
            "a sink receives all rows of a query, so :limit and :offset have no meaning; remove them",
            code="invalid-argument",
        )
    columns = query_columns(bound, schema)
    operator = SparkSink(_name_of(target), columns.schema, encoding, column)
    struct = sink_struct(operator, columns.struct)
    folder = None if checkpoint is None else local_path(checkpoint, "checkpoint")
    session = _session(session, target)
    begin = database.basis_t if since is None else number_of(since, database.indices.log, "subscribe")
    if begin > database.basis_t:
        raise ArgumentError(
            f"since: expected a transaction of the database, which ends at {database.basis_t}, got {begin}"
        )
    now = LiveSinkRecord(
        query=query_text([query, *inputs]),
        target=target_of(target, session, None).kind,
        encoding=encoding,
        schema=struct.jsonValue(),
        since=begin,
        reached=begin,
        instant=instant_of(database, begin),
    )
    try:
        state = LiveSinkCheckpoint(folder, now, sync)
        try:
            opened = target_of(target, session, state.ledger)
            new = not state.record.opened
            opened.open(Opening(state.record.id, struct, encoding == "view", new, sync))
            state.check_database(database, opened)
            if new:
                state.record.opened = True
                state.save()
            sink = LiveSink(connection, columns, operator, opened, state)
            sink.start(query, inputs, called, database)
        except BaseException:
            state.release()
            raise
    except DbspError as error:
        error.where = error.where or operator.where
        raise
    return sink


def _session(session: Any, target: Any) -> Any:
    """Return the session for a target; None for folders, which need none."""
    if session is not None or isinstance(target_of(target, None, None), FolderTarget):
        return session
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        raise InputError(
            "no session is active for the table or the function of the sink; pass session=...",
            code="spark-sink",
        )
    return active


def _name_of(target: Any) -> str:
    """Return a short name of a target, for errors."""
    if callable(target):
        return getattr(target, "__name__", type(target).__name__)
    return Path(str(target)).name or "live query"
