"""`autoinc()`: where it is allowed, and the numbers that each call of it returns.

Numbers are unique in a program: of n calls, the call number i returns i, i + n, i + 2 n, ...
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
    """Report every `autoinc()` of a clause that has no rows to number; true when there is none."""
    errors = report.error_count
    for part in walk(clause):
        if isinstance(part, syntax.Aggregate):
            for inner in filter(is_number, walk(part)):
                hint = "number the rows in another relation, and aggregate over it"
                message = "autoinc() cannot be used in an aggregate"
                report.error(inner.span, message, hint, code="invalid-autoinc")
        elif is_number(part) and clause.is_fact:
            hint = "the arguments of a fact must be constants"
            report.error(part.span, "autoinc() cannot be used in a fact", hint, code="invalid-autoinc")
        elif is_number(part) and clause.subsumes:
            message = "autoinc() cannot be used in a subsumption"
            hint = "number the rows in another relation, and compare that column"
            report.error(part.span, message, hint, code="invalid-autoinc")
    return report.error_count == errors


def is_number(node: Any) -> bool:
    """Whether a node is a call of `autoinc()`, the number of a row."""
    return isinstance(node, syntax.Call) and node.function == "autoinc"


def numbers_rows(rule: checked.Rule) -> bool:
    """Whether a rule has an `autoinc()`; rewritings must then keep the bindings of its body."""
    return any(map(is_number, walk(rule)))


def check_recursion(strata: Sequence[checked.Stratum], report: Report) -> None:
    """Report recursive rules with `autoinc()`: each number would derive a row to number."""
    for stratum in strata:
        for rule in stratum.rules if stratum.recursive else ():
            if any(atom.relation in stratum.relations for atom in uses(rule)):
                for node in walk(rule):
                    if is_number(node):
                        message = "autoinc() cannot be used in a recursive rule"
                        report.error(node.span, message, _RECURSION, code="invalid-autoinc")


_RECURSION = "each number would derive another row to number; use autoinc() in a rule that is not recursive"


def with_numbers(rules: Sequence[checked.Rule]) -> list[checked.Rule]:
    """The rules with the first number and the step as the arguments of each `autoinc()`."""
    total = sum(is_number(node) for rule in rules for node in walk(rule))
    places = count()

    def numbered(node: Any) -> Any:
        if not is_number(node):
            return map_children(node, numbered)
        ends = (next(places), total)
        numbers = (syntax.Constant(number, node.span, Kind.NUMBER) for number in ends)
        return replace(node, arguments=tuple(numbers))

    return [map_children(rule, numbered) for rule in rules] if total else list(rules)
