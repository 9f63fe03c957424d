"""Recursive rules on demand start from the demanded values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbsp.datomic import Connection, connect, q
from tests.profiles import examples

SCHEMA = {
    ":parent": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
    ":adopted": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
    ":famous": {":db/valueType": ":db.type/boolean"},
}
RULES = """
[[(anc ?a ?p) [?p :parent ?a]]
 [(anc ?a ?p) [?p :parent ?x] (anc ?a ?x)]
 [(elder ?a ?p) [?p :parent ?a]]
 [(elder ?a ?p) [?p :adopted ?a]]
 [(forebear ?a ?p) (elder ?a ?p)]
 [(forebear ?a ?p) (elder ?x ?p) (forebear ?a ?x)]
 [(hero ?a ?p) [?p :parent ?a] [?a :famous true]]
 [(hero ?a ?p) [?p :parent ?x] (not [?x :adopted ?x]) (hero ?a ?x)]]
"""
PEOPLE = range(1, 8)
Edges = Mapping[int, set[int]]


class Family:
    """The facts in plain Python."""

    def __init__(self) -> None:
        self.parent: dict[int, set[int]] = {person: set() for person in PEOPLE}
        self.adopted: dict[int, set[int]] = {person: set() for person in PEOPLE}
        self.famous: set[int] = set()

    def reached(self, person: int, *edges: Edges, but: Callable[[int], bool] = lambda _: False) -> set[int]:
        """The persons in one step or more; steps to a person with `but` are not followed."""
        found: set[int] = set()
        waiting = {other for each in edges for other in each[person]}
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                if not but(one):
                    waiting |= {other for each in edges for other in each[one]}
        return found


QUERIES: dict[str, tuple[str, tuple[object, ...], Callable[[Family], set[tuple[int, ...]]]]] = {
    "of one": (
        "[:find ?a :in $ % ?p :where (anc ?a ?p)]",
        (1,),
        lambda family: {(a,) for a in family.reached(1, family.parent)},
    ),
    "of some": (
        "[:find ?p ?a :in $ % [?p ...] :where (anc ?a ?p)]",
        ([2, 3],),
        lambda family: {(p, a) for p in (2, 3) for a in family.reached(p, family.parent)},
    ),
    "of the famous": (
        "[:find ?p ?a :in $ % :where [?p :famous true] (anc ?a ?p)]",
        (),
        lambda family: {(p, a) for p in family.famous for a in family.reached(p, family.parent)},
    ),
    "by two rules": (
        "[:find ?a :in $ % ?p :where (forebear ?a ?p)]",
        (1,),
        lambda family: {(a,) for a in family.reached(1, family.parent, family.adopted)},
    ),
    "famous ones of one": (
        "[:find ?a :in $ % ?p :where (hero ?a ?p)]",
        (1,),
        lambda family: {
            (a,)
            for a in family.reached(1, family.parent, but=lambda one: one in family.adopted[one])
            if a in family.famous
        },
    ),
    "unless an ancestor": (
        "[:find ?a :in $ % ?p :where [?a :famous true] (not (anc ?a ?p))]",
        (1,),
        lambda family: {(a,) for a in family.famous - family.reached(1, family.parent)},
    ),
}


def rules_of(conn: Connection, name: str) -> str:
    """Return the rules of a live query with short names."""
    query, inputs, _ = QUERIES[name]
    text = conn.subscribe(query, RULES, *inputs).explain()
    rules = [line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("rule ")]
    return re.sub(r"(\?\w+) (?!:-)\w+", r"\1", "\n".join(rules))


@pytest.mark.parametrize("name", ["of one", "of some", "of the famous", "unless an ancestor"])
def test_ancestors_of_ancestors_are_not_demanded(name: str) -> None:
    rules = rules_of(connect(":memory:", schema=SCHEMA), name)
    assert re.search(r"anc\(\?x, \w+\) :- anc\(\?p, \w+\), ", rules)
    assert not re.search(r"anc#demand\(\S+\) :- anc#demand", rules)


def test_the_values_that_one_argument_reaches() -> None:
    rules = rules_of(connect(":memory:", schema=SCHEMA), "famous ones of one")
    assert re.search(r"hero#reach\(\w+, \?x\) :- hero#reach\(\w+, \?p\), ", rules)
    assert re.search(r"hero\(\?a, \w+\) :- hero#reach\(\w+, \?p\), ", rules)


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from([":parent", ":adopted"]),
            st.sampled_from(PEOPLE),
            st.sampled_from(PEOPLE),
            st.integers(0, 2),
        ),
        st.tuples(st.just(":famous"), st.sampled_from(PEOPLE), st.just(True), st.integers(0, 2)),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda change: change[:3],
)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(CHANGES, min_size=2, max_size=6))
def test_answers_and_live_rows_are_those_of_plain_python(
    transactions: list[list[tuple[str, int, int, int]]],
) -> None:
    conn, family = connect(":memory:", schema=SCHEMA), Family()
    conn.transact([[":db/add", person, ":parent", 1 + person % 7] for person in PEOPLE])
    for person in PEOPLE:
        family.parent[person].add(1 + person % 7)
    live = {name: conn.subscribe(query, RULES, *inputs) for name, (query, inputs, _) in QUERIES.items()}
    for changes in transactions:
        data = []
        for attribute, person, value, choice in changes:
            data.append([":db/retract" if choice == 0 else ":db/add", person, attribute, value])
            change = set.discard if choice == 0 else set.add
            if attribute == ":famous":
                change(family.famous, person)
            else:
                change(getattr(family, attribute[1:])[person], value)
        conn.transact(data)
        for name, (query, inputs, expected) in QUERIES.items():
            assert set(live[name].rows()) == expected(family), name
            assert set(q(query, conn.db(), RULES, *inputs)) == expected(family), name
