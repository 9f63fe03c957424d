"""Facts as a plain set of datoms, for tests of transactions."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.datomic.bootstrap import system_datoms, system_schema
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.system_idents import FIRST_ATTRIBUTE
from dbsp.datomic.transaction import PreparedTransaction, prepare
from dbsp.datomic.value_codes import decode_one
from dbsp.kernels.arrays import Codes, Mask

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)


class SetFacts:
    """A database without indices: every look-up visits all facts."""

    def __init__(self, *definitions: Any, open_schema: bool = False) -> None:
        self.schema = system_schema(open_schema)
        self.interner = Interner()
        self.next_entity = 1
        self.next_schema_entity = FIRST_ATTRIBUTE
        self.basis_t = 0
        self.facts: set[tuple[int, int, int]] = {
            (e, a, v) for e, a, v, _, _ in system_datoms(self.interner).tolist()
        }
        if definitions:
            self.transact(definitions)

    # --- transactions -----------------------------------------------------------------------------

    def prepare(self, tx_data: Any, **named: Any) -> PreparedTransaction:
        return prepare(self, tx_data, **{"now": NOW + self.basis_t * SECOND, "database": self, **named})

    def transact(self, tx_data: Any, **named: Any) -> PreparedTransaction:
        prepared = self.prepare(tx_data, **named)
        self.apply(prepared)
        return prepared

    def apply(self, prepared: PreparedTransaction) -> None:
        for e, a, v, tx, added in prepared.datoms.tolist():
            assert tx == prepared.tx
            assert ((e, a, v) in self.facts) != bool(added), "a datom that is not a change"
            (self.facts.add if added else self.facts.remove)((e, a, v))
        self.schema = prepared.schema
        self.next_entity = prepared.next_entity
        self.next_schema_entity = prepared.next_schema_entity
        self.basis_t = prepared.t

    def shown(self, prepared: PreparedTransaction) -> list[tuple[int, str, Any, bool]]:
        """The datoms of a transaction as users see them, without its time."""
        rows = [
            (e, prepared.schema.by_id[a], v, bool(added)) for e, a, v, _, added in prepared.datoms.tolist()
        ]
        return [
            (e, str(attribute), decode_one(attribute, v, self.interner), added)
            for e, attribute, v, added in rows
            if attribute.ident.text != "db/txInstant"
        ]

    def value(self, entity: int, name: str) -> Any:
        """The values of an attribute, sorted if there are several."""
        attribute = self.schema.attribute(name)
        found = [decode_one(attribute, code, self.interner) for code in self.values(entity, attribute)]
        return sorted(found) if attribute.many else found[0] if found else None

    # --- the protocol -----------------------------------------------------------------------------

    def values(self, entity: int, attribute: Attribute) -> list[int]:
        return sorted(v for e, a, v in self.facts if e == entity and a == attribute.id)

    def values_of_many(self, entities: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        return _pairs([(at, v) for at, e in enumerate(entities.tolist()) for v in self.values(e, attribute)])

    def contains_many(self, entities: Codes, codes: Codes, attribute: Attribute) -> Mask:
        rows = zip(entities.tolist(), codes.tolist(), strict=True)
        return np.array([(e, attribute.id, v) in self.facts for e, v in rows], np.bool_)

    def all_values(self, attribute: Attribute) -> tuple[Codes, Codes]:
        return _pairs(sorted((e, v) for e, a, v in self.facts if a == attribute.id))

    def entities(self, attribute: Attribute, code: int) -> list[int]:
        return sorted(e for e, a, v in self.facts if v == code and a == attribute.id)

    def entities_of_many(self, codes: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        return _pairs([(at, e) for at, v in enumerate(codes.tolist()) for e in self.entities(attribute, v)])

    def entity_datoms(self, entity: int) -> list[tuple[int, int]]:
        return sorted((a, v) for e, a, v in self.facts if e == entity)

    def references_to(self, entity: int) -> list[tuple[int, int]]:
        return sorted((e, a) for e, a, v in self.facts if v == entity and self.schema.by_id[a].is_ref)


def _pairs(pairs: list[tuple[int, int]]) -> tuple[Codes, Codes]:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1])
