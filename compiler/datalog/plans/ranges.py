"""Range conditions: comparisons that limit a variable of one side of a join by the other side.

interval(i, l, u), point(x), l <= x, x < u         x is at least l and at most u - 1
row(x), threshold(k), x > k                        x is at least k + 1
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from dbsp.compiler.datalog.plans.normalise import Condition
from dbsp.compiler.datalog.plans.plan_steps import PlannedRange
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FoundRange:
    """A range, and the conditions of the body that it replaces."""

    range: PlannedRange
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class _Limit:
    """less + strict <= greater"""

    condition: Condition
    less: str
    greater: str
    strict: int


def find_range(
    conditions: Sequence[Condition], left: Collection[str], right: Iterable[str]
) -> FoundRange | None:
    """Return a range between variables of two sides of a join; one with two limits if there is one.

    Only numbers that are stored in their own order are compared: not floats and not symbols.
    """
    sides = (frozenset(left), frozenset(right))
    limits = [limit for condition in conditions for limit in _limits(condition, sides)]
    for point in dict.fromkeys(name for limit in limits for name in (limit.greater, limit.less)):
        first = next((limit for limit in limits if limit.greater == point), None)
        last = next((limit for limit in limits if limit.less == point), None)
        if first is not None and last is not None:
            found = PlannedRange(point, first.less, last.greater, first.strict, -last.strict)
            return FoundRange(found, (first.condition, last.condition))
    if not limits:
        return None
    only = limits[0]
    return FoundRange(PlannedRange(only.greater, only.less, None, only.strict), (only.condition,))


def _limits(condition: Condition, sides: tuple[frozenset[str], frozenset[str]]) -> Iterator[_Limit]:
    match condition.comparison:
        case syntax.Comparison(
            operator="<" | "<=" | ">" | ">=" as operator,
            left=syntax.Variable(name=less, kind=Kind.NUMBER | Kind.UNSIGNED),
            right=syntax.Variable(name=greater),
        ):
            if operator in (">", ">="):
                less, greater = greater, less
            one, other = sides
            if (less in one and greater in other) or (less in other and greater in one):
                yield _Limit(condition, less, greater, int(len(operator) == 1))
        case _:
            pass
