"""Transact a streaming DataFrame into a database of facts: one micro-batch is one transaction.

The entity of the transaction has the id of Spark's query and the number of the micro-batch, so both
become durable with its facts. A micro-batch that Spark repeats is recognised by them and skipped.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from dbsp.data.values import encode_value
from dbsp.datomic import Connection, TransactionReport
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.table_transaction import prepare_columns, prepare_datoms
from dbsp.datomic.transaction import PreparedTransaction
from dbsp.edn.edn_values import Keyword
from dbsp.errors import CheckpointError, DbspError, InputError, SchemaError, choice, wrong_argument
from dbsp.spark.query_reports import QueryReport, keep_report
from dbsp.spark.session_kinds import refuse_connect

STREAM: Final = Keyword("dbsp.spark/stream")
BATCH: Final = Keyword("dbsp.spark/batch")
_SCHEMA: Final = [
    {
        ":db/ident": STREAM,
        ":db/valueType": ":db.type/string",
        ":db/cardinality": ":db.cardinality/one",
        ":db/doc": "The id of the Spark query whose micro-batch the transaction is.",
    },
    {
        ":db/ident": BATCH,
        ":db/valueType": ":db.type/long",
        ":db/cardinality": ":db.cardinality/one",
        ":db/doc": "The number of the micro-batch that the transaction is.",
    },
]


class Form(StrEnum):
    """What a row of a DataFrame is."""

    MAPS = "maps"
    DATOMS = "datoms"


class _Repeated(Exception):
    """The database has the micro-batch already."""


class DatabaseFeed:
    """Transacts each micro-batch of a query once."""

    def __init__(
        self, connection: Connection, form: Form, on_report: Callable[[TransactionReport], object] | None
    ) -> None:
        self._connection = connection
        self._form = form
        self._on_report = on_report

    def __call__(self, frame: Any, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise InputError(
                "expected a micro-batch of a streaming query; pass the function to writeStream.foreachBatch",
                code="spark-source",
            )
        outcome = QueryReport()
        keep_report(query, outcome)
        try:
            self._apply(frame, query, batch)
        except BaseException as error:
            if isinstance(error, DbspError):
                error.where = error.where or f"micro-batch {batch}"
            outcome.error = error
            if isinstance(error, Exception):
                raise
            # Unchanged, SystemExit would end the thread that has to answer Spark, and Spark would
            # wait.
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def _apply(self, frame: Any, query: str, batch: int) -> None:
        table = frame.toArrow()
        about = {STREAM: query, BATCH: batch}

        def prepare(facts: Facts, now: dt.datetime) -> PreparedTransaction:
            _check_next(facts, query, batch)
            if self._form is Form.DATOMS:
                return _from_datoms(facts, table, now, about)
            return _from_maps(facts, table, now, about)

        try:
            report = self._connection.transact_prepared(prepare)
        except _Repeated:
            return
        if self._on_report is not None:
            self._on_report(report)


def _check_next(facts: Facts, query: str, batch: int) -> None:
    """Raise _Repeated for a micro-batch that the database has, CheckpointError after a gap."""
    if _has(facts, query, batch):
        raise _Repeated
    if batch and not _has(facts, query, batch - 1):
        raise CheckpointError(
            f"the database lacks micro-batch {batch - 1} of Spark's query {query}, so it is older than the"
            " checkpoint of Spark, or another one; connect to the database that has it, or choose another"
            " checkpointLocation, which reads the stream from its start",
            code="checkpoint-other-query",
        )


def _has(facts: Facts, query: str, batch: int) -> bool:
    stream, number = facts.schema.attribute(STREAM), facts.schema.attribute(BATCH)
    code = encode_value(stream.type, query, facts.interner)
    # One transaction for each query that has got so far.
    return any(facts.values(tx, stream) == [code] for tx in facts.entities(number, batch))


def _from_maps(
    facts: Facts, table: pa.Table, now: dt.datetime, about: dict[Keyword, Any]
) -> PreparedTransaction:
    """Return the transaction of a table with one row per entity."""
    columns: dict[str, pa.ChunkedArray] = {}
    entities = None
    for column, values in zip(table.column_names, table.columns, strict=True):
        name = column if column.startswith(":") else f":{column}"
        if name in columns or (name == ":db/id" and entities is not None):
            raise SchemaError(f"the DataFrame has two columns {name}; drop one", code="duplicate-column")
        if name == ":db/id":
            entities = values
        else:
            columns[name] = values
    return prepare_columns(facts, columns, now=now, entities=entities, about=about)


def _from_datoms(
    facts: Facts, table: pa.Table, now: dt.datetime, about: dict[Keyword, Any]
) -> PreparedTransaction:
    """Return the transaction of a table with one row per fact."""
    names = table.column_names
    values = [name for name in names if name == "v" or name.startswith("v_")]
    known = {"e", "a", "added", "tx", *values}
    if not {"e", "a"} <= set(names) <= known or not values or len(set(names)) < len(names):
        raise SchemaError(
            "expected the columns e, a, v (or several such as v_long and v_string) and, optionally, added and"
            f" tx; got {', '.join(names)}",
            code="schema-mismatch",
        )
    for name, types, expected in (
        ("a", (pa.types.is_string, pa.types.is_large_string), "strings"),
        ("added", (pa.types.is_boolean,), "booleans"),
    ):
        if name in names and not any(is_type(table.schema.field(name).type) for is_type in types):
            raise SchemaError(
                f"column {name}: expected {expected}, got {table.schema.field(name).type}; cast the column",
                code="schema-mismatch",
            )
    return prepare_datoms(
        facts,
        table["e"],
        table["a"],
        {name: table[name] for name in values},
        table["added"] if "added" in names else None,
        now=now,
        about=about,
    )


def feed_database(
    connection: Any,
    *,
    form: str = "maps",
    on_report: Callable[[TransactionReport], object] | None = None,
) -> DatabaseFeed:
    """Return a function for `foreachBatch` that transacts a streaming DataFrame into a database.

    Every micro-batch is one transaction, all or nothing; a wrong row stops the query and changes
    nothing. The transaction's entity gets `:dbsp.spark/stream`, the id of Spark's query, and
    `:dbsp.spark/batch`, the number of the micro-batch: a micro-batch that Spark repeats after a
    crash is recognised and not applied again. With a `checkpointLocation`, every row is applied
    exactly once. Live queries of the connection have the change when the function returns.

    With `form="maps"` a row is an entity: the columns are attributes, named `person/name` or
    `:person/name`, and optionally `db/id`, an id or a tempid. Without it, a row is a new entity, or
    the known one with the same unique identity. A null asserts nothing; an array has several values
    of an attribute of cardinality many.

    With `form="datoms"` a row is a fact, with the columns `e` (an id or a tempid), `a` (the name of
    the attribute), `v`, and optionally `added`: false retracts the fact. Values of several types
    have several columns, such as `v_long` and `v_string`, of which each row uses one. A column `tx`
    is ignored.

    Spark lacks some types of values: keywords, symbols, URIs and UUIDs are strings, large integers
    decimals, tuples structs or arrays. Tempids are strings without a colon in front; they name an
    entity within one micro-batch.

    Parameters:
        connection: the connection to the database, as `dbsp.datomic.connect` returns it. The first
            use with a database defines the two attributes.
        form: "maps" or "datoms".
        on_report: a function that is called with the report of each transaction. After a crash it
            may have missed the last one.

    Returns:
        A function of a DataFrame and a batch id. Its errors are also those of
        `dbsp.spark.error(query)`.

    Raises:
        ArgumentError: the first argument is not a connection, or the form is unknown.
        InputError: the sessions of this process are those of Spark Connect.
        CheckpointError: the connection is read-only or closed.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":event/id": {":db/valueType": ":db.type/long"}})
        >>> rate = dbsp.spark.session().readStream.format("rate").load()
        >>> events = rate.selectExpr("value AS `event/id`")
        >>> writer = events.writeStream.foreachBatch(dbsp.spark.feed_database(conn))
        >>> writer.trigger(availableNow=True).start().awaitTermination()
    """
    if not isinstance(connection, Connection):
        raise wrong_argument("connection", "a connection of dbsp.datomic.connect", connection)
    refuse_connect("the connection")
    chosen = choice("form", Form, form)
    known = connection.sync().schema.by_ident
    if STREAM not in known or BATCH not in known:
        connection.transact(_SCHEMA)
    return DatabaseFeed(connection, chosen, on_report)
