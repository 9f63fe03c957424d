"""Rows that a recursion may derive, from which a negation inside of the recursion starts.

    possible(r)  =  the rules of r and of all relations between, without their negated literals

A recursive relation cannot be negated in its own rules, and neither can a relation that starts from
its rows. `possible(r)` has all rows of r, and does not depend on r.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from dbsp.compiler.datomic.meaning.draft_rules import DraftAtom, DraftLiteral, DraftQuery, DraftRule


def possible_relation(relation: str) -> str:
    """Return the name of the relation of the possible rows of a relation."""
    return f"{relation}#possible"


def add_possible_rules(draft: DraftQuery, wanted: Iterable[str], recursive: Collection[str]) -> None:
    """Add the rules of the possible rows of the relations `wanted`, which depend on a recursion.

    `recursive` are the relations of the recursion. O(rules).
    """
    rules: dict[str, list[DraftRule]] = {}
    for rule in draft.rules:
        rules.setdefault(rule.head, []).append(rule)
    waiting = list(wanted)
    known = {*map(possible_relation, waiting)}
    # A negation that starts from possible rows depends on these, and not on the recursion.
    dependent = dependent_relations(rules, {*recursive, *known})
    added: set[str] = set()
    while waiting:
        relation = waiting.pop()
        if relation in added:
            continue
        added.add(relation)
        possible = possible_relation(relation)
        draft.arity[possible] = draft.arity[relation]
        if relation in draft.on_demand:
            draft.on_demand.add(possible)
        for rule in rules[relation]:
            body: list[DraftLiteral] = []
            for literal in rule.body:
                if not isinstance(literal, DraftAtom) or literal.relation not in dependent - known:
                    body.append(literal)
                elif not literal.negated:
                    body.append(replace(literal, relation=possible_relation(literal.relation)))
                    waiting.append(literal.relation)
            draft.rules.append(replace(rule, head=possible, body=body))


def dependent_relations(rules: Mapping[str, Iterable[DraftRule]], targets: Collection[str]) -> set[str]:
    """Return the relations with rules that depend on one of `targets`, with these. O(rules)."""
    readers: dict[str, set[str]] = {}
    for head, definitions in rules.items():
        for rule in definitions:
            for literal in rule.body:
                if isinstance(literal, DraftAtom) and literal.base is None:
                    readers.setdefault(literal.relation, set()).add(head)
    found: set[str] = set()
    waiting = list(targets)
    while waiting:
        relation = waiting.pop()
        if relation not in found:
            found.add(relation)
            waiting += readers.get(relation, ())
    return found
