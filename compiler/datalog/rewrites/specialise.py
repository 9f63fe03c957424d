"""specialise: a relation of which only the rows with one constant are looked at has only these.

    near(y) :- path(7, y).                   every use of path says 7 in its first column, or passes on
    path(x, y) :- edge(x, y).                what its own rules have in the first column of their heads:
    path(x, z) :- path(x, y), edge(y, z).    then path(7, y) :- edge(7, y), and all of path starts at 7.

Negated atoms and aggregates are uses like all others: they see the rows that they look at, and no row
that they do not look at any more. Of a relation that depends on itself only columns that every recursive
atom hands through unchanged are fixed; for other bindings there is demand (`compile(magic=...)`).
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
    """The program with constants that all uses of a relation have put into its rules."""
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
        # A function that could fail for a row that is not computed any more must go on failing.
        if all(is_simple(part) for rule in rules for part in (*rule.head.arguments, *rule.body)):
            found = _constants(rules, outside[name])
            if found:
                fixed[name] = found
                for column, constant in found.items():
                    attribute = program.relations[name].attributes[column].name
                    changes.append(
                        f"{name}: only rows with {attribute} = {show_term(constant)} are looked at"
                    )
    if not fixed:
        return program
    return replace(program, rules=tuple(_with_constants(rule, fixed) for rule in program.rules))


def _constants(rules: Sequence[checked.Rule], outside: Sequence[syntax.Atom]) -> dict[int, syntax.Constant]:
    """The columns that may be fixed, and to what."""
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
            continue  # it is done
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
