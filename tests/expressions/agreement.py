"""Compare an expression with a function of Python over the values of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dbsp.data.schema import Schema
from dbsp.errors import DbspError
from dbsp.expressions import Expression
from tests.expressions.reference_expressions import same, values_of

Row = tuple[Any, ...]


def agree(expression: Expression, schema: Schema, rows: list[Row], meaning: Callable[..., Any]) -> None:
    """Check each row alone, and all rows with a result many times over.

    `meaning` takes the values of a row as arguments; it returns the value, or the class of an error
    or a DbspError that the row must raise.
    """
    expected = [meaning(*row) for row in rows]
    good: list[Row] = []
    values: list[Any] = []
    for row, value in zip(rows, expected, strict=True):
        if isinstance(value, type) and issubclass(value, DbspError):
            for copies in (1, 20):
                with pytest.raises(value):
                    values_of(expression, schema, [row] * copies)
        else:
            (found,) = values_of(expression, schema, [row])
            assert same(found, value), (row, found, value)
            good.append(row)
            values.append(value)
    if good:
        copies = 20 // len(good) + 1  # enough rows for the kernels
        found_values = values_of(expression, schema, good * copies)
        for row, found, value in zip(good * copies, found_values, values * copies, strict=True):
            assert same(found, value), (row, found, value)
