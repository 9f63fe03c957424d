"""Attributes and the schema: which attributes a database has, and what their values are.

The schema is data: an attribute is an entity with `:db/ident`, `:db/valueType`, `:db/cardinality`
and so on. `Schema.changed` reads these datoms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.types import FLOAT, INT, OBJECT, STR, Type
from dbsp.datomic import system_idents as system
from dbsp.diagnostics import did_you_mean
from dbsp.edn.edn_values import Keyword
from dbsp.errors import SchemaError
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

_ENGINE_TYPES = {"long": INT, "ref": INT, "double": FLOAT, "float": FLOAT, "string": STR}


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the schema.

    Attributes:
        id: its entity.
        ident: its name.
        value_type: the type of its values, such as "long"; None if any value is accepted.
        many: whether an entity has a set of values, and not one value.
        unique: "identity" or "value" if a value belongs to at most one entity. An entity in a
            transaction is recognised by its value of an "identity" attribute.
        component: whether its values are parts of the entity, which are retracted with it.
        indexed: the value of `:db/index`. All attributes are indexed.
        no_history: whether the past values are dropped.
        doc: a text about it.
        tuple_attributes: the attributes whose values a composite tuple holds.
        tuple_types: the type of each element of a tuple; of a composite, those of its attributes.
        tuple_type: the type of all elements of a tuple of any length.
    """

    id: int
    ident: Keyword
    value_type: str | None = None
    many: bool = False
    unique: str | None = None
    component: bool = False
    indexed: bool = False
    no_history: bool = False
    doc: str | None = None
    tuple_attributes: tuple[Keyword, ...] = ()
    tuple_types: tuple[str | None, ...] = ()
    tuple_type: str | None = None

    @property
    def type(self) -> Type:
        """The type of the codes of its values."""
        return OBJECT if self.value_type is None else _ENGINE_TYPES.get(self.value_type, OBJECT)

    @property
    def is_ref(self) -> bool:
        """Whether its values are entities."""
        return self.value_type == "ref"

    def __str__(self) -> str:
        return str(self.ident)


