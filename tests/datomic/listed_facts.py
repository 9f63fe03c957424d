"""Facts in plain lists, with the look-ups that pulls and entities need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.datomic.bootstrap import system_schema
from dbsp.datomic.database_schema import Attribute, Schema
from dbsp.datomic.system_idents import FIRST_ATTRIBUTE
from dbsp.datomic.value_codes import encode_one
from dbsp.edn.edn_values import Keyword
from dbsp.kernels.arrays import Codes


class ListedFacts:
    """Facts (entity, attribute, value) about attributes with these fields of `Attribute`.

    Look-ups return the largest first: results must not depend on their order.
    """

    next_entity = 1
    next_schema_entity = FIRST_ATTRIBUTE
    basis_t = 1

    def __init__(
        self,
        attributes: Mapping[str, Mapping[str, Any]],
        facts: Iterable[tuple[int, str, Any]],
        *,
        open_schema: bool = False,
    ) -> None:
        system = system_schema(open_schema)
        own = {
            FIRST_ATTRIBUTE + place: Attribute(
                FIRST_ATTRIBUTE + place, Keyword(name.removeprefix(":")), **fields
            )
            for place, (name, fields) in enumerate(attributes.items())
        }
        self.schema = Schema({**system.by_id, **own}, open_schema, system._idents)
        self.interner = Interner()
        self.rows: list[tuple[int, int, int]] = []
        for entity, name, value in facts:
            attribute = self.schema.attribute(name)
            self.rows.append((entity, attribute.id, encode_one(attribute, value, self.interner)))

    def values(self, entity: int, attribute: Attribute) -> list[int]:
        return sorted((v for e, a, v in self.rows if e == entity and a == attribute.id), reverse=True)

    def entities(self, attribute: Attribute, code: int) -> list[int]:
        return sorted((e for e, a, v in self.rows if v == code and a == attribute.id), reverse=True)

    def entity_datoms(self, entity: int) -> list[tuple[int, int]]:
        return sorted(((a, v) for e, a, v in self.rows if e == entity), reverse=True)

    def references_to(self, entity: int) -> list[tuple[int, int]]:
        return sorted((e, a) for e, a, v in self.rows if v == entity and self.schema.by_id[a].is_ref)

    def values_of_many(self, entities: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        pairs = [(at, v) for at, e in enumerate(entities.tolist()) for v in self.values(e, attribute)]
        return _columns(pairs)

    def entities_of_many(self, codes: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        pairs = [(at, e) for at, v in enumerate(codes.tolist()) for e in self.entities(attribute, v)]
        return _columns(pairs)


def _columns(pairs: list[tuple[int, int]]) -> tuple[Codes, Codes]:
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]
