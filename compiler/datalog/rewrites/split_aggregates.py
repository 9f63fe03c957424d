"""split_aggregates: an aggregate over a product is made of aggregates over its factors.

    n = count : { r(k, a), s(k, _) }     is   n = (count : { r(k, a) }) * (count : { s(k, _) })
    n = sum a : { r(k, a), s(k, _) }     is   n = (sum a : { r(k, a) }) * (count : { s(k, _) })
    n = min a : { r(k, a), s(k, _) }     is   n = min a : { r(k, a), 0 < count : { s(k, _) } }

Literals without a local variable in common, for one value of those that come from outside (here k), are
satisfied independently of each other: the bindings of the body are the product of theirs. A tick with one
row of r then changes one row of a sum, and not as many as s has for its k. `max` is like `min`. Not split are
sums of floats, which would be rounded differently, `mean`, and bodies that may fail: a factor is computed
even where another one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import networkx as nx

from dbsp.compiler.datalog import checked
from dbsp.compiler.datalog.checked import Kind
from dbsp.compiler.datalog.rewrites.terms import is_simple, is_total, map_parts, variables, walk
from dbsp.compiler.datalog.show import show_term


def split_aggregates(program: checked.Program, changes: list[str]) -> checked.Program:
    """The program with aggregates pushed below the products that they range over."""
    rules = []
    for rule in program.rules:
        found: list[str] = []
        rules.append(_split_in(rule, found))
        changes.extend(f"rule {rule.number} at {rule.span}: {one}" for one in found)
    return replace(program, rules=tuple(rules))


def _split_in(node: Any, found: list[str]) -> Any:
    node = map_parts(node, lambda part: _split_in(part, found))
    if not isinstance(node, checked.Aggregate):
        return node
    split = _split(node)
    if split is None:
        return node
    found.append(f"{show_term(node)} is {show_term(split)}")
    return split


def _split(aggregate: checked.Aggregate) -> checked.Term | None:
    """The aggregate by its factors, or None if it has only one."""
    function, value, kind = aggregate.function, aggregate.value, aggregate.kind
    if function == "mean" or (function == "sum" and kind is Kind.FLOAT):
        return None
    if not all(is_total(literal) for literal in aggregate.body) or not (value is None or is_simple(value)):
        return None
    own, others = _factors(aggregate)
    if not others:
        return None
    if function in ("min", "max"):
        nothing = checked.Constant(0, Kind.NUMBER, aggregate.span)
        there = (_part(aggregate, one, "count", None, Kind.NUMBER) for one in others)
        conditions = tuple(checked.Comparison("<", nothing, one, aggregate.span) for one in there)
        return _part(aggregate, (*own, *conditions), function, value, kind)
    term: checked.Term = _part(aggregate, own, function, value, kind)
    for one in others:
        counted = _part(aggregate, one, "count", None, kind)
        term = checked.Call("*", (term, counted), kind, aggregate.span)
    return term


def _factors(
    aggregate: checked.Aggregate,
) -> tuple[tuple[checked.Literal, ...], list[tuple[checked.Literal, ...]]]:
    """The factor with the value and all that multiplies nothing, and the others, each in its order."""
    body, value = aggregate.body, aggregate.value
    graph: nx.Graph[object] = nx.Graph()
    graph.add_nodes_from(range(len(body)))
    for place, literal in enumerate(body):
        graph.add_edges_from((place, name) for name in variables(literal) - set(aggregate.injected))
    of_value = set() if value is None else variables(value)
    groups = [set(one) for one in nx.connected_components(graph)]
    multiplying = [
        one for one in groups if any(_multiplies(body[p], aggregate) for p in one if isinstance(p, int))
    ]
    first = next((one for one in multiplying if of_value & one), multiplying[0] if multiplying else set())
    others = [one for one in multiplying if one is not first and not of_value & one]
    elsewhere: set[object] = set().union(*others)
    own = tuple(literal for place, literal in enumerate(body) if place not in elsewhere)
    return own, [tuple(literal for place, literal in enumerate(body) if place in one) for one in others]


def _multiplies(literal: checked.Literal, aggregate: checked.Aggregate) -> bool:
    """Whether more than one row may fit an atom, for given values from outside."""
    return isinstance(literal, checked.Atom) and any(
        isinstance(one, checked.Wildcard)
        or (isinstance(one, checked.Variable) and one.name not in aggregate.injected)
        for one in walk(literal)
    )


def _part(
    aggregate: checked.Aggregate,
    body: Iterable[checked.Literal],
    function: str,
    value: checked.Term | None,
    kind: Kind,
) -> checked.Aggregate:
    """An aggregate over some literals of the body."""
    literals = tuple(body)
    used = set().union(*map(variables, literals), set() if value is None else variables(value))
    injected = tuple(name for name in aggregate.injected if name in used)
    return checked.Aggregate(function, value, literals, injected, kind, aggregate.span)
