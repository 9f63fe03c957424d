"""What is placed in between of the joins of a body: conditions, negated atoms, equations."""

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
from dbsp.compiler.datalog.tree.traversal import variables
from dbsp.compiler.planner.conjunction import determined


class Placing:
    """A body of which literal after literal becomes a step.

    `left` are the literals to be placed, `bound` the variables that go on from the steps in `done`, in
    the order of their columns; `needed` are those used after the end. Variables that are `reserved` are
    the results of aggregates and numbers of rows: an equation with one of them waits for that. `order` has
    the variables as they stand in the rule.
    """

    def __init__(self, body: Sequence[NormalLiteral], given: Iterable[str], needed: frozenset[str]) -> None:
        self.left = list(body)
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

    # Each of these places one literal and says whether it did.

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
        for literal in self.left:
            if isinstance(literal, Absent) and set(literal.pattern.names) <= self.bound.keys():
                self.take(literal)
                self.done.append(PlannedAntijoin(literal.pattern))
                return True
        return False

    def place_membership(self) -> bool:
        """A generator of which only has to be known whether a value is among its own."""
        for literal in self.left:
            if isinstance(literal, Generated) and {literal.variable, *literal.arguments} <= self.bound.keys():
                self.take(literal)
                self.done.append(PlannedFilter(literal.membership))
                return True
        return False

    def place_generated(self, constant: bool) -> bool:
        """A generator over what is bound, or with `constant` also one over nothing but constants."""
        for literal in self.left:
            if not isinstance(literal, Generated) or not literal.arguments <= self.bound.keys():
                continue
            if literal.arguments or constant:
                self.take(literal)
                keep = self.keep((literal.variable,), always=True)
                self.done.append(PlannedSeries(literal.variable, literal.call, keep))
                return True
        return False

    def place_number(self) -> bool:
        """The numbering of the rows, when there is nothing else that could be placed."""
        for literal in self.left:
            if isinstance(literal, Numbered):
                self.take(literal)
                order = tuple(name for name in self.order if name in self.bound)
                keep = self.keep((literal.variable,), always=True)
                step = PlannedNumbering(literal.variable, literal.first, literal.step, order, keep)
                self.done.append(step)
                return True
        return False

    def conditions(self, partial: bool) -> list[Condition]:
        """The conditions to be placed; those that may have no value only when `partial`."""
        found = (literal for literal in self.left if isinstance(literal, Condition))
        return [literal for literal in found if partial or not is_partial(literal)]

    def determined(self, names: Iterable[str]) -> frozenset[str]:
        """The variables with those that equations compute from them."""
        return determined(names, functions_of(self.left, self.reserved))

    def keep(self, new: Iterable[str], always: bool = False) -> tuple[str, ...]:
        """Adds newly bound variables and drops those that nothing uses any more; what is left.

        With `always` the new ones are kept even if nothing uses them: they are to be computed, and
        may turn out to have no value.
        """
        live = self.needed.union(*map(uses, self.left), new if always else ())
        self.bound = {name: None for name in (*self.bound, *new) if name in live}
        return tuple(self.bound)

    def _drop_implied(self, placed: Condition) -> None:
        """Leaves out what need not be asked of a record or branch any more, after one of its conditions."""
        if placed.form is None:
            return
        others = [
            literal for literal in self.left if isinstance(literal, Condition) and literal.form == placed.form
        ]
        if placed.constructs or all(literal.constructs for literal in others):
            self.take(*others)

    def take(self, *literals: object) -> None:
        """These are placed now. (Equal literals may be there twice.)"""
        self.left = [literal for literal in self.left if not any(literal is placed for placed in literals)]
