"""Place the literals between the joins of a body: conditions, negated atoms, equations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbsp.compiler.datalog.plans.join_bodies import functions_of
from dbsp.compiler.datalog.plans.literals import equations, is_partial, uses
from dbsp.compiler.datalog.plans.normalise import (
    Absent,
    AggregateLiteral,
    Condition,
    Generated,
    NormalLiteral,
    Numbered,
)
from dbsp.compiler.datalog.plans.plan_steps import (
    PlannedAntijoin,
    PlannedAssignment,
    PlannedFilter,
    PlannedNumbering,
    PlannedSeries,
    PlanStep,
)
from dbsp.compiler.datalog.plans.ranges import FoundRange, find_range
from dbsp.compiler.datalog.tree.traversal import variables
from dbsp.operators.planner.conjunction import determined


class LiteralPlacement:
    """A body whose literals become steps one after the other.

    `remaining` are the literals without a step, `bound` the variables that the steps in `done`
    keep, in the order of their columns, and `needed` the variables used after the body. `reserved`
    variables are results of aggregates and numbers of rows: an equation does not bind them. `order`
    has the variables in the order in which they appear in the rule.
    """

    def __init__(self, body: Sequence[NormalLiteral], given: Iterable[str], needed: frozenset[str]) -> None:
        self.remaining = list(body)
        self.bound = dict.fromkeys(given)
        self.needed = needed
        self.reserved = {
            name for literal in body if isinstance(literal, AggregateLiteral) for name in literal.variables
        }
        self.reserved.update(literal.variable for literal in body if isinstance(literal, Numbered))
        self.order = tuple(
            dict.fromkeys(
                name for literal in body if not isinstance(literal, Numbered) for name in uses(literal)
            )
        )
        self.done: list[PlanStep] = []

    # Each of these methods places one literal if it can, and returns whether it did.

    def place_filter(self, partial: bool = False) -> bool:
        for literal in self.conditions(partial):
            if literal.names <= self.bound.keys():
                self.take(literal)
                self._drop_implied(literal)
                self.done.append(PlannedFilter(literal.comparison))
                return True
        return False

    def place_equation(self, partial: bool = False) -> bool:
        for literal in self.conditions(partial):
            for name, term in equations(literal):
                if name not in self.reserved and variables(term) <= self.bound.keys():
                    self.take(literal)
                    self._drop_implied(literal)
                    self.done.append(PlannedAssignment(name, term, self.keep((name,), always=True)))
                    return True
        return False

    def place_absent(self) -> bool:
        for literal in self.remaining:
            if isinstance(literal, Absent) and set(literal.pattern.names) <= self.bound.keys():
                self.take(literal)
                self.done.append(PlannedAntijoin(literal.pattern))
                return True
        return False

    def place_membership(self) -> bool:
        """Place a generator whose variable is bound, as a test for membership."""
        for literal in self.remaining:
            if isinstance(literal, Generated) and {literal.variable, *literal.arguments} <= self.bound.keys():
                self.take(literal)
                self.done.append(PlannedFilter(literal.membership))
                return True
        return False

    def place_generated(self, constant: bool) -> bool:
        """Place a generator over bound variables; if `constant`, also one over constants."""
        for literal in self.remaining:
            if not isinstance(literal, Generated) or not literal.arguments <= self.bound.keys():
                continue
            if literal.arguments or constant:
                self.take(literal)
                keep = self.keep((literal.variable,), always=True)
                self.done.append(PlannedSeries(literal.variable, literal.call, keep))
                return True
        return False

    def place_number(self) -> bool:
        """Place the numbering of the rows, after all other literals."""
        for literal in self.remaining:
            if isinstance(literal, Numbered):
                self.take(literal)
                order = tuple(name for name in self.order if name in self.bound)
                keep = self.keep((literal.variable,), always=True)
                step = PlannedNumbering(literal.variable, literal.first, literal.step, order, keep)
                self.done.append(step)
                return True
        return False

    def conditions(self, partial: bool) -> list[Condition]:
        """Return the remaining conditions that have a value for all arguments.

        With `partial`, return all remaining conditions.
        """
        found = (literal for literal in self.remaining if isinstance(literal, Condition))
        return [literal for literal in found if partial or not is_partial(literal)]

    def range_of(self, names: Iterable[str]) -> FoundRange | None:
        """Return a range condition between the bound variables and others, if there is one.

        Variables of both sides are a key of the join, and not compared.
        """
        others = frozenset(names)
        return find_range(
            self.conditions(partial=False), self.bound.keys() - others, others - self.bound.keys()
        )

    def determined(self, names: Iterable[str]) -> frozenset[str]:
        """Return the variables and the variables that equations compute from them."""
        return determined(names, functions_of(self.remaining, self.reserved))

    def keep(self, new: Iterable[str], always: bool = False) -> tuple[str, ...]:
        """Add new bound variables, drop variables that are no longer used, and return the rest.

        With `always`, keep the new variables even if they are not used: they must be computed,
        since they may have no value.
        """
        live = self.needed.union(*map(uses, self.remaining), new if always else ())
        self.bound = {name: None for name in (*self.bound, *new) if name in live}
        return tuple(self.bound)

    def _drop_implied(self, placed: Condition) -> None:
        """Remove the conditions on a record or branch that the placed condition implies."""
        if placed.form is None:
            return
        others = [
            literal
            for literal in self.remaining
            if isinstance(literal, Condition) and literal.form == placed.form
        ]
        if placed.constructs or all(literal.constructs for literal in others):
            self.take(*others)

    def take(self, *literals: object) -> None:
        """Remove placed literals, by identity: a body may contain equal literals."""
        self.remaining = [
            literal for literal in self.remaining if not any(literal is placed for placed in literals)
        ]
