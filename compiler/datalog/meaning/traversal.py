"""Going through checked rules, whatever kinds of terms and literals there are.

A part of a term or a literal is what stands in one of its fields, alone or in a tuple, and is itself a
dataclass of the checked form. So a new kind of term needs no word here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from dbsp.compiler.datalog.meaning import checked
from dbsp.diagnostics import SourceSpan

Node = TypeVar("Node")


def parts(node: Any) -> Iterator[Any]:
    """The terms and literals directly in a rule, a literal or a term."""
    for field in fields(node):
        value = getattr(node, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if _is_node(one):
                yield one


def walk(node: Any) -> Iterator[Any]:
    """The node and everything in it, the bodies of aggregates included."""
    yield node
    for part in parts(node):
        yield from walk(part)


def map_parts(node: Node, change: Callable[[Any], Any]) -> Node:
    """The node with `change` applied to each of its direct parts; the same node if that changes nothing."""
    changed: dict[str, Any] = {}
    for field in fields(node):  # type: ignore[arg-type]  # every node is a dataclass
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            new = tuple(change(one) if _is_node(one) else one for one in value)
            if any(one is not other for one, other in zip(new, value, strict=True)):
                changed[field.name] = new
        elif _is_node(value) and (one := change(value)) is not value:
            changed[field.name] = one
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def _is_node(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, SourceSpan | type)


def substitute(node: Node, terms: Mapping[str, checked.Term]) -> Node:
    """The node with the terms, variables or constants, in the place of the variables so named."""
    if isinstance(node, checked.Variable):
        term = terms.get(node.name)
        return node if term is None else replace(term, span=node.span)  # type: ignore[return-value]
    if isinstance(node, checked.Aggregate) and not terms.keys().isdisjoint(node.injected):
        names: dict[str, None] = {}
        for name in node.injected:
            term = terms.get(name)
            if term is None:
                names[name] = None
            elif isinstance(term, checked.Variable):
                names[term.name] = None
        node = replace(node, injected=tuple(names))
    return map_parts(node, lambda part: substitute(part, terms))


def variables(node: Any) -> set[str]:
    """The names of all variables in it, those local to aggregates included."""
    return {one.name for one in walk(node) if isinstance(one, checked.Variable)}


def free_variables(node: Any) -> set[str]:
    """The names of the variables that the rule around it binds, or it binds for the rule."""
    if isinstance(node, checked.Variable):
        return {node.name}
    if isinstance(node, checked.Aggregate):
        return set(node.injected)
    return set().union(*map(free_variables, parts(node)))