class SchemaKey:
    """The content of a schema as the key of a dictionary; its hash is computed once."""

    __slots__ = ("_content", "_hash")

    def __init__(self, content: tuple[bool | Attribute, ...]) -> None:
        self._content = content
        self._hash = hash(content)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, SchemaKey) and self._content == other._content)

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Schema:
    """The attributes of a database at one time. It never changes; `changed` returns another one."""

    by_id: Mapping[int, Attribute]
    """The attributes by entity, those of the system included."""
    open: bool = False
    """Whether a transaction may use an attribute without defining it (see `connect`)."""
    _idents: Mapping[int, Keyword] = field(default_factory=dict, repr=False)

    @cached_property
    def key(self) -> SchemaKey:
        """A key that is equal for schemas with the same attributes."""
        return SchemaKey((self.open, *sorted(self.by_id.values(), key=lambda each: each.id)))

    @cached_property
    def by_ident(self) -> Mapping[Keyword, Attribute]:
        """The attributes by name."""
        return {attribute.ident: attribute for attribute in self.by_id.values()}

    @cached_property
    def _entities(self) -> Mapping[Keyword, int]:
        return {name: id_ for id_, name in self._idents.items()} | {
            attribute.ident: id_ for id_, attribute in self.by_id.items()
        }

    @cached_property
    def identities(self) -> tuple[Attribute, ...]:
        """The attributes that identify an entity (`:db.unique/identity`)."""
        return tuple(each for each in self.by_id.values() if each.unique == "identity")

    @cached_property
    def composites(self) -> Mapping[int, tuple[Attribute, ...]]:
        """The composite tuples that depend on an attribute, by its id."""
        found: dict[int, tuple[Attribute, ...]] = {}
        for composite in self.by_id.values():
            for name in composite.tuple_attributes:
                part = self.by_ident[name].id
                found[part] = (*found.get(part, ()), composite)
        return found

    def entid(self, ident: Keyword) -> int | None:
        """Return the entity of an attribute or of an ident of the system; None if unknown.

        The idents of other entities are values of `:db/ident`.
        """
        return self._entities.get(ident)

    def ident(self, entity: int) -> Keyword | None:
        """Return the ident of an attribute or of an entity of the system; None if unknown."""
        attribute = self.by_id.get(entity)
        return self._idents.get(entity) if attribute is None else attribute.ident

    def attribute(self, name: Keyword | str) -> Attribute:
        """Return an attribute by its name, `Keyword("person/name")` or ":person/name".

        Raises SchemaError if there is none.
        """
        ident = name if isinstance(name, Keyword) else Keyword(name.removeprefix(":"))
        found = self.by_ident.get(ident)
        if found is None:
            raise self.unknown(ident)
        return found

    def unknown(self, ident: Keyword) -> SchemaError:
        """Return the error for a name that is not an attribute."""
        hint = did_you_mean(str(ident), map(str, self.by_ident))
        hint = hint.replace("'", "") if hint else "define it by a transaction with its :db/ident"
        return SchemaError(f"unknown attribute {ident}; {hint}", code="unknown-attribute")

    def changed(self, datoms: Codes, interner: Interner) -> Schema:
        """Return the schema after the datoms int64[n, 5] of a transaction.

        The datoms are those of a valid transaction. Cost: one pass over the column of attributes.
        """
        in_schema = (
            (datoms[:, 1] < system.TX_INSTANT)
            & (datoms[:, 1] >= system.IDENT)
            & (datoms[:, 0] >= system.FIRST_ATTRIBUTE)
        )
        if not in_schema.any():
            return self
        by_id = dict(self.by_id)
        rows = datoms[in_schema]
        # Retractions first: the assertion of a new value follows the retraction of the old one.
        for entity, key, value, _, added in rows[np.argsort(rows[:, 4], kind="stable")].tolist():
            known = by_id.get(entity)
            if known is None:
                known = Attribute(entity, Keyword("db/unnamed"))
            by_id[entity] = replace(known, **_field(key, value, bool(added), interner))
        return Schema(_with_composite_types(by_id), self.open, self._idents)


def _field(key: int, value: int, added: bool, interner: Interner) -> dict[str, Any]:
    """Return the field of an attribute that a datom about it sets."""
    match key:
        case system.IDENT:
            return {"ident": interner.decode(value)} if added else {}
        case system.VALUE_TYPE:
            return {"value_type": system.TYPE_NAMES[value] if added else None}
        case system.CARDINALITY:
            return {"many": added and value == system.CARDINALITY_MANY}
        case system.UNIQUE:
            return {"unique": system.UNIQUE_NAMES[value] if added else None}
        case system.IS_COMPONENT:
            return {"component": added and interner.decode(value)}
        case system.INDEX:
            return {"indexed": added and interner.decode(value)}
        case system.NO_HISTORY:
            return {"no_history": added and interner.decode(value)}
        case system.DOC:
            return {"doc": interner.decode(value) if added else None}
        case system.TUPLE_ATTRS:
            return {"tuple_attributes": interner.decode(value) if added else ()}
        case system.TUPLE_TYPE:
            return {"tuple_type": interner.decode(value).name if added else None}
        case system.TUPLE_TYPES:
            return {"tuple_types": tuple(map(_type_name, interner.decode(value))) if added else ()}
    return {}


def _type_name(type_: Keyword | None) -> str:
    """Return the name of a type in `:db/tupleTypes`; nil is not a type and is refused later."""
    return "nil" if type_ is None else type_.name


def _with_composite_types(by_id: dict[int, Attribute]) -> dict[int, Attribute]:
    """Return the attributes, with the types of the elements of composite tuples."""
    names = {attribute.ident: attribute for attribute in by_id.values()}
    for id_, attribute in by_id.items():
        parts = attribute.tuple_attributes
        if parts and all(name in names for name in parts):
            types = tuple(names[name].value_type for name in parts)
            by_id[id_] = replace(attribute, tuple_types=types)
    return by_id
