"""The worked examples of the articles on DBSP, Z-sets and worst-case optimal joins, as written.

The articles are the series of December 2025 and January 2026 in the repository
FiV0/FiV0.github.io.
"""

from __future__ import annotations

from collections.abc import Mapping

import dbsp
from dbsp import Schema, ZSet
from dbsp.data.indexed_zset import IndexedZSet
from dbsp.datomic import Subscription, connect

PERSON = Schema.of(person=str)
MEMBER = Schema.of(department=str, person=str)
EAV = Schema.of(e=int, a=str, v=str)
CITY = Schema.of(country=str, city=str)
DISTRICT = Schema.of(country=str, city=str, district=str)


def persons(weights: Mapping[str, int]) -> ZSet:
    return ZSet({(person,): weight for person, weight in weights.items()}, PERSON)


def departments(groups: Mapping[str, Mapping[str, int]]) -> ZSet:
    rows = {(key, person): weight for key, group in groups.items() for person, weight in group.items()}
    return ZSet(rows, MEMBER)


def nested(index: IndexedZSet, columns: int) -> object:
    """Return a trie as nested dictionaries, as the articles write it; the leaves are weights."""
    flat = index.to_zset()
    result: dict[object, object] = {}
    for row, weight in flat.items():
        node = result
        for value in row[: columns - 1]:
            node = node.setdefault(value, {})  # type: ignore[assignment]
        node[row[columns - 1]] = weight
    return result


# --- Z-sets ------------------------------------------------------------------------------------


def test_sum_of_two_zsets() -> None:
    total = persons({"Alice": 1, "Bob": -3}) + persons({"Eve": -1, "Bob": 2})
    assert total.to_dict() == {("Alice",): 1, ("Bob",): -1, ("Eve",): -1}


def test_the_empty_zset_is_zero_and_negation_negates_the_weights() -> None:
    some = persons({"Alice": 1, "Bob": -3})
    assert some + persons({}) == some
    assert (-some).to_dict() == {("Alice",): -1, ("Bob",): 3}
    assert (some * 2).to_dict() == {("Alice",): 2, ("Bob",): -6}
    assert some - some == persons({})


def test_an_equi_join_multiplies_the_weights() -> None:
    left = persons({"Alice": 1, "Bob": -3}).index_by("person")
    right = persons({"Alice": -1, "Eve": -1, "Bob": 2}).index_by("person")
    assert left.extend_leaves(right).to_zset().to_dict() == {("Alice",): -1, ("Bob",): -6}


def test_sum_of_two_indexed_zsets() -> None:
    one = departments({"accounting": {"Alice": 1}, "engineering": {"Eve": 2}}).index_by("department")
    other = departments({"accounting": {"Bob": 1}, "engineering": {"Eve": -1}}).index_by("department")
    assert nested(one + other, 2) == {
        "accounting": {"Alice": 1, "Bob": 1},
        "engineering": {"Eve": 1},
    }


def test_aggregate_of_every_group() -> None:
    index = departments({"accounting": {"Alice": 1, "Bob": 2}, "engineering": {"Eve": 1}}).index_by(
        "department"
    )
    sums = {key: sum(weight for _, weight in group) for key, group in index}
    assert sums == {("accounting",): 3, ("engineering",): 1}


def test_a_transaction_as_a_change_of_the_three_indices() -> None:
    change = ZSet({(1, "name", "Ada Lovelace"): 1, (2, "name", "Alan Turing"): -1}, EAV)
    assert nested(change.index_by("e", "a"), 3) == {
        1: {"name": {"Ada Lovelace": 1}},
        2: {"name": {"Alan Turing": -1}},
    }
    assert nested(change.index_by("a", "e"), 3) == {"name": {1: {"Ada Lovelace": 1}, 2: {"Alan Turing": -1}}}
    assert nested(change.index_by("v", "a"), 3) == {
        "Ada Lovelace": {"name": {1: 1}},
        "Alan Turing": {"name": {2: -1}},
    }


# --- the trie of results -----------------------------------------------------------------------


def test_extend_leaves_by_the_first_letter_with_twice_the_weight() -> None:
    cities = ZSet(
        {("Germany", "Berlin"): 1, ("Germany", "Munich"): -1, ("USA", "NYC"): -1, ("USA", "LA"): 1},
        CITY,
    ).index_by("country")
    extended = cities.extend_leaves(lambda leaf: {(leaf.city[0],): 2}, Schema.of(letter=str))
    assert nested(extended, 3) == {
        "Germany": {"Berlin": {"B": 2}, "Munich": {"M": -2}},
        "USA": {"NYC": {"N": -2}, "LA": {"L": 2}},
    }


