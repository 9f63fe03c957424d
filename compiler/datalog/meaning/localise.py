"""Settles which variables of an aggregate are its own and which come from the rule around it.

A variable of an aggregate is injected when the rule around the aggregate binds it and it does not
occur in the target expression; every other variable is local. Local variables are renamed apart
(`x` becomes `x#1`), so that afterwards no name means two things in one rule.

    total(k, s) :- key(k), s = sum x : { item(k, x), x > 0 }.      k is injected, x is local
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.ground import bound_variables
from dbsp.compiler.datalog.meaning.walk import (
    aggregates_in,
    literals,
    map_literal,
    map_parts,
    outer_variables,
    rename,
    subterms,
    terms_of,
)
from dbsp.compiler.datalog.text import syntax


def localise(clause: FlatClause) -> FlatClause:
    """The clause with `injected` set on every aggregate and local variables renamed."""
    if not any(_has_aggregate(term) for term in _terms(clause)):
        return clause
    return _Localiser().clause(clause)


def _terms(clause: FlatClause) -> Iterator[syntax.Term]:
    yield from clause.head.arguments
    for literal in clause.body:
        yield from terms_of(literal)


def _has_aggregate(term: syntax.Term) -> bool:
    return next(aggregates_in(term), None) is not None


class _Localiser:
    def __init__(self) -> None:
        self.numbers = count(1)

    def clause(self, clause: FlatClause) -> FlatClause:
        bound = bound_variables(clause.body, needs=outer_variables)
        head = map_literal(clause.head, lambda term: self.term(term, bound))
        assert isinstance(head, syntax.Atom)
        body = tuple(map_literal(literal, lambda term: self.term(term, bound)) for literal in clause.body)
        return replace(clause, head=head, body=body)

    def term(self, term: syntax.Term, bound: set[str]) -> syntax.Term:
        """The term, in surroundings that bind `bound`, with its aggregates localised."""
        if isinstance(term, syntax.Aggregate):
            return self.aggregate(term, bound)
        if isinstance(term, syntax.Call):
            return map_parts(term, lambda part: self.term(part, bound))
        return term

    def aggregate(self, aggregate: syntax.Aggregate, bound: set[str]) -> syntax.Aggregate:
        names = [part.name for part in subterms(aggregate) if isinstance(part, syntax.Variable)]
        target = (
            set()
            if aggregate.value is None
            else {variable.name for variable in outer_variables(aggregate.value)}
        )
        injected = tuple(dict.fromkeys(name for name in names if name in bound and name not in target))
        number = next(self.numbers)
        renamed = {name: f"{name}#{number}" for name in names if name not in injected}
        inside = map_parts(aggregate, lambda term: rename(term, renamed))
        assert isinstance(inside, syntax.Aggregate)
        inner = bound_variables(literals(inside.body), injected, needs=outer_variables)
        # The nested aggregates are localised after the renaming: what is local to this one may be
        # injected into them.
        done = map_parts(inside, lambda term: self.term(term, inner))
        assert isinstance(done, syntax.Aggregate)
        return replace(done, injected=injected)
