"""Map: one row from each row; flat_map: any number of rows from each row.

    map(s)(y) = sum of s(x) over the rows x with f(x) = y

Linear: its own incremental form. Columns are expressions, evaluated for all rows of a delta at
once, or the result of a Python function of a named tuple, called row by row. A function must be
deterministic, because a retracted row is mapped again. Cost: the evaluation and sorting the delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.expressions import Expression, bind
from dbsp.expressions.readable_text import plain_name, readable
from dbsp.kernels.arrays import Codes, Rows
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.row_functions import RowOperator, call_per_row, function_name
from dbsp.parallel.range_sort import consolidate


@dataclass(frozen=True)
class Map(RowOperator):
    """Output columns computed by expressions over the columns of the input."""

    expressions: tuple[Expression, ...] = field(compare=False)
    names: tuple[str, ...]
    injective: bool = False
    """Whether different rows stay different, because the expressions include all input columns."""
    identity: tuple[Any, ...] = field(init=False, repr=False)
    """The fields that equality compares: `==` on expressions builds another expression."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", tuple(e.key for e in self.expressions))

    @property
    def label(self) -> str:
        return f"Map {columns_text(self.names, self.expressions)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        texts = zip(self.names, map(readable, self.expressions), strict=True)
        shown = [(plain_name(name), text) for name, text in texts]
        # The columns of the node already show a column that keeps its value and its name.
        computed = [f"{name} = {text}" for name, text in shown if name != text]
        return f"Map {', '.join(computed) or ', '.join(name for name, _ in shown)}"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return [readable(expression) for expression in self.expressions]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.injective and inputs[0]

    def schema(self, *inputs: Schema) -> Schema:
        return computed_schema(self.names, self.expressions, self.over or inputs[0])

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        evaluate = evaluation(self.expressions, self.over or inputs[0], interner)
        return lambda batch: Batch(*consolidate(evaluate(batch.rows), batch.weights))


def columns_text(names: Sequence[str], expressions: Sequence[Expression]) -> str:
    """Return the computed columns as text: their names and expressions."""
    return ", ".join(f"{name} = {each!r}" for name, each in zip(names, expressions, strict=True))


def computed_schema(names: Sequence[str], expressions: Sequence[Expression], schema: Schema) -> Schema:
    """Return the schema of columns computed from rows of `schema`. Raises SchemaError."""
    return Schema(tuple(names), tuple(bind(each, schema).type for each in expressions))


def evaluation(
    expressions: Sequence[Expression], schema: Schema, interner: Interner
) -> Callable[[Codes], Rows]:
    """Return the function that computes a column for each expression from rows of `schema`."""
    bound = [bind(each, schema) for each in expressions]

    def evaluate(rows: Codes) -> Rows:
        results = np.empty((len(rows), len(bound)), np.int64)
        for column, expression in enumerate(bound):
            results[:, column] = expression.evaluate(rows, interner)
        return results

    return evaluate


@dataclass(frozen=True)
class MapFunction(RowOperator):
    """Rows computed by a Python function that returns a row of `result`."""

    mapping: Callable[[Any], Any]
    result: Schema

    @property
    def name(self) -> str:
        return "Map"

    @property
    def label(self) -> str:
        return f"Map {function_name(self.mapping)}"

    def schema(self, *inputs: Schema) -> Schema:
        return self.result

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        schema = self.over or inputs[0]

        def apply(batch: Batch) -> Batch:
            results = call_per_row(self.mapping, batch, schema, interner)
            rows = self.result.encode_rows(results, interner)
            return Batch(*consolidate(rows, batch.weights))

        return apply


@dataclass(frozen=True)
class FlatMap(RowOperator):
    """Rows computed by a Python function that returns any number of rows of `result`."""

    mapping: Callable[[Any], Any]
    result: Schema

    @property
    def label(self) -> str:
        return f"FlatMap {function_name(self.mapping)}"

    def schema(self, *inputs: Schema) -> Schema:
        return self.result

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        schema = self.over or inputs[0]

        def apply(batch: Batch) -> Batch:
            # list() also raises the errors of a generator, which count as errors of the function.
            results = call_per_row(self.mapping, batch, schema, interner, finish=list)
            counts = [len(rows) for rows in results]
            rows = self.result.encode_rows([row for rows in results for row in rows], interner)
            return Batch(*consolidate(rows, np.repeat(batch.weights, counts)))

        return apply
