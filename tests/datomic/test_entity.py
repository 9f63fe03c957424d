"""Entities: lazy mappings of the facts about one entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dbsp.datomic.entity import Entity, entity_of
from dbsp.edn.edn_values import Keyword
from dbsp.errors import InputError, SchemaError

from .listed_facts import ListedFacts

ATTRIBUTES: dict[str, dict[str, Any]] = {
    ":person/name": {"value_type": "string", "unique": "identity"},
    ":person/aka": {"value_type": "string", "many": True},
    ":person/friend": {"value_type": "ref", "many": True},
    ":person/boss": {"value_type": "ref"},
    ":person/address": {"value_type": "ref", "component": True},
    ":person/pets": {"value_type": "ref", "many": True, "component": True},
    ":color": {"value_type": "ref"},
}
FACTS: list[tuple[int, str, Any]] = [
    (1, ":person/name", "Ada"),
    (1, ":person/aka", "Countess"),
    (1, ":person/aka", "Enchantress"),
    (1, ":person/friend", 2),
    (1, ":person/friend", 3),
    (1, ":person/address", 4),
    (1, ":person/pets", 5),
    (1, ":color", 6),
    (2, ":person/name", "Grace"),
    (2, ":person/boss", 1),
    (3, ":person/boss", 1),
    (4, ":person/name", "12 St James's Square"),
    (5, ":person/name", "Puff"),
    (5, ":person/boss", 2),
    (6, ":db/ident", Keyword("color/red")),
]


def facts(*, open_schema: bool = False) -> ListedFacts:
    return ListedFacts(ATTRIBUTES, FACTS, open_schema=open_schema)


def entity(ref: Any, data: ListedFacts | None = None) -> Entity:
    data = data or facts()
    found = entity_of(data, data, ref)
    assert found is not None
    return found


def test_an_entity_is_a_mapping_of_its_attributes() -> None:
    ada = entity(1)
    assert isinstance(ada, Mapping)
    assert ada[":person/name"] == ada[Keyword("person/name")] == ada.get("person/name") == "Ada"
    assert ada[":person/aka"] == {"Countess", "Enchantress"}
    names = ["color", "person/address", "person/aka", "person/friend", "person/name", "person/pets"]
    assert list(ada) == [Keyword(name) for name in names]
    assert len(ada) == 6
    assert ada.id == ada[":db/id"] == 1
    assert ":person/boss" not in ada and ada.get(":person/boss", "nobody") == "nobody"
    grace = entity(2, ada.database)
    assert dict(grace) == {Keyword("person/name"): "Grace", Keyword("person/boss"): ada}


def test_refs_are_entities_and_idents() -> None:
    ada = entity(1)
    grace, other = sorted(ada[":person/friend"], key=lambda friend: friend.id)
    assert (grace[":person/name"], grace[":person/boss"], other.id) == ("Grace", ada, 3)
    assert grace[":person/boss"][":person/friend"] == ada[":person/friend"]
    assert ada[":color"] == Keyword("color/red")


def test_reverse_names() -> None:
    ada = entity(1)
    assert {each.id for each in ada[":person/_boss"]} == {2, 3}
    assert ada[":person/address"][":person/_address"] == ada
    (puff,) = ada[":person/pets"]
    assert puff[":person/_pets"] == ada
    assert ada.get(":person/_friend") is None
    assert ada.get(":person/_name") is None


def test_a_missing_value_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="person/boss"):
        entity(1)[":person/boss"]


def test_an_entity_without_facts_is_empty() -> None:
    nobody = entity(99)
    assert (list(nobody), len(nobody), nobody.id) == ([], 0, 99)


def test_an_unknown_attribute_is_an_error() -> None:
    for name in (":person/nmae", ":person/_frend"):
        with pytest.raises(SchemaError, match=r"attribute :person/\w+; did you mean :person/(name|friend)"):
            entity(1).get(name)
    opened = entity(1, facts(open_schema=True))
    assert opened.get(":person/nmae") is None and opened.get(":_nmae") is None


def test_idents_and_lookup_refs_find_entities() -> None:
    data = facts()
    assert entity((":person/name", "Grace"), data) == entity(2, data)
    assert entity(":color/red", data).id == entity(Keyword("color/red"), data).id == 6
    assert entity_of(data, data, (":person/name", "Nobody")) is None
    assert entity_of(data, data, ":color/blue") is None
    with pytest.raises(InputError, match="expected the id of an entity"):
        entity_of(data, data, "Grace")


def test_equality_needs_the_id_and_the_database() -> None:
    data, other = facts(), facts()
    assert entity(1, data) == entity(1, data) and hash(entity(1, data)) == hash(entity(1, data))
    assert entity(1, data) != entity(2, data)
    assert entity(1, data) != entity(1, other)
    assert entity(2, data) != dict(entity(2, data))


def test_the_repr_shows_what_was_read() -> None:
    ada = entity(1)
    assert repr(ada) == "{:db/id 1}"
    assert ada[":person/friend"] and ada[":person/name"] and ada[":person/_boss"]
    assert repr(ada) == (
        "{:db/id 1, :person/_boss #{{:db/id 2} {:db/id 3}}, :person/friend #{{:db/id 2} {:db/id 3}}, "
        ':person/name "Ada"}'
    )


def test_touch_reads_the_entity_and_its_components() -> None:
    ada = entity(1)
    assert ada.touch() is ada
    assert repr(ada) == (
        '{:db/id 1, :color :color/red, :person/address {:db/id 4, :person/name "12 St James\'s Square"}, '
        ':person/aka #{"Countess" "Enchantress"}, :person/friend #{{:db/id 2} {:db/id 3}}, '
        ':person/name "Ada", :person/pets #{{:db/id 5, :person/boss {:db/id 2}, :person/name "Puff"}}}'
    )


def test_touch_ends_in_a_cycle_of_components() -> None:
    data = ListedFacts(ATTRIBUTES, [(1, ":person/address", 2), (2, ":person/address", 1)])
    text = "{:db/id 1, :person/address {:db/id 2, :person/address {:db/id 1}}}"
    assert repr(entity(1, data).touch()) == text


def test_the_repr_of_many_levels_of_components_is_cut() -> None:
    data = ListedFacts(ATTRIBUTES, [(number, ":person/address", number + 1) for number in range(1, 3000)])
    text = repr(entity(1, data).touch())
    assert text.count(":person/address") == 8
    assert text.endswith("{:db/id 9" + "}" * 9)


def test_values_are_read_once_and_when_needed() -> None:
    data = facts()
    read: list[int] = []
    values = data.values
    data.values = lambda entity, attribute: read.append(entity) or values(entity, attribute)  # type: ignore[func-returns-value]
    ada = entity(1, data)
    assert read == []
    assert ada[":person/name"] == ada[":person/name"] == "Ada"
    assert read == [1]
