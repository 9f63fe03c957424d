"""Prepares a transaction from a table: one row per entity, one column per attribute.

Columns are converted as a whole, without Python code per row, except for values of rare types.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dbsp.data.columns import float_codes
from dbsp.data.frames import encode_arrow_column
from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import TX0, Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.entity_references import EntityReferences, no_entity
from dbsp.datomic.operation_places import OperationPlaces, as_ident
from dbsp.datomic.transaction import PreparedTransaction, TransactionRows, finish, id_column
from dbsp.datomic.value_codes import described, encode_values
from dbsp.errors import ArgumentError, DbspError, InputError, shorten
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


class RowPlaces(OperationPlaces):
    """The rows of a table as the places of its operations."""

    def __init__(self) -> None:
        super().__init__(())

    def path(self, place: int) -> str:
        return f"row {place}"

    def located(self, place: int, error: DbspError, part: Any = None) -> DbspError:
        return type(error)(f"row {place}: {error.message}", code=error.code)


def prepare_columns(
    facts: Facts,
    columns: Any,
    *,
    now: dt.datetime,
    entities: Any = None,
    key: Any = None,
) -> PreparedTransaction:
    """Return the transaction that asserts the values of a table, for `prepare`.

    A missing value (None, an Arrow null, NaN of pandas) asserts nothing.

    Parameters:
        facts: the database before the transaction.
        columns: a mapping from attributes to columns, or a data frame whose columns have the names
            of attributes, such as ":person/name". A column is a list, an array of NumPy or Arrow,
            or a series of pandas or Polars.
        now: the time, with a zone.
        entities: the column of the entities: ids, or any forms that name an entity. None: each row
            is a new entity, or the known one with the same unique identity.
        key: a unique attribute among the columns that finds known entities, also if it is only
            `:db.unique/value`; each row must have a value of it.

    Raises:
        InputError: a value is not acceptable; nothing has changed.
        SchemaError: a column is not an attribute.
    """
    places = RowPlaces()
    tx = TX0 + facts.basis_t + 1
    references = EntityReferences(facts, places, tx)
    named = _named_columns(columns)
    count = _row_count(named, entities)
    key_attribute = None if key is None else _key(facts, key, named)
    if entities is None:
        rows_of = references.placeholders.new_rows(count)
    else:
        rows_of = _entity_column(entities, references, places)
    encoded: list[tuple[Attribute, Codes, Codes]] = []
    for name, column in named.items():
        attribute = _attribute(facts, name)
        try:
            codes, rows = _encode(facts, attribute, column, references, places)
        except DbspError as error:
            raise type(error)(f"column {name}, {error.message}", code=error.code) from None
        if attribute is key_attribute and len(rows) < count:
            missing = int(np.setdiff1d(np.arange(count), rows)[0])
            raise InputError(
                f"column {name}, row {missing}: expected a value of the key, got None", code="missing-value"
            )
        encoded.append((attribute, codes, rows))
    placeholders = references.placeholders
    placeholders.find_lookups(facts, places.located, no_entity)
    rows_of = placeholders.ids(rows_of)
    asserted: dict[int, AttributeRows] = {}
    for attribute, codes, rows in encoded:
        if attribute.is_ref:
            codes = placeholders.ids(codes)
        # The transaction treats the key as an identity.
        treated = replace(attribute, unique="identity") if attribute is key_attribute else attribute
        found = AttributeRows(treated, rows_of[rows], codes, rows)
        known = asserted.get(attribute.id)
        asserted[attribute.id] = found if known is None else known.joined(found)
    return finish(facts, TransactionRows(asserted, {}, placeholders, {}), places, now)


def _named_columns(columns: Any) -> dict[Any, Any]:
    """Return the columns of a table by name."""
    if isinstance(columns, Mapping):
        return {name: _arrow_or_plain(column) for name, column in columns.items()}
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


def _arrow_or_plain(column: Any) -> Any:
    """Return a column as an Arrow array, an array of NumPy, or a list."""
    if isinstance(column, np.ndarray | pa.ChunkedArray):
        return column
    if isinstance(column, pa.Array):
        return pa.chunked_array([column])
    if type(column).__module__.partition(".")[0] == "pandas":
        return pa.chunked_array([pa.array(column, from_pandas=True)])
    if hasattr(column, "__arrow_c_stream__"):
        return pa.chunked_array(column)
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
        raise ArgumentError(f"columns: expected a list or an array as a column, got {described(column)}")
    return list(column)


def _row_count(named: Mapping[Any, Any], entities: Any) -> int:
    lengths = {str(name): len(column) for name, column in named.items()}
    if entities is not None:
        lengths["entities"] = len(entities)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InputError(f"expected columns of one length, got {listed}", code="wrong-arity")
    return next(iter(lengths.values()), 0)


def _attribute(facts: Facts, name: Any) -> Attribute:
    ident = as_ident(name)
    if ident is None:
        raise ArgumentError(f'columns: expected an attribute such as ":person/name", got {described(name)}')
    return facts.schema.attribute(ident)


def _key(facts: Facts, key: Any, named: Mapping[Any, Any]) -> Attribute:
    attribute = _attribute(facts, key)
    if attribute.unique is None:
        raise ArgumentError(f"key: expected a unique attribute, {attribute} is not unique")
    if attribute.ident not in map(as_ident, named):
        raise ArgumentError(f"key: expected one of the columns, got {attribute}")
    return attribute


def _entity_column(entities: Any, references: EntityReferences, places: OperationPlaces) -> Codes:
    column = _arrow_or_plain(entities)
    if isinstance(column, np.ndarray) and column.dtype.kind == "i" and (column > 0).all():
        return column.astype(np.int64)
    values = column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
    ids = [references.entity(value, row) for row, value in enumerate(values)]
    return id_column(ids, places.located)


def _encode(
    facts: Facts, attribute: Attribute, column: Any, references: EntityReferences, places: OperationPlaces
) -> tuple[Codes, Codes]:
    """Return the codes of the values of a column, and their rows."""
    type_ = attribute.value_type
    if isinstance(column, np.ndarray):
        if type_ == "long" and column.dtype.kind == "i":
            return column.astype(np.int64), np.arange(len(column))
        if type_ == "double" and column.dtype.kind == "f":
            return float_codes(column.astype(np.float64)), np.arange(len(column))
        column = column.tolist()
    if isinstance(column, pa.ChunkedArray):
        if _fits(column.type, type_):
            codes = encode_arrow_column(column, attribute.type.optional(), facts.interner)
            if not column.null_count:
                return codes, np.arange(len(codes))
            rows = np.flatnonzero(codes != NULL)
            return codes[rows], rows
        column = column.to_pylist()
    present = [row for row, value in enumerate(column) if value is not None]
    values = column if len(present) == len(column) else [column[row] for row in present]
    if attribute.is_ref:
        ids = [references.entity(value, row) for row, value in zip(present, values, strict=True)]
        return id_column(ids, places.located), np.array(present, np.int64)
    codes = encode_values(
        attribute, values, facts.interner, lambda at, error: places.located(present[at], error)
    )
    return codes, np.array(present, np.int64)


def _fits(arrow: pa.DataType, value_type: str | None) -> bool:
    """Return whether Arrow values of a type are values of a value type without further checks."""
    if value_type == "long":
        return bool(pa.types.is_signed_integer(arrow))
    if value_type == "double":
        return bool(pa.types.is_floating(arrow))
    if value_type in ("string", "uri"):
        if pa.types.is_dictionary(arrow):
            arrow = arrow.value_type
        return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))
    return False
