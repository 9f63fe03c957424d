"""Prepares a transaction: from transaction data to the datoms that it adds to the log.

The operations are read into columns (`operations`), entities get their ids (`placeholders`,
`upserts`, `entity_allocation`), and the net changes are computed and checked by attribute
(`net_changes`, `composite_tuples`, `unique_values`, `schema_checks`). Nothing in the database
changes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dbsp.data.key_order import key_order
from dbsp.datomic import system_idents as system
from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.composite_tuples import composite_changes
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute, Schema
from dbsp.datomic.entity_allocation import allocate_ids
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.entity_references import EntityReferences, no_entity
from dbsp.datomic.entity_retractions import all_retractions
from dbsp.datomic.net_changes import NetChange, net_change
from dbsp.datomic.operation_places import OperationPlaces, value_text
from dbsp.datomic.operations import Column, Operations
from dbsp.datomic.placeholders import Placeholders
from dbsp.datomic.schema_checks import check_definitions, check_schema
from dbsp.datomic.transaction_text import forms_of
from dbsp.datomic.unique_values import check_unique
from dbsp.datomic.upserts import resolve_upserts
from dbsp.datomic.value_codes import decode_one, encode_one, encode_values
from dbsp.errors import DbspError, InputError
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class PreparedTransaction:
    """The result of a transaction, before it is in the log.

    Attributes:
        t: the number of the transaction.
        tx: the entity of the transaction.
        instant: its time.
        datoms: rows int64[n, 5] (e, a, v, tx, added) in the order of (e, a), retractions first.
            Each of them is a real change of the database.
        tempids: the entity of each tempid.
        schema: the schema after the transaction.
        next_entity: the next id of an entity of a user.
        next_schema_entity: the next id of an entity of the schema.
    """

    t: int
    tx: int
    instant: dt.datetime
    datoms: Codes
    tempids: dict[Any, int]
    schema: Schema
    next_entity: int
    next_schema_entity: int


@dataclass(slots=True)
class TransactionRows:
    """What a transaction asserts and retracts, by attribute; entities may be placeholders."""

    asserted: dict[int, AttributeRows]
    retracted: dict[int, AttributeRows]
    placeholders: Placeholders
    new_attributes: Mapping[Any, Attribute]


def prepare(
    facts: Facts,
    tx_data: Any,
    *,
    now: dt.datetime,
    file: str = "<transaction>",
    database: Any = None,
) -> PreparedTransaction:
    """Return the datoms of a transaction, which the caller adds to the log and to the indices.

    Cost: O(n log n) for n operations, with one look-up in the indices per attribute.

    Parameters:
        facts: the database before the transaction.
        tx_data: EDN text, or a list of operations and maps.
        now: the time, with a zone.
        file: the name of the text in errors.
        database: the database value that transaction functions get.

    Raises:
        InputError: an operation is not acceptable; nothing has changed.
        SchemaError: an operation uses an unknown attribute.
    """
    forms, places = forms_of(tx_data, file)
    references = EntityReferences(facts, places, TX0 + facts.basis_t + 1)
    operations = Operations(facts, places, references, database)
    try:
        operations.read(forms)
    except RecursionError:
        raise InputError(
            "the transaction has nested maps or transaction functions that are too deep; a function must not "
            "return a call of itself without end",
            code="invalid-transaction",
        ) from None
    placeholders = references.placeholders
    placeholders.find_lookups(facts, places.located, no_entity)
    asserted = {id_: _encoded(facts, each, placeholders, places) for id_, each in operations.asserted.items()}
    retracted = {
        id_: _encoded(facts, each, placeholders, places) for id_, each in operations.retracted.items()
    }
    _check_compared(facts, operations, placeholders, places)
    if operations.retracted_all:
        entities, attributes, numbers = zip(*operations.retracted_all, strict=True)
        ids = placeholders.ids(
            id_column(entities, lambda at, error: places.located(numbers[at], error, entities[at]))
        )
        given = zip(ids.tolist(), attributes, numbers, strict=True)
        for id_, rows in all_retractions(facts, given, places).items():
            retracted[id_] = retracted[id_].joined(rows) if id_ in retracted else rows
    rows_ = TransactionRows(asserted, retracted, placeholders, operations.new_attributes)
    prepared = finish(facts, rows_, places, now)
    prepared.tempids.update(dict.fromkeys(references.transaction_names, prepared.tx))
    return prepared


def finish(
    facts: Facts, rows: TransactionRows, places: OperationPlaces, now: dt.datetime
) -> PreparedTransaction:
    """Return the transaction with these assertions and retractions."""
    asserted, retracted, placeholders = rows.asserted, rows.retracted, rows.placeholders
    interner = facts.interner
    tx = TX0 + facts.basis_t + 1
    resolve_upserts(facts, list(asserted.values()), placeholders, places)
    next_entity, next_schema_entity = allocate_ids(
        facts, asserted, placeholders, places, len(rows.new_attributes)
    )
    for each in asserted.values():
        each.entities = placeholders.ids(each.entities)
        if each.attribute.is_ref:
            each.codes = placeholders.ids(each.codes)
    instant = _instant(facts, asserted.pop(system.TX_INSTANT, None), retracted, tx, places, now)
    changes: dict[int, NetChange] = {}
    for id_ in {**asserted, **retracted}:
        attribute = facts.schema.by_id.get(id_)  # None for a new attribute of an open schema
        if attribute is None or not attribute.tuple_attributes:
            changes[id_] = net_change(facts, asserted.get(id_), retracted.get(id_), places)
    if facts.schema.composites:
        for change in composite_changes(facts, changes, asserted, retracted, places):
            changes[change.added.attribute.id] = change
    for change in changes.values():
        if change.added.attribute.unique is not None:
            check_unique(facts, change, places)
    check_definitions(facts, changes, places)
    datoms = _datoms(facts, changes, rows.new_attributes, instant, tx)
    schema = facts.schema.changed(datoms, interner)
    if schema is not facts.schema:
        check_schema(facts, schema, changes, places)
    tempids = {key: placeholders.id(at) for key, at in placeholders.tempids.items()}
    return PreparedTransaction(
        facts.basis_t + 1, tx, instant, datoms, tempids, schema, next_entity, next_schema_entity
    )


def _encoded(
    facts: Facts, column: Column, placeholders: Placeholders, places: OperationPlaces
) -> AttributeRows:
    """Return the rows of a column; lookup refs are replaced by their entities."""
    numbers = column.places

    def located_in(parts: list[Any]) -> Callable[[int, DbspError], DbspError]:
        return lambda position, error: places.located(numbers[position], error, parts[position])

    def located_value(position: int, error: DbspError) -> DbspError:
        value = column.values[position]
        return places.located(numbers[position], error, value, column.attribute.ident)

    entities = placeholders.ids(id_column(column.entities, located_in(column.entities)))
    if column.attribute.is_ref:
        codes = placeholders.ids(id_column(column.values, located_value))
    else:
        codes = encode_values(column.attribute, column.values, facts.interner, located_value)
    return AttributeRows(column.attribute, entities, codes, np.array(numbers, np.int64))


def id_column(ids: Sequence[int], located: Callable[[int, DbspError], DbspError]) -> Codes:
    """Return ids as an array. Raises InputError for an int of more than 64 bits."""
    try:
        return np.array(ids, np.int64)
    except OverflowError:
        at = next(at for at, each in enumerate(ids) if abs(each) >= 1 << 63)
        error = InputError(
            f"expected the id of an entity, from 1 to 2**42 - 1, got {ids[at]}", code="unknown-entity"
        )
        raise located(at, error) from None


def _check_compared(
    facts: Facts, operations: Operations, placeholders: Placeholders, places: OperationPlaces
) -> None:
    """Raise InputError if the old value of a `:db/cas` is not the value in the database."""
    for given, attribute, old, place in operations.compared:
        entity = placeholders.id(given)
        codes = facts.values(entity, attribute)
        if old is None:
            expected = []
        elif attribute.is_ref:
            expected = [placeholders.id(old)]
        else:
            try:
                expected = [encode_one(attribute, old, facts.interner)]
            except DbspError as error:
                raise places.located(place, error, old, attribute.ident) from None
        if codes != expected:
            wanted, got = (
                value_text(decode_one(attribute, each[0], facts.interner)) if each else "nil"
                for each in (expected, codes)
            )
            raise places.error(
                place,
                f":db/cas expected the value {wanted} of {attribute} of entity {entity}, got {got}; read the "
                "value again and retry",
                code="cas-failed",
                part=places.form(place)[3],
                attribute=attribute.ident,
            )


def _instant(
    facts: Facts,
    given: AttributeRows | None,
    retracted: Mapping[int, AttributeRows],
    tx: int,
    places: OperationPlaces,
    now: dt.datetime,
) -> dt.datetime:
    """Return the time of the transaction: that of its `:db/txInstant`, otherwise `now`.

    Times never decrease, even if the clock does.
    """
    attribute = facts.schema.by_id[system.TX_INSTANT]
    wrong = retracted.get(system.TX_INSTANT)
    if wrong is not None and len(wrong):
        raise places.error(
            int(wrong.places[0]), "the time of a transaction cannot be retracted", code="invalid-instant"
        )
    codes = facts.values(tx - 1, attribute)
    last = decode_one(attribute, codes[0], facts.interner) if codes else None
    if given is None:
        now = now.astimezone(dt.UTC)
        return now if last is None else max(last, now)
    for entity, code, place in zip(
        given.entities.tolist(), given.codes.tolist(), given.places.tolist(), strict=True
    ):
        if entity != tx:
            raise places.error(
                place,
                f':db/txInstant is the time of the transaction; assert it about "datomic.tx", not {entity}',
                code="invalid-instant",
            )
        instant: dt.datetime = decode_one(attribute, code, facts.interner)
        if last is not None and instant < last:
            raise places.error(
                place,
                f"the time {instant.isoformat()} is before that of the last transaction, {last.isoformat()}",
                code="invalid-instant",
            )
        if code != int(given.codes[0]):
            raise places.error(place, "the transaction has two times", code="transaction-conflict")
    return instant


def _datoms(
    facts: Facts,
    changes: Mapping[int, NetChange],
    new_attributes: Mapping[Any, Attribute],
    instant: dt.datetime,
    tx: int,
) -> Codes:
    """Return the datoms of the transaction in their order."""
    encode = facts.interner.encode
    fixed = [(tx, system.TX_INSTANT, encode(instant), 1)]
    for ident, attribute in new_attributes.items():
        fixed.append((attribute.id, system.IDENT, encode(ident), 1))
        fixed.append((attribute.id, system.CARDINALITY, system.CARDINALITY_ONE, 1))
    parts = [
        (rows, added)
        for change in changes.values()
        for rows, added in ((change.removed, 0), (change.added, 1))
        if len(rows)
    ]
    count = len(fixed) + sum(len(rows) for rows, _ in parts)
    datoms = np.empty((count, 5), np.int64)
    datoms[: len(fixed), [0, 1, 2, 4]] = fixed
    datoms[:, 3] = tx
    start = len(fixed)
    for rows, added in parts:
        end = start + len(rows)
        datoms[start:end, 0] = rows.entities
        datoms[start:end, 1] = rows.attribute.id
        datoms[start:end, 2] = rows.codes
        datoms[start:end, 4] = added
        start = end
    return datoms.take(key_order([datoms[:, 0], datoms[:, 1], datoms[:, 4]]), 0)
