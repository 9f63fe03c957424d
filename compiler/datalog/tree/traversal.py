"""Traversal of terms and formulas, generic in the kinds of nodes.

The children of a node are the nodes in its fields, alone or in a tuple. The annotations of the
class determine these fields, so a new kind of term needs no change here.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import is_
from typing import Any, TypeVar

from dbsp.compiler.datalog.tree.syntax import (
    Aggregate,
    Call,
    Construct,
    Formula,
    Negation,
    Node,
    Term,
    Variable,
    Wildcard,
)
from dbsp.diagnostics import SourceSpan

N = TypeVar("N", bound=Node)


def children(node: Node) -> list[Any]:
    """The children of a node, in the order of its fields."""
    found: list[Any] = []
    for name in _NODE_FIELDS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, tuple):
            found += value
        elif value is not None:
            found.append(value)
    return found


def map_children(node: N, change: Callable[[Any], Any]) -> N:
    """The node with `change` applied to each of its children; the same object if none changes."""
    changed: dict[str, Any] = {}
    for name in _NODE_FIELDS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, tuple):
            new = tuple([change(part) for part in value])
            if not all(map(is_, new, value)):
                changed[name] = new
        elif value is not None and (new_value := change(value)) is not value:
            changed[name] = new_value
    return replace(node, **changed) if changed else node  # type: ignore[type-var]  # nodes are dataclasses


class _NodeFields(dict[type, tuple[str, ...]]):
    """By class of nodes the fields that hold nodes; computed at the first use."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        hints = typing.get_type_hints(kind)
        found = self[kind] = tuple(field.name for field in fields(kind) if _has_node(hints[field.name]))
        return found


_NODE_FIELDS = _NodeFields()


def _has_node(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Node):
        return True
    return any(map(_has_node, typing.get_args(hint)))


def walk(node: Node, into_aggregates: bool = True) -> Sequence[Any]:
    """The node and its descendants, from left to right, each before its children.

    Without `into_aggregates`, the walk does not enter aggregates.
    """
    found = _descendants(node)
    if not found:
        return (node,)
    if into_aggregates or not (type(node) is Aggregate or Aggregate in map(type, found)):
        return (node, *found)
    parts: list[Node] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        parts.append(part)
        if not isinstance(part, Aggregate):
            waiting += reversed(children(part))
    return parts


def _descendants(node: Node) -> tuple[Node, ...]:
    """The nodes within a node, in the order of `walk`; found once, since passes share nodes."""
    if not _NODE_FIELDS[type(node)]:
        return ()
    try:
        return node._descendants
    except AttributeError:
        pass
    found: list[Node] = []
    waiting = children(node)[::-1]
    while waiting:
        part = waiting.pop()
        found.append(part)
        if _NODE_FIELDS[type(part)]:
            waiting += reversed(children(part))
    object.__setattr__(node, "_descendants", tuple(found))
    return node._descendants


def find(node: Node, kind: type[N], into_aggregates: bool = True) -> Iterator[N]:
    """The nodes of a class among those of `walk`."""
    return iter([part for part in walk(node, into_aggregates) if isinstance(part, kind)])


def terms_of(literal: Formula) -> list[Term]:
    """The terms directly in a literal: the arguments of an atom, negated or not, or both sides."""
    return children(literal.atom if isinstance(literal, Negation) else literal)


# --- variables ---------------------------------------------------------------------------------


def variables(node: Node, into_aggregates: bool = True) -> frozenset[str]:
    """The names of the variables in a node."""
    if not into_aggregates:
        return frozenset([variable.name for variable in find(node, Variable, into_aggregates)])
    try:
        return node._variables
    except AttributeError:
        found = frozenset([part.name for part in walk(node) if isinstance(part, Variable)])
        object.__setattr__(node, "_variables", found)
        return found


def outer_variables(node: Node) -> Iterator[Variable]:
    """The variables in a node, without those in its aggregates."""
    return find(node, Variable, into_aggregates=False)


def free_variables(node: Node) -> Iterator[Variable]:
    """The variables that a node shares with its surroundings; of an aggregate the injected ones."""
    for part in walk(node, into_aggregates=False):
        if isinstance(part, Variable):
            yield part
        elif isinstance(part, Aggregate):
            injected = set(part.injected)
            for variable in find(part, Variable):
                if variable.name in injected:
                    injected.remove(variable.name)
                    yield variable


def substitute(node: N, terms: Mapping[str, Term]) -> N:
    """The node with variables replaced by terms, by name."""
    if isinstance(node, Variable):
        term = terms.get(node.name)
        return node if term is None else moved(term, node.span)  # type: ignore[return-value]
    if isinstance(node, Aggregate) and not terms.keys().isdisjoint(node.injected):
        names: dict[str, None] = {}
        for name in node.injected:
            term = terms.get(name)
            names.update((new_name, None) for new_name in ([name] if term is None else variables(term)))
        node = replace(node, injected=tuple(names))
    return map_children(node, lambda part: substitute(part, terms))


def moved(term: Term, span: SourceSpan) -> Term:
    """The term in the place of a variable; a call keeps the place where it was written, too."""
    if isinstance(term, Call):
        return replace(term, span=span, written=term.written or term.span)
    return replace(term, span=span)


def rename(node: N, names: Mapping[str, str]) -> N:
    """The node with some of its variables renamed."""
    found = (variable for variable in find(node, Variable) if variable.name in names)
    return substitute(
        node, {variable.name: replace(variable, name=names[variable.name]) for variable in found}
    )


# --- patterns ----------------------------------------------------------------------------------


def pattern_variables(term: Term) -> Iterator[Variable]:
    """The variables that get a value when a value is matched with the term."""
    if isinstance(term, Variable):
        yield term
    elif isinstance(term, Construct):
        for part in term.arguments:
            yield from pattern_variables(part)


def has_wildcard(term: Term) -> bool:
    """Whether a term is a wildcard or a pattern with a wildcard in it, and so has no value."""
    return isinstance(term, Wildcard) or (
        isinstance(term, Construct) and any(map(has_wildcard, term.arguments))
    )
