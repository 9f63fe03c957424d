"""specialise: restrict a relation to the rows with a constant that all of its uses have.

    near(y) :- path(7, y).                   Every use of path has 7 in its first column, or passes
    path(x, y) :- edge(x, y).                the first column of the head on unchanged:
    path(x, z) :- path(x, y), edge(y, z).    so path(7, y) :- edge(7, y), and all paths start at 7.

Negated atoms and aggregates are uses like all others: they still find every row that they read. In
a recursive relation, only columns that every recursive atom passes on unchanged are fixed. For
other bindings see `demand` (`compile(magic=...)`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import uses
from dbsp.compiler.datalog.meaning.show import show_term
from dbsp.compiler.datalog.rewrites.plain import derived_for_itself
from dbsp.compiler.datalog.rewrites.simple_terms import is_simple
from dbsp.compiler.datalog.tree import syntax


def specialise(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Insert constants that all uses of a relation have into the rules of the relation."""
    plain = derived_for_itself(program)
    rules_of: dict[str, list[checked.Rule]] = {name: [] for name in plain}
    outside: dict[str, list[syntax.Atom]] = {name: [] for name in plain}
    for rule in program.rules:
        for atom in uses(rule):
            if atom.relation in plain and atom.relation != rule.head.relation:
                outside[atom.relation].append(atom)
        if rule.head.relation in plain:
            rules_of[rule.head.relation].append(rule)
    fixed: dict[str, dict[int, syntax.Constant]] = {}
    for name, rules in rules_of.items():
        # A function that fails for a row must still fail, so the row has to be computed.
        if all(is_simple(part) for rule in rules for part in (*rule.head.arguments, *rule.body)):
            found = _constants(rules, outside[name])
            if found:
                fixed[name] = found
                for column, constant in found.items():
                    attribute = program.relations[name].attributes[column].name
                    changes.append(f"{name}: only rows with {attribute} = {show_term(constant)} are used")
    if not fixed:
        return program
    return replace(program, rules=tuple(_with_constants(rule, fixed) for rule in program.rules))


def _constants(rules: Sequence[checked.Rule], outside: Sequence[syntax.Atom]) -> dict[int, syntax.Constant]:
    """Return the columns that may be fixed, with their constants."""
    found: dict[int, syntax.Constant] = {}
    for column in range(len(rules[0].head.arguments)):
        values = {
            argument for atom in outside if isinstance(argument := atom.arguments[column], syntax.Constant)
        }
        if len(values) != 1 or not all(
            isinstance(atom.arguments[column], syntax.Constant) for atom in outside
        ):
            continue
        (constant,) = values
        if all(rule.head.arguments[column] == constant for rule in rules):
            continue  # already fixed
        if all(
            atom.arguments[column] in (constant, rule.head.arguments[column])
            and not isinstance(atom.arguments[column], syntax.Call)
            for rule in rules
            for atom in uses(rule)
            if atom.relation == rule.head.relation
        ):
            found[column] = constant
    return found


def _with_constants(rule: checked.Rule, fixed: Mapping[str, Mapping[int, syntax.Constant]]) -> checked.Rule:
    columns = fixed.get(rule.head.relation)
    if columns is None:
        return rule
    arguments = list(rule.head.arguments)
    equations = []
    for column, constant in columns.items():
        equations.append(syntax.Comparison("=", arguments[column], constant, rule.span))
        arguments[column] = replace(constant, span=arguments[column].span)
    return replace(
        rule,
        head=replace(rule.head, arguments=tuple(arguments)),
        body=(*rule.body, *equations),
    )
