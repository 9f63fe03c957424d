"""linearise: extend the rows of a transitive relation by one step, instead of by any of its rows.

    path(x, y) :- edge(x, y).                  path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), path(y, z).      path(x, z) :- path(x, y), edge(y, z).

On the left, a row has a derivation for each value between its ends: n^3 for the closure of n
values. On the right, it has one for each last step: n times the number of edges. Composition is
associative, so the least relation with P = E + P P is the same as that with P = E + P E.

The steps E are the rows that no rule derives from the relation. Bodies of one atom that cannot fail
are written in the place of a step, as above. Otherwise another relation has the steps, and the rows
that are inserted into an input:

    path(x, y) :- a(x, z), b(z, y).            path#step(x, y) :- a(x, z), b(z, y).
    path(y, x) :- path(x, y).                  path#step(y, x) :- path#step(x, y).
    path(x, z) :- path(x, y), path(y, z).      path(x, y) :- path#step(x, y).
                                               path(x, z) :- path(x, y), path#step(y, z).

The second rule on the left, the converse, may be there: the closure of symmetric steps is
symmetric. Any other rule that reads the relation, or another one that depends on it, leaves it as
it is, and so do further conditions in the transitive rule, since the composition with a condition
may not be associative. Both rules must have no `.plan`, and the relation must have no declaration
by which its rows depend on more than the rules.

A step is added at the end of a row, or at its start if the program needs the rows of an end:
`path(x, 5)` needs the paths to 5 only, and they follow from one another by steps at the start.

Both ends may consist of several columns, and other columns may be the same in all three atoms:
`path(g, x, z) :- path(g, x, y), path(g, y, z)`.

Source: Ioannidis, Wong, "Towards an algebraic theory of recursion", JACM 1991.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import reads_any, uses
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.rewrites.new_names import new_variables
from dbsp.compiler.datalog.rewrites.plain import recursive_groups
from dbsp.compiler.datalog.rewrites.simple_terms import is_total
from dbsp.compiler.datalog.tree import syntax
from dbsp.lazy_dataclass import dataclass


def linearise(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Return the program with one step in the place of the second atom of transitive rules."""
    groups = recursive_groups(program)
    sizes = Counter(groups.values())
    for name in program.relations:
        if name not in groups or sizes[groups[name]] > 1:
            continue
        closure = _closure(program, name)
        if closure is not None:
            program = _linear(program, closure, changes)
    return program


# --- the shape of a closure -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Closure:
    """A relation that is the transitive closure of its steps, and its rules by their part.

    `ends` has the column of an end for each column of a start: `p(x, y), p(y, z)` has the same
    variable in the column `ends[c]` of the first atom and in the column c of the second. Steps are
    added at the end. They may be added at the start as well; then this is what is called the end.
    """

    relation: checked.Relation
    ends: Mapping[int, int]
    bases: tuple[checked.Rule, ...]
    converse: checked.Rule | None
    transitive: checked.Rule


def _closure(program: checked.CheckedProgram, name: str) -> _Closure | None:
    """Return the parts of a relation that depends on itself only; None if it has another form."""
    relation = program.relations[name]
    if not relation.is_plain or relation.version is not None:
        return None
    rules = [rule for rule in program.rules if rule.head.relation == name]
    bases = tuple(rule for rule in rules if not reads_any(rule, {name}))
    recursive = sorted((rule for rule in rules if reads_any(rule, {name})), key=lambda rule: len(rule.body))
    if len(recursive) > 2:
        return None
    *others, transitive = recursive
    ends = _composed_columns(transitive)
    if ends is None or not all(_is_converse(rule, ends) for rule in others):
        return None
    if _are_asked_by_end(program, name, ends):
        ends = {end: start for start, end in ends.items()}
    return _Closure(relation, ends, bases, others[0] if others else None, transitive)


def _composed_columns(rule: checked.Rule) -> dict[int, int] | None:
    """Return the ends by starts if a rule composes rows: `p(x, z) :- p(x, y), p(y, z)`.

    The first column that is not passed on is one of a start.
    """
    rows = _rows_of_variables(rule)
    if rows is None or len(rows) != 3:
        return None
    head, *atoms = rows
    found: dict[int, int] = {}
    for first, second in (atoms, atoms[::-1]):
        starts = [c for c, name in enumerate(head) if first[c] == name != second[c]]
        ends = [c for c, name in enumerate(head) if first[c] != name == second[c]]
        same = [c for c, name in enumerate(head) if first[c] == name == second[c]]
        middle = [first[c] for c in ends]
        if (
            starts
            and len(starts) + len(ends) + len(same) == len(head)
            and sorted(middle) == sorted(second[c] for c in starts)
            and len({*head, *middle}) == len(head) + len(middle)
        ):
            found = {c: ends[middle.index(second[c])] for c in starts}
            if min(starts) < min(ends):
                break
    return found or None


