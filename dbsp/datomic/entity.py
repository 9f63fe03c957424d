"""Entities: the facts about one entity, as a mapping that reads them lazily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from dbsp.datomic import system_idents as system
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.entity_ids import entity_id
from dbsp.datomic.pull_pattern import ABSENT, DB_ID
from dbsp.datomic.value_codes import decode_one
from dbsp.edn.edn_values import Keyword
from dbsp.edn.edn_writer import display_text

SHOWN_DEPTH = 8
"""How many levels of components the `repr` of an entity shows."""


class Entity(Mapping[Any, Any]):
    """The facts about one entity of a database at one time.

    A key is an attribute, as a `Keyword` or a string such as ":person/name"; the keys of the
    mapping are the attributes that the entity has. The value of an attribute of cardinality many is
    a frozenset. The value of a ref is another entity; if that has a `:db/ident`, it is the ident.
    `entity[":person/_friend"]` is the set of entities that refer to this one by `:person/friend`;
    of a component, it is the one entity that it is a part of.

    A value is read at its first use, O(log n), and kept. Two entities are equal if they
    have the same id and the same database.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":name": {}, ":friend": {":db/valueType": ":db.type/ref"}})
        >>> _ = conn.transact([{":db/id": 1, ":name": "Ada", ":friend": 2}, {":db/id": 2, ":name": "Grace"}])
        >>> ada = conn.db().entity(1)
        >>> ada[":friend"][":name"], ada[":friend"][":_friend"] == {ada}, list(ada)
        ('Grace', True, [:friend, :name])
        >>> ada.touch()
        {:db/id 1, :friend {:db/id 2}, :name "Ada"}
    """

    __slots__ = ("_facts", "_values", "database", "id")

    def __init__(self, database: Any, facts: Facts, id_: int) -> None:
        self.database = database
        """The database; entities of different databases are different."""
        self.id = id_
        """The id of the entity, also the value of `:db/id`."""
        self._facts = facts
        self._values: dict[Keyword, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        name = key if isinstance(key, Keyword) else Keyword(str(key).removeprefix(":"))
        if name is DB_ID:
            return self.id
        found = self._values.get(name, ABSENT)
        if found is ABSENT:
            found = self._read(name)
            if found is ABSENT:
                raise KeyError(name)
            self._values[name] = found
        return found

    def __iter__(self) -> Iterator[Keyword]:
        by_id = self._facts.schema.by_id
        return iter(sorted({by_id[attribute].ident for attribute, _ in self._facts.entity_datoms(self.id)}))

    def __len__(self) -> int:
        return len({attribute for attribute, _ in self._facts.entity_datoms(self.id)})

    def touch(self) -> Self:
        """Read all attributes of this entity and of its components, and return it.

        Cost: O(log n) per attribute, and the values.

        Returns:
            This entity; its `repr` shows the values that have been read.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> _ = conn.transact([{":db/id": 1, ":name": "Ada"}])
            >>> conn.db().entity(1), conn.db().entity(1).touch()
            ({:db/id 1}, {:db/id 1, :name "Ada"})
        """
        waiting: list[Entity] = [self]
        seen: set[Entity] = set()
        while waiting:
            entity = waiting.pop()
            if entity in seen:
                continue
            seen.add(entity)
            for name in entity:
                value = entity[name]
                if self._facts.schema.by_ident[name].component:
                    parts = value if isinstance(value, frozenset) else (value,)
                    waiting += [part for part in parts if isinstance(part, Entity)]
        return self

    def _read(self, name: Keyword) -> Any:
        """Return the value of an attribute, or ABSENT. Raises SchemaError if it does not exist."""
        schema = self._facts.schema
        attribute = schema.by_ident.get(name)
        if attribute is None and name.name.startswith("_") and len(name.name) > 1:
            namespace = f"{name.namespace}/" if name.namespace else ""
            forward = Keyword(namespace + name.name[1:])
            attribute = schema.by_ident.get(forward)
            if attribute is None and not schema.open:
                raise schema.unknown(forward)
            return ABSENT if attribute is None else self._referring(attribute)
        if attribute is None:
            if schema.open:
                return ABSENT
            raise schema.unknown(name)
        codes = self._facts.values(self.id, attribute)
        if not codes:
            return ABSENT
        if attribute.many:
            return frozenset(self._value(attribute, code) for code in codes)
        return self._value(attribute, codes[0])

    def _referring(self, attribute: Attribute) -> Any:
        """Return the entities that refer to this one by an attribute."""
        if not attribute.is_ref:
            return ABSENT
        found = [
            Entity(self.database, self._facts, each) for each in self._facts.entities(attribute, self.id)
        ]
        if not found:
            return ABSENT
        return found[0] if attribute.component else frozenset(found)

    def _value(self, attribute: Attribute, code: int) -> Any:
        if not attribute.is_ref:
            return decode_one(attribute, code, self._facts.interner)
        ident_attribute = self._facts.schema.by_id[system.IDENT]
        ident = self._facts.values(code, ident_attribute)
        if ident:
            return decode_one(ident_attribute, ident[0], self._facts.interner)
        return Entity(self.database, self._facts, code)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entity):
            return NotImplemented
        return self.id == other.id and bool(self.database == other.database)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return _shown(self, SHOWN_DEPTH)


def _shown(entity: Entity, depth: int) -> str:
    """Return the values that have been read, as EDN; of other entities than components the id."""
    parts = [f"{DB_ID!r} {entity.id}"]
    for name, value in sorted(entity._values.items()) if depth else ():
        attribute = entity._facts.schema.by_ident.get(name)
        inner = depth - 1 if attribute is not None and attribute.component else 0
        parts.append(f"{name!r} {_shown_value(value, inner)}")
    return "{" + ", ".join(parts) + "}"


def _shown_value(value: Any, depth: int) -> str:
    if isinstance(value, Entity):
        return _shown(value, depth)
    if isinstance(value, frozenset) and any(isinstance(each, Entity) for each in value):
        return "#{" + " ".join(sorted(_shown_value(each, depth) for each in value)) + "}"
    return display_text(value)


def entity_of(database: Any, facts: Facts, ref: Any) -> Entity | None:
    """Return an entity by its id, ident or lookup ref; None if an ident or lookup ref has none."""
    id_ = entity_id(facts, ref)
    return None if id_ is None else Entity(database, facts, id_)
