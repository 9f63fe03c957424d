"""Writes a database as transactions that `dbsp db import` reads back.

The facts of a time become a few large transactions; a history becomes the same transactions as
those of the log, with their times. Entities keep their ids, and entities of the schema are written
by their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from dbsp.cli.db_options import TextFormat
from dbsp.datomic import Database, Datom
from dbsp.datomic import system_idents as system
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.datom_rows import datoms_from, in_order
from dbsp.datomic.entity_ranges import DB0, TX0
from dbsp.datomic.relation_key import RelationKey
from dbsp.datomic.transaction_log import LoggedTransaction
from dbsp.edn import Keyword, to_json, write
from dbsp.kernels.arrays import Codes

BATCH = 10_000
"""The number of datoms of a transaction in an export without history."""

_ADD, _RETRACT = Keyword("db/add"), Keyword("db/retract")
_IDENT, _INSTANT = Keyword("db/ident"), Keyword("db/txInstant")
_FACTS = RelationKey(None, ("e", "a", "v", "tx"))


def transaction_text(operations: list[Any], format_: TextFormat) -> str:
    """Return a transaction as text: EDN with an operation per line, or JSON on one line."""
    if format_ is TextFormat.JSONL:
        return to_json(operations)
    return "[" + "\n ".join(map(write, operations)) + "]"


class Names:
    """The names of the entities of the schema while transactions define and rename attributes."""

    def __init__(self, database: Database) -> None:
        self._schema = database.schema
        self._ids = {attribute.ident: attribute.id for attribute in database.schema.by_id.values()}
        self._names: dict[int, Keyword] = {id_: Keyword(name) for id_, name in system.SYSTEM_NAMES.items()}

    def __contains__(self, entity: int) -> bool:
        return entity in self._names

    def define(self, entity: int, name: Keyword) -> None:
        """Remember the name of an attribute."""
        self._names[entity] = name

    def entity(self, id_: int) -> Any:
        """Return the form of an entity: the name of an entity of the schema, or the id."""
        return self._names.get(id_, id_)

    def attribute(self, datom: Datom) -> Attribute:
        """Return the attribute of a datom, as it is now."""
        return self._schema.by_ident[datom.a]

    def operation(self, datom: Datom, tx: int) -> tuple[Any, ...]:
        """Return the operation that asserts or retracts a datom in the transaction `tx`."""
        attribute = self.attribute(datom)
        value = datom.v
        if attribute.is_ref:
            value = self._reference(value, tx)
        elif "ref" in (attribute.tuple_type, *attribute.tuple_types):
            types = attribute.tuple_types or (attribute.tuple_type,) * len(value)
            pairs = zip(value, types, strict=True)
            value = tuple(self.entity(each) if type_ == "ref" else each for each, type_ in pairs)
        name = self._names[attribute.id]
        return (_ADD if datom.added else _RETRACT, self._reference(datom.e, tx), name, value)

    def _reference(self, entity: int, tx: int) -> Any:
        return "datomic.tx" if entity == tx else self.entity(entity)

    def definition(self, datoms: list[Datom]) -> dict[Any, Any]:
        """Return the map that defines a new attribute."""
        return {each.a: self.entity(each.v) if self.attribute(each).is_ref else each.v for each in datoms}


def state_transactions(database: Database, skipped: Counter[str]) -> Iterator[list[Any]]:
    """Yield transactions with all facts of a database; count in `skipped` what they cannot have.

    Facts about transactions have no place in them, because the importing transactions are others.
    """
    names = Names(database)
    rows = _rows(database)
    in_schema = rows[:, 0] >= DB0
    definitions = _definitions(database, rows[in_schema], names)
    if definitions:
        yield definitions
    of_transactions = (rows[:, 0] >= TX0) & ~in_schema
    skipped["facts about transactions"] += int((of_transactions & (rows[:, 1] != system.TX_INSTANT)).sum())
    defining = in_schema & (rows[:, 1] < system.FIRST_ATTRIBUTE)
    rows = rows[~of_transactions & ~defining]
    refs = [attribute.id for attribute in database.schema.by_id.values() if attribute.is_ref]
    to_transactions = np.isin(rows[:, 1], refs) & (rows[:, 2] >= TX0) & (rows[:, 2] < DB0)
    skipped["references to transactions"] += int(to_transactions.sum())
    rows = rows[~to_transactions]
    start = 0
    while start < len(rows):
        end = min(start + BATCH, len(rows))
        while end < len(rows) and rows[end, 0] == rows[end - 1, 0]:
            end += 1  # all facts about an entity are in one transaction
        datoms = datoms_from(rows[start:end], database.schema, database.interner)
        yield [names.operation(datom, 0) for datom in datoms]
        start = end


def _rows(database: Database) -> Codes:
    """Return the current facts of users int64[n, 5], in the order of entities and attributes."""
    found = database.facts.trace(_FACTS, _FACTS.columns).contents().rows
    found = found[found[:, 3] != TX0]
    rows = np.ones((len(found), 5), np.int64)
    rows[:, :4] = found
    return in_order(rows, (0, 1, 2), database.schema, database.interner)


def _definitions(database: Database, rows: Codes, names: Names) -> list[Any]:
    """Return the definitions of the attributes; those of tuples follow those of their parts."""
    found: dict[int, list[Datom]] = {}
    defining = rows[rows[:, 1] < system.FIRST_ATTRIBUTE]
    for datom in datoms_from(defining, database.schema, database.interner):
        found.setdefault(datom.e, []).append(datom)
        if datom.a is _IDENT:
            names.define(datom.e, datom.v)
    return [names.definition(datoms) for datoms in found.values()]


def history_transactions(
    database: Database, transactions: Iterator[LoggedTransaction]
) -> Iterator[list[Any]]:
    """Yield the transactions of a log, from the first."""
    names = Names(database)
    for transaction in transactions:
        yield _logged(transaction, names)


def _logged(transaction: LoggedTransaction, names: Names) -> list[Any]:
    operations: list[Any] = [(_ADD, "datomic.tx", _INSTANT, transaction.instant)]
    new: dict[int, list[Datom]] = {}
    used = {names.attribute(datom).id for datom in transaction.datoms}
    others = []
    for datom in transaction.datoms:
        if datom.e >= DB0 and datom.e not in names:
            new.setdefault(datom.e, []).append(datom)
        elif not (datom.e == transaction.tx and datom.a is _INSTANT):
            others.append(datom)
    renamed = []
    for entity, datoms in new.items():
        ident = next(datom.v for datom in datoms if datom.a is _IDENT)
        definition = names.definition([datom for datom in datoms if _is_system(datom.a)])
        # An attribute of an open schema that the transaction defines by its use.
        if entity in used:
            names.define(entity, ident)
        else:
            operations.append(definition)
            renamed.append((entity, ident))
        others += [datom for datom in datoms if not _is_system(datom.a)]
    replaced = {(datom.e, datom.a) for datom in others if datom.added and _is_system(datom.a)}
    for datom in others:
        attribute = names.attribute(datom)
        implied = not datom.added and (bool(attribute.tuple_attributes) or (datom.e, datom.a) in replaced)
        if not implied:
            operations.append(names.operation(datom, transaction.tx))
        if datom.a is _IDENT and datom.added and datom.e >= DB0:
            renamed.append((datom.e, datom.v))
    for entity, ident in renamed:
        names.define(entity, ident)
    return operations


def _is_system(name: Keyword) -> bool:
    return name.namespace == "db"
