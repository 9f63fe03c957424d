"""Expressions seen from below an operator: columns replaced by what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dbsp.expressions.expression import Call, Column, Expression

# Functions that have a value for all arguments: an expression of these alone may be evaluated for
# rows that the query would never have shown it.
_TOTAL = frozenset({"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "is_null", "fill_null", "when"})

_OVERFLOWING = _TOTAL | {"add", "sub", "mul", "neg", "abs"}


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The expression with every column replaced by the expression it stands for."""
    if isinstance(expression, Column):
        return columns[expression.name]
    if isinstance(expression, Call):
        arguments = tuple(substitute(argument, columns) for argument in expression.arguments)
        origin = None if expression.origin is None else expression.origin.under(columns)
        return replace(expression, arguments=arguments, origin=origin)
    return expression


def is_total(expression: Expression) -> bool:
    """Whether evaluating it can never fail, whatever the row."""
    if isinstance(expression, Call):
        return expression.function in _TOTAL and all(map(is_total, expression.arguments))
    return True


def can_only_overflow(expression: Expression) -> bool:
    """Whether nothing but a number that is too large can keep it from having a value."""
    if isinstance(expression, Call):
        return expression.function in _OVERFLOWING and all(map(can_only_overflow, expression.arguments))
    return True


def uses(expression: Expression, name: str) -> int:
    """How often a column is read."""
    if isinstance(expression, Column):
        return int(expression.name == name)
    if isinstance(expression, Call):
        return sum(uses(argument, name) for argument in expression.arguments)
    return 0
