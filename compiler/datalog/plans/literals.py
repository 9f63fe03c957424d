"""Properties of the literals of a normalised body, for the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from dbsp.compiler.datalog.meaning.signatures import is_partial as may_fail
from dbsp.compiler.datalog.meaning.term_expressions import COMPARISONS
from dbsp.compiler.datalog.plans.normalise import (
    Absent,
    AggregateLiteral,
    Condition,
    Generated,
    NormalLiteral,
    Numbered,
    Scan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.compiler.datalog.tree.traversal import find, variables
from dbsp.kernels.limits import INT64_MAX


def uses(literal: NormalLiteral) -> Iterable[str]:
    """Return the variables of the body that a literal binds or reads."""
    match literal:
        case Scan():
            return literal.names
        case Absent(pattern=pattern):
            return pattern.names
        case Condition():
            return literal.names
        case Generated():
            return (literal.variable, *literal.arguments)
        case Numbered():
            return (literal.variable,)
        case AggregateLiteral():
            return (*literal.variables, *literal.injected)


def equations(literal: Condition) -> Iterator[tuple[str, syntax.Term]]:
    """Yield (variable, term) for each side that is a variable which the other side does not use."""
    comparison = literal.comparison
    if comparison.operator != "=":
        return
    for side, other in (
        (comparison.left, comparison.right),
        (comparison.right, comparison.left),
    ):
        if isinstance(side, syntax.Variable) and side.name not in variables(other):
            yield side.name, other


def is_partial(literal: Condition) -> bool:
    """Whether a function of the literal has no value for some arguments."""
    return _may_fail(literal.comparison)


def _may_fail(node: syntax.Node) -> bool:
    return any(may_fail(call.function) for call in find(node, syntax.Call))


def is_safe(term: syntax.Term) -> bool:
    """Whether a term may be computed before all conditions on its variables are checked.

    False for a difference of unsigned numbers: `a >= b, c = a - b` is never an error.
    """
    return not any(
        may_fail(call.function) or (call.function == "-" and call.kind is Kind.UNSIGNED)
        for call in find(term, syntax.Call)
    )


def has_partial(literal: AggregateLiteral) -> bool:
    """Whether evaluating the body for groups that the rule does not use may fail."""
    if any(_may_fail(result.value) for result in literal.results if result.value is not None):
        return True
    return any(
        (isinstance(inner, Condition) and is_partial(inner))
        or (isinstance(inner, Generated) and _may_fail(inner.call))
        or (isinstance(inner, AggregateLiteral) and has_partial(inner))
        for inner in literal.body
    )


def excludes_zero(variable: str, body: Iterable[NormalLiteral]) -> bool:
    """Whether the body compares the variable with a constant so that 0 is excluded."""
    return any(not holds(0) for _, holds in _number_tests(variable, body))


def true_of_counts(variable: str, body: Iterable[NormalLiteral]) -> list[Condition]:
    """Return the conditions of the body that compare the variable and hold for all ints above 0."""
    return [
        condition
        for condition, holds in _number_tests(variable, body)
        # An order that holds for both ends holds between them. `!=` fails for one number only.
        if (condition.comparison.operator not in ("=", "!=") and holds(1) and holds(INT64_MAX))
        or (condition.comparison.operator == "!=" and not holds(0))
    ]


def _number_tests(
    variable: str, body: Iterable[NormalLiteral]
) -> Iterator[tuple[Condition, Callable[[int], bool]]]:
    """Yield the conditions that compare the variable with a number, and each as a function."""
    conditions = [literal for literal in body if isinstance(literal, Condition)]
    names = {variable}
    for comparison in (condition.comparison for condition in conditions):
        sides = {
            side.name for side in (comparison.left, comparison.right) if isinstance(side, syntax.Variable)
        }
        if comparison.operator == "=" and len(sides) == 2 and sides & names:
            names |= sides
    for condition in conditions:
        comparison = condition.comparison
        compare = COMPARISONS.get(comparison.operator)
        if compare is None:
            continue
        match comparison.left, comparison.right:
            case syntax.Variable(name=name), syntax.Constant(value=int() | float() as value):
                if name in names:
                    yield condition, partial(_flipped(compare), value)
            case syntax.Constant(value=int() | float() as value), syntax.Variable(name=name):
                if name in names:
                    yield condition, partial(compare, value)


def _flipped(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda first, second: compare(second, first)


def binds(body: Sequence[NormalLiteral]) -> set[str]:
    """Return the variables that a body binds by itself."""
    bound: set[str] = set()
    before = -1
    while len(bound) > before:
        before = len(bound)
        for literal in body:
            match literal:
                case Scan():
                    bound.update(literal.names)
                case Generated() if bound >= literal.arguments:
                    bound.add(literal.variable)
                case AggregateLiteral() if bound.issuperset(literal.injected):
                    bound.update(literal.variables)
                case Condition():
                    bound.update(name for name, term in equations(literal) if variables(term) <= bound)
                case _:
                    pass
    return bound
