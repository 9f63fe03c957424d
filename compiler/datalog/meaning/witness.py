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

from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.ground import bound_variables
from dbsp.compiler.datalog.meaning.walk import (
    literals,
    map_literal,
    map_parts,
    outer_variables,
    rename,
    subterms,
    terms_of,
)
from dbsp.compiler.datalog.text import syntax

_EXTREMES = ("min", "max")


def ground_witnesses(clause: FlatClause) -> FlatClause:
    """The clause with every witness bound by literals of its own."""
    if not any(map(_has_extreme, (clause.head, *clause.body))):
        return clause
    scope = _Scope(clause.body, set(), clause.head.arguments, count(1))
    head = map_literal(clause.head, scope.term)
    assert isinstance(head, syntax.Atom)
    return replace(clause, head=head, body=scope.grounded())


def _has_extreme(literal: syntax.BodyLiteral) -> bool:
    return any(
        isinstance(part, syntax.Aggregate) and part.function in _EXTREMES
        for term in terms_of(literal)
        for part in subterms(term)
    )


class _Scope:
    """A body, what its surroundings bind, and the terms outside of it whose variables it has to bind."""

    def __init__(
        self,
        body: Iterable[syntax.BodyLiteral],
        given: set[str],
        results: Iterable[syntax.Term],
        numbers: count[int],
    ) -> None:
        self.body = list(body)
        self.given = given
        self.results = tuple(results)
        self.numbers = numbers

    def grounded(self) -> tuple[syntax.BodyLiteral, ...]:
        """The body with its witnesses bound."""
        place = 0
        while place < len(self.body):  # literals that are added may have aggregates, too
            self.body[place] = map_literal(self.body[place], self.term)
            place += 1
        return tuple(self.body)

    def term(self, term: syntax.Term) -> syntax.Term:
        """The term with the witnesses of its aggregates bound."""
        if isinstance(term, syntax.Call):
            return map_parts(term, self.term)
        return self._aggregate(term) if isinstance(term, syntax.Aggregate) else term

    def _aggregate(self, aggregate: syntax.Aggregate) -> syntax.Aggregate:
        bound = bound_variables(self.body, self.given, needs=outer_variables)
        if aggregate.function in _EXTREMES:
            witnesses = self._needed(bound) & bound_variables(literals(aggregate.body), needs=outer_variables)
            if witnesses:
                aggregate = self._bind(aggregate, witnesses, bound)
        value = () if aggregate.value is None else (aggregate.value,)
        own = {variable.name for term in value for variable in outer_variables(term)}
        inner = _Scope(literals(aggregate.body), bound - own, value, self.numbers).grounded()
        return replace(aggregate, body=syntax.Conjunction(inner, aggregate.body.span))

    def _needed(self, bound: set[str]) -> set[str]:
        """The variables that nothing binds so far."""
        terms = [*self.results, *(term for literal in self.body for term in terms_of(literal))]
        return {variable.name for term in terms for variable in outer_variables(term)} - bound

    def _bind(self, aggregate: syntax.Aggregate, witnesses: set[str], bound: set[str]) -> syntax.Aggregate:
        """Adds the literals that bind the witnesses; the aggregate with other variables in their place."""
        assert aggregate.value is not None
        number = next(self.numbers)
        names = {part.name for part in subterms(aggregate) if isinstance(part, syntax.Variable)}
        # Variables of the expression are the aggregate's own, even where the rule binds one of that name.
        own = {variable.name for variable in outer_variables(aggregate.value)}
        copied = {name for name in names - witnesses if name in own or name not in bound}
        inside = rename(aggregate, {name: f"{name}#w{number}" for name in witnesses})
        outside = rename(aggregate, {name: f"{name}#c{number}" for name in copied})
        assert isinstance(inside, syntax.Aggregate)
        assert isinstance(outside, syntax.Aggregate)
        assert outside.value is not None
        self.body.extend(literals(outside.body))
        self.body.append(syntax.Comparison("=", outside.value, inside, aggregate.span))
        return inside
