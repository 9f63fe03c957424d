"""The rows of rules, for calls with some arguments bound.

Each call with other bound values is a table. The tables of one recursion are filled together: a
table is evaluated again whenever a table that it reads has grown. A table of another recursion is
completed first, so a negation reads complete tables only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from dbsp.compiler.datomic.meaning.called_rules import rule_components
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.datomic.proofs.same_values import identity
from dbsp.lazy_dataclass import dataclass

Values: TypeAlias = tuple[Any, ...]
_Key: TypeAlias = tuple[str, str, tuple[Any, ...]]

Evaluate: TypeAlias = Callable[[tree.RuleDefinition, Sequence[Any], str], Iterable[Values]]
"""Yields the rows of a definition for arguments over a source."""


class _Unbound:
    def __repr__(self) -> str:
        return "_"


UNBOUND = _Unbound()
"""Stands for an argument without a value."""


@dataclass
class _Table:
    """The rows of a call so far, and the calls that have read them."""

    name: str
    source: str
    arguments: Values
    rows: dict[Any, Values] = field(default_factory=dict)
    readers: set[_Key] = field(default_factory=set)


@dataclass
class _Recursion:
    """The tables of one recursion while they grow."""

    rules: frozenset[str]
    tables: dict[_Key, _Table] = field(default_factory=dict)
    waiting: dict[_Key, None] = field(default_factory=dict)
    current: _Key | None = None


class RuleRows:
    """The tables of the calls of rules."""

    def __init__(self, rules: Mapping[str, Sequence[tree.RuleDefinition]], evaluate: Evaluate) -> None:
        self._rules = rules
        self._evaluate = evaluate
        self._components = rule_components(rules)
        self._complete: dict[_Key, list[Values]] = {}
        self._growing: list[_Recursion] = []

    def rows(self, name: str, source: str, arguments: Values) -> list[Values]:
        """Return the rows of a rule for arguments, of which some are `UNBOUND`.

        Inside of a recursion these are the rows so far; the caller is evaluated again.
        """
        bound = tuple(None if value is UNBOUND else (identity(value),) for value in arguments)
        key = (name, source, bound)
        found = self._complete.get(key)
        if found is not None:
            return found
        around = self._growing[-1] if self._growing else None
        if around is None or name not in around.rules:
            return self._completed(key, arguments)
        table = self._table(around, key, arguments)
        if around.current is not None:
            table.readers.add(around.current)
        return list(table.rows.values())

    def _table(self, recursion: _Recursion, key: _Key, arguments: Values) -> _Table:
        table = recursion.tables.get(key)
        if table is None:
            table = recursion.tables[key] = _Table(key[0], key[1], arguments)
            recursion.waiting[key] = None
        return table

    def _completed(self, key: _Key, arguments: Values) -> list[Values]:
        recursion = _Recursion(self._components[key[0]])
        self._growing.append(recursion)
        try:
            self._table(recursion, key, arguments)
            while recursion.waiting:
                # The latest call first: its rows are needed by the earlier ones.
                recursion.current, _ = recursion.waiting.popitem()
                self._grow(recursion, recursion.tables[recursion.current])
        finally:
            self._growing.pop()
        for each, table in recursion.tables.items():
            self._complete[each] = list(table.rows.values())
        return self._complete[key]

    def _grow(self, recursion: _Recursion, table: _Table) -> None:
        before = len(table.rows)
        for definition in self._rules[table.name]:
            for row in self._evaluate(definition, table.arguments, table.source):
                table.rows.setdefault(tuple(map(identity, row)), row)
        if len(table.rows) > before:
            for reader in table.readers:
                # Moved to the end if it is waiting already.
                recursion.waiting.pop(reader, None)
                recursion.waiting[reader] = None
