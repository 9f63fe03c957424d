"""separate: ask once for a part of a body that shares no variable with the rest of the rule.

    a(x) :- b(x), c(y), d(y).       is      a#exists1() :- c(y), d(y).
                                            a(x) :- b(x), a#exists1().

Only the existence of a row of c and d matters. The rule would join every row of b with all of these
rows, and do so again in every iteration of a recursion. The relation without columns has one row or
none, so the rule is visited again only when the part begins or ceases to hold. Rules with equal
parts share the relation, also if the names of variables differ.

A part stays in its rule if the head uses one of its variables (the cross product is the result), if
it is the whole body, or if it is a single atom without conditions, which the circuit tests in the
same way. The same holds for rules that number their rows or have a `.plan`, and for parts that can
fail: the rest of the body may exclude every row, and then the part is not evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.numbering import numbers_rows
from dbsp.compiler.datalog.meaning.show import show_body
from dbsp.compiler.datalog.rewrites.plain import by_iterations
from dbsp.compiler.datalog.rewrites.simple_terms import is_simple
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, map_children, rename, variables

Part = tuple[syntax.Literal, ...]


def separate(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Return the program with a relation without columns for each independent part of a body."""
    fixed = by_iterations(program)
    last = max((rule.number for rule in program.clauses), default=0)
    relations = dict(program.relations)
    names: dict[Part, str] = {}
    rules: list[checked.Rule] = []
    added: list[checked.Rule] = []
    for rule in program.rules:
        if rule.head.relation not in fixed:
            for part in list(_independent_parts(rule)):
                key = _renamed(part)
                if key not in names:
                    names[key] = f"{rule.head.relation}#exists{len(names) + 1}"
                    relations[names[key]] = checked.Relation(names[key], (), rule.span)
                    head = _existence(names[key], part)
                    added.append(checked.Rule(last + len(names), head, part, rule.span))
                changes.append(f"rule {rule.number} at {rule.span} asks once whether {show_body(part)}")
                rest = [literal for literal in rule.body if not any(literal is own for own in part)]
                rule = replace(rule, body=(*rest, _existence(names[key], part)))
        rules.append(rule)
    return replace(program, rules=(*rules, *added), relations=relations) if added else program


def _existence(name: str, part: Part) -> syntax.Atom:
    return syntax.Atom(name, (), part[0].span, part[0].span)


def _independent_parts(rule: checked.Rule) -> Iterator[Part]:
    """Yield the parts of a body that are replaced by the existence of their rows."""
    if rule.order is not None or numbers_rows(rule):
        return
    parts = [part for part in _parts(rule.body) if any(map(_reads, part))]
    head = frozenset().union(*map(variables, rule.head.arguments))
    if len(parts) == 1 and not any(map(_reads, rule.head.arguments)):
        return
    for part in parts:
        alone = len(part) == 1 and not isinstance(part[0], syntax.Comparison)
        own = frozenset().union(*map(variables, part))
        if not alone and head.isdisjoint(own) and all(map(_cannot_fail, part)):
            yield part


def _parts(body: Sequence[syntax.Literal]) -> list[Part]:
    """Group the literals of a body that are connected by variables; each keeps its order."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, literal in enumerate(body):
        names, places = set(variables(literal)), [place]
        for group in [group for group in groups if not names.isdisjoint(group[0])]:
            groups.remove(group)
            names |= group[0]
            places += group[1]
        groups.append((names, places))
    return [tuple(body[place] for place in sorted(places)) for _, places in groups]


def _reads(node: syntax.Node) -> bool:
    """Whether a part of a rule reads a relation."""
    return next(find(node, syntax.Atom), None) is not None


def _cannot_fail(literal: syntax.Literal) -> bool:
    """Whether a literal has a value whatever the rest of the body is, an overflow apart.

    The value of an aggregate without injected variables is computed for no row of the rest.
    """

    def without_aggregates(node: syntax.Node) -> syntax.Node:
        if isinstance(node, syntax.Aggregate) and not node.injected:
            return syntax.Wildcard(node.span, node.kind)
        return map_children(node, without_aggregates)

    return is_simple(without_aggregates(literal))


def _renamed(part: Part) -> Part:
    """Return a part with variables named by the order of their first use, to compare parts."""
    names = dict.fromkeys(variable.name for literal in part for variable in find(literal, syntax.Variable))
    numbered = {name: f"#{number}" for number, name in enumerate(names)}
    return tuple(rename(literal, numbered) for literal in part)
