"""Gives a value to variables that only the body of a `min` or `max` binds: the rows that have the extreme.

    tallest(s, h) :- h = max x : { student(s, x) }.

asks for the students `s` of the greatest height, its witnesses. It means

    tallest(s, h) :- h = max x : { student(t, x) }, student(s, y), y = max x : { student(t, x) }.

The body is asked once more, outside of the aggregate, for rows whose expression is the extreme; the
aggregate itself keeps a variable of its own. This is Soufflé's reading. `count`, `sum` and `mean` have no
witnesses. Aggregates within an aggregate are looked at in the same way, in the body of that.
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
    """The clause with every witness bound by literals of its own."""
    if not any(aggregate.function in _EXTREMES for aggregate in find(clause, syntax.Aggregate)):
        return clause
    scope = _WitnessedBody(clause.body, set(), clause.head.arguments, count(1))
    head = map_children(clause.head, scope.part)
    return replace(clause, head=head, body=scope.grounded())


class _WitnessedBody:
    """A body, what its surroundings bind, and the terms outside of it whose variables it has to bind."""

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
        while place < len(self.body):  # literals that are added may have aggregates, too
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
        value = () if aggregate.value is None else (aggregate.value,)
        own = frozenset().union(*(variables(term, into_aggregates=False) for term in value))
        inner = _WitnessedBody(aggregate.literals, bound - own, value, self.numbers).grounded()
        return replace(aggregate, body=inner)

    def _needed(self, bound: set[str]) -> set[str]:
        """The variables that nothing binds so far."""
        found = (variables(part, into_aggregates=False) for part in (*self.results, *self.body))
        return set().union(*found) - bound

    def _bind(
        self, aggregate: syntax.Aggregate, value: syntax.Term, witnesses: set[str], bound: set[str]
    ) -> syntax.Aggregate:
        """Adds literals that bind the witnesses; the aggregate with other variables for them.

        `value` is the expression of the aggregate.
        """
        number = next(self.numbers)
        # Variables of the expression are the aggregate's own, even where the rule binds one of that name.
        own = variables(value, into_aggregates=False)
        names = variables(aggregate) - witnesses
        copies = {name: f"{name}#c{number}" for name in names if name in own or name not in bound}
        inside = rename(aggregate, {name: f"{name}#w{number}" for name in witnesses})
        self.body.extend(rename(aggregate, copies).literals)
        self.body.append(syntax.Comparison("=", rename(value, copies), inside, aggregate.span))
        return inside
