"""For each rule an order in which to evaluate its body: left-deep, one literal after the other.

The order is chosen greedily. Next is always, of what is possible,

1. a condition whose variables are bound: it only removes rows;
2. a negated atom whose variables are bound;
3. an equation that binds a variable: after what removes rows, for its value may be out of range;
4. a scan that shares a bound variable with what was joined so far, the one with most bound columns
   first, then the one written first; the very first scan is the one with most constants;
5. an aggregate, or a condition with a function that has no value for some arguments (`/`, `%`,
   `to_number` ...): late, so that it sees only rows that everything else lets through;
6. a scan that shares nothing (a cross product).

After each step only the variables that are still needed are kept.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
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

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


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
    """Binds a variable to a term; `keep` (the variable included) is what goes on."""

    variable: str
    term: checked.Term
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Adds the results of an aggregate as variables; `keep` (these included) is what goes on.

    `inner` evaluates the aggregate's body. With `correlated` it starts from the distinct values of
    the injected variables found so far; without, the body binds them itself, is evaluated once for
    all groups and joined. With `empty_groups`, a binding without a group gets the results 0; without,
    it is dropped: a function has no value there, or a condition would not let the 0 through.
    """

    literal: AggregateLiteral
    inner: tuple[Step, ...]
    correlated: bool
    empty_groups: bool
    keep: tuple[str, ...]


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
        self.reserved = {name for one in body if isinstance(one, AggregateLiteral) for name in one.variables}
        self.done: list[Step] = []

    def steps(self) -> tuple[Step, ...]:
        while self.left:
            placed = self._place_filter() or self._place_absent() or self._place_equation()
            placed = placed or self._place_scan(connected=True)
            placed = placed or self._place_late() or self._place_scan(connected=False)
            assert placed, "a checked body can always be ordered"
        return tuple(self.done)

    # Each of these places one literal and says whether it did.

    def _place_filter(self, partial: bool = False) -> bool:
        for literal in self._conditions(partial):
            if literal.names <= self.bound.keys():
                self.left.remove(literal)
                self.done.append(Filter(literal.comparison))
                return True
        return False

    def _place_equation(self, partial: bool = False) -> bool:
        for literal in self._conditions(partial):
            comparison = literal.comparison
            if comparison.operator != "=":
                continue
            for one, other in (
                (comparison.left, comparison.right),
                (comparison.right, comparison.left),
            ):
                if not isinstance(one, checked.Variable) or one.name in self.reserved:
                    continue
                if variables_of(other) <= self.bound.keys():
                    self.left.remove(literal)
                    self.done.append(Assign(one.name, other, self._keep((one.name,), always=True)))
                    return True
        return False

    def _place_absent(self) -> bool:
        for literal in self.left:
            if isinstance(literal, Absent) and set(literal.pattern.names) <= self.bound.keys():
                self.left.remove(literal)
                self.done.append(Without(literal.pattern))
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
        self.done.append(Join(scan, on, self._keep(scan.names)))
        return True

    def _boundness(self, scan: Scan) -> tuple[float, int]:
        fixed = len(scan.constants) + len(scan.equal) + sum(name in self.bound for name in scan.names)
        return (fixed / max(1, len(scan.variables)), fixed)

    def _place_late(self) -> bool:
        for literal in self.left:
            if isinstance(literal, AggregateLiteral) and set(literal.injected) <= self.bound.keys():
                self.left.remove(literal)
                self._aggregate(literal)
                return True
        return self._place_filter(partial=True) or self._place_equation(partial=True)

    def _conditions(self, partial: bool) -> list[Condition]:
        """The conditions to be placed; those that may have no value only when `partial`."""
        found = (literal for literal in self.left if isinstance(literal, Condition))
        return [literal for literal in found if partial or not _is_partial(literal)]

    def _aggregate(self, literal: AggregateLiteral) -> None:
        injected = frozenset(literal.injected)
        values = (variables_of(result.value) for result in literal.results if result.value is not None)
        correlated = bool(injected) and (not injected <= _binds(literal.body) or _has_partial(literal))
        given = literal.injected if correlated else ()
        inner = _Planner(literal.body, given, injected.union(*values)).steps()
        empty_groups = all(result.function in ("count", "sum") for result in literal.results)
        if any(_excludes_zero(name, self.left) for name in literal.variables):
            empty_groups = False
        keep = self._keep(literal.variables, always=True)
        self.done.append(Aggregated(literal, inner, correlated, empty_groups, keep))

    def _keep(self, new: Iterable[str], always: bool = False) -> tuple[str, ...]:
        """Adds newly bound variables and drops those that nothing uses any more; what is left.

        With `always` the new ones are kept even if nothing uses them: they are to be computed, and
        may turn out to have no value.
        """
        live = self.needed.union(*map(_uses, self.left), new if always else ())
        self.bound = {name: None for name in (*self.bound, *new) if name in live}
        return tuple(self.bound)


def _uses(literal: NormalLiteral) -> Iterable[str]:
    match literal:
        case Scan():
            return literal.names
        case Absent(pattern=pattern):
            return pattern.names
        case Condition():
            return literal.names
        case AggregateLiteral():
            return (*literal.variables, *literal.injected)


def _is_partial(literal: Condition) -> bool:
    comparison = literal.comparison
    return any(name in PARTIAL for side in (comparison.left, comparison.right) for name in calls_in(side))


def _has_partial(literal: AggregateLiteral) -> bool:
    """Whether evaluating the body for groups that nobody asks for could be an error."""
    values = [result.value for result in literal.results if result.value is not None]
    if any(name in PARTIAL for value in values for name in calls_in(value)):
        return True
    return any(
        (isinstance(inner, Condition) and _is_partial(inner))
        or (isinstance(inner, AggregateLiteral) and _has_partial(inner))
        for inner in literal.body
    )


def _excludes_zero(variable: str, body: Iterable[NormalLiteral]) -> bool:
    """Whether a condition of the body compares the variable with a constant, and 0 fails it."""
    comparisons = [literal.comparison for literal in body if isinstance(literal, Condition)]
    names = {variable}
    for one in comparisons:
        sides = {side.name for side in (one.left, one.right) if isinstance(side, checked.Variable)}
        if one.operator == "=" and len(sides) == 2 and sides & names:
            names |= sides
    for one in comparisons:
        compare = _COMPARE[one.operator]
        match one.left, one.right:
            case checked.Variable(name=name), checked.Constant(value=int() | float() as value):
                if name in names and not compare(0, value):
                    return True
            case checked.Constant(value=int() | float() as value), checked.Variable(name=name):
                if name in names and not compare(value, 0):
                    return True
    return False


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
                    bound.update(literal.variables)
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
