"""Text about the joins of a rule: the planner's report, and the rows that a run has counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from dbsp.circuit.graph import Node
from dbsp.compiler.datalog.meaning.show import show_literal, show_term, show_variable
from dbsp.compiler.datalog.plans.normalise import Scan
from dbsp.compiler.datalog.plans.plan_steps import (
    BoundRows,
    JoinPart,
    PlannedMultiwayJoin,
    RulePlan,
    SubPlan,
    all_steps,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.errors import expect_type
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.joins.term_rows import TermRows
from dbsp.operators.planner.estimate import TermEstimate
from dbsp.operators.planner.estimate_report import report, show_number

Terms = Mapping[Node, tuple[TermRows, ...]]

_LOCAL = re.compile(r"(?<=\w)#[0-9]+")
"""The number that makes the name of a local variable of an aggregate unique."""


def joins(plan: RulePlan, counted: Terms | None) -> Iterator[str]:
    """Yield lines about the joins of a rule; `counted` has the rows of a run's multi-way joins."""
    for group in plan.joined:
        yield f"join of {_listed(map(_scan, group.scans))}"
        yield from (f"  {_LOCAL.sub('', line)}" for line in report(group.choice))
    if counted is None:
        return
    for step in all_steps(plan.steps or ()):
        if isinstance(step, PlannedMultiwayJoin):
            rows = _rows(step, plan, counted)
            parts = _listed(map(show_part, step.parts))
            yield f"rows of the join of {parts}{'' if rows else ': counted with another rule'}"
            for number, term in enumerate(rows or ()):
                yield f"  {_term(step.parts[number], term, step.expected[number] if step.expected else None)}"


def _term(part: JoinPart, rows: TermRows, expected: TermEstimate | None) -> str:
    """Describe a delta term: the changed rows of a part, and their prefixes up to each variable."""
    prefixes = {} if expected is None else {level.variable: level.prefixes for level in expected.levels}
    levels = []
    for name, number in rows.levels:
        against = f" of {show_number(prefixes[name] * rows.changed)} expected" if name in prefixes else ""
        levels.append(f"{show_variable(name)}: {number:,}{against}")
    changed = f"{rows.changed:,} row{'' if rows.changed == 1 else 's'}"
    return f"change of {show_part(part)}: {_listed((changed, *levels))}"


def _rows(step: PlannedMultiwayJoin, plan: RulePlan, counted: Terms) -> tuple[TermRows, ...] | None:
    """Return the counted rows of the step's join; None if the node belongs to another rule."""
    source = str(plan.rule.rule.span)
    for node, rows in counted.items():
        operator = expect_type(node.operator, DeltaMultiwayJoin, "a join with statistics")
        if node.source == source and operator.join.term_orders() == step.orders:
            return rows
    return None


def show_multiway(step: PlannedMultiwayJoin) -> str:
    """Return the step in one line."""
    parts = [f"multi-way join {_listed(map(show_part, step.parts))}"]
    limits = [show_literal(condition) for condition in step.conditions if is_limit(condition)]
    if limits:
        parts[0] += f" with {_listed(limits)}"
    parts += [f"let {show_variable(name)} = {show_term(term)}" for name, term in step.extensions]
    parts += [
        f"keep rows with {show_literal(condition)}"
        for condition in step.conditions
        if not is_limit(condition)
    ]
    return "; ".join(parts)


def is_limit(condition: syntax.Comparison) -> bool:
    """Whether a multi-way join proposes only values for which the condition holds."""
    left, right = condition.left, condition.right
    if condition.operator not in ("=", "!=", "<", "<=", ">", ">="):
        return False
    if not isinstance(left, syntax.Variable):
        left, right = right, left
    if not isinstance(left, syntax.Variable) or left.kind not in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT):
        return False
    match right:
        case syntax.Call(function="+", arguments=(syntax.Constant(), syntax.Variable() as inner)) | (
            syntax.Call(function="+" | "-", arguments=(syntax.Variable() as inner, syntax.Constant()))
        ):
            # A difference of unsigned numbers may have no value, and floats are not counted.
            kinds = (Kind.NUMBER, Kind.UNSIGNED) if right.function == "+" else (Kind.NUMBER,)
            return left.kind in kinds and right.word == 64 and inner != left
        case _:
            return isinstance(right, syntax.Variable | syntax.Constant) and right != left


def show_part(part: JoinPart) -> str:
    match part:
        case SubPlan(names=names):
            return f"[{_listed(map(show_variable, names))}]"
        case BoundRows(names=names):
            return f"the rows so far ({_listed(map(show_variable, names))})"
        case _:
            return show_scan(part)


def show_scan(scan: Scan) -> str:
    """Return the pattern as a program writes it."""
    shown = ["_" if name is None else show_variable(name) for name in scan.variables]
    for column, value in scan.constants:
        shown[column] = show_term(value)
    for first, second in scan.equal:
        shown[second] = shown[first]
    return f"{scan.relation}({_listed(shown)})"


def _scan(scan: Scan | None) -> str:
    return "the rows so far" if scan is None else show_scan(scan)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
