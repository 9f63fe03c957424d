"""Prepares a transaction from a table, without Python code per row.

`prepare_columns` takes one row per entity and one column per attribute, `prepare_datoms` one row
per fact.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.operation_places import as_ident
from dbsp.datomic.table_columns import TableColumns, arrow_or_plain, in_column, missing_value
from dbsp.datomic.transaction import PreparedTransaction
from dbsp.errors import ArgumentError, DbspError, InputError, shorten


def prepare_columns(
    facts: Facts,
    columns: Any,
    *,
    now: dt.datetime,
    entities: Any = None,
    key: Any = None,
    about: Mapping[Any, Any] | None = None,
) -> PreparedTransaction:
    """Return the transaction that asserts the values of a table, for `prepare`.

    A missing value (None, an Arrow null, NaN of pandas) asserts nothing.

    Parameters:
        facts: the database before the transaction.
        columns: a mapping from attributes to columns, or a data frame whose columns have the names
            of attributes, such as ":person/name". A column is a list, an array of NumPy or Arrow,
            or a series of pandas or Polars. In an Arrow list, an attribute of cardinality many has
            several values.
        now: the time, with a zone.
        entities: the column of the entities: ids, or any forms that name an entity. None: each row
            is a new entity, or the known one with the same unique identity.
        key: a unique attribute among the columns that finds known entities, also if it is only
            `:db.unique/value`; each row must have a value of it.
        about: values of attributes of the transaction's own entity.

    Raises:
        InputError: a value is not acceptable; nothing has changed.
        SchemaError: a column is not an attribute.
    """
    table = TableColumns(facts)
    named = _named_columns(columns)
    count = _row_count(named, entities)
    rows = np.arange(count)
    key_attribute = None if key is None else _key(table, key, named)
    if entities is None:
        rows_of = table.new_entities(count)
    else:
        rows_of = table.entities(arrow_or_plain(entities), rows)
    for name, column in named.items():
        attribute = table.attribute(name)
        try:
            codes, positions = table.values(attribute, column, rows)
        except DbspError as error:
            raise in_column(name, error) from None
        if key_attribute is not None and attribute is key_attribute:
            if len(positions) < count:
                raise missing_value(name, int(np.setdiff1d(rows, positions)[0]), "a value of the key")
            attribute = replace(attribute, unique="identity")  # for this transaction
        table.add(AttributeRows(attribute, rows_of[positions], codes, positions))
    table.describe_transaction(about or {})
    return table.finish(now)


def prepare_datoms(
    facts: Facts,
    entities: pa.ChunkedArray,
    attributes: pa.ChunkedArray,
    values: Mapping[str, pa.ChunkedArray],
    added: pa.ChunkedArray | None = None,
    *,
    now: dt.datetime,
    about: Mapping[Any, Any] | None = None,
) -> PreparedTransaction:
    """Return the transaction of a table with one row for each fact to assert or to retract.

    Parameters:
        facts: the database before the transaction.
        entities: ids, tempids or idents.
        attributes: names of attributes, such as ":person/name".
        values: columns of values by name, such as one per type; each row uses one of them.
        added: whether each row is asserted; None: all are. The others are retracted.
        now: the time, with a zone.
        about: values of attributes of the transaction's own entity.

    Raises:
        InputError: a value is not acceptable; nothing has changed.
        SchemaError: an attribute does not exist.
    """
    table = TableColumns(facts)
    assertions = _flags(added, len(entities))
    _check_values(values, len(entities))
    names = pc.dictionary_encode(attributes.combine_chunks())
    if names.null_count:
        raise missing_value("a", _first(pc.is_null(names)), "an attribute")
    name_of = names.indices.to_numpy()
    for number, name in enumerate(names.dictionary.to_pylist()):
        of_attribute = name_of == number
        try:
            attribute = table.attribute(name)
        except DbspError as error:
            row = int(np.argmax(of_attribute))
            raise in_column("a", table.places.located(row, error)) from None
        for asserted in (True, False):
            rows = np.flatnonzero(of_attribute & (assertions == asserted))
            if len(rows):
                _add_facts(table, attribute, rows, entities, values, asserted)
    table.describe_transaction(about or {})
    return table.finish(now)


def _add_facts(
    table: TableColumns,
    attribute: Attribute,
    rows: Any,
    entities: pa.ChunkedArray,
    values: Mapping[str, pa.ChunkedArray],
    asserted: bool,
) -> None:
    """Assert or retract the facts of one attribute in some rows."""
    try:
        rows_of = table.entities(entities.take(pa.array(rows)), rows, known=not asserted)
    except DbspError as error:
        raise in_column("e", error) from None
    for name, column in values.items():
        try:
            codes, positions = table.values(attribute, column.take(pa.array(rows)), rows, known=not asserted)
        except DbspError as error:
            raise in_column(name, error) from None
        if len(positions):
            table.add(AttributeRows(attribute, rows_of[positions], codes, rows[positions]), added=asserted)


def _flags(added: pa.ChunkedArray | None, count: int) -> Any:
    """Return whether each row is asserted, as an array of NumPy."""
    if added is None:
        return np.ones(count, np.bool_)
    if added.null_count:
        raise missing_value("added", _first(pc.is_null(added)), "true or false")
    return np.asarray(added.to_numpy(), np.bool_)


def _check_values(values: Mapping[str, pa.ChunkedArray], count: int) -> None:
    """Raise InputError unless each row has one value."""
    present = np.zeros(count, np.int64)
    for column in values.values():
        present += pc.is_valid(column).to_numpy().astype(np.int64)
    wrong = np.flatnonzero(present != 1)
    if len(wrong):
        row = int(wrong[0])
        listed = " and ".join(name for name, column in values.items() if column[row].is_valid)
        name = next(iter(values)) if len(values) == 1 else f"one of {', '.join(values)}"
        raise InputError(
            f"row {row}: expected a value in {name}, got {f'values in {listed}' if listed else 'None'}",
            code="missing-value" if not listed else "invalid-transaction",
        )


def _first(mask: Any) -> int:
    """Return the first row in which an Arrow mask is true."""
    return int(np.argmax(mask.to_numpy(zero_copy_only=False)))


def _named_columns(columns: Any) -> dict[Any, Any]:
    """Return the columns of a table by name."""
    if isinstance(columns, Mapping):
        return {name: arrow_or_plain(column) for name, column in columns.items()}
    if type(columns).__module__.partition(".")[0] == "pandas":
        table = pa.Table.from_pandas(columns, preserve_index=False)
    elif hasattr(columns, "__arrow_c_stream__") or hasattr(columns, "__arrow_c_array__"):
        table = pa.table(columns)
    else:
        raise ArgumentError(
            "columns: expected a mapping from attributes to columns or a data frame, got "
            f"{shorten(columns)} of type {type(columns).__name__}"
        )
    return dict(zip(table.column_names, table.columns, strict=True))


def _row_count(named: Mapping[Any, Any], entities: Any) -> int:
    lengths = {str(name): len(column) for name, column in named.items()}
    if entities is not None:
        lengths["entities"] = len(entities)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InputError(f"expected columns of one length, got {listed}", code="wrong-arity")
    return next(iter(lengths.values()), 0)


def _key(table: TableColumns, key: Any, named: Mapping[Any, Any]) -> Attribute:
    attribute = table.attribute(key)
    if attribute.unique is None:
        raise ArgumentError(f"key: expected a unique attribute, {attribute} is not unique")
    if attribute.ident not in map(as_ident, named):
        raise ArgumentError(f"key: expected one of the columns, got {attribute}")
    return attribute
