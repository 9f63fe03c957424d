"""Columns of one stream in expressions: `stream["x"]`.

A method of the stream reads such a column by its name. The condition of a join reads it by the
name that the column of this side has in the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbsp.circuit.graph import Stream
from dbsp.errors import SchemaError
from dbsp.expressions import Expression, StreamColumn
from dbsp.expressions.substitution import name_stream_columns
from dbsp.operators.joins.join_columns import JoinColumns


def own_columns(stream: Stream, expression: Expression) -> Expression:
    """Return the expression with the columns of the stream by their names.

    Raises SchemaError for a column of another stream.
    """

    def name_of(column: StreamColumn) -> str:
        if column.stream.node is not stream.node:
            raise SchemaError(
                f"{column!r} is a column of another stream, {column.stream!r}; in a method of "
                f'{stream!r}, write col("{column.name}") for a column of its own',
                code="invalid-expression",
            )
        return column.name

    return name_stream_columns(expression, name_of)


def own_values(stream: Stream, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return named expressions and constants with the columns of the stream by their names."""
    return {
        name: own_columns(stream, value) if isinstance(value, Expression) else value
        for name, value in columns.items()
    }


def columns_of_sides(left: Stream, right: Stream, names: JoinColumns, condition: Expression) -> Expression:
    """Return the condition of a join with the columns of both sides by their names in the result.

    Raises SchemaError for a column of another stream, and of a stream that is joined with itself.
    """

    def name_of(column: StreamColumn) -> str:
        at = column.stream.schema.index(column.name)
        sides = [place for side, place in ((left, at), (right, -at - 1)) if side.node is column.stream.node]
        if not sides:
            raise SchemaError(
                f"{column!r} is a column of {column.stream!r}, which is not a side of the join; use the "
                "streams that are joined, or the names of the result",
                code="invalid-expression",
            )
        if len(sides) == 2:
            first, second = map(names.name_of, sides)
            raise SchemaError(
                f"{column!r} is a column of both sides, because the stream is joined with itself; write "
                f'col("{first}") for the left side and col("{second}") for the right side',
                code="invalid-expression",
            )
        return names.name_of(sides[0])

    return name_stream_columns(condition, name_of)
