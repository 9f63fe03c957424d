"""How expressions begin: columns, constants, and the functions written before their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbsp.data.type_inference import as_type
from dbsp.expressions.expression import Column, Expression, Literal, as_expression, call


def col(name: str) -> Expression:
    """The column of this name.

    >>> (col("age") >= 18) & col("name").startswith("A")
    (col("age") >= 18) & col("name").startswith('A')
    """
    return Column(name)


def lit(value: Any, type: Any = None) -> Expression:
    """A constant, for where Python would not make it one: `lit(1) / col("x")`, `lit(None, str)`."""
    return Literal(value, None if type is None else as_type(type))


def cat(*parts: Any) -> Expression:
    """Strings joined end to end."""
    return call("cat", *parts)


def min_of(first: Any, *others: Any) -> Expression:
    """The smallest of several values of a row (not an aggregate)."""
    return call("min_of", first, *others)


def max_of(first: Any, *others: Any) -> Expression:
    """The largest of several values of a row (not an aggregate)."""
    return call("max_of", first, *others)


@dataclass(frozen=True)
class When:
    """A condition that waits for its value; see `when`."""

    condition: Expression
    earlier: tuple[tuple[Expression, Expression], ...] = ()

    def then(self, value: Any) -> Then:
        """What holds where the condition does."""
        return Then((*self.earlier, (self.condition, as_expression(value))))


@dataclass(frozen=True)
class Then:
    """Conditions with their values, waiting for another condition or the end."""

    cases: tuple[tuple[Expression, Expression], ...]

    def when(self, condition: Any) -> When:
        """A further condition, tried where the earlier ones do not hold."""
        return When(as_expression(condition), self.cases)

    def otherwise(self, value: Any) -> Expression:
        """What holds where no condition does."""
        result = as_expression(value)
        for condition, chosen in reversed(self.cases):
            result = call("when", condition, chosen, result)
        return result


def when(condition: Any) -> When:
    """A choice: `when(c).then(a).otherwise(b)`; only the chosen side is evaluated. None counts as false.

    >>> when(col("y") != 0).then(col("x") / col("y")).otherwise(0.0)
    when(col("y") != 0).then(col("x") / col("y")).otherwise(0.0)
    """
    return When(as_expression(condition))
