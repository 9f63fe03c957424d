"""drop_dead: remove rules that never fire and rules that no output depends on.

A rule never fires when one of its positive atoms names a relation that stays empty. A relation
stays empty when it is not an input and each of its rules needs a row of such a relation, possibly
of itself. The negation of such an atom always holds. A rule that no output and no printed size
depends on adds no operator to the circuit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_relations, uses
from dbsp.compiler.datalog.rewrites.simple_terms import is_simple
from dbsp.compiler.datalog.tree import syntax


def drop_dead(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Return the program without rules that never fire and rules that no output depends on."""
    program = _without_empty(program, changes)
    needed = needed_relations(program)
    heads = dict.fromkeys(rule.head.relation for rule in program.rules)
    dropped = [name for name in heads if name not in needed]
    changes.extend(f"{name} is left out: no output depends on it" for name in dropped)
    return replace(program, rules=tuple(r for r in program.rules if r.head.relation in needed))


def _without_empty(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    empty = {*program.relations} - _not_empty(program)
    if empty.isdisjoint(atom.relation for rule in program.rules for atom in uses(rule)):
        return program
    rules = []
    for rule in program.rules:
        missing = next((name for name in _positive(rule.body) if name in empty), None)
        if missing is not None:
            changes.append(f"rule {rule.number} at {rule.span} never fires: {missing} stays empty")
            continue
        body = tuple(
            literal
            for literal in rule.body
            if not (
                isinstance(literal, syntax.Negation) and literal.atom.relation in empty and is_simple(literal)
            )
        )
        if len(body) < len(rule.body):
            changes.append(f"rule {rule.number} at {rule.span}: negations of empty relations hold")
            rule = replace(rule, body=body)
        rules.append(rule)
    return replace(program, rules=tuple(rules))


def _not_empty(program: checked.CheckedProgram) -> set[str]:
    """Return the relations that may have a row: filled ones, and heads of rules over them."""
    found = set(program.filled)
    waiting = {rule.number: set(_positive(rule.body)) - found for rule in program.rules}
    readers: dict[str, list[checked.Rule]] = {}
    for rule in program.rules:
        for name in waiting[rule.number]:
            readers.setdefault(name, []).append(rule)
    ready = [rule.head.relation for rule in program.rules if not waiting[rule.number]]
    while ready:
        name = ready.pop()
        if name in found:
            continue
        found.add(name)
        for rule in readers.get(name, ()):
            waiting[rule.number].discard(name)
            if not waiting[rule.number]:
                ready.append(rule.head.relation)
    return found


def _positive(body: Iterable[syntax.Literal]) -> list[str]:
    return [literal.relation for literal in body if isinstance(literal, syntax.Atom)]
