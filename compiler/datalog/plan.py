"""For each rule an order in which to evaluate its body: left-deep, one literal after the other.

The order is chosen greedily. Next is always, of what is possible,

1. a condition whose variables are bound: it only removes rows; an equation that binds a variable;
2. a negated atom whose variables are bound;
3. a scan that shares a bound variable with what was joined so far, the one with most bound columns
   first, then the one written first; the very first scan is the one with most constants;
4. an aggregate, or a condition with a function that has no value for some arguments (`/`, `%`,
   `to_number` ...): late, so that it sees only rows that everything else lets through;
5. a scan that shares nothing (a cross product).

After each step only the variables that are still needed are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dbsp.compiler.datalog import checked
from dbsp.compiler.datalog.functions import PARTIAL
from dbsp.compiler.datalog.normalise import (
    Absent,
    AggregateLiteral,
    Condition,
    NormalLiteral,
    NormalRule,
    Scan,
    calls_in,
    variables_of,
)


@dataclass(frozen=True, slots=True)
class Join:
    """Joins the rows of a scan; `on` are the variables already bound. `keep` is what goes on."""

    scan: Scan
    on: tuple[str, ...]
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Keeps the rows for which the pattern has no row."""

    pattern: Scan


@dataclass(frozen=True, slots=True)
class Filter:
    condition: checked.Comparison


@dataclass(frozen=True, slots=True)
class Assign:
    variable: str
    term: checked.Term


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Adds the aggregate's value as a variable.

    `inner` evaluates the aggregate's body. With `correlated` it starts from the distinct values of
    the injected variables found so far; without, the body binds them itself, is evaluated once for
    all groups and joined.
    """

    literal: AggregateLiteral
    inner: tuple[Step, ...]
    correlated: bool


Step: TypeAlias = Join | Without | Filter | Assign | Aggregated


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The steps of a rule, starting from the one empty row; None when the rule never holds."""

    rule: NormalRule
    steps: tuple[Step, ...] | None


def plan(rule: NormalRule) -> RulePlan:
    """The plan of one rule."""
    if rule.body is None:
        return RulePlan(rule, None)
    needed = frozenset().union(*map(variables_of, rule.head))
    return RulePlan(rule, _Planner(rule.body, (), needed).steps())


class _Planner:
    """Orders one body. `given` are bound from the start; `needed` are those used after the end."""

    def __init__(self, body: Sequence[NormalLiteral], given: Iterable[str], needed: frozenset[str]) -> None:
        self.left = list(body)
        self.bound = dict.fromkeys(given)
        self.needed = needed
        # An equation with the result of an aggregate waits for the aggregate.
        self.reserved = {one.variable for one in body if isinstance(one, AggregateLiteral)}
        self.done: list[Step] = []

    def steps(self) -> tuple[Step, ...]:
        while self.left:
            placed = self._place_conditions() or self._place_absent() or self._place_scan(connected=True)
            placed = placed or self._place_late() or self._place_scan(connected=False)
            assert placed, "a checked body can always be ordered"
        return tuple(self.done)

    # Each of these places one literal and says whether it did.

    def _place_conditions(self, partial: bool = False) -> bool:
        for literal in self.left:
            if not isinstance(literal, Condition) or _is_partial(literal) > partial:
                continue
            comparison = literal.comparison
            if literal.names <= self.bound.keys():
                self._add(literal, Filter(comparison))
                return True
            if comparison.operator != "=":
                continue
            for one, other in (
                (comparison.left, comparison.right),
                (comparison.right, comparison.left),
            ):
                if not isinstance(one, checked.Variable) or one.name in self.reserved:
                    continue
                if variables_of(other) <= self.bound.keys():
                    self._add(literal, Assign(one.name, other), one.name)
                    return True
        return False

    def _place_absent(self) -> bool:
        for literal in self.left:
            if isinstance(literal, Absent) and set(literal.pattern.names) <= self.bound.keys():
                self._add(literal, Without(literal.pattern))
                return True
        return False

    def _place_scan(self, connected: bool) -> bool:
        scans = [literal for literal in self.left if isinstance(literal, Scan)]
        if connected and self.bound:
            scans = [scan for scan in scans if not self.bound.keys().isdisjoint(scan.names)]
        if not scans:
            return False
        scan = max(scans, key=self._boundness)  # max keeps the first of equals
        on = tuple(name for name in scan.names if name in self.bound)
        self.left.remove(scan)
        self.bound.update(dict.fromkeys(scan.names))
        live = self._live()
        self.bound = {name: None for name in self.bound if name in live}
        self.done.append(Join(scan, on, tuple(self.bound)))
        return True

    def _boundness(self, scan: Scan) -> tuple[float, int]:
        fixed = len(scan.constants) + len(scan.equal) + sum(name in self.bound for name in scan.names)
        return (fixed / max(1, len(scan.variables)), fixed)

    def _place_late(self) -> bool:
        for literal in self.left:
            if isinstance(literal, AggregateLiteral) and set(literal.injected) <= self.bound.keys():
                self._add(literal, _aggregated(literal), literal.variable)
                return True
        return self._place_conditions(partial=True)

    def _add(self, literal: NormalLiteral, step: Step, *binds: str) -> None:
        self.left.remove(literal)
        self.bound.update(dict.fromkeys(binds))
        self.done.append(step)

    def _live(self) -> frozenset[str]:
        """The variables that the literals still to come, or the head, use."""
        return self.needed.union(*map(_uses, self.left))


def _uses(literal: NormalLiteral) -> Iterable[str]:
    match literal:
        case Scan():
            return literal.names
        case Absent(pattern=pattern):
            return pattern.names
        case Condition():
            return literal.names
        case AggregateLiteral():
            return (literal.variable, *literal.injected)


def _is_partial(literal: Condition) -> bool:
    comparison = literal.comparison
    return any(name in PARTIAL for side in (comparison.left, comparison.right) for name in calls_in(side))


def _aggregated(literal: AggregateLiteral) -> Aggregated:
    needed = frozenset(literal.injected)
    if literal.value is not None:
        needed |= variables_of(literal.value)
    correlated = bool(literal.injected) and (
        not set(literal.injected) <= _binds(literal.body) or _has_partial(literal)
    )
    given = literal.injected if correlated else ()
    return Aggregated(literal, _Planner(literal.body, given, needed).steps(), correlated)


def _has_partial(literal: AggregateLiteral) -> bool:
    """Whether evaluating the body for groups that nobody asks for could be an error."""
    if literal.value is not None and any(name in PARTIAL for name in calls_in(literal.value)):
        return True
    return any(
        (isinstance(inner, Condition) and _is_partial(inner))
        or (isinstance(inner, AggregateLiteral) and _has_partial(inner))
        for inner in literal.body
    )


def _binds(body: Sequence[NormalLiteral]) -> set[str]:
    """The variables a body binds by itself."""
    bound: set[str] = set()
    before = -1
    while len(bound) > before:
        before = len(bound)
        for literal in body:
            match literal:
                case Scan():
                    bound.update(literal.names)
                case AggregateLiteral() if bound.issuperset(literal.injected):
                    bound.add(literal.variable)
                case Condition(comparison=comparison) if comparison.operator == "=":
                    for one, other in (
                        (comparison.left, comparison.right),
                        (comparison.right, comparison.left),
                    ):
                        if isinstance(one, checked.Variable) and variables_of(other) <= bound:
                            bound.add(one.name)
                case _:
                    pass
    return bound
