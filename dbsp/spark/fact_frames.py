"""Read facts as DataFrames: the rows of a query, and datoms."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from dbsp.datomic import Database, Datom
from dbsp.datomic.compiled_query import query_cache
from dbsp.datomic.query import Functions, bind_query
from dbsp.datomic.query_results import selected_rows
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.edn.edn_values import Char, Keyword, Symbol
from dbsp.errors import SchemaError, shorten, wrong_argument
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.spark.query_columns import query_columns
from dbsp.spark.spark_types import arrow_types, as_struct

_DATOMS: Final = {
    "e": "long",
    "a": "string",
    "v_long": "long",
    "v_double": "double",
    "v_boolean": "boolean",
    "v_string": "string",
    "v_instant": "timestamp",
    "v_bytes": "binary",
    "v_decimal": "decimal(38, 18)",
    "tx": "long",
    "added": "boolean",
}
"""The columns of datoms, with their types in Spark."""

_COLUMNS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "v_boolean"),
    (int, "v_long"),
    (float, "v_double"),
    (str, "v_string"),
    (dt.datetime, "v_instant"),
    (bytes, "v_bytes"),
    (Decimal, "v_decimal"),
)
"""The column of the values of a class; bool first, since it is an int."""


def query_frame(
    session: Any, query: Any, *inputs: Any, schema: Any = None, functions: Functions | None = None
) -> Any:
    """Return the rows of a query over facts as a DataFrame.

    Parameters:
        session: the SparkSession of the DataFrame.
        query: the query, as for `dbsp.datomic.q`. Its variables name the columns, `:keys` renames
            them. Maps of pull expressions have no columns.
        inputs: the databases and the other arguments of the query.
        schema: the Spark types (StructType or DDL) of columns other than longs, refs, doubles and
            strings. A string column takes keywords, symbols and UUIDs.
        functions: the functions of the query, as for `q`.

    Returns:
        A DataFrame.

    Raises:
        CompileError: the query has errors.
        InputError: an argument does not fit `:in`, or the query has a pull expression.
        SchemaError: a column has no Spark type, no name of its own, or a value of another type.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":name": {":db/valueType": ":db.type/string"}})
        >>> _ = conn.transact([{":name": "Ada"}])
        >>> names = "[:find ?n :where [_ :name ?n]]"
        >>> dbsp.spark.query_frame(dbsp.spark.session(), names, conn.db()).collect()
        [Row(n='Ada')]
    """
    with SHARED_LOCK:
        bound = bind_query(query, inputs, functions or {}, query_cache())
        columns = query_columns(bound, schema)
        rows = selected_rows(bound.query, bound.rows())
    return session.createDataFrame(columns.table(rows), columns.struct)


def datoms_frame(session: Any, datoms: Iterable[Datom]) -> Any:
    """Return datoms as a DataFrame.

    Its columns are `e`, `a` (such as ":person/name"), the value in one of `v_long` (also refs),
    `v_double`, `v_boolean`, `v_string` (also keywords, symbols, URIs and UUIDs), `v_instant`,
    `v_bytes` and `v_decimal`, then `tx` and `added`. `feed_database(conn, form="datoms")` transacts
    such rows.

    Parameters:
        session: the SparkSession of the DataFrame.
        datoms: the datoms, such as `db.datoms(":aevt", ":person/name")` or `report.tx_data`.

    Returns:
        A DataFrame.

    Raises:
        ArgumentError: the second argument is not a collection of datoms.
        SchemaError: a value has no column in Spark, such as a tuple.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":name": {":db/valueType": ":db.type/string"}})
        >>> _ = conn.transact([{":db/id": 1, ":name": "Ada"}])
        >>> frame = dbsp.spark.datoms_frame(dbsp.spark.session(), conn.db().datoms(":eavt", 1))
        >>> frame.select("e", "a", "v_string", "added").collect()
        [Row(e=1, a=':name', v_string='Ada', added=True)]
    """
    if isinstance(datoms, Database | str) or not isinstance(datoms, Iterable):
        raise wrong_argument("datoms", "datoms such as db.datoms(':eavt')", datoms)
    columns: dict[str, list[Any]] = {name: [] for name in _DATOMS}
    names: dict[Keyword, str] = {}
    for datom in datoms:
        if not isinstance(datom, Datom):
            raise wrong_argument("datoms", "datoms such as db.datoms(':eavt')", datom)
        name = names.get(datom.a)
        if name is None:
            name = names[datom.a] = f":{datom.a.text}"
        for column in columns.values():
            column.append(None)
        value, place = _placed(datom)
        for column_name, cell in (
            ("e", datom.e),
            ("a", name),
            (place, value),
            ("tx", datom.tx),
            ("added", datom.added),
        ):
            columns[column_name][-1] = cell
    struct = as_struct(", ".join(f"{name} {type_}" for name, type_ in _DATOMS.items()))
    table = {}
    for name, type_ in arrow_types(struct).items():
        try:
            table[name] = pa.array(columns[name], type_)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"column {name!r}: {error}", code="schema-mismatch") from None
    return session.createDataFrame(pa.table(table), struct)


def _placed(datom: Datom) -> tuple[Any, str]:
    """Return a value as Spark has it, and its column."""
    value = datom.v
    if isinstance(value, Keyword):
        return f":{value.text}", "v_string"
    if isinstance(value, Symbol | Char):
        return value.text, "v_string"
    if isinstance(value, uuid.UUID):
        return str(value), "v_string"
    if type(value) is int and not INT64_MIN < value <= INT64_MAX:
        return Decimal(value), "v_decimal"
    for class_, column in _COLUMNS:
        if isinstance(value, class_):
            return value, column
    raise SchemaError(
        f"the value {shorten(value)} of {datom.a} of entity {datom.e} has no column in Spark; leave datoms of"
        f" {datom.a} out",
        code="unsupported-value",
    )
