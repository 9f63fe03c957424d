"""Read the result of a database query by chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from dbsp.data.column_chunks import Chunk, RowSource
from dbsp.data.schema import Schema
from dbsp.data.table_forms import reader_chunks
from dbsp.errors import DbspError, InputError, cause_text, shorten, wrong_argument

_FETCHED_ROWS = 2**14


def read_database(
    query: str, connection: Any, *, parameters: Sequence[Any] | Mapping[str, Any] | None = None
) -> RowSource:
    """Return the rows of a query as a change for `Run.step`, `insert` and `Program.start`.

    The query runs when the rows are needed, and its result is fetched by chunks. The columns of the
    result match those of the relation by name; name them in the query (`select id as sale_id`).
    A connection that returns Arrow data (ADBC, DuckDB) is read by column. Others return Python
    rows, which are slower.

    Parameters:
        query: the text of a query.
        connection: a connection of the Python database API (sqlite3, psycopg, ...), of ADBC, of
            DuckDB or of SQLAlchemy, or an engine of SQLAlchemy. It stays open.
        parameters: the values of the query's parameters, in the notation of the connection.

    Raises:
        ArgumentError: `query` is not a text, or `connection` is not a connection.

    Examples:
        >>> import sqlite3
        >>> database = sqlite3.connect(":memory:")
        >>> _ = database.execute("create table sale (id integer, shop text)")
        >>> _ = database.execute("insert into sale values (1, 'north'), (2, 'south')")
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", shop=str, id=int))
        >>> sales = dbsp.read_database("select * from sale where id > ?", database, parameters=[1])
        >>> circuit.start().step({"sale": sales})["all"].to_dict()
        {('south', 2): 1}
    """
    if not isinstance(query, str):
        raise wrong_argument("query", "the text of a query", query)
    known = ("cursor", "exec_driver_sql", "connect")
    if not any(callable(getattr(connection, name, None)) for name in known):
        raise wrong_argument("connection", "a connection to a database", connection)
    return DatabaseRows(query, connection, parameters)


class DatabaseRows(RowSource):
    """The rows of the result of a query."""

    def __init__(self, query: str, connection: Any, parameters: Any) -> None:
        self._query = query
        self._connection = connection
        self._arguments: tuple[Any, ...] = ()
        if parameters is not None:
            self._arguments = (parameters if isinstance(parameters, Mapping) else tuple(parameters),)

    def __repr__(self) -> str:
        return f"<rows of {shorten(self._query)}>"

    def chunks(self, schema: Schema) -> Iterator[Chunk]:
        steps = self._steps()
        while True:
            try:
                chunk = next(steps, None)
            except (DbspError, MemoryError):
                raise
            except Exception as error:
                raise InputError(
                    cause_text(error), where=f"query {shorten(self._query)}", code="database-error"
                ) from error
            if chunk is None:
                return
            yield chunk

    def _steps(self) -> Iterator[Chunk]:
        import pyarrow as pa

        connection = self._connection
        if type(connection).__name__ == "DuckDBPyConnection":
            place = f"query {shorten(self._query)}"
            result = connection.sql(self._query, params=self._arguments[0] if self._arguments else None)
            if result is None:
                raise _without_result(place)
            yield from reader_chunks(pa.RecordBatchReader.from_stream(result), 1, place)
        elif not hasattr(connection, "cursor") and hasattr(connection, "connect"):
            with connection.connect() as opened:  # an engine of SQLAlchemy
                opened = opened.execution_options(stream_results=True)
                yield from self._fetched(opened.exec_driver_sql(self._query, *self._arguments))
        elif hasattr(connection, "exec_driver_sql"):
            yield from self._fetched(connection.exec_driver_sql(self._query, *self._arguments))
        else:
            cursor = connection.cursor()
            try:
                cursor.execute(self._query, *self._arguments)
                yield from self._fetched(cursor)
            finally:
                cursor.close()

    def _fetched(self, cursor: Any) -> Iterator[Chunk]:
        place = f"query {shorten(self._query)}"
        if hasattr(cursor, "fetch_record_batch"):  # ADBC
            yield from reader_chunks(cursor.fetch_record_batch(), 1, place)
            return
        names = _names(cursor)
        if names is None:
            raise InputError(
                "expected a query with a result, got a statement without one",
                where=place,
                code="database-error",
            )
        yield Chunk(names, [[]] * len(names), 0, 1, place)  # so that the names are checked
        first = 1
        while rows := cursor.fetchmany(_FETCHED_ROWS):
            yield Chunk(
                names, [list(map(itemgetter(j), rows)) for j in range(len(names))], len(rows), first, place
            )
            first += len(rows)


def _without_result(place: str) -> InputError:
    return InputError(
        "expected a query with a result, got a statement without one", where=place, code="database-error"
    )


def _names(cursor: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a result; None if there is no result."""
    if hasattr(cursor, "keys"):
        return tuple(cursor.keys()) if cursor.returns_rows else None
    return None if cursor.description is None else tuple(column[0] for column in cursor.description)
