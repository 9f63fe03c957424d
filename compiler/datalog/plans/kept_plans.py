"""The plans of a running program for the rules that another program has, too.

A rule with the same normal form has the same plans. So its plan is taken over, although other row
counts may have chosen it: then its circuit is the same, and the state of its joins is kept. Spans
of the plan become those of the other program, so messages point at its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dbsp.compiler.datalog.plans.normalise import NormalRule
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.diagnostics import SourceSpan


def kept_plans(running: Mapping[int, RulePlan], new: Mapping[int, RulePlan]) -> dict[int, RulePlan]:
    """Return by number the plans of the `new` rules whose normal form a `running` plan has."""
    known: dict[NormalRule, RulePlan] = {}
    for plan in running.values():
        known.setdefault(_unnumbered(plan.rule), plan)
    found: dict[int, RulePlan] = {}
    for number, plan in new.items():
        kept = known.get(_unnumbered(plan.rule))
        if kept is not None:
            spans: dict[SourceSpan, SourceSpan] = {}
            _pair(kept.rule, plan.rule, spans)
            found[number] = replace(_moved(kept, spans), rule=plan.rule)
    return found


def _unnumbered(rule: NormalRule) -> NormalRule:
    return replace(rule, rule=replace(rule.rule, number=0))


def _pair(old: Any, new: Any, spans: dict[SourceSpan, SourceSpan]) -> None:
    """Note for each span of a part of a rule the span at the same place of an equal part."""
    if isinstance(old, SourceSpan):
        if isinstance(new, SourceSpan):
            spans[old] = new
    elif isinstance(old, tuple):
        for each, other in zip(old, new, strict=True):
            _pair(each, other, spans)
    elif is_dataclass(old) and not isinstance(old, type):
        for field in fields(old):
            _pair(getattr(old, field.name), getattr(new, field.name), spans)


def _moved(part: Any, spans: Mapping[SourceSpan, SourceSpan]) -> Any:
    """Return a part of a plan with other spans; spans that the rule does not have stay."""
    if isinstance(part, SourceSpan):
        return spans.get(part, part)
    if type(part) is tuple:
        moved = tuple(_moved(each, spans) for each in part)
        return part if all(new is old for new, old in zip(moved, part, strict=True)) else moved
    if is_dataclass(part) and not isinstance(part, type):
        changed: dict[str, Any] = {}
        for field in fields(part):
            old = getattr(part, field.name)
            new = _moved(old, spans)
            if new is not old:
                changed[field.name] = new
        return replace(part, **changed) if changed else part
    return part