def test_rows_and_keys_below_a_prefix() -> None:
    districts = ZSet(
        {
            ("Germany", "Berlin", "Mitte"): -1,
            ("Germany", "Berlin", "Kreuzberg"): 1,
            ("Germany", "Munich", "Schwabing"): 1,
            ("USA", "NYC", "Harlem"): 1,
        },
        DISTRICT,
    )
    index = districts.index_by("country", "city")
    below = index.get_by_prefix("Germany", "Berlin").to_zset()
    assert below.to_dict() == {("Mitte",): -1, ("Kreuzberg",): 1}
    # At inner levels the weights of the article's views are all 1: the keys alone.
    assert index.as_zset_view() == {("Germany",): 1, ("USA",): 1}
    assert index.get_by_prefix("Germany").as_zset_view() == {("Berlin",): 1, ("Munich",): 1}


# --- the triangle query as a circuit -----------------------------------------------------------

TRIANGLES = """
.decl r(x: number, y: number)
.decl s(y: number, z: number)
.decl t(x: number, z: number)
.decl triangle(x: number, y: number, z: number)
.input r, s, t
.output triangle
triangle(x, y, z) :- r(x, y), s(y, z), t(x, z).
"""


def test_an_edge_that_closes_no_triangle_has_no_output() -> None:
    """R = {(1, 1), (1, 3), ...} and S = {(2, 1), (4, 1), ...} have no common y."""
    n = 50
    run = dbsp.compile(TRIANGLES, "wcoj").start()
    run.step({"r": {(1, 2 * k + 1): 1 for k in range(n)}, "s": {(2 * k, 1): 1 for k in range(1, n + 1)}})
    assert not run.step({"t": {(1, 1): 1}})["triangle"]
    assert run.step({"s": {(3, 1): 1}})["triangle"].to_dict() == {(1, 3, 1): 1}


def test_one_deleted_edge_removes_all_triangles() -> None:
    """All triangles share the edge (a, b) = (0, 1)."""
    corners = range(2, 30)
    edges = {(0, 1): 1} | {(end, c): 1 for end in (0, 1) for c in corners}
    run = dbsp.compile(TRIANGLES, "wcoj").start()
    first = run.step(dict.fromkeys("rst", edges))["triangle"]
    change = run.step({name: {(0, 1): -1} for name in "rst"})["triangle"]
    assert first.to_dict() == {(0, 1, c): 1 for c in corners}
    assert change == -first


# --- live queries over a database of facts -------------------------------------------------------

TRIANGLE_QUERY = """{:find [?a ?b ?c]
 :where [[?a :g/to ?b]
         [?a :g/to ?c]
         [?b :g/to ?c]]}"""


def change(live: Subscription) -> dict[object, int]:
    """Return the change of a live query by the latest transaction, as a Z-set."""
    return {row: weight for delta in live.deltas() for row, weight in delta.rows}


def test_a_transaction_changes_a_query() -> None:
    conn = connect(schema={":name": {}})
    live = conn.subscribe("{:find [person name] :where [person :name name]}")
    conn.transact('[[:db/add 1 :name "Ada Lovelace"]]')
    assert change(live) == {(1, "Ada Lovelace"): 1}
    conn.transact('[[:db/add 2 :name "Alan Turing"]]')
    assert change(live) == {(2, "Alan Turing"): 1}
    conn.transact('[[:db/retract 2 :name "Alan Turing"]]')
    assert change(live) == {(2, "Alan Turing"): -1}


def test_one_retracted_edge_removes_all_triangles_of_a_database() -> None:
    conn = connect(
        schema={":g/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}}
    )
    live = conn.subscribe(TRIANGLE_QUERY)
    corners = range(3, 30)
    conn.transact(
        [[":db/add", 1, ":g/to", 2], *([":db/add", a, ":g/to", c] for a in (1, 2) for c in corners)]
    )
    assert change(live) == {(1, 2, c): 1 for c in corners}
    conn.transact([[":db/retract", 1, ":g/to", 2]])
    assert change(live) == {(1, 2, c): -1 for c in corners}


def test_a_live_query_starts_from_a_snapshot_and_replays_the_log() -> None:
    conn = connect(
        schema={":g/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}}
    )
    for a, b in [(1, 2), (1, 3), (2, 3), (3, 4), (2, 4)]:
        conn.transact([[":db/add", a, ":g/to", b]])
    live = conn.subscribe(TRIANGLE_QUERY, since=3)
    assert [(delta.t, delta.rows) for delta in live.deltas()] == [
        (4, [((1, 2, 3), 1)]),
        (6, [((2, 3, 4), 1)]),
    ]
    conn.transact([[":db/retract", 2, ":g/to", 3]])
    assert change(live) == {(1, 2, 3): -1, (2, 3, 4): -1}