def _is_converse(rule: checked.Rule, ends: Mapping[int, int]) -> bool:
    """Whether a rule exchanges the ends of a row: `p(y, x) :- p(x, y)`."""
    rows = _rows_of_variables(rule)
    if rows is None or len(rows) != 2:
        return False
    head, row = rows
    exchanged = list(row)
    for start, end in ends.items():
        exchanged[start], exchanged[end] = row[end], row[start]
    return len({*row}) == len(row) and exchanged == list(head)


def _are_asked_by_end(program: checked.CheckedProgram, name: str, ends: Mapping[int, int]) -> bool:
    """Whether other rules have constants for ends of the relation, but not for starts.

    The rows of an end on demand follow from one another if steps are added at the start.
    """
    constants = {
        column
        for rule in program.rules
        if rule.head.relation != name
        for atom in uses(rule)
        if atom.relation == name
        for column, term in enumerate(atom.arguments)
        if isinstance(term, syntax.Constant)
    }
    return not constants.isdisjoint(ends.values()) and constants.isdisjoint(ends)


def _rows_of_variables(rule: checked.Rule) -> list[tuple[str, ...]] | None:
    """Return the variables of the head and of each atom of the body.

    None if the rule has other terms or literals, or a `.plan`.
    """
    rows = []
    for atom in (rule.head, *rule.body):
        if not isinstance(atom, syntax.Atom) or atom.relation != rule.head.relation:
            return None
        rows.append(tuple(term.name for term in atom.arguments if isinstance(term, syntax.Variable)))
        if len(rows[-1]) < len(atom.arguments):
            return None
    return rows if rule.order is None else None


# --- the linear rules -----------------------------------------------------------------------------


def _linear(program: checked.CheckedProgram, closure: _Closure, changes: list[str]) -> checked.CheckedProgram:
    """Return the program with linear rules in the place of the transitive one."""
    relation, transitive = closure.relation, closure.transitive
    number = max(rule.number for rule in program.clauses)
    relations = dict(program.relations)
    rules = {rule.number: rule for rule in program.rules if rule is not transitive}
    steps = closure.bases
    if closure.converse is not None or relation.name in program.filled or not all(map(_is_step, steps)):
        rows_of = relation.given if relation.name in program.filled else None
        step = checked.Relation(f"{relation.name}#step", relation.attributes, relation.span, rows_of=rows_of)
        relations[step.name] = step
        number += 1
        each_step = _copy(relation, step, number)
        moved = [*closure.bases, *filter(None, [closure.converse])]
        if moved:
            rules |= {rule.number: _in_relation(rule, step) for rule in moved}
            rules[number] = each_step
        steps = (each_step,)
    changes.append(f"{relation.name}: its rows are extended by one step, instead of by any of its rows")
    numbers = chain([transitive.number], count(number + 1))
    for number, step_rule in zip(numbers, steps, strict=False):
        rules[number] = replace(_extended(closure, step_rule), number=number, span=transitive.span)
        changes.append(f"  {show_rule(rules[number])} (rule {number} at {transitive.span})")
    return replace(program, rules=tuple(rules[number] for number in sorted(rules)), relations=relations)


def _is_step(rule: checked.Rule) -> bool:
    """Whether the body of a rule can be evaluated for each row that it extends."""
    atoms = [literal for literal in rule.body if isinstance(literal, syntax.Atom)]
    return len(atoms) == 1 and rule.order is None and all(map(is_total, (*rule.head.arguments, *rule.body)))


def _in_relation(rule: checked.Rule, relation: checked.Relation) -> checked.Rule:
    """Return a base or the converse for another relation."""
    former = rule.head.relation

    def moved(literal: syntax.Literal) -> syntax.Literal:
        if isinstance(literal, syntax.Atom) and literal.relation == former:
            return replace(literal, relation=relation.name)
        return literal

    head = replace(rule.head, relation=relation.name)
    return replace(rule, head=head, body=tuple(map(moved, rule.body)))


def _copy(relation: checked.Relation, source: checked.Relation, number: int) -> checked.Rule:
    """Return `relation(x, y) :- source(x, y)`."""
    span = relation.span
    row = tuple(syntax.Variable(column.name, span, column.kind) for column in relation.attributes)
    body = (syntax.Atom(source.name, row, span, span),)
    return checked.Rule(number, syntax.Atom(relation.name, row, span, span), body, span)


def _extended(closure: _Closure, step: checked.Rule) -> checked.Rule:
    """Return `p(x0, y) :- p(x0, x), body` for a step `p(x, y) :- body`."""
    attributes = closure.relation.attributes
    starts = [attributes[column] for column in closure.ends]
    new = dict(zip(closure.ends, new_variables(starts, step), strict=True))
    row = list(step.head.arguments)
    extended = [new.get(column, term) for column, term in enumerate(row)]
    known = list(extended)
    for start, end in closure.ends.items():
        known[end] = row[start]
    name = closure.relation.name
    head = replace(step.head, relation=name, arguments=tuple(extended))
    atom = replace(step.head, relation=name, arguments=tuple(known))
    return replace(step, head=head, body=(atom, *step.body))
