"""The base class of operators that compute row by row, and calls of user functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from dbsp.circuit.field_ranges import NAMED_COLUMNS, ONE_INPUT
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import UserFunctionError, cause_text
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class RowOperator(Operator):
    """A function of single rows; `over` keeps the column names of its input when lowered."""

    input_counts = ONE_INPUT

    over: Schema | None = field(default=None, kw_only=True, metadata=NAMED_COLUMNS)

    @property
    def monotone(self) -> bool:
        return True

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        return rewriting.add(replace(self, over=node.inputs[0].schema), *inputs)


def call_per_row(
    function: Callable[[Any], Any],
    batch: Batch,
    schema: Schema,
    interner: Interner,
    finish: Callable[[Any], Any] | None = None,
) -> list[Any]:
    """Return function(row) for every row of the batch; `finish` is applied to each result.

    The function gets a named tuple. Raises UserFunctionError with the function and the row; its
    cause is the exception of the function.
    """
    make = schema.row_class._make
    results = []
    for values in schema.decode_rows(batch.rows, interner):
        row = make(values)
        try:
            result = function(row)
            results.append(result if finish is None else finish(result))
        except Exception as error:
            raise UserFunctionError(
                f"function {function_name(function)} raised {cause_text(error)} for {row}; "
                "the tick was rolled back"
            ) from error
    return results


def function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
