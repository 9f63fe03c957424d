"""Random transactions, compared with a naive transactor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.datomic import connect
from dbsp.errors import DbspError

from .reference_transactions import Reference, Refused, Rule
from .set_facts import SetFacts

RULES = {
    ":name": Rule(),
    ":nums": Rule(many=True),
    ":key": Rule(unique="identity"),
    ":code": Rule(unique="value"),
    ":ref": Rule(ref=True),
    ":refs": Rule(ref=True, many=True),
    ":part": Rule(ref=True, many=True, component=True),
    ":owner": Rule(ref=True, unique="identity"),
    ":pair": Rule(unique="identity", parts=(":name", ":ref")),
}
TYPES = {":name": "string", ":key": "string", ":pair": "tuple"}

entity_ids = st.integers(1, 7)
tempids = st.sampled_from(["a", "b", "c", -1])
words = st.sampled_from(["x", "y", "z"])
lookups = st.one_of(*[words.map(lambda word: [":key", word])] * 4, entity_ids.map(lambda e: [":owner", e]))
known = st.one_of(entity_ids, entity_ids, lookups)
entities = st.one_of(entity_ids, tempids, tempids, lookups)
targets = st.one_of(entity_ids, entity_ids, entity_ids, lookups, tempids)
small = st.integers(0, 3)
pairs = st.tuples(words | st.none(), entity_ids | st.none())


def values(a: str) -> st.SearchStrategy[Any]:
    if RULES[a].ref:
        return targets
    if RULES[a].parts:
        return pairs
    return words if a in TYPES else small


def member(a: str, depth: int) -> st.SearchStrategy[Any]:
    """A value of a map form."""
    one = values(a) | maps(depth - 1) if RULES[a].ref and depth else values(a)
    return one | st.lists(one, max_size=3) if RULES[a].many else one


def maps(depth: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    return st.deferred(
        lambda: st.fixed_dictionaries(
            {},
            optional={
                ":db/id": entities,
                **{a: member(a, depth) for a in RULES},
                ":_refs": known | st.lists(entities, max_size=2),
                ":_ref": known,
            },
        ).filter(lambda form: len(form) <= 4)
    )


names = st.sampled_from(sorted(RULES))
plain_names = st.sampled_from(sorted(a for a in RULES if not RULES[a].parts))


def known_values(a: str) -> st.SearchStrategy[Any]:
    return known if RULES[a].ref else values(a)


adds = names.flatmap(lambda a: st.tuples(st.just(":db/add"), entities, st.just(a), values(a)))
retracts = plain_names.flatmap(
    lambda a: st.tuples(st.just(":db/retract"), known, st.just(a), known_values(a))
)
retracts_all = st.tuples(st.just(":db/retract"), known, plain_names)
retracted_entities = st.tuples(st.just(":db/retractEntity"), known)
compared = st.sampled_from([":name", ":key", ":code", ":ref"]).flatmap(
    lambda a: st.tuples(st.just(":db/cas"), known, st.just(a), st.none() | known_values(a), values(a))
)
forms = st.one_of(adds, adds, adds, maps(), maps(), retracts, retracts_all, retracted_entities, compared)


@st.composite
def transactions(draw: st.DrawFn) -> list[list[Any]]:
    """Some transactions. A function, because the text of the strategy would be long."""
    return draw(st.lists(st.lists(forms, min_size=1, max_size=4), min_size=1, max_size=5))


SEED: list[Any] = [
    {":db/id": 1, ":key": "x", ":name": "x", ":ref": 2, ":nums": [1, 2], ":part": [3, 5]},
    {":db/id": 2, ":key": "y", ":name": "y", ":code": 1, ":owner": 1, ":refs": [1, 2, 3]},
    {":db/id": 3, ":key": "z", ":code": 2, ":nums": [0], ":part": [4], ":refs": [1]},
    {":db/id": 4, ":name": "z", ":ref": 1, ":part": [3]},
    {":db/id": 5, ":name": "x", ":ref": 5, ":nums": [1, 3], ":owner": 5},
]


def definitions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, rule in RULES.items():
        form: dict[str, Any] = {
            ":db/ident": name,
            ":db/valueType": ":db.type/" + ("ref" if rule.ref else TYPES.get(name, "long")),
            ":db/cardinality": ":db.cardinality/" + ("many" if rule.many else "one"),
        }
        if rule.unique:
            form[":db/unique"] = f":db.unique/{rule.unique}"
        if rule.component:
            form[":db/isComponent"] = True
        if rule.parts:
            form[":db/tupleAttrs"] = list(rule.parts)
        found.append(form)
    return found


def database() -> SetFacts:
    return SetFacts(*definitions())


@given(transactions())
def test_agrees_with_the_naive_transactor(history: list[list[Any]]) -> None:
    facts, reference = database(), Reference(RULES)
    facts.transact(SEED)
    reference.transact(SEED)
    for tx_data in history:
        before = set(facts.facts), facts.schema, facts.next_entity
        try:
            expected = reference.transact(tx_data)
        except Refused:
            expected = None
        try:
            prepared = facts.prepare(tx_data)
        except DbspError as error:
            assert expected is None, (tx_data, error)
            assert before == (facts.facts, facts.schema, facts.next_entity)
            assert error.message.startswith("transaction[")
            continue
        assert expected is not None, (tx_data, facts.shown(prepared))
        shown = facts.shown(prepared)
        added, removed, names_ = expected
        assert {row[:3] for row in shown if row[3]} == added
        assert {row[:3] for row in shown if not row[3]} == removed
        assert len(shown) == len(added) + len(removed)
        assert prepared.tempids == names_
        assert prepared.next_entity == reference.next_entity
        rows = prepared.datoms[:, [0, 1, 4]].tolist()
        assert rows == sorted(rows)
        facts.apply(prepared)


@settings(max_examples=max(1, settings().max_examples // 3))
@given(transactions())
def test_the_indices_give_the_same_datoms_as_a_set_of_facts(history: list[list[Any]]) -> None:
    facts, connection = database(), connect(schema=definitions())
    for tx_data in [SEED, *history]:
        try:
            expected = facts.shown(facts.transact(tx_data))
        except DbspError as error:
            with pytest.raises(DbspError) as caught:
                connection.transact(tx_data)
            assert (caught.value.code, caught.value.message) == (error.code, error.message)
            continue
        report = connection.transact(tx_data)
        shown = [(d.e, str(d.a), d.v, d.added) for d in report.tx_data if d.e != report.tx]
        assert shown == expected
