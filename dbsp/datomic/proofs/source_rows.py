"""The rows of a source of a query that match a pattern: ranges of the indices, or tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from dbsp.compiler.datomic.meaning.base_relations import COLUMNS
from dbsp.compiler.datomic.meaning.checked_rules import storable
from dbsp.compiler.datomic.meaning.draft_writer import as_keyword
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.values import encode_value
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.fact_lookups import rows_with_prefix
from dbsp.datomic.proofs.same_values import Environment, extended, same
from dbsp.datomic.query_sources import TracedFacts, known_attribute
from dbsp.datomic.relation_key import RelationKey
from dbsp.datomic.value_codes import canonical, decode_one
from dbsp.edn.edn_values import Keyword
from dbsp.errors import expect_present, expect_type
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.lazy_dataclass import dataclass

_PLAIN_TYPES = {"int": int, "float": float, "str": str}


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row of a source that a pattern matches; a datom has its attribute as a keyword."""

    source: str
    values: tuple[Any, ...]
    is_datom: bool


@dataclass(frozen=True, slots=True)
class TupleSource:
    """A collection of tuples."""

    name: str
    tuples: Sequence[Sequence[Any]]

    def matches(self, clause: tree.Pattern, given: Environment) -> Iterator[tuple[Environment, FoundRow]]:
        """Yield the environments after a pattern, each with the tuple that it matches."""
        width = len(clause.terms)
        for row in self.tuples:
            if len(row) >= width:
                values = tuple(map(storable, row[:width]))
                found = _unified(given, zip(clause.terms, values, strict=True))
                if found is not None:
                    yield found, FoundRow(self.name, values, is_datom=False)


