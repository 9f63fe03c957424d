"""Counts of relations for plans: rows, and the mean fan-out of a column."""

from __future__ import annotations

from unittest import mock

import pytest

from dbsp.compiler.datomic.meaning.base_relations import BaseRelation
from dbsp.datomic import connect
from dbsp.datomic.relation_counts import RelationCounts, _mean_group

MANY = {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}


@pytest.fixture
def counts() -> RelationCounts:
    conn = connect(schema={":next": MANY, ":none": {}})
    # 4 entities with 5 values each; 10 different values with 2 entities each.
    conn.transact([[":db/add", n + 1, ":next", 100 + (5 * n + m) % 10] for n in range(4) for m in range(5)])
    schema = conn.db().schema
    bases = {
        "next": BaseRelation("$", schema.attribute(":next").id, ("e", "v")),
        "next tx": BaseRelation("$", schema.attribute(":next").id, ("e", "v", "tx")),
        "none": BaseRelation("$", schema.attribute(":none").id, ("e", "v")),
    }
    return RelationCounts(bases, {"$": conn.db().facts})


def test_rows(counts: RelationCounts) -> None:
    assert [counts.rows(name) for name in ("next", "next tx", "none", "query")] == [20, 20, 0, None]
    assert counts.total == 40


def test_fan_out(counts: RelationCounts) -> None:
    assert counts.fan_out("next", []) == 20
    assert counts.fan_out("next", [0]) == 5
    assert counts.fan_out("next", [1]) == 2
    assert counts.fan_out("next", [0, 1]) == 2  # that of the most selective column
    assert counts.fan_out("next tx", [2]) == 20
    assert counts.fan_out("none", [0]) == 1
    assert counts.fan_out("none", []) == 0


def test_a_fan_out_is_counted_once(counts: RelationCounts) -> None:
    with mock.patch("dbsp.datomic.relation_counts._mean_group", wraps=_mean_group) as counted:
        for _ in range(3):
            counts.fan_out("next", [0])
        assert counted.call_count == 1
        counts.fan_out("next", [1])
        assert counted.call_count == 2


def test_a_sample_is_counted(counts: RelationCounts) -> None:
    with mock.patch("dbsp.datomic.relation_counts._SAMPLE", 7):
        assert counts.fan_out("next", [0]) == 3.5  # 5 rows of one entity, 2 of the next one
