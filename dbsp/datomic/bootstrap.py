"""The schema of a new database, and the datoms of transaction 0 that define it."""

from __future__ import annotations

import datetime as dt

import numpy as np

from dbsp.data.interner import Interner
from dbsp.datomic import system_idents as system
from dbsp.datomic.database_schema import Attribute, Schema
from dbsp.datomic.entity_ranges import TX0
from dbsp.edn.edn_values import Keyword
from dbsp.kernels.arrays import Codes

START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""The time of transaction 0."""


def system_schema(open_schema: bool = False) -> Schema:
    """Return the schema of a new database: the attributes of the system."""
    attributes = {
        id_: Attribute(
            id_,
            Keyword(name),
            value_type,
            unique="identity" if id_ == system.IDENT else None,
            indexed=id_ in (system.IDENT, system.TX_INSTANT),
            doc=doc,
            tuple_type="keyword" if value_type == "tuple" else None,
        )
        for id_, (name, value_type, doc) in system.SYSTEM_ATTRIBUTES.items()
    }
    return Schema(attributes, open_schema, {id_: Keyword(name) for id_, name in system.SYSTEM_NAMES.items()})


def system_datoms(interner: Interner) -> Codes:
    """Return the datoms int64[n, 5] of transaction 0, in the order of (e, a)."""
    encode = interner.encode
    rows = [(TX0, system.TX_INSTANT, encode(START))]
    schema = system_schema()
    for id_, name in system.SYSTEM_NAMES.items():
        rows.append((id_, system.IDENT, encode(Keyword(name))))
        attribute = schema.by_id.get(id_)
        if attribute is None:
            continue
        if attribute.value_type is not None:
            rows.append((id_, system.VALUE_TYPE, system.TYPE_IDS[attribute.value_type]))
        rows.append((id_, system.CARDINALITY, system.CARDINALITY_ONE))
        rows += [
            (id_, system.UNIQUE, key) for key, name in system.UNIQUE_NAMES.items() if name == attribute.unique
        ]
        if attribute.indexed:
            rows.append((id_, system.INDEX, encode(True)))
        if attribute.tuple_type is not None:
            rows.append((id_, system.TUPLE_TYPE, encode(Keyword(f"db.type/{attribute.tuple_type}"))))
        if attribute.doc is not None:
            rows.append((id_, system.DOC, encode(attribute.doc)))
    datoms = np.empty((len(rows), 5), np.int64)
    datoms[:, :3] = rows
    datoms[:, 3] = TX0
    datoms[:, 4] = 1
    return datoms[np.lexsort((datoms[:, 1], datoms[:, 0]))]
