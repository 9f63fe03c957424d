"""Pull: trees of facts about an entity, as a pattern describes them.

A result is a dict with keywords as keys. The value of an attribute of cardinality many is a list,
sorted; that of a ref is `{:db/id n}`, what a nested pattern selects, or, of a component, the whole
component. Attributes without a value are absent, and an entity about which a nested pattern finds
nothing is dropped.

A recursive pattern that comes to an entity again, below itself, returns `{:db/id n}` of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dbsp.data.value_order import order_key
from dbsp.data.values import decode_value
from dbsp.datomic.entity_ids import entity_id
from dbsp.datomic.pull_pattern import (
    ABSENT,
    DB_ID,
    EVERYTHING,
    PullPlan,
    Selection,
    plain_selection,
)
from dbsp.datomic.pull_syntax import parse_pattern
from dbsp.errors import UserFunctionError, cause_text
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dbsp.datomic.database_facts import Facts
    from dbsp.datomic.database_schema import Attribute

Pulled: TypeAlias = "dict[Any, Any] | None"


class PullReads(NamedTuple):
    """The result of a pull, and which facts it depends on, besides the schema.

    Attributes:
        value: the result.
        entities: the entities whose own facts were read.
        referenced: the entities for which the references to them were read.
    """

    value: Pulled
    entities: frozenset[int]
    referenced: frozenset[int]


def pull(facts: Facts, pattern: Any, entity: Any) -> Pulled:
    """Return the facts about an entity that a pattern selects; None if there are none.

    Parameters:
        facts: the database.
        pattern: EDN text, EDN values, data of Python or a `PullPattern`.
        entity: an id, an ident or a lookup ref. If an ident or a lookup ref has no entity, the
            result is `{:db/id None}` for a pattern with `:db/id` or `*`, otherwise None.

    Raises:
        CompileError: the pattern is not a pattern, or its attributes do not fit the schema.
        InputError: the entity is not an id, ident or lookup ref.
        UserFunctionError: a function of `:xform` raised an exception.

    Cost: O(log n) per attribute, and the values.
    """
    return _Puller(facts).pull(parse_pattern(pattern).plan(facts.schema), entity_id(facts, entity))


def pull_many(facts: Facts, pattern: Any, entities: Iterable[Any]) -> list[Pulled]:
    """Return the results of `pull` for many entities, in their order."""
    plan = parse_pattern(pattern).plan(facts.schema)
    puller = _Puller(facts)
    return [puller.pull(plan, entity_id(facts, entity)) for entity in entities]


def pull_with_reads(facts: Facts, pattern: Any, entity: int | None) -> PullReads:
    """Return the result of `pull` for an entity id, and the entities that it depends on.

    None is an ident or a lookup ref without an entity.

    A transaction without a datom about `entities`, without a datom that refers to one of
    `referenced`, and without a change of the schema leaves the value as it is.
    """
    puller = _Puller(facts)
    value = puller.pull(parse_pattern(pattern).plan(facts.schema), entity)
    return PullReads(value, frozenset(puller.entities), frozenset(puller.referenced))


@dataclass(slots=True)
class _Level:
    """What a recursion through a pattern has passed on its way from the first entity."""

    plan: PullPlan
    above: set[int] = field(default_factory=set)
    """The entities that the recursion came to, from the first one to the current one."""
    left: dict[Selection, int] = field(default_factory=dict)
    """How much deeper each recursion with a limit may go."""


# The frame of an entity requests frames of other entities, so depth needs no stack of Python.
_Request: TypeAlias = "tuple[_Level, int]"
_Frame: TypeAlias = Generator[_Request, Pulled, Any]


class _Puller:
    """Evaluates patterns and notes what it reads."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.entities: set[int] = set()
        self.referenced: set[int] = set()

    def pull(self, plan: PullPlan, entity: int | None) -> Pulled:
        """Return the result for one entity."""
        if entity is None:
            return {selection.key: None for selection in plan.ids} or None
        frames = [self._entity(_Level(plan), entity)]
        result: Pulled = None
        while frames:
            try:
                request = frames[-1].send(result)
            except StopIteration as end:
                frames.pop()
                result = end.value
            else:
                frames.append(self._entity(*request))
                result = None
        return result

    def _entity(self, level: _Level, entity: int) -> _Frame:
        """Return what the pattern of a level selects of an entity."""
        plan = level.plan
        found: dict[Any, Any] = {}
        self.entities.add(entity)
        for selection in plan.ids:
            found[selection.key] = _transformed(selection, entity)
        if plan.wildcard:
            yield from self._wildcard(level, entity, found)
        for selection in plan.selections:
            value = yield from self._selected(level, selection, entity)
            if value is not ABSENT:
                found[selection.key] = _transformed(selection, value)
            elif selection.default is not ABSENT:
                found[selection.key] = selection.default
        return found or None

    def _wildcard(self, level: _Level, entity: int, found: dict[Any, Any]) -> _Frame:
        """Add the attributes that the pattern does not name."""
        codes: dict[int, list[int]] = {}
        for attribute_id, code in self.facts.entity_datoms(entity):
            if attribute_id not in level.plan.named:
                codes.setdefault(attribute_id, []).append(code)
        for attribute_id, values in codes.items():
            attribute = self.facts.schema.by_id[attribute_id]
            value = yield from self._values(level, plain_selection(attribute), values)
            if value is not ABSENT:
                found[attribute.ident] = value

    def _selected(self, level: _Level, selection: Selection, entity: int) -> _Frame:
        """Return the value of one part of a pattern, or ABSENT."""
        attribute = selection.attribute
        if selection.reverse:
            self.referenced.add(entity)
        if attribute is None:
            return ABSENT
        if selection.reverse:
            codes = self.facts.entities(attribute, entity)
        else:
            codes = self.facts.values(entity, attribute)
        return (yield from self._values(level, selection, codes))

    def _values(self, level: _Level, selection: Selection, codes: Sequence[int]) -> _Frame:
        """Return what a result shows of the values of an attribute, or ABSENT."""
        attribute = selection.attribute
        if not codes or attribute is None:
            return ABSENT
        if not attribute.is_ref:
            values = self._decoded(attribute, codes)
        else:
            values = []
            limit = selection.limit if selection.many else 1
            for child in sorted(codes)[:limit]:
                value = yield from self._child(level, selection, child)
                if value is not None:
                    values.append(value)
        if not values:
            return ABSENT
        return values[: selection.limit] if selection.many else values[0]

    def _child(self, level: _Level, selection: Selection, child: int) -> _Frame:
        """Return what a result shows of an entity that a ref leads to; None to drop it."""
        nested = selection.nested
        if nested is not None:
            return (yield _Level(nested), child)
        recursive = selection.recursive
        if not recursive and not selection.expands:
            return {DB_ID: child}
        if not recursive and level.plan is not EVERYTHING:
            level = _Level(EVERYTHING)  # a component has its own wildcard
        if child in level.above:
            return {DB_ID: child}
        left = level.left
        if selection.depth is not None:
            depth = left.get(selection, selection.depth)
            if depth == 0:
                return None
            left = {**left, selection: depth - 1}
        level.above.add(child)
        value = yield _Level(level.plan, level.above, left), child
        level.above.discard(child)
        return value

    def _decoded(self, attribute: Attribute, codes: Sequence[int]) -> list[Any]:
        """Return the values of an attribute that is not a ref, in order."""
        type_, interner = attribute.type, self.facts.interner
        values = [decode_value(type_, code, interner) for code in codes]
        return sorted(values, key=order_key) if len(values) > 1 else values


def _transformed(selection: Selection, value: Any) -> Any:
    """Return the value after the function of `:xform`."""
    if selection.transform is None:
        return value
    try:
        return selection.transform(value)
    except Exception as error:
        raise UserFunctionError(
            f"pull: the function of :xform of {selection.name} raised {cause_text(error)}"
        ) from error
