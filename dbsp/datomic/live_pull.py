"""Pulled values of a live query: a transaction recomputes those whose facts it changes.

    P(row) = the row with pulled values in place of entities
    delta  = P'(new rows) - P(lost rows) + sum over the kept rows that read changed facts of
             P'(row) - P(row)

A pull reports which entities it reads, so a step costs the rows that read a changed entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.batch import Batch
from dbsp.data.value_order import order_key
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Schema
from dbsp.datomic.pull import pull_with_reads
from dbsp.datomic.query_results import Row, pulled_entity
from dbsp.errors import full_repr
from dbsp.lazy_dataclass import dataclass

_Key: TypeAlias = tuple[Any, ...]
"""A row in a form in which 1, 1.0 and true differ."""


class PullPatterns(Protocol):
    """Returns the pull pattern of an element of `:find`."""

    def __call__(self, element: tree.FindPull) -> Any: ...


@dataclass(slots=True)
class _Pulled:
    """A row of the result, and the entities that its pulled values depend on."""

    row: Row
    """The row of the query, with entities where values are pulled."""
    value: Row
    reads: frozenset[int]


class LivePull:
    """The rows of a live query with their pulled values.

    Args:
        find: the elements of `:find`.
        pattern: finds the pull pattern of an element.
        facts: the facts of each source.
        rows: the rows of the query, with entities where values are pulled.
    """

    def __init__(
        self, find: tree.Find, pattern: PullPatterns, facts: dict[str, Facts], rows: Iterable[Row]
    ) -> None:
        self._find = find
        self._pattern = pattern
        self.facts = facts
        self._pulled: dict[_Key, _Pulled] = {}
        self._readers: dict[int, set[_Key]] = {}
        self._named: set[_Key] = set()
        """The rows with an ident or a lookup ref, whose entity may change."""
        self._schema: Schema | None = None
        for row in rows:
            self._add(row)

    def rows(self) -> list[Row]:
        """Return the rows with the pulled values, in the order of the rows without them."""
        return [self._pulled[key].value for key in sorted(self._pulled)]

    def step(
        self, delta: Iterable[tuple[Row, int]], schema: Schema, changed: Mapping[int, Batch]
    ) -> list[tuple[Row, int]]:
        """Return the change of the result; `changed` has the changed facts (e, v) by attribute."""
        found: list[tuple[Row, int]] = []
        new: list[Row] = []
        for row, weight in delta:
            if weight < 0:
                found.append((self._remove(row).value, -1))
            else:
                new.append(row)
        for key in self._affected(schema, changed):
            kept = self._remove_key(key)
            before, after = kept.value, self._add(kept.row)
            if before != after or full_repr(before) != full_repr(after):  # 1 may become true
                found += [(before, -1), (after, 1)]
        found += [(self._add(row), 1) for row in new]
        return found

    def _affected(self, schema: Schema, changed: Mapping[int, Batch]) -> list[_Key]:
        if schema is not self._schema:
            self._schema = schema
            return list(self._pulled)
        touched: set[int] = set()
        for attribute, batch in changed.items():
            touched.update(batch.rows[:, 0].tolist())
            if schema.by_id[attribute].is_ref:
                touched.update(batch.rows[:, 1].tolist())
        readers = dict.fromkeys(self._named)
        for entity in touched:
            readers.update(dict.fromkeys(self._readers.get(entity, ())))
        return list(readers)

    def _add(self, row: Row) -> Row:
        values: list[Any] = []
        reads: set[int] = set()
        named = False
        for element, value in zip(self._find.elements, row, strict=True):
            if isinstance(element, tree.FindPull):
                facts = self.facts[element.source]
                named = named or not isinstance(value, int)
                entity = pulled_entity(facts, element, value)
                pulled = pull_with_reads(facts, self._pattern(element), entity)
                reads |= pulled.entities | pulled.referenced
                value = pulled.value
            values.append(value)
        key = order_key(row)
        found = self._pulled[key] = _Pulled(row, tuple(values), frozenset(reads))
        if named:
            self._named.add(key)
        for entity in reads:
            self._readers.setdefault(entity, set()).add(key)
        return found.value

    def _remove(self, row: Row) -> _Pulled:
        return self._remove_key(order_key(row))

    def _remove_key(self, key: _Key) -> _Pulled:
        found = self._pulled.pop(key)
        self._named.discard(key)
        for entity in found.reads:
            readers = self._readers[entity]
            readers.discard(key)
            if not readers:
                del self._readers[entity]
        return found
