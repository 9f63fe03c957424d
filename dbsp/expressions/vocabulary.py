"""The functions that start an expression: `col`, `lit`, `when`, `coalesce` and others."""

from __future__ import annotations

from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.type_inference import as_type
from dbsp.expressions.expression import Column, Expression, as_expression, call, literal
from dbsp.lazy_dataclass import dataclass


def col(name: str) -> Expression:
    """Return the expression of the column with this name.

    Parameters:
        name: the name of the column; it is checked when the expression is used on a stream.

    Examples:
        >>> (col("age") >= 18) & col("name").str.startswith("A")
        (col("age") >= 18) & col("name").str.startswith('A')
    """
    return Column(name)


def lit(value: Any, type: Any = None) -> Expression:
    """Return a constant as an expression.

    Only needed where Python would not use the expression's operators or methods, and for a constant
    of another type than that of the value.

    Parameters:
        value: the constant.
        type: the type, as for a column; by default the type of the value.

    Examples:
        >>> lit(2).shl(col("n"))
        lit(2).shl(col("n"))
        >>> lit(None, str)
        lit(None, STR)
    """
    return literal(value, None if type is None else as_type(type))


def cat(*parts: Any) -> Expression:
    """Return the strings joined end to end."""
    return call("cat", *parts)


def min_of(first: Any, *others: Any) -> Expression:
    """Return the smallest of several values of a row (not an aggregate)."""
    return call("min_of", first, *others)


def max_of(first: Any, *others: Any) -> Expression:
    """Return the largest of several values of a row (not an aggregate)."""
    return call("max_of", first, *others)


@ends_at_caller
def coalesce(first: Any, *others: Any) -> Expression:
    """Return the first of several values of a row that is not None; None if there is none.

    A value is evaluated only where the earlier values are None. Short for nested `fill_null`.

    Parameters:
        first: a value or an expression.
        others: further values or expressions of the same type.

    Examples:
        >>> circuit = Circuit("example")
        >>> source = circuit.input("a", home=str | None, work=str | None)
        >>> circuit.output("out", source.map(phone=coalesce(col("work"), col("home"), "-")))
        >>> circuit.start().step({"a": [("12", None), ("12", "34"), (None, None)]})["out"].rows()
        [('-',), ('12',), ('34',)]
    """
    values = [as_expression(first), *map(as_expression, others)]
    result = values.pop()
    for value in reversed(values):
        result = call("fill_null", value, result)
    return result


@dataclass(frozen=True, repr=False)
class When:
    """A condition without its value yet; see `when`."""

    condition: Expression
    earlier: tuple[tuple[Expression, Expression], ...] = ()

    _not_a_value = "add .then(value).otherwise(value)"

    def __repr__(self) -> str:
        return f"{_cases_text(self.earlier)}when({self.condition!r})"

    def then(self, value: Any) -> Then:
        """Set the value where the condition is true."""
        return Then((*self.earlier, (self.condition, as_expression(value))))


@dataclass(frozen=True, repr=False)
class Then:
    """Conditions with their values; `when` adds a condition, `otherwise` ends the choice."""

    cases: tuple[tuple[Expression, Expression], ...]

    _not_a_value = "add .otherwise(value), for example .otherwise(None)"

    def __repr__(self) -> str:
        return _cases_text(self.cases).removesuffix(".")

    def when(self, condition: Any) -> When:
        """Add a condition for the rows where the earlier conditions are not true."""
        return When(as_expression(condition), self.cases)

    def otherwise(self, value: Any) -> Expression:
        """Set the value where no condition is true; return the expression."""
        result = as_expression(value)
        for condition, chosen in reversed(self.cases):
            result = call("when", condition, chosen, result)
        return result


def _cases_text(cases: tuple[tuple[Expression, Expression], ...]) -> str:
    return "".join(f"when({condition!r}).then({value!r})." for condition, value in cases)


def when(condition: Any) -> When:
    """Start a choice: `when(c).then(a).otherwise(b)`. A condition of None counts as false.

    Only the chosen side is evaluated. Further conditions follow as
    `when(c).then(a).when(d).then(b).otherwise(e)`.

    Parameters:
        condition: a boolean expression.

    Examples:
        >>> circuit = Circuit("example")
        >>> quotient = when(col("y") != 0).then(col("x") / col("y")).otherwise(0.0)
        >>> circuit.output("out", circuit.input("a", x=float, y=float).map(v=quotient))
        >>> circuit.start().step({"a": [(3.0, 2.0), (1.0, 0.0)]})["out"].rows()
        [(0.0,), (1.5,)]
    """
    return When(as_expression(condition))
