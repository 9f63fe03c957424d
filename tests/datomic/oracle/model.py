"""A database as a list of datoms: its facts at any time are found by replaying them.

The transactor knows no tempids and no upserts: entities are given by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from dbsp.edn import Keyword

from .identity import identity

TX0 = 2**42
IDENT, TYPE, CARDINALITY = (Keyword(f"db/{name}") for name in ("ident", "valueType", "cardinality"))
UNIQUE, COMPONENT, INSTANT = (Keyword(f"db/{name}") for name in ("unique", "isComponent", "txInstant"))


class Fact(NamedTuple):
    e: int
    a: Keyword
    v: Any
    tx: int
    added: bool


@dataclass(frozen=True)
class Attribute:
    ref: bool = False
    many: bool = False
    component: bool = False


Schema = Mapping[Keyword, Attribute]


def key(fact: Sequence[Any]) -> Any:
    return identity(tuple(fact[:3]))


@dataclass
class Source:
    """A value of a database: its datoms, and the facts that identifiers are looked up in."""

    datoms: list[Fact]
    schema: Schema
    known: list[Fact]
    _entities: dict[Any, int] | None = None

    def entity(self, identifier: Any) -> Any:
        """Resolve a lookup ref or an ident; other values stand for themselves."""
        if isinstance(identifier, Keyword):
            return self._only(IDENT, identifier)
        if isinstance(identifier, tuple) and len(identifier) == 2 and isinstance(identifier[0], Keyword):
            attribute, value = identifier
            return self._only(attribute, self.entity(value) if self.is_ref(attribute) else value)
        return identifier

    def _only(self, attribute: Keyword, value: Any) -> int | None:
        if self._entities is None:
            self._entities = {(f.a, identity(f.v)): f.e for f in self.known}
        return self._entities.get((attribute, identity(value)))

    def is_ref(self, attribute: Any) -> bool:
        return isinstance(attribute, Keyword) and self.schema.get(attribute, Attribute()).ref

    def values(self, entity: Any, attribute: Keyword) -> list[Any]:
        return [f.v for f in self.datoms if f.e == entity and f.a == attribute]


def replay(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts that hold after all these datoms, with their transactions."""
    current: dict[Any, Fact] = {}
    for fact in facts:
        if fact.added:
            current[key(fact)] = fact
        else:
            current.pop(key(fact), None)
    return list(current.values())


@dataclass
class Model:
    """The datoms of every transaction; the transaction with number t is at index t - 1."""

    transactions: list[list[Fact]] = field(default_factory=list)
    schema: dict[Keyword, Attribute] = field(default_factory=dict)
    start: list[Fact] = field(default_factory=list)
    """The facts of an empty database."""
    _sources: dict[Any, Source] = field(default_factory=dict)

    @property
    def t(self) -> int:
        return len(self.transactions)

    def facts(self, since: int = 0, until: int | None = None) -> list[Fact]:
        """Return the datoms of the transactions after `since`, up to `until`."""
        chosen = [] if since else list(self.start)
        for transaction in self.transactions[since:until]:
            chosen += transaction
        return chosen

    def source(self, *, since: int = 0, until: int | None = None, history: bool = False) -> Source:
        """Return the database as of `until`, restricted to what was added after `since`."""
        key = (self.t, since, until, history)
        if key not in self._sources:
            facts = self.facts(since, until)
            current = replay(facts)
            known = replay(self.facts(0, until)) if since else current
            self._sources[key] = Source(facts if history else current, self.schema, known)
        return self._sources[key]

    def record(self, facts: Iterable[Sequence[Any]]) -> None:
        """Append the datoms of one transaction."""
        self.transactions.append([Fact(*fact) for fact in facts])
        self._learn()

    def _learn(self) -> None:
        """Read the attributes from the facts about them."""
        installed: dict[int, dict[Keyword, Any]] = {}
        for fact in replay(self.facts()):
            installed.setdefault(fact.e, {})[fact.a] = fact.v
        for known in installed.values():
            if CARDINALITY in known:
                # A type is an ident, or the entity that has the ident.
                kind, number = (
                    installed[value][IDENT] if isinstance(value, int) else value
                    for value in (known.get(TYPE), known[CARDINALITY])
                )
                self.schema[known[IDENT]] = Attribute(
                    repr(kind) == ":db.type/ref",
                    repr(number) == ":db.cardinality/many",
                    known.get(COMPONENT) is True,
                )

    # --- the transactor ------------------------------------------------------------------------

    def transact(self, items: Iterable[Any]) -> list[Fact]:
        """Append a transaction and return its datoms."""
        facts = {key(fact): fact for fact in replay(self.facts())}
        tx = TX0 + self.t + 1
        changes: list[Fact] = []

        def retract(fact: Fact) -> None:
            if facts.pop(key(fact), None) is not None:
                changes.append(Fact(fact.e, fact.a, fact.v, tx, False))

        def assert_(entity: Any, attribute: Keyword, value: Any) -> None:
            new = Fact(entity, attribute, value, tx, True)
            if key(new) in facts:
                return
            if not self.schema.get(attribute, Attribute()).many:
                for old in [f for f in facts.values() if f.e == entity and f.a == attribute]:
                    retract(old)
            facts[key(new)] = new
            changes.append(new)

        def forget(entity: Any) -> None:
            for fact in list(facts.values()):
                of = self.schema.get(fact.a, Attribute())
                if fact.e == entity or (of.ref and fact.v == entity):
                    retract(fact)
                    if fact.e == entity and of.component:
                        forget(fact.v)

        def value_of(attribute: Keyword, value: Any) -> Any:
            known = Source([], self.schema, list(facts.values()))
            return known.entity(value) if known.is_ref(attribute) else value

        assert_(tx, INSTANT, datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=self.t))
        for item in items:
            if isinstance(item, Mapping):
                entity = item.get(Keyword("db/id"), 2**43 + 1000 * self.t + len(changes))
                for attribute, value in item.items():
                    if repr(attribute) != ":db/id":
                        many = self.schema.get(attribute, Attribute()).many
                        for each in value if many and isinstance(value, (list, tuple)) else [value]:
                            assert_(entity, attribute, value_of(attribute, each))
                continue
            operation, entity, *rest = item
            if repr(operation) == ":db/add":
                assert_(entity, rest[0], value_of(rest[0], rest[1]))
            elif repr(operation) == ":db/retract":
                retract(Fact(entity, rest[0], value_of(rest[0], rest[1]), tx, False))
            elif repr(operation) == ":db/retractEntity":
                forget(entity)
            else:
                raise ValueError(f"the model has no operation {operation}")
        self.record(changes)
        return changes
