"""The parts of a rule's body that a tick can change: atoms, and groups of the other literals.

A variable of an atom or of the head is fixed in a derivation. The others are computed, such as the
n of `n = count : { r(_) }, n > 2`. A derivation holds with other values of n, too, so the literals
that share computed variables hold or fail together. Groups that read no relation cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from dbsp.compiler.datalog.plans.normalise import (
    Absent,
    AggregateLiteral,
    Condition,
    Generated,
    NormalLiteral,
    Scan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.why.rule_body import RuleBody
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BodyPart:
    """An atom, whose `scan` is its position in the normal form, or a group, whose scan is None.

    `places` are the positions of the literals in the body of the rule; the place after the last one
    is the head. `origins` has the place of each of the normalised `literals`.
    """

    places: tuple[int, ...]
    literals: tuple[NormalLiteral, ...]
    origins: tuple[int, ...]
    scan: int | None = None

    @property
    def is_negation(self) -> bool:
        """Whether the part is a single negated atom, which one row can end."""
        return sum(isinstance(each, Absent) for each in self.literals) == 1 and not any(
            isinstance(each, AggregateLiteral) for each in self.literals
        )


@dataclass(frozen=True, slots=True)
class BodyParts:
    """The parts of a body, and the fixed variables of its derivations."""

    fixed: frozenset[str]
    parts: tuple[BodyPart, ...]


def body_parts(body: RuleBody) -> BodyParts:
    """Return the parts of a body that a tick can change."""
    fixed = set(body.goals) | {term.name for term in body.head if isinstance(term, syntax.Variable)}
    graph: nx.Graph[object] = nx.Graph()
    parts: list[BodyPart] = []
    for literal in body.body:
        if isinstance(literal, Scan):
            fixed.update(literal.names)
    for at, (literal, origin) in enumerate(zip(body.body, body.origins, strict=True)):
        if isinstance(literal, Scan):
            parts.append(BodyPart((origin,), (literal,), (origin,), at))
            continue
        graph.add_node(at)
        graph.add_edges_from((at, name) for name in _names(literal) if name not in fixed)
    for found in nx.connected_components(graph):
        members = sorted(node for node in found if isinstance(node, int))
        literals = tuple(body.body[at] for at in members)
        if any(isinstance(literal, Absent | AggregateLiteral) for literal in literals):
            origins = tuple(body.origins[at] for at in members)
            parts.append(BodyPart(tuple(sorted(set(origins))), literals, origins))
    return BodyParts(frozenset(fixed), tuple(sorted(parts, key=lambda part: part.places)))


def _names(literal: NormalLiteral) -> Iterable[str]:
    """Return the variables that a literal shares with others."""
    match literal:
        case Absent(pattern=pattern):
            return pattern.names
        case Condition():
            return literal.names
        case AggregateLiteral():
            return (*literal.variables, *literal.injected)
        case Generated():
            return (literal.variable, *literal.arguments)
        case _:
            return ()