class DatomSource:
    """The datoms of a database; `facts` are those of one time, or a history."""

    def __init__(self, name: str, facts: TracedFacts, is_history: bool) -> None:
        self.name = name
        self.facts = facts
        self.is_history = is_history

    def attribute(self, name: Any) -> Attribute | None:
        """Return the attribute that a constant names; None if the database does not have it."""
        schema = self.facts.schema
        if isinstance(name, int) and not isinstance(name, bool):
            return schema.by_id.get(name)
        return schema.by_ident.get(as_keyword(name))

    def matches(self, clause: tree.Pattern, given: Environment) -> Iterator[tuple[Environment, FoundRow]]:
        """Yield the environments after a pattern, each with the datom that it matches."""
        terms: dict[str, tree.Term] = dict(zip(COLUMNS, clause.terms, strict=False))
        attributes = self._attributes(terms.get("a"), given)
        named = attributes is not None and isinstance(terms.get("a"), tree.Constant)
        bound: dict[str, list[Any]] = {}
        for column in ("e", "v", "tx"):
            if column in terms:
                attribute = attributes[0] if named and attributes else None
                values = self._values(terms[column], column, attribute, given)
                if values is not None:
                    bound[column] = values
        wide = "tx" in terms
        for entity in bound.get("e", [None]):
            for value in bound.get("v", [None]):
                for row in self._rows(attributes, entity, value, "e" in bound, "v" in bound, wide):
                    if "tx" in bound and row[3] not in bound["tx"]:
                        continue
                    found = self._unified(terms, row, given)
                    if found is not None:
                        yield found, FoundRow(self.name, self._shown(row, terms), is_datom=True)

    def values(self, entity: Any, attribute: Attribute | None) -> list[Any]:
        """Return the values of an attribute of an entity."""
        if attribute is None:
            return []
        return [row[2] for row in self._rows([attribute], entity, None, True, False, False)]

    def fact(self, entity: Any, attribute: Attribute | None, value: Any) -> tuple[FoundRow, tuple[int, Any]]:
        """Return a fact, and what `get-some` returns for it: the attribute and the value."""
        known = expect_present(attribute, "the attribute of a fact")
        return FoundRow(self.name, (entity, known.ident, value), is_datom=True), (known.id, value)

    def default(self, term: tree.Argument, attribute: Attribute | None) -> Any:
        """Return the default of `get-else`: a text such as ":red" may stand for a keyword."""
        constant = expect_type(term, tree.Constant, "a default")
        is_keyword = attribute is not None and known_attribute(attribute).names_keyword
        value = as_keyword(constant.value) if not constant.quoted and is_keyword else constant.value
        return storable(value)

    def entities(self, term: tree.Term | tree.Argument, given: Environment) -> list[Any] | None:
        """Return the entities that a term stands for; None for one without a value."""
        return self._values(term, "e", None, given)

    # --- terms ------------------------------------------------------------------------------------

    def _attributes(self, term: tree.Term | None, given: Environment) -> list[Attribute] | None:
        """Return the attributes that a term allows; None for all."""
        if isinstance(term, tree.Constant):
            found = self.attribute(term.value)
            return [] if found is None else [found]
        if isinstance(term, tree.Variable) and term.name in given:
            known = self.facts.schema.by_id.get(_entity_id(given[term.name]))
            return [] if known is None else [known]
        return None

    def _values(
        self, term: tree.Term | tree.Argument, column: str, attribute: Attribute | None, given: Environment
    ) -> list[Any] | None:
        """Return the values that a term allows in a column; None if it allows all."""
        if isinstance(term, tree.Variable):
            return [given[term.name]] if term.name in given else None
        if not isinstance(term, tree.Constant):
            return None
        if column == "v" and (attribute is None or not attribute.is_ref):
            is_keyword = attribute is not None and known_attribute(attribute).names_keyword
            value = as_keyword(term.value) if not term.quoted and is_keyword else term.value
            return [value]
        value = term.value if term.quoted else as_keyword(term.value)
        if isinstance(value, Keyword):
            value = (Keyword("db/ident"), value)
        return self._looked_up(value, term) if isinstance(value, tuple) else [value]

    def _looked_up(self, value: tuple[Any, ...], term: tree.Constant) -> list[Any]:
        """Return the entities of a lookup ref."""
        name, constant = value
        attribute = self.attribute(name)
        if attribute is None:
            return []
        if attribute.is_ref:
            values = self._values(tree.Constant(constant, term.span), "v", attribute, {}) or []
        else:
            values = [canonical(attribute, constant)]
        return [row[0] for each in values for row in self._rows([attribute], None, each, False, True, False)]

    def _unified(self, terms: Mapping[str, tree.Term], row: Row, given: Environment) -> Environment | None:
        """Match the variables of a pattern with a row (e, attribute, v, tx, added)."""
        entity, attribute, value, tx, added = row
        columns = {"e": entity, "a": attribute.id, "v": value, "tx": tx, "added": added}
        pairs = ((term, columns[column]) for column, term in terms.items())
        found = _unified(given, ((term, value) for term, value in pairs if isinstance(term, tree.Variable)))
        sign = terms.get("added")
        if isinstance(sign, tree.Constant) and (sign.value is True) is not added:
            return None
        return found

    def _shown(self, row: Row, terms: Mapping[str, tree.Term]) -> tuple[Any, ...]:
        entity, attribute, value, tx, added = row
        shown = (entity, attribute.ident, value)
        if self.is_history:
            return (*shown, tx, added)
        return (*shown, tx) if "tx" in terms else shown

    # --- ranges of the indices --------------------------------------------------------------------

    def _rows(
        self,
        attributes: Sequence[Attribute] | None,
        entity: Any,
        value: Any,
        has_entity: bool,
        has_value: bool,
        wide: bool,
    ) -> Iterator[Row]:
        """Yield rows (e, attribute, v, tx, added); without `wide` tx is 0, except in a history."""
        wide = wide or self.is_history
        if has_entity:
            entity = _entity_id(entity)
            if entity is None:
                return
        if attributes is None and not has_value:
            yield from self._of_all(entity, wide)
            return
        for attribute in self.facts.schema.by_id.values() if attributes is None else attributes:
            columns: tuple[str, ...] = ("e", "v", *(("tx",) if wide else ()))
            columns += ("added",) if self.is_history else ()
            prefix: list[int] = [entity] if has_entity else []
            order = columns
            if has_value:
                code = self._code(attribute, value)
                if code is None:
                    continue
                prefix.append(code)
                order = columns if has_entity else ("v", "e", *columns[2:])
            rows = self._found(RelationKey(attribute.id, columns), order, prefix)
            yield from self._decoded(rows, order, attribute)

    def _of_all(self, entity: int | None, wide: bool) -> Iterator[Row]:
        columns: tuple[str, ...] = ("e", "a", "v", *(("tx",) if wide else ()))
        columns += ("added",) if self.is_history else ()
        rows = self._found(RelationKey(None, columns), columns, [] if entity is None else [entity])
        for row in rows:
            attribute = self.facts.schema.by_id[int(row[1])]
            yield from self._decoded(row[None, :], columns, attribute)

    def _found(self, key: RelationKey, order: tuple[str, ...], prefix: list[int]) -> Codes:
        rows = rows_with_prefix(self.facts.trace(key, order), prefix)
        if not prefix:
            return rows
        return np.hstack((np.tile(np.array(prefix, np.int64), (len(rows), 1)), rows))

    def _decoded(self, rows: Codes, order: Sequence[str], attribute: Attribute) -> Iterator[Row]:
        places = {name: place for place, name in enumerate(order)}
        for row in rows.tolist():
            value = decode_one(attribute, row[places["v"]], self.facts.interner)
            tx = row[places["tx"]] if "tx" in places else 0
            added = bool(row[places["added"]]) if "added" in places else True
            yield row[places["e"]], attribute, value, tx, added

    def _code(self, attribute: Attribute, value: Any) -> int | None:
        """Return the code of a value of an attribute; None if no datom has it."""
        kind = attribute.type.kind
        plain = _PLAIN_TYPES.get(kind)
        if plain is not None and type(value) is not plain:
            return None
        if plain is int:
            return value if INT64_MIN <= value <= INT64_MAX else None
        if plain is float:
            return encode_value(attribute.type, value, self.facts.interner)
        return self.facts.interner.find(storable(value))


Row = tuple[int, Attribute, Any, int, bool]
"""A datom: entity, attribute, value, transaction and whether it is an assertion."""

Source = DatomSource | TupleSource


def sources_of(
    facts: Mapping[str, TracedFacts], histories: Iterable[str], tuples: Mapping[str, Sequence[Sequence[Any]]]
) -> dict[str, Source]:
    """Return the sources of a query by name; `histories` are those that are a history."""
    past = set(histories)
    found: dict[str, Source] = {name: DatomSource(name, each, name in past) for name, each in facts.items()}
    return found | {name: TupleSource(name, rows) for name, rows in tuples.items()}


def as_facts(facts: TracedFacts) -> Facts:
    """Return the facts for look-ups of entities; a database has both."""
    return cast("Facts", facts)


def _entity_id(value: Any) -> Any:
    """Return a value as the id of an entity; None if it cannot be one."""
    is_id = isinstance(value, int) and not isinstance(value, bool) and INT64_MIN <= value <= INT64_MAX
    return value if is_id else None


def _unified(given: Environment, pairs: Iterable[tuple[tree.Term, Any]]) -> Environment | None:
    """Match terms with values; None if one does not fit."""
    found: Environment | None = given
    for term, value in pairs:
        if found is None:
            return None
        if isinstance(term, tree.Variable):
            found = extended(found, term.name, value)
        elif isinstance(term, tree.Constant) and not same(storable(term.value), value):
            return None
    return found
