"""Going through the terms and literals of the syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from dbsp.compiler.datalog.text import syntax


def literals(body: syntax.Formula) -> tuple[syntax.BodyLiteral, ...]:
    """The literals of an expanded body (one conjunction; see `expand`)."""
    assert isinstance(body, syntax.Conjunction)
    return body.parts  # type: ignore[return-value]  # `expand` leaves literals only


def terms_of(literal: syntax.BodyLiteral) -> tuple[syntax.Term, ...]:
    """The terms directly in a literal: arguments, or both sides of a comparison."""
    match literal:
        case syntax.Atom(arguments=arguments):
            return arguments
        case syntax.Negation(atom=atom):
            return atom.arguments
        case syntax.Comparison(left=left, right=right):
            return (left, right)
        case _:
            return ()


def parts_of(term: syntax.Term) -> tuple[syntax.Term, ...]:
    """The terms directly inside a term, those of an aggregate's body included."""
    match term:
        case syntax.Call(arguments=arguments):
            return arguments
        case syntax.Aggregate(value=value, body=body):
            inner = tuple(part for literal in literals(body) for part in terms_of(literal))
            return inner if value is None else (value, *inner)
        case _:
            return ()


def subterms(term: syntax.Term) -> Iterator[syntax.Term]:
    """The term and all terms inside it, those of aggregates included; in source order."""
    yield term
    for part in parts_of(term):
        yield from subterms(part)


def pattern_variables(term: syntax.Term) -> Iterator[syntax.Variable]:
    """The variables that get a value when a value is matched with the term: its parts are taken apart."""
    if isinstance(term, syntax.Variable):
        yield term
    elif isinstance(term, syntax.Construct):
        for part in term.arguments:
            yield from pattern_variables(part)


def has_wildcard(term: syntax.Term) -> bool:
    """Whether a term is a wildcard, or a pattern with one in it: then it has no value of its own."""
    return isinstance(term, syntax.Wildcard) or (
        isinstance(term, syntax.Construct) and any(map(has_wildcard, term.arguments))
    )


def aggregates_in(term: syntax.Term) -> Iterator[syntax.Aggregate]:
    """The aggregates in a term that are not inside another aggregate."""
    if isinstance(term, syntax.Aggregate):
        yield term
    elif isinstance(term, syntax.Call):
        for part in term.arguments:
            yield from aggregates_in(part)


def needed_variables(term: syntax.Term) -> Iterator[syntax.Variable]:
    """The variables that must be bound to evaluate a term; of an aggregate, those injected into it."""
    match term:
        case syntax.Variable():
            yield term
        case syntax.Call(arguments=arguments):
            for part in arguments:
                yield from needed_variables(part)
        case syntax.Aggregate(injected=injected):
            seen = set(injected)
            for part in subterms(term):
                if isinstance(part, syntax.Variable) and part.name in seen:
                    seen.remove(part.name)
                    yield part
        case _:
            return


def outer_variables(term: syntax.Term) -> Iterator[syntax.Variable]:
    """The variables of a term outside of its aggregates: an aggregate counts as bound by itself."""
    match term:
        case syntax.Variable():
            yield term
        case syntax.Call(arguments=arguments):
            for part in arguments:
                yield from outer_variables(part)
        case _:
            return


def map_literal(
    literal: syntax.BodyLiteral, change: Callable[[syntax.Term], syntax.Term]
) -> syntax.BodyLiteral:
    """The literal with `change` applied to each of its direct terms."""
    match literal:
        case syntax.Atom(arguments=arguments):
            return replace(literal, arguments=tuple(map(change, arguments)))
        case syntax.Negation(atom=atom):
            return replace(literal, atom=replace(atom, arguments=tuple(map(change, atom.arguments))))
        case syntax.Comparison(left=left, right=right):
            return replace(literal, left=change(left), right=change(right))
        case _:
            return literal


def map_parts(term: syntax.Term, change: Callable[[syntax.Term], syntax.Term]) -> syntax.Term:
    """The term with `change` applied to each of its direct parts."""
    match term:
        case syntax.Call(arguments=arguments):
            return replace(term, arguments=tuple(map(change, arguments)))
        case syntax.Aggregate(value=value, body=body):
            inner = tuple(map_literal(literal, change) for literal in literals(body))
            return replace(
                term,
                value=None if value is None else change(value),
                body=syntax.Conjunction(inner, body.span),
            )
        case _:
            return term


def rename(term: syntax.Term, names: Mapping[str, str]) -> syntax.Term:
    """The term with other names for some of its variables, those in aggregates included."""
    if isinstance(term, syntax.Variable):
        return replace(term, name=names.get(term.name, term.name))
    return map_parts(term, lambda part: rename(part, names))
