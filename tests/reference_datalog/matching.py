"""Matching of values with terms, and extraction of ranges from rule bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbsp.compiler.datalog.tree import syntax
from dbsp.data.terms import Branch
from tests.reference_datalog.values import Bindings, Condition, Ranges, Row, Value


def without_ranges(body: Sequence[syntax.Literal]) -> tuple[list[syntax.Literal], Ranges]:
    """The body with variables in place of ranges outside of aggregates, and these ranges."""
    ranges: dict[str, syntax.Call] = {}

    def in_term(term: syntax.Term) -> syntax.Term:
        if not isinstance(term, syntax.Call):
            return term
        term = replace(term, arguments=tuple(map(in_term, term.arguments)))
        if term.function != "range":
            return term
        name = f"range {len(ranges)}"
        ranges[name] = term
        return syntax.Variable(name, term.span, term.kind)

    def in_literal(literal: syntax.Literal) -> syntax.Literal:
        match literal:
            case syntax.Atom(arguments=arguments):
                return replace(literal, arguments=tuple(map(in_term, arguments)))
            case syntax.Negation(atom=atom):
                return replace(literal, atom=replace(atom, arguments=tuple(map(in_term, atom.arguments))))
            case syntax.Comparison(left=left, right=right):
                return replace(literal, left=in_term(left), right=in_term(right))
            case _:
                return literal

    return [in_literal(literal) for literal in body], ranges


def match_row(atom: syntax.Atom, row: Row, given: Bindings) -> tuple[Bindings, list[Condition]] | None:
    """The bindings extended by the atom's variables; other arguments become conditions."""
    found, conditions = dict(given), []
    for argument, value in zip(atom.arguments, row, strict=True):
        more = match_value(argument, value, found)
        if more is None:
            return None
        conditions += more
    return found, conditions


def match_value(term: syntax.Term, value: Value, found: Bindings) -> list[Condition] | None:
    """Bind the variables of a term to match a value; return the remaining conditions.

    None if the value does not match.
    """
    match term:
        case syntax.Wildcard():
            return []
        case syntax.Constant():
            return [] if term.value == value else None
        case syntax.Variable():
            return [] if found.setdefault(term.name, value) == value else None
        case syntax.Construct(arguments=arguments):
            if isinstance(value, Branch):
                if term.function != f"${value.name}":
                    return None
                value = value.arguments
            if value is None:  # nil
                return None
            assert isinstance(value, tuple)
            conditions: list[Condition] = []
            for argument, part in zip(arguments, value, strict=True):
                more = match_value(argument, part, found)
                if more is None:
                    return None
                conditions += more
            return conditions
        case _:
            return [(term, value)]


def is_bound(term: syntax.Term, found: Bindings) -> bool:
    match term:
        case syntax.Variable(name=name):
            return name in found
        case syntax.Construct(arguments=arguments) if any(
            isinstance(argument, syntax.Wildcard) for argument in arguments
        ):
            return False
        case syntax.Call(arguments=arguments):
            return all(is_bound(argument, found) for argument in arguments)
        case syntax.Aggregate(injected=injected):
            return all(name in found for name in injected)
        case _:
            return True
