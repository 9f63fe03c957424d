"""`autoinc()`: where it may stand, and which numbers each place of it gives.

Numbers are different all over the program: of n places, the one written at place i gives i, i + n,
i + 2 n, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import uses
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.compiler.datalog.tree.traversal import map_children, walk


def check_counters(clause: FlatClause, report: Report) -> bool:
    """Reports every `autoinc()` of a clause that has no rows to number; true when there is none."""
    errors = report.error_count
    for part in walk(clause):
        if isinstance(part, syntax.Aggregate):
            for inner in filter(is_number, walk(part)):
                hint = "number the rows in a relation of their own, and aggregate over that"
                report.error(inner.span, "autoinc() cannot stand in an aggregate", hint)
        elif is_number(part) and clause.is_fact:
            report.error(part.span, "autoinc() in a fact", "the arguments of a fact are constants")
        elif is_number(part) and clause.subsumes:
            report.error(part.span, "autoinc() in a subsumption", "compare columns that have numbers")
    return report.error_count == errors


def is_number(node: Any) -> bool:
    """Whether it is the number of a row: `autoinc()`."""
    return isinstance(node, syntax.Call) and node.function == "autoinc"


def numbers_rows(rule: checked.Rule) -> bool:
    """Whether a rule numbers the ways to satisfy its body; so these must stay what they are."""
    return any(map(is_number, walk(rule)))


def check_recursion(strata: Sequence[checked.Stratum], report: Report) -> None:
    """Reports the recursive rules with `autoinc()`: each new number would make a row, and that another."""
    for stratum in strata:
        for rule in stratum.rules if stratum.recursive else ():
            if any(atom.relation in stratum.relations for atom in uses(rule)):
                for node in walk(rule):
                    if is_number(node):
                        report.error(node.span, "autoinc() in a recursive rule", _RECURSION)


_RECURSION = "rows that depend on their own numbers never come to an end; number them in a rule outside"


def with_numbers(rules: Sequence[checked.Rule]) -> list[checked.Rule]:
    """The rules with the first number and the step put into each `autoinc()`."""
    total = sum(is_number(node) for rule in rules for node in walk(rule))
    places = count()

    def numbered(node: Any) -> Any:
        if not is_number(node):
            return map_children(node, numbered)
        ends = (next(places), total)
        numbers = (syntax.Constant(number, node.span, Kind.NUMBER) for number in ends)
        return replace(node, arguments=tuple(numbers))

    return [map_children(rule, numbered) for rule in rules] if total else list(rules)
