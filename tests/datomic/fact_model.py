"""A brute-force model of a database: the list of its datoms, and what each relation must hold."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.fact_lookups import FactLookups
from dbsp.datomic.relation_key import COLUMNS, RelationKey
from dbsp.state.trace import Trace

Row = tuple[Any, ...]

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


@dataclass
class Window:
    """The datoms that a database value sees: of transactions in (after, until]."""

    after: int
    until: int
    history: bool = False


@dataclass
class FactModel:
    """Datoms (e, a, v, tx, added) in the order of transactions."""

    datoms: list[Row] = field(default_factory=list)

    def seen(self, window: Window) -> list[Row]:
        return [row for row in self.datoms if window.after < row[3] - TX0 <= window.until]

    def facts(self, window: Window) -> list[Row]:
        """The datoms that assert a fact that no later datom retracts."""
        latest = {row[:3]: row for row in self.seen(window)}
        return [row for row in latest.values() if row[4]]

    def rows(self, key: RelationKey, window: Window) -> set[Row]:
        """The rows of a relation, in the order of the columns of the key."""
        source = self.seen(window) if window.history or "added" in key.columns else self.facts(window)
        places = [COLUMNS.index(name) for name in key.columns]
        return {
            tuple(row[place] for place in places)
            for row in source
            if key.attribute is None or row[1] == key.attribute
        }


def rows_of(trace: Trace) -> list[Row]:
    """The rows of a trace, which must be a set."""
    batch = trace.contents()
    assert (batch.weights == 1).all()
    return [tuple(row) for row in batch.rows.tolist()]


def check_trace(facts: FactLookups, model: FactModel, window: Window, key: RelationKey, order: Row) -> None:
    expected = sorted(
        tuple(row[key.columns.index(name)] for name in order) for row in model.rows(key, window)
    )
    assert rows_of(facts.trace(key, order)) == expected


def check_lookups(facts: FactLookups, model: FactModel, window: Window, random_: random.Random) -> None:
    """Compare every look-up with the model, for entities and values that exist or not."""
    current = {row[:3] for row in model.rows(RelationKey(None, ("e", "a", "v")), window)}
    entities = [random_.randrange(8) for _ in range(5)]
    for attribute in facts.schema.by_id.values():
        for entity in entities:
            values = sorted(v for e, a, v in current if (e, a) == (entity, attribute.id))
            assert facts.values(entity, attribute) == values
        codes = [random_.randrange(-2, 6) for _ in range(5)]
        for code in codes:
            owners = sorted(e for e, a, v in current if (a, v) == (attribute.id, code))
            assert facts.entities(attribute, code) == owners
        pairs = facts.values_of_many(np.array(entities, np.int64), attribute)
        assert list(zip(*(part.tolist() for part in pairs), strict=True)) == [
            (place, v)
            for place, entity in enumerate(entities)
            for v in sorted(v for e, a, v in current if (e, a) == (entity, attribute.id))
        ]
        pairs = facts.entities_of_many(np.array(codes, np.int64), attribute)
        assert list(zip(*(part.tolist() for part in pairs), strict=True)) == [
            (place, e)
            for place, code in enumerate(codes)
            for e in sorted(e for e, a, v in current if (a, v) == (attribute.id, code))
        ]
        contained = facts.contains_many(np.array(entities, np.int64), np.array(codes, np.int64), attribute)
        assert contained.tolist() == [
            (entity, attribute.id, code) in current for entity, code in zip(entities, codes, strict=True)
        ]
        rows = zip(*(part.tolist() for part in facts.all_values(attribute)), strict=True)
        assert list(rows) == sorted((e, v) for e, a, v in current if a == attribute.id)
    for entity in entities:
        assert facts.entity_datoms(entity) == sorted((a, v) for e, a, v in current if e == entity)
        refs = {each.id for each in facts.schema.by_id.values() if each.value_type == "ref"}
        assert sorted(facts.references_to(entity)) == sorted(
            (e, a) for e, a, v in current if a in refs and v == entity
        )


def random_change(model: FactModel, t: int, attributes: list[int], random_: random.Random) -> list[Row]:
    """Draw the datoms of a transaction: facts that are absent, and retractions of present ones."""
    current = {row[:3] for row in model.facts(Window(-1, t))}
    datoms = {}
    for _ in range(random_.choice([0, 1, 1, 2, 3, 12])):
        fact = (random_.randrange(8), random_.choice(attributes), random_.randrange(-2, 6))
        if current and random_.random() < 0.5:
            fact = random_.choice(sorted(current))
        datoms[fact] = (*fact, TX0 + t, int(fact not in current))
    rows = list(datoms.values())
    random_.shuffle(rows)
    return rows
