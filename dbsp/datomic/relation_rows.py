"""The rows of relations, computed from the datoms of a log."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.plain_codes import code_float
from dbsp.data.types import OBJECT, Type
from dbsp.datomic.datom_log import DatomLog
from dbsp.datomic.relation_key import COLUMNS, RelationKey
from dbsp.kernels import project
from dbsp.kernels.arrays import Codes
from dbsp.parallel.range_sort import consolidate

if TYPE_CHECKING:
    from dbsp.datomic.database_schema import Schema

_ALL = np.arange(5)


def type_of(schema: Schema, attribute: int) -> Type:
    """Return the type of the values of an attribute; object if the schema does not have it."""
    found = schema.by_id.get(attribute)
    return OBJECT if found is None else found.type


def canonical(key: RelationKey, schema: Schema) -> RelationKey:
    """Return the key without columns in `boxed` whose codes are those of the type object anyway."""
    if "v" in key.boxed and key.attribute is not None and type_of(schema, key.attribute).interned:
        return RelationKey(key.attribute, key.columns, key.boxed - {"v"})
    return key


def boxed(datoms: Codes, columns: Collection[str], schema: Schema, interner: Interner) -> Codes:
    """Return datoms whose `columns` have codes of the type object.

    One look-up per distinct number.
    """
    copied = datoms.copy()
    for column in columns:
        if column == "v":
            continue
        place = COLUMNS.index(column)
        numbers, inverse = distinct_codes(datoms[:, place])
        copied[:, place] = interner.encode_many(numbers.tolist())[inverse]
    if "v" not in columns:
        return copied
    for attribute in np.unique(datoms[:, 1]).tolist():
        kind = type_of(schema, attribute).kind
        if kind not in ("int", "float"):
            continue
        mask = datoms[:, 1] == attribute
        numbers, inverse = distinct_codes(datoms[mask, 2])
        values = numbers.tolist() if kind == "int" else list(map(code_float, numbers.tolist()))
        copied[mask, 2] = interner.encode_many(values)[inverse]
    return copied


def datoms_of(log: DatomLog, key: RelationKey, start: int, end: int) -> Codes:
    """Return the rows of a log from `start` to `end` that a relation reads."""
    return log.rows(start, end) if key.attribute is None else log.rows_of(key.attribute, start, end)


def latest_facts(datoms: Codes) -> Codes:
    """Return the datoms that assert a fact that no later datom retracts, sorted by e, a, v."""
    if not len(datoms):
        return datoms
    rows, _ = project(np.ascontiguousarray(datoms), np.ones(len(datoms), np.int64), _ALL)
    last = np.ones(len(rows), np.bool_)
    last[:-1] = (rows[1:, :3] != rows[:-1, :3]).any(axis=1)
    facts: Codes = rows[last & (rows[:, 4] == 1)]
    return facts


def rows_of_relation(
    key: RelationKey,
    datoms: Codes,
    coded: Callable[[RelationKey, Codes], Codes],
    *,
    history: bool,
    whole: bool,
) -> Batch:
    """Return the rows of a relation over the datoms that it reads, in the order of transactions.

    With `history` the relation has the datoms themselves, without the columns that the key omits;
    otherwise only facts that the datoms do not retract. With `whole`, they are all datoms up to a
    transaction. `coded` gives datoms the codes of a relation.
    """
    if history or "added" in key.columns:
        rows, weights = consolidate(_columns(coded(key, datoms), key), np.ones(len(datoms), np.int64))
        return Batch(rows, np.ones_like(weights))
    if whole and "tx" not in key.columns:
        # Each datom changes the facts, so the sum is 1 for a fact and 0 for a retracted one.
        return Batch(*consolidate(_columns(coded(key, datoms), key), 2 * datoms[:, 4] - 1))
    facts = latest_facts(datoms)
    return Batch(*consolidate(_columns(coded(key, facts), key), np.ones(len(facts), np.int64)))


def _columns(datoms: Codes, key: RelationKey) -> Codes:
    return np.ascontiguousarray(datoms[:, key.places])
