"""Merge aggregates of a rule over equal bodies into one literal, which evaluates the body once.

    n = count : { sale(_, r, _) },  v = sum a : { sale(_, r, a) }

Both range over the rows of `sale` for one r: a wildcard is equivalent to a variable that the body
uses only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count

from dbsp.compiler.datalog.plans.normalise import (
    Absent,
    AggregateLiteral,
    Condition,
    Generated,
    NormalLiteral,
    NormalRule,
    Numbered,
    Scan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, rename
from dbsp.errors import expect_type


def merge_aggregates(rule: NormalRule) -> NormalRule:
    """Merge the aggregates of a rule over equal bodies, also inside aggregates."""
    if rule.body is None or not has_aggregates(rule.body):
        return rule
    return replace(rule, body=_merged(rule.body))


def has_aggregates(body: Iterable[NormalLiteral]) -> bool:
    """Whether a literal of the body is an aggregate."""
    return any(isinstance(literal, AggregateLiteral) for literal in body)


def _merged(body: tuple[NormalLiteral, ...]) -> tuple[NormalLiteral, ...]:
    out: list[NormalLiteral] = []
    # For each body: the place of its first aggregate, the aggregate with all columns named, and
    # its local names.
    first: dict[object, tuple[int, AggregateLiteral, dict[str, str]]] = {}
    for literal in body:
        if not isinstance(literal, AggregateLiteral):
            out.append(literal)
            continue
        literal = replace(literal, body=_merged(literal.body))
        if has_aggregates(literal.body):
            out.append(literal)
            continue
        named = _name_wildcards(literal)
        numbers = _number_locals(named)
        key = (frozenset(named.injected), tuple(_rename(inner, numbers) for inner in named.body))
        if key not in first:
            first[key] = (len(out), named, {number: name for name, number in numbers.items()})
            out.append(literal)
            continue
        position, earlier, names = first[key]
        # A column that has a name in one of the aggregates keeps that name.
        better = {names[n]: name for name, n in numbers.items() if names[n][0] == "#" and name[0] != "#"}
        names = {number: better.get(name, name) for number, name in names.items()}
        earlier = _with_names(earlier, better)
        added = _with_names(named, {name: names[number] for name, number in numbers.items()})
        earlier = replace(earlier, results=earlier.results + added.results)
        first[key] = (position, earlier, names)
        out[position] = earlier
    return tuple(out)


def _name_wildcards(literal: AggregateLiteral) -> AggregateLiteral:
    """Name every unused column of an atom in the aggregate."""
    return replace(literal, body=name_wildcards(literal.body, f"{literal.results[0].variable}."))


def name_wildcards(body: tuple[NormalLiteral, ...], prefix: str) -> tuple[NormalLiteral, ...]:
    """Name every unused column of an atom in the body."""
    numbers = count(1)

    def named(scan: Scan) -> Scan:
        settled = {column for column, _ in scan.constants} | {column for _, column in scan.equal}
        names = tuple(
            f"{prefix}{next(numbers)}" if name is None and column not in settled else name
            for column, name in enumerate(scan.variables)
        )
        return replace(scan, variables=names)

    # In a negated atom `_` means any value; only positive atoms get names.
    return tuple(named(inner) if isinstance(inner, Scan) else inner for inner in body)


def _number_locals(literal: AggregateLiteral) -> dict[str, str]:
    """Number the local variables, in the order of first use in the body."""
    names: dict[str, None] = {}
    for inner in literal.body:
        match inner:
            case Scan() | Absent():
                scan = inner if isinstance(inner, Scan) else inner.pattern
                names.update(dict.fromkeys(scan.names))
            case Condition(comparison=comparison):
                names.update((part.name, None) for part in find(comparison, syntax.Variable))
            case Generated(variable=variable, call=call):
                names[variable] = None
                names.update((part.name, None) for part in find(call, syntax.Variable))
            case _:
                pass
    own = [name for name in names if name not in literal.injected]
    return {name: str(number) for number, name in enumerate(own)}


def _with_names(literal: AggregateLiteral, names: Mapping[str, str]) -> AggregateLiteral:
    results = tuple(
        result if result.value is None else replace(result, value=rename(result.value, names))
        for result in literal.results
    )
    return replace(literal, results=results, body=tuple(_rename(inner, names) for inner in literal.body))


def _rename(literal: NormalLiteral, names: Mapping[str, str]) -> NormalLiteral:
    match literal:
        case Scan(variables=variables):
            return replace(literal, variables=tuple(name and names.get(name, name) for name in variables))
        case Absent(pattern=pattern):
            return Absent(expect_type(_rename(pattern, names), Scan, "a renamed scan"))
        case Condition(comparison=comparison):
            return replace(literal, comparison=rename(comparison, names))
        case Generated(variable=variable, call=call):
            return Generated(names.get(variable, variable), rename(call, names))
        case Numbered():
            raise AssertionError("no rows are numbered in aggregates")
        case AggregateLiteral():
            raise AssertionError("aggregates that contain aggregates are not merged")
