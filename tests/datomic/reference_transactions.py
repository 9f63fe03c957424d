"""A naive transactor for tests: a straightforward reading of the rules, over sets of Python values.

Attributes are strings, entities are ints; there is no schema by data. `Refused` means that the
transaction is not acceptable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Fact = tuple[int, str, Any]


class Refused(Exception):
    """The transaction is not acceptable."""


@dataclass(frozen=True)
class Rule:
    """An attribute of the reference."""

    many: bool = False
    ref: bool = False
    unique: str | None = None
    component: bool = False
    parts: tuple[str, ...] = ()


@dataclass
class Reference:
    """A database of the reference."""

    rules: Mapping[str, Rule]
    facts: set[Fact] = field(default_factory=set)
    next_entity: int = 1

    def transact(self, forms: Sequence[Any]) -> tuple[set[Fact], set[Fact], dict[Any, int]]:
        """Change the database; return what was added, what was removed, and the tempids."""
        found = _Reading(self)
        for form in forms:
            found.read(form)
        name = found.entities()
        adds = {(name[e], a, name[v] if self.rules[a].ref else v) for e, a, v in found.adds}
        retracts = set(found.retracts)
        for e, a, old in found.compared:
            if {v for e2, a2, v in self.facts if (e2, a2) == (e, a)} != ({old} if old is not None else set()):
                raise Refused("cas")
        composed = {fact for fact in adds if self.rules[fact[1]].parts}
        plain = adds - composed
        if plain & retracts:
            raise Refused("assert and retract")
        for e, a, v in plain:
            if not self.rules[a].many and any(e == e2 and a == a2 and v != v2 for e2, a2, v2 in plain):
                raise Refused("two values")
        replaced = {
            (e, a, v)
            for e, a, v in self.facts
            if not self.rules[a].many and any((e, a) == (e2, a2) for e2, a2, _ in plain)
        }
        after = (self.facts - retracts - replaced) | plain
        after = self._composed(after, plain | retracts, composed)
        for a, rule in self.rules.items():
            values = [v for _, a2, v in after if a2 == a]
            if rule.unique and len(set(values)) < len(values):
                raise Refused("unique")
        added, removed = after - self.facts, self.facts - after
        self.facts = after
        self.next_entity = found.next_entity
        return added, removed, {key: name["temp", key] for key in found.tempids}

    def _composed(self, after: set[Fact], touching: set[Fact], asserted: set[Fact]) -> set[Fact]:
        for a, rule in self.rules.items():
            touched = {e for e, a2, _ in touching if a2 in rule.parts} | {
                e for e, a2, _ in asserted if a2 == a
            }
            for e in touched if rule.parts else ():
                values = tuple(
                    next((v for e2, a2, v in after if (e2, a2) == (e, part)), None) for part in rule.parts
                )
                after = {fact for fact in after if fact[:2] != (e, a)}
                if any(value is not None for value in values):
                    after.add((e, a, values))
                given = {v for e2, a2, v in asserted if (e2, a2) == (e, a)}
                if given and (given != {values} or values == (None,) * len(values)):
                    raise Refused("composite")
        return after


class _Reading:
    """The operations of one transaction; entities are ids or names ("temp", key), ("new", n)."""

    def __init__(self, database: Reference) -> None:
        self.database = database
        self.adds: list[tuple[Any, str, Any]] = []
        self.retracts: list[Fact] = []
        self.compared: list[tuple[int, str, Any]] = []
        self.tempids: list[Any] = []
        self.names: list[Any] = []
        self.next_entity = database.next_entity

    def read(self, form: Any) -> None:
        if isinstance(form, dict):
            self.read_map(form)
            return
        operation, *rest = form
        if operation == ":db/add":
            e, a, v = rest
            entity = self.entity(e)
            self.adds.append((entity, a, self.value(a, v)))
        elif operation == ":db/retract" and len(rest) == 3:
            e, a, v = rest
            self.retracts.append((self.known(e), a, self.known(v) if self.database.rules[a].ref else v))
        elif operation == ":db/retract":
            e = self.known(rest[0])
            self.retracts += [fact for fact in self.database.facts if fact[:2] == (e, rest[1])]
        elif operation == ":db/cas":
            e, a, old, new = rest
            ref = self.database.rules[a].ref
            self.compared.append((self.known(e), a, self.known(old) if ref and old is not None else old))
            self.adds.append((self.known(e), a, self.value(a, new)))
        else:
            self.retract_entity(self.known(rest[0]))

    def retract_entity(self, entity: int) -> None:
        rules = self.database.rules
        gone = {entity}
        while more := {
            v for e, a, v in self.database.facts if e in gone and rules[a].component and v not in gone
        }:
            gone |= more
        for e, a, v in self.database.facts:
            if not rules[a].parts and (e in gone or (rules[a].ref and v in gone)):
                self.retracts.append((e, a, v))

    def read_map(self, form: Mapping[str, Any]) -> Any:
        entity = self.entity(form[":db/id"]) if ":db/id" in form else self.new()
        for key, value in form.items():
            if key == ":db/id":
                continue
            if key.startswith(":_"):
                for each in self.members(":" + key[2:], value, True):
                    owner = self.read_map(each) if isinstance(each, dict) else self.entity(each)
                    self.adds.append((owner, ":" + key[2:], entity))
                continue
            for each in self.members(key, value, False):
                if isinstance(each, dict):
                    rules = self.database.rules
                    if not rules[key].component and not any(
                        k == ":db/id" or (k in rules and rules[k].unique) for k in each
                    ):
                        raise Refused("nested map")
                    self.adds.append((entity, key, self.read_map(each)))
                else:
                    self.adds.append((entity, key, self.value(key, each)))
        return entity

    def members(self, a: str, value: Any, reverse: bool) -> Iterable[Any]:
        rule = self.database.rules[a]
        if not (rule.many or reverse) or not isinstance(value, list):
            return [value]
        lookup = len(value) == 2 and isinstance(value[0], str) and value[0] in self.database.rules
        return [value] if lookup else value

    def new(self) -> Any:
        self.names.append(("new", len(self.names)))
        return self.names[-1]

    def entity(self, form: Any) -> Any:
        if isinstance(form, list):
            return self.known(form)
        if isinstance(form, int) and form > 0:
            return form
        if ("temp", form) not in self.names:
            self.names.append(("temp", form))
            self.tempids.append(form)
        return "temp", form

    def value(self, a: str, form: Any) -> Any:
        return self.entity(form) if self.database.rules[a].ref else form

    def known(self, form: Any) -> int:
        if isinstance(form, list):
            a, value = form
            value = self.known(value) if self.database.rules[a].ref else value
            owners = [e for e, a2, v in self.database.facts if (a2, v) == (a, value)]
            if not owners:
                raise Refused("lookup ref")
            return owners[0]
        if isinstance(form, str) or form < 0:
            raise Refused("tempid")
        return form

    def entities(self) -> dict[Any, Any]:
        """The id of each name; ids and values stand for themselves."""
        name = _Names()
        rules, facts = self.database.rules, self.database.facts
        identities = [(e, a, v) for e, a, v in self.adds if rules[a].unique == "identity"]
        changed = True
        while changed:
            changed = False
            for e, a, v in identities:
                value = name[v] if rules[a].ref else v
                owners = [e2 for e2, a2, v2 in facts if (a2, v2) == (a, value)]
                if isinstance(e, int):
                    continue
                others = owners or [
                    e2 for e2, a2, v2 in identities if a2 == a and (name[v2] if rules[a].ref else v2) == value
                ]
                for other in others:
                    changed |= name.unite(e, other)
        for e, a, v in self.adds:
            given = [e, v] if rules[a].ref else [e]
            self.next_entity = max([self.next_entity, *(each + 1 for each in given if isinstance(each, int))])
        for each in self.names:
            if isinstance(name[each], tuple):
                if not any(each == e or name[e] == name[each] for e, _, _ in self.adds):
                    raise Refused("tempid as value only")
                name.unite(each, self.next_entity)
                self.next_entity += 1
        return name


class _Names(dict[Any, Any]):
    """Names and the entities that they stand for."""

    def __missing__(self, key: Any) -> Any:
        return key

    def unite(self, one: Any, other: Any) -> bool:
        """Make two names the same entity; whether that changes anything."""
        one, other = self[one], self[other]
        if one == other:
            return False
        if isinstance(one, int):
            one, other = other, one
        if isinstance(one, int):
            raise Refused("two entities")
        for key in [one, *(key for key, value in self.items() if value == one)]:
            self[key] = other
        return True
