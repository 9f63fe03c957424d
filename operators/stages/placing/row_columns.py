"""The columns that row by row operators take over from their input.

Such an operator computes every output row from one input row, so it runs where the row is. It is
*partial* if it may raise an error for a row. Then equal rows must be on one shard: a row that is
inserted on one shard and retracted on another is not in the delta, so it must not raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Node
from dbsp.expressions import Column
from dbsp.expressions.substitution import is_total
from dbsp.operators.groups.nonnegative import AssertNonnegative, RefuseRows
from dbsp.operators.groups.order_statistics import FinishAggregates
from dbsp.operators.linear.explode import Explode
from dbsp.operators.linear.filter import Filter, FilterFunction, SameValue
from dbsp.operators.linear.generate_series import GenerateSeries
from dbsp.operators.linear.map import FlatMap, Map, MapFunction
from dbsp.operators.linear.pad import Pad
from dbsp.operators.linear.preceded import Preceded
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.linear.sample import Sample
from dbsp.operators.linear.scale import Scale
from dbsp.operators.linear.try_map import TryMap, TryMapFunction, TryOperator
from dbsp.operators.linear.union import Minus, Negate, Union, Widen
from dbsp.operators.time.differentiate import Differentiate
from dbsp.operators.time.integrate import Integrate
from dbsp.operators.time.window import Window

_SAME_ROWS = (
    AssertNonnegative,
    Differentiate,
    Filter,
    FilterFunction,
    Integrate,
    Minus,
    Negate,
    Preceded,
    RefuseRows,
    Rename,
    SameValue,
    Sample,
    Scale,
    Union,
    Widen,
)
_MORE_COLUMNS = (GenerateSeries, Window)
_PARTIAL = (
    AssertNonnegative,
    FilterFunction,
    FinishAggregates,
    FlatMap,
    GenerateSeries,
    MapFunction,
    RefuseRows,
    Scale,
    Widen,
    Window,
)


def row_columns(node: Node) -> Sequence[int | None] | None:
    """Return for each output column the input column with its value, or None.

    Return None if the operator of the node does not compute each row from a row.
    """
    operator = node.operator
    arity = node.schema.arity
    if isinstance(operator, _SAME_ROWS):
        return range(arity)
    if isinstance(operator, _MORE_COLUMNS):
        own = node.inputs[0].schema.arity
        return [column if column < own else None for column in range(arity)]
    if isinstance(operator, Project | Pad):
        return operator.columns
    if isinstance(operator, TryOperator) and operator.reason is not None:
        return [*range(arity - 1), None]
    if isinstance(operator, Map | TryMap):
        schema = operator.over or node.inputs[0].schema
        return [schema.index(e.name) if isinstance(e, Column) else None for e in operator.expressions]
    if isinstance(operator, MapFunction | FlatMap | TryMapFunction):
        return [None] * arity
    if isinstance(operator, Explode):
        return [
            column if column != operator.column and column < node.inputs[0].schema.arity else None
            for column in range(arity)
        ]
    if isinstance(operator, FinishAggregates):
        return [column if isinstance(column, int) else None for column in operator.columns]
    return None


def is_partial(node: Node) -> bool:
    """Return whether the operator may raise an error for a row."""
    operator = node.operator
    if isinstance(operator, Filter):
        return not is_total(operator.predicate)
    if isinstance(operator, Map):
        return not all(map(is_total, operator.expressions))
    return isinstance(operator, _PARTIAL)


def targets(columns: Sequence[int | None], arity: int) -> list[int | None]:
    """Return for each of `arity` input columns an output column with its value, or None."""
    found: list[int | None] = [None] * arity
    for output, column in reversed(list(enumerate(columns))):
        if column is not None:
            found[column] = output
    return found
