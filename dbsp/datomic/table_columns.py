"""Reads the columns of a table into what a transaction asserts and retracts.

A column is a list, an array of NumPy or an array of Arrow. Columns of Arrow are read as a whole:
Python code sees each different value once, and no value of a long, a double or a string.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.data.columns import float_codes
from dbsp.data.frames import encode_arrow_column
from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.entity_references import EntityReferences, no_entity
from dbsp.datomic.operation_places import WHOLE, OperationPlaces, as_ident
from dbsp.datomic.operations import is_reserved
from dbsp.datomic.transaction import PreparedTransaction, TransactionRows, finish, id_column
from dbsp.datomic.value_codes import described, encode_values
from dbsp.edn.edn_values import Keyword, Symbol
from dbsp.errors import ArgumentError, DbspError, InputError
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


class RowPlaces(OperationPlaces):
    """The rows of a table as the places of its operations."""

    def __init__(self) -> None:
        super().__init__(())

    def path(self, place: int) -> str:
        return f"row {place}"

    def located(
        self, place: int, error: DbspError, part: Any = WHOLE, attribute: Keyword | None = None
    ) -> DbspError:
        return type(error)(f"row {place}: {error.message}", code=error.code)


class TableColumns:
    """What the columns of a table assert and retract in one transaction.

    Parameters:
        facts: the database before the transaction.
    """

    def __init__(self, facts: Facts) -> None:
        self.places = RowPlaces()
        self._facts = facts
        self._tx = TX0 + facts.basis_t + 1
        self._references = EntityReferences(facts, self.places, self._tx)
        self._new_attributes: dict[Keyword, Attribute] = {}
        self._asserted: dict[int, AttributeRows] = {}
        self._retracted: dict[int, AttributeRows] = {}

    def attribute(self, name: Any) -> Attribute:
        """Return an attribute by its name; an open schema gets unknown ones."""
        ident = as_ident(name)
        if ident is None:
            raise ArgumentError(
                f'columns: expected an attribute such as ":person/name", got {described(name)}'
            )
        schema = self._facts.schema
        if ident in self._new_attributes:
            return self._new_attributes[ident]
        if not schema.open or ident in schema.by_ident or is_reserved(ident):
            return schema.attribute(ident)
        found = Attribute(self._facts.next_schema_entity + len(self._new_attributes), ident)
        self._new_attributes[ident] = found
        return found

    # --- entities ---------------------------------------------------------------------------------

    def new_entities(self, count: int) -> Codes:
        """Return a new entity for each row."""
        return self._references.placeholders.new_rows(count)

    def entities(self, column: Any, rows: Codes, *, known: bool = False) -> Codes:
        """Return the entities that a column names.

        Parameters:
            column: ids, or any forms that name an entity.
            rows: the number of the row of each entity.
            known: whether the transaction may not create the entities.
        """
        if isinstance(column, pa.ChunkedArray) and pa.types.is_signed_integer(column.type):
            column = column.to_numpy() if not column.null_count else column
        if isinstance(column, np.ndarray) and column.dtype.kind == "i" and (column > 0).all():
            return column.astype(np.int64)
        values, positions = _distinct(column)
        reference = self._references.known_entity if known else self._references.entity
        firsts = rows[_firsts(positions, len(values))]
        ids = [reference(value, row) for value, row in zip(values, firsts.tolist(), strict=True)]
        codes = np.append(id_column(ids, lambda at, error: self.places.located(int(firsts[at]), error)), 0)
        found = codes[positions]
        for at in np.flatnonzero(positions < 0).tolist():
            reference(None, int(rows[at]))  # raises the error for a missing entity
        return found

    # --- values -----------------------------------------------------------------------------------

    def values(
        self, attribute: Attribute, column: Any, rows: Codes, *, known: bool = False
    ) -> tuple[Codes, Codes]:
        """Return the codes of the values in a column, and the positions that they come from.

        A missing value has no code. An Arrow list of values of an attribute of cardinality many has
        one code for each element. Of a ref, the codes are entities.
        """
        type_ = attribute.value_type
        if isinstance(column, np.ndarray):
            if type_ == "long" and column.dtype.kind == "i":
                return column.astype(np.int64), np.arange(len(column))
            if type_ == "double" and column.dtype.kind == "f":
                return float_codes(column.astype(np.float64)), np.arange(len(column))
            column = column.tolist()
        if isinstance(column, pa.ChunkedArray):
            if _is_collection(attribute, column.type):
                parents = np.asarray(pc.list_parent_indices(column), np.int64)
                codes, positions = self.values(
                    attribute, pa.chunked_array(pc.list_flatten(column)), rows[parents], known=known
                )
                return codes, parents[positions]
            if _fits(column.type, type_):
                codes = encode_arrow_column(column, attribute.type.optional(), self._facts.interner)
                if not column.null_count:
                    return codes, np.arange(len(codes))
                present = np.flatnonzero(codes != NULL)
                return codes[present], present
        values, positions = _distinct(column)
        present = np.flatnonzero(positions >= 0)
        positions = positions[present]
        firsts = rows[present][_firsts(positions, len(values))]
        if attribute.is_ref:
            reference = self._references.known_entity if known else self._references.entity
            ids = [reference(value, row) for value, row in zip(values, firsts.tolist(), strict=True)]
            return id_column(ids, self._at(firsts))[positions], present
        if isinstance(column, pa.ChunkedArray):
            values = [_from_arrow(attribute, value) for value in values]
        if type_ == "tuple":
            plain = self._references.plain_value
            values = [
                plain(attribute, value, row) for value, row in zip(values, firsts.tolist(), strict=True)
            ]
        return encode_values(attribute, values, self._facts.interner, self._at(firsts))[positions], present

    def _at(self, rows: Codes) -> Callable[[int, DbspError], DbspError]:
        """Return the function that names the row of a value by its position."""
        return lambda at, error: self.places.located(int(rows[at]), error)

    # --- the transaction --------------------------------------------------------------------------

    def add(self, rows: AttributeRows, *, added: bool = True) -> None:
        """Assert the rows of an attribute, or retract them."""
        target = self._asserted if added else self._retracted
        known = target.get(rows.attribute.id)
        target[rows.attribute.id] = rows if known is None else known.joined(rows)

    def describe_transaction(self, values: Mapping[Any, Any]) -> None:
        """Assert values of attributes about the entity of the transaction."""
        for name, value in values.items():
            attribute = self.attribute(name)
            codes, _ = self.values(attribute, [value], np.zeros(1, np.int64))
            self.add(AttributeRows(attribute, np.array([self._tx]), codes, np.zeros(1, np.int64)))

    def finish(self, now: dt.datetime) -> PreparedTransaction:
        """Return the transaction."""
        placeholders = self._references.placeholders
        placeholders.find_lookups(self._facts, self.places.located, no_entity)
        for rows in (*self._asserted.values(), *self._retracted.values()):
            rows.entities = placeholders.ids(rows.entities)
            if rows.attribute.is_ref:
                rows.codes = placeholders.ids(rows.codes)
        found = TransactionRows(self._asserted, self._retracted, placeholders, self._new_attributes)
        prepared = finish(self._facts, found, self.places, now)
        prepared.tempids.update(dict.fromkeys(self._references.transaction_names, prepared.tx))
        return prepared


def arrow_or_plain(column: Any) -> Any:
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


def in_column(name: Any, error: DbspError) -> DbspError:
    """Return an error of a row with the name of its column."""
    return type(error)(f"column {name}, {error.message}", code=error.code)


def missing_value(name: Any, row: int, what: str) -> DbspError:
    """Return the error for a row without a value that it needs."""
    return InputError(f"column {name}, row {row}: expected {what}, got None", code="missing-value")


def _distinct(column: Any) -> tuple[list[Any], Codes]:
    """Return values, and the position among them of the value of each row; -1 if it is missing.

    The values of an Arrow array are different, unless they are lists or structs.
    """
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not pa.types.is_nested(column.type) and not pa.types.is_null(column.type):
            encoded = column.combine_chunks().dictionary_encode()
            if isinstance(encoded, pa.ChunkedArray):
                encoded = encoded.unify_dictionaries().combine_chunks()
            positions = np.asarray(encoded.indices.fill_null(-1).to_numpy(), np.int64)
            return encoded.dictionary.to_pylist(), positions
        column = column.to_pylist()
    elif isinstance(column, np.ndarray):
        column = column.tolist()
    present = np.array([value is not None for value in column], np.bool_)
    positions = np.where(present, np.cumsum(present) - 1, -1).astype(np.int64)
    return [value for value in column if value is not None], positions


def _firsts(positions: Codes, count: int) -> Codes:
    """Return the first place of each of the values 0, 1, ..., all of which occur."""
    firsts = np.zeros(count, np.int64)
    present = np.flatnonzero(positions >= 0)
    firsts[positions[present][::-1]] = present[::-1]
    return firsts


def _is_collection(attribute: Attribute, arrow: pa.DataType) -> bool:
    """Whether an Arrow list has several values of the attribute, and not one tuple."""
    if not attribute.many or not (pa.types.is_list(arrow) or pa.types.is_large_list(arrow)):
        return False
    return attribute.value_type != "tuple" or pa.types.is_nested(arrow.value_type)


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


def _from_arrow(attribute: Attribute, value: Any) -> Any:
    """Return a value of a type that Arrow does not have, from the form that stands for it.

    Symbols and UUIDs are texts, large integers are decimals, tuples are structs. Anything else
    stays, and is checked later.
    """
    type_ = attribute.value_type
    if type_ == "symbol" and isinstance(value, str):
        return Symbol(value)
    if type_ == "uuid" and isinstance(value, str):
        try:
            return uuid.UUID(value)
        except ValueError:
            return value
    if type_ == "bigint" and isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if type_ == "tuple" and isinstance(value, dict):
        return tuple(value.values())
    return value
