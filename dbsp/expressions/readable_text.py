"""Expressions as formulas, for pictures: `x * 2 + 1` instead of `col("x") * 2 + 1`."""

from __future__ import annotations

import re

from dbsp.expressions.expression import AggregateCall, Call, Column, Expression
from dbsp.expressions.notation import Operand, aggregate_text, call_strength, call_text

_NUMBERED = re.compile(r"(?<=[^#])#\d+$")


def readable(expression: Expression) -> str:
    """Return the text of an expression with the plain names of columns.

    >>> from dbsp.expressions import col
    >>> readable((col("x") + 1) * 2 > col("y"))
    '(x + 1) * 2 > y'
    """
    return _operand(expression).text


def plain_name(column: str) -> str:
    """Return the name of a column without the number by which a compiler made it unique.

    >>> plain_name("n#1"), plain_name("#1")
    ('n', '#1')
    """
    return _NUMBERED.sub("", column)


def _operand(expression: Expression) -> Operand:
    if isinstance(expression, Column):
        return Operand(plain_name(expression.name))
    if isinstance(expression, Call):
        operands = [_operand(argument) for argument in expression.arguments]
        if isinstance(expression, AggregateCall):
            return Operand(aggregate_text(expression.function, operands, expression.options))
        return Operand(call_text(expression.function, operands), call_strength(expression.function))
    return expression.operand
