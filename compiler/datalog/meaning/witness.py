"""Bind variables that only the body of a `min` or `max` binds, to the rows that have the extreme.

    tallest(s, h) :- h = max x : { student(s, x) }.

returns the students `s` of the greatest height, the witnesses. It means

    tallest(s, h) :- h = max x : { student(t, x) }, student(s, y), y = max x : { student(t, x) }.

A copy of the body outside of the aggregate finds the rows whose expression equals the extreme; in
the aggregate itself the variable gets a new name. This is the meaning in Soufflé. `count`, `sum`
and `mean` have no witnesses. An aggregate within an aggregate is treated in the same way, in the
body of the outer one. A witness that the rule around the outer one uses is bound in that rule:

    f(n, w) :- n = count : { b(x), x > min y : { d(y, w) } }.

means `n = count : { b(x), x > min y : { d(y, v) } }, d(z, w), z = min y : { d(y, v) }`. That needs
an inner aggregate that does not depend on the rows of the outer one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any

from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.ground import bound_variables
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, map_children, outer_variables, rename, variables

_EXTREMES = ("min", "max")


def ground_witnesses(clause: FlatClause) -> FlatClause:
    """The clause with additional literals that bind every witness."""
    if not any(aggregate.function in _EXTREMES for aggregate in find(clause, syntax.Aggregate)):
        return clause
    scope = _WitnessedBody(clause.body, set(), clause.head.arguments, count(1))
    head = map_children(clause.head, scope.part)
    return replace(clause, head=head, body=scope.grounded())


class _WitnessedBody:
    """A body, the variables bound around it, and the outer terms whose variables it must bind."""

    def __init__(
        self,
        body: Iterable[syntax.Literal],
        given: set[str],
        results: Iterable[syntax.Term],
        numbers: count[int],
    ) -> None:
        self.body = list(body)
        self.given = given
        self.results = tuple(results)
        self.numbers = numbers

    def grounded(self) -> tuple[syntax.Literal, ...]:
        """The body with its witnesses bound."""
        place = 0
        while place < len(self.body):  # the added literals may contain aggregates, too
            self.body[place] = map_children(self.body[place], self.part)
            place += 1
        return tuple(self.body)

    def part(self, node: Any) -> Any:
        """A part of a literal with the witnesses of its aggregates bound."""
        return self._aggregate(node) if isinstance(node, syntax.Aggregate) else map_children(node, self.part)

    def _aggregate(self, aggregate: syntax.Aggregate) -> syntax.Aggregate:
        bound = bound_variables(self.body, self.given, needs=outer_variables)
        if aggregate.function in _EXTREMES and aggregate.value is not None:
            witnesses = self._needed(bound) & bound_variables(aggregate.literals, needs=outer_variables)
            if witnesses:
                aggregate = self._bind(aggregate, aggregate.value, witnesses, bound)
        aggregate = self._lifted(aggregate, bound, bound)
        value = () if aggregate.value is None else (aggregate.value,)
        own = frozenset().union(*(variables(term, into_aggregates=False) for term in value))
        inner = _WitnessedBody(aggregate.literals, bound - own, value, self.numbers).grounded()
        return replace(aggregate, body=inner)

    def _lifted(self, aggregate: syntax.Aggregate, bound: set[str], given: set[str]) -> syntax.Aggregate:
        """The aggregate, with the witnesses of the aggregates within it bound in this body.

        `bound` has the variables that this body binds, and `given` also those of the aggregates
        around this aggregate.
        """
        inside = bound_variables(aggregate.literals, given, needs=outer_variables)

        def part(node: Any) -> Any:
            if not isinstance(node, syntax.Aggregate):
                return map_children(node, part)
            if node.function in _EXTREMES and node.value is not None:
                own = variables(node.value, into_aggregates=False)
                witnesses = self._needed(bound) & bound_variables(node.literals, needs=outer_variables)
                if witnesses - inside and (inside - bound).isdisjoint(variables(node) - own):
                    node = self._bind(node, node.value, witnesses - inside, bound)
            return self._lifted(node, bound, inside)

        return replace(aggregate, body=tuple(part(literal) for literal in aggregate.literals))

    def _needed(self, bound: set[str]) -> set[str]:
        """The variables that are still unbound."""
        found = (variables(part, into_aggregates=False) for part in (*self.results, *self.body))
        return set().union(*found) - bound

    def _bind(
        self, aggregate: syntax.Aggregate, value: syntax.Term, witnesses: set[str], bound: set[str]
    ) -> syntax.Aggregate:
        """Add literals that bind the witnesses; return the aggregate with new names for them.

        `value` is the expression of the aggregate.
        """
        number = next(self.numbers)
        # Variables of the expression are local, even if the rule binds a variable of that name.
        own = variables(value, into_aggregates=False)
        names = variables(aggregate) - witnesses
        copies = {name: f"{name}#c{number}" for name in names if name in own or name not in bound}
        inside = rename(aggregate, {name: f"{name}#w{number}" for name in witnesses})
        self.body.extend(rename(aggregate, copies).literals)
        self.body.append(syntax.Comparison("=", rename(value, copies), inside, aggregate.span))
        return inside
