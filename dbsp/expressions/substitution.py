"""Move expressions below an operator: replace columns by the expressions that define them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dbsp.expressions.expression import AggregateCall, Call, Column, Expression, StreamColumn

# Functions that have a value for all arguments: an expression of these functions may be evaluated
# for rows that the query itself does not evaluate it for.
_TOTAL = frozenset(
    {"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "is_null", "fill_null", "when", "isin"}
)

_OVERFLOWING = _TOTAL | {"add", "sub", "mul", "neg", "abs"}


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """Return the expression with every column replaced by its definition."""
    if isinstance(expression, Column):
        return columns[expression.name]
    if isinstance(expression, Call):
        arguments = tuple(substitute(argument, columns) for argument in expression.arguments)
        origin = None if expression.origin is None else expression.origin.under(columns)
        return replace(expression, arguments=arguments, origin=origin)
    return expression


def is_total(expression: Expression) -> bool:
    """Whether the evaluation succeeds for every row."""
    if isinstance(expression, Call):
        return expression.function in _TOTAL and all(map(is_total, expression.arguments))
    return True


def can_only_overflow(expression: Expression) -> bool:
    """Whether the evaluation can fail only because a number is too large."""
    if isinstance(expression, Call):
        return expression.function in _OVERFLOWING and all(map(can_only_overflow, expression.arguments))
    return True


def conjuncts(condition: Expression) -> list[Expression]:
    """Return the conditions that a chain of `&` combines, in their order."""
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [condition]


def conjunction(conditions: Sequence[Expression]) -> Expression:
    """Return the chain of `&` of one condition or more."""
    return functools.reduce(operator.and_, conditions)


def uses(expression: Expression, name: str) -> int:
    """Return the number of uses of a column."""
    if isinstance(expression, Column):
        return int(expression.name == name)
    if isinstance(expression, Call):
        return sum(uses(argument, name) for argument in expression.arguments)
    return 0


def aggregates(expression: Expression) -> list[AggregateCall]:
    """Return the aggregates in an expression, without those inside of another one."""
    if isinstance(expression, AggregateCall):
        return [expression]
    if isinstance(expression, Call):
        return [found for argument in expression.arguments for found in aggregates(argument)]
    return []


def replace_aggregates(expression: Expression, columns: Mapping[Any, Expression]) -> Expression:
    """Return the expression with each aggregate replaced by the column of its key."""
    if isinstance(expression, AggregateCall):
        return columns[expression.key]
    if isinstance(expression, Call):
        arguments = tuple(replace_aggregates(argument, columns) for argument in expression.arguments)
        return replace(expression, arguments=arguments)
    return expression


def columns_outside(expression: Expression) -> list[str]:
    """Return the names of the columns that an expression reads outside of its aggregates."""
    if isinstance(expression, AggregateCall):
        return []
    if isinstance(expression, Call):
        return [name for argument in expression.arguments for name in columns_outside(argument)]
    return [expression.name] if isinstance(expression, Column) else []


def name_stream_columns(expression: Expression, name_of: Callable[[StreamColumn], str]) -> Expression:
    """Return the expression with each column of a stream replaced by the column of its name."""
    if isinstance(expression, StreamColumn):
        return Column(name_of(expression))
    if isinstance(expression, Call):
        arguments = tuple(name_stream_columns(argument, name_of) for argument in expression.arguments)
        if any(new is not old for new, old in zip(arguments, expression.arguments, strict=True)):
            return replace(expression, arguments=arguments)
    return expression
