"""The kinds of the variables of draft rules.

Variables that are equal share a class: a variable and the columns in which it stands. A class has
the kind that all its members have; if they differ, or none is known, it has the kind `VALUE`, whose
codes stand for values of any class. Then base relations are read in their boxed form. So a long
and a text that are compared are simply different, as in Datomic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind
from dbsp.compiler.datomic.meaning.draft_rules import (
    QUERY,
    DraftAtom,
    DraftCall,
    DraftQuery,
    DraftSeries,
)

Member: TypeAlias = tuple[str | int, str | int]
"""A variable of a rule, (number of the rule, name), or a column, (relation, position)."""

NUMERIC = (Kind.NUMBER, Kind.FLOAT)
_GIVES: Mapping[str, AnyKind] = {"integer": Kind.NUMBER, "string": Kind.SYMBOL}
_ARITHMETIC = ("+", "-", "*")


class ValueKinds:
    """The kind of every variable and column of a query.

    `inputs` has the kinds of the columns of the inputs, as the arguments have them; a column of
    None accepts the kind of its class.
    """

    def __init__(self, draft: DraftQuery, inputs: Mapping[str, Sequence[AnyKind | None]]) -> None:
        self._parent: dict[Member, Member] = {}
        self._seen: dict[Member, AnyKind] = {}
        for relation, kinds in inputs.items():
            for column, kind in enumerate(kinds):
                if kind is not None:
                    self._note((relation, column), kind)
        for number, rule in enumerate(draft.rules):
            for column, name in enumerate(rule.arguments):
                self._join((number, name), (rule.head, column))
            for name, column in rule.parameters.items():
                self._join((number, name), (QUERY, column))
            for literal in rule.body:
                if isinstance(literal, DraftAtom):
                    for column, name in enumerate(literal.arguments):
                        if literal.base is None:
                            self._join((number, name), (literal.relation, column))
                        else:
                            self._note((number, name), literal.base.own_kind(literal.base.columns[column]))
                elif isinstance(literal, DraftSeries):
                    self._note((number, literal.variable), Kind.NUMBER)
                elif literal.function == "identity" and literal.native and literal.result is not None:
                    self._join((number, literal.arguments[0]), (number, literal.result))
        self._calls = [
            (number, literal)
            for number, rule in enumerate(draft.rules)
            for literal in rule.body
            if isinstance(literal, DraftCall)
            and literal.result is not None
            and literal.function != "identity"
        ]
        self._propagate()

    def of_variable(self, rule: int, name: str) -> AnyKind:
        """Return the kind of a variable of a rule."""
        return self._seen.get(self._find((rule, name)), VALUE)

    def of_column(self, relation: str, column: int) -> AnyKind:
        """Return the kind of a column of an input or of a derived relation."""
        return self._seen.get(self._find((relation, column)), VALUE)

    def _propagate(self) -> None:
        """Give results of functions their kinds; a kind changes at most twice."""
        changed = True
        while changed:
            before = dict(self._seen)
            for number, call in self._calls:
                kinds = [self._seen.get(self._find((number, name))) for name in call.arguments]
                if call.native and call.function in _ARITHMETIC:
                    if None in kinds:
                        continue
                    kind = arithmetic(call.function, kinds) or VALUE
                else:
                    kind = _GIVES.get(call.gives, VALUE)
                self._note((number, call.result or ""), kind)
            changed = before != self._seen
        # A result whose arguments never get a kind is of any kind.

    def _find(self, member: Member) -> Member:
        root = member
        while (above := self._parent.get(root, root)) != root:
            root = above
        while (above := self._parent.get(member, member)) != root and above != member:
            self._parent[member] = root
            member = above
        return root

    def _join(self, one: Member, other: Member) -> None:
        left, right = self._find(one), self._find(other)
        if left == right:
            return
        self._parent[left] = right
        kind = self._seen.pop(left, None)
        if kind is not None:
            self._note(right, kind)

    def _note(self, member: Member, kind: AnyKind) -> None:
        root = self._find(member)
        known = self._seen.get(root)
        self._seen[root] = kind if known is None or known == kind else VALUE


def arithmetic(function: str, kinds: Sequence[AnyKind | None]) -> AnyKind | None:
    """Return the kind of a sum, difference or product that the engine computes, else None."""
    if len(kinds) < 2 or kinds[0] not in NUMERIC or any(kind != kinds[0] for kind in kinds):
        return None
    return kinds[0]
