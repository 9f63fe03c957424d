"""What there is to say about the joins of a rule: the planner's report, and what a run has met."""

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
from dbsp.compiler.planner.estimate import TermEstimate
from dbsp.compiler.planner.estimate_report import report, show_number
from dbsp.errors import expect_type
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.joins.term_rows import TermRows

Terms = Mapping[Node, tuple[TermRows, ...]]

_LOCAL = re.compile(r"(?<=\w)#[0-9]+")
"""What tells the local variables of aggregates from others of the same name."""


def joins(plan: RulePlan, met: Terms | None) -> Iterator[str]:
    """Lines about the joins of a rule; `met` has what the multi-way joins of a run have met."""
    for group in plan.joined:
        yield f"join of {_listed(map(_scan, group.scans))}"
        yield from (f"  {_LOCAL.sub('', line)}" for line in report(group.choice))
    if met is None:
        return
    for step in all_steps(plan.steps or ()):
        if isinstance(step, PlannedMultiwayJoin):
            rows = _rows(step, plan, met)
            parts = _listed(map(show_part, step.parts))
            yield f"met in the join of {parts}{'' if rows else ': it is made for another rule'}"
            for number, term in enumerate(rows or ()):
                yield f"  {_met(step.parts[number], term, step.expected[number] if step.expected else None)}"


def _met(part: JoinPart, met: TermRows, expected: TermEstimate | None) -> str:
    """The changed rows of a part, and the prefixes bound from them up to each variable."""
    prefixes = {} if expected is None else {level.variable: level.prefixes for level in expected.levels}
    levels = []
    for name, number in met.levels:
        against = f" of {show_number(prefixes[name] * met.changed)} expected" if name in prefixes else ""
        levels.append(f"{show_variable(name)}: {number:,}{against}")
    rows = f"{met.changed:,} row{'' if met.changed == 1 else 's'}"
    return f"change of {show_part(part)}: {_listed((rows, *levels))}"


def _rows(step: PlannedMultiwayJoin, plan: RulePlan, met: Terms) -> tuple[TermRows, ...] | None:
    """What the join of this step has met, if the rule has one of its own."""
    source = str(plan.rule.rule.span)
    for node, rows in met.items():
        operator = expect_type(node.operator, DeltaMultiwayJoin, "a join with statistics")
        if node.source == source and operator.join.term_orders() == step.orders:
            return rows
    return None


def show_multiway(step: PlannedMultiwayJoin) -> str:
    """The step in one line."""
    parts = [f"join at once {_listed(map(show_part, step.parts))}"]
    parts += [f"let {show_variable(name)} = {show_term(term)}" for name, term in step.extensions]
    parts += [f"keep rows with {show_literal(condition)}" for condition in step.conditions]
    return "; ".join(parts)


def show_part(part: JoinPart) -> str:
    match part:
        case SubPlan(names=names):
            return f"[{_listed(map(show_variable, names))}]"
        case BoundRows(names=names):
            return f"the rows so far ({_listed(map(show_variable, names))})"
        case _:
            return show_scan(part)


def show_scan(scan: Scan) -> str:
    """The pattern as it would be written."""
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
