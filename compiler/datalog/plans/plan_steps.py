"""The steps of a plan, which evaluate the body of a rule one after the other.

The columns of the rows found so far are the variables bound so far. A step maps these rows to the
rows that also satisfy its own part of the body; the first step starts from one empty row. A join
reads a scan or a `SubPlan`: rows computed by separate steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from dbsp.compiler.datalog.plans.normalise import AggregateLiteral, NormalRule, Scan
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import variables
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.choose import ChosenPlan
from dbsp.operators.planner.estimate import TermEstimate


@dataclass(frozen=True, slots=True)
class SubPlan:
    """Rows computed by separate steps; `names` are the variables that are used outside."""

    steps: tuple[PlanStep, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundRows:
    """The rows found so far, as a part of a multi-way join."""

    names: tuple[str, ...]


RowSource: TypeAlias = Scan | SubPlan
JoinPart: TypeAlias = Scan | SubPlan | BoundRows


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """first + low <= point <= last + high; one side of a join binds the point, the other the rest.

    None for no lower or no upper limit. The numbers are 1 and -1 for `<`, and 0 for `<=`.
    """

    point: str
    first: str | None
    last: str | None
    low: int = 0
    high: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.first, self.point, self.last) if name is not None)


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """Joins the rows of a source on the bound variables `on`; later steps use `keep`.

    With `within`, the pairs of rows also satisfy this condition; it has two limits if `on` is not
    empty.
    """

    source: RowSource
    on: tuple[str, ...]
    keep: tuple[str, ...]
    within: PlannedRange | None = None


@dataclass(frozen=True, slots=True)
class PlannedMultiwayJoin:
    """Joins all parts at once, variable by variable.

    `orders` has for each part the order in which a change of it binds the other variables.
    `extensions` are equations that bind a variable, or test a bound one. They and the `conditions`
    are evaluated as soon as their variables are bound. Later steps use the variables `keep`.
    `expected` has the planner's estimate for the change of each part, if rows were counted.
    """

    parts: tuple[JoinPart, ...]
    orders: tuple[tuple[str, ...], ...]
    conditions: tuple[syntax.Comparison, ...]
    extensions: tuple[tuple[str, syntax.Term], ...]
    keep: tuple[str, ...]
    expected: tuple[TermEstimate, ...] = field(default=(), compare=False, repr=False)

    @property
    def used_variables(self) -> frozenset[str]:
        """The variables of the parts that are used more than once, or after the join."""
        uses = Counter(name for part in self.parts for name in part.names)
        for part in self.parts:
            if isinstance(part, Scan):
                uses.update(name for first, _ in part.equal if (name := part.variables[first]) is not None)
        terms = [term for condition in self.conditions for term in (condition.left, condition.right)]
        terms += [term for _, term in self.extensions]
        used = set(self.keep).union(name for name, _ in self.extensions)
        return frozenset(used.union(*map(variables, terms))).union(
            name for name, number in uses.items() if number > 1
        )


@dataclass(frozen=True, slots=True)
class PlannedAntijoin:
    """Keeps the rows for which the pattern has no row."""

    pattern: Scan


@dataclass(frozen=True, slots=True)
class PlannedFilter:
    condition: syntax.Comparison


@dataclass(frozen=True, slots=True)
class PlannedAssignment:
    """Binds a variable to a term; later steps use `keep`, the variable included."""

    variable: str
    term: syntax.Term
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedSeries:
    """Binds a variable to each value of a generator; later steps use `keep`, which includes it."""

    variable: str
    call: syntax.Call
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedNumbering:
    """Binds a variable to the number of each row; rows of one tick are numbered in `order`."""

    variable: str
    first: int
    step: int
    order: tuple[str, ...]
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedAggregate:
    """Adds the results of an aggregate as variables; later steps use `keep`, these included.

    `inner` evaluates the aggregate's body. With `correlated` it starts from the distinct values of
    the injected variables found so far; otherwise the body binds them itself, is evaluated once for
    all groups, and is joined on the injected variables found so far. With `empty_groups`, a binding
    without a group gets the results 0; otherwise it is dropped: a function has no value there, or
    the rest of the rule excludes 0.
    """

    literal: AggregateLiteral
    inner: tuple[PlanStep, ...]
    correlated: bool
    empty_groups: bool
    keep: tuple[str, ...]


PlanStep: TypeAlias = (
    PlannedJoin
    | PlannedMultiwayJoin
    | PlannedAntijoin
    | PlannedFilter
    | PlannedAssignment
    | PlannedSeries
    | PlannedNumbering
    | PlannedAggregate
)


@dataclass(frozen=True, slots=True)
class Joined:
    """Connected scans, and the planner's choice of their joins.

    `scans` are the atoms of the planner's conjunction, None for the rows found so far.
    """

    scans: tuple[Scan | None, ...]
    choice: ChosenPlan


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The steps of a rule, starting from one empty row; None when the rule never holds.

    `joined` has the planner's choice for every group of scans in the body and in its aggregates.
    """

    rule: NormalRule
    steps: tuple[PlanStep, ...] | None
    joined: tuple[Joined, ...] = ()


def all_steps(steps: Sequence[PlanStep]) -> Iterator[PlanStep]:
    """Yield the steps and the steps inside them; inner steps come first."""
    for step in steps:
        match step:
            case PlannedJoin(source=SubPlan(steps=inner)) | PlannedAggregate(inner=inner):
                yield from all_steps(inner)
            case PlannedMultiwayJoin(parts=parts):
                for part in parts:
                    if isinstance(part, SubPlan):
                        yield from all_steps(part.steps)
            case _:
                pass
        yield step
