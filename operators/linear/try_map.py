"""Map that separates the rows without a result: the results, and the failed rows with a reason.

    good(s)(y)      = sum of s(x) over the rows x with f(x) = y
    failed(s)(x, r) = s(x)   if f(x) raises an error with the text r,   else 0

Both are linear, their own incremental form. Each evaluates f, which must be deterministic: the
error of a retracted row is raised again. Cost: that of a map; with k failed rows of n, the columns
are evaluated O(min(k log n, n)) times, each time for a part of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsp.data.batch import Batch
from dbsp.data.columns import encode_column
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import STR
from dbsp.errors import DbspError, EvaluationError, InputError, SchemaError, ValueOutOfRangeError, cause_text
from dbsp.expressions import Expression
from dbsp.kernels.arrays import Codes, Rows
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.map import columns_text, computed_schema, evaluation
from dbsp.operators.linear.row_functions import RowOperator, function_name
from dbsp.parallel.range_sort import consolidate

_FAILURES = (EvaluationError, ValueOutOfRangeError, InputError)
"""The errors that a row has no result with; others concern the whole tick."""


@dataclass(frozen=True)
class Outcome:
    """The `results` of the rows marked by `good`, and the reasons of the other rows."""

    results: Rows
    good: npt.NDArray[np.bool_]
    reasons: list[str]


@dataclass(frozen=True)
class TryOperator(RowOperator):
    """The part of the rows with a result, or with `reason` the rows without one.

    `reason` names the column of the reasons, the last one of the result.
    """

    reason: str | None = field(default=None, kw_only=True)

    def outcomes(self, interner: Interner, schema: Schema) -> Callable[[Batch], Outcome]:
        """Return the evaluation of the rows of a schema."""
        raise TypeError(f"{type(self).__name__} has no evaluation of rows")

    def _results(self, schema: Schema) -> Schema:
        raise TypeError(f"{type(self).__name__} has no schema of results")

    @property
    def name(self) -> str:
        return "TryMap" if self.reason is None else "FailedMap"

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.reason is not None and inputs[0]

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        results = self._results(self.over or schema)
        if self.reason is None:
            return results
        if self.reason in schema.names:
            raise SchemaError(
                f"'{self.reason}' is already a column; name the column of the reasons with reason=",
                code="duplicate-column",
            )
        return Schema((*schema.names, self.reason), (*schema.types, STR))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        evaluate = self.outcomes(interner, self.over or inputs[0])

        def good(batch: Batch) -> Batch:
            outcome = evaluate(batch)
            return Batch(*consolidate(outcome.results[outcome.good], batch.weights[outcome.good]))

        def failed(batch: Batch) -> Batch:
            outcome = evaluate(batch)
            bad = ~outcome.good
            rows = np.empty((len(outcome.reasons), batch.rows.shape[1] + 1), np.int64)
            rows[:, :-1] = batch.rows.compress(bad, 0)
            rows[:, -1] = encode_column(STR, outcome.reasons, interner)
            return Batch(rows, batch.weights[bad])  # a part of sorted rows is sorted

        return good if self.reason is None else failed


@dataclass(frozen=True)
class TryMap(TryOperator):
    """Columns computed by expressions."""

    expressions: tuple[Expression, ...] = field(compare=False)
    names: tuple[str, ...]
    identity: tuple[Any, ...] = field(init=False, repr=False)
    """The fields that equality compares: `==` on expressions builds another expression."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", tuple(e.key for e in self.expressions))

    @property
    def label(self) -> str:
        return f"{self.name} {columns_text(self.names, self.expressions)}"

    def _results(self, schema: Schema) -> Schema:
        return computed_schema(self.names, self.expressions, schema)

    def outcomes(self, interner: Interner, schema: Schema) -> Callable[[Batch], Outcome]:
        evaluate = evaluation(self.expressions, schema, interner)
        return lambda batch: attempt(evaluate, batch.rows, len(self.expressions))


@dataclass(frozen=True)
class TryMapFunction(TryOperator):
    """Rows computed by a Python function that returns a row of `result`."""

    mapping: Callable[[Any], Any]
    result: Schema

    @property
    def label(self) -> str:
        return f"{self.name} {function_name(self.mapping)}"

    def _results(self, schema: Schema) -> Schema:
        return self.result

    def outcomes(self, interner: Interner, schema: Schema) -> Callable[[Batch], Outcome]:
        make, mapping, result = schema.row_class._make, self.mapping, self.result

        def evaluate(batch: Batch) -> Outcome:
            returned: list[Any] = []
            raised: dict[int, str] = {}
            for at, values in enumerate(schema.decode_rows(batch.rows, interner)):
                try:
                    returned.append(mapping(make(values)))
                except Exception as error:
                    raised[at] = cause_text(error)
            encoded = attempt(
                lambda places: result.encode_rows([returned[at] for at in places[:, 0].tolist()], interner),
                np.arange(len(returned)).reshape(-1, 1),
                result.arity,
            )
            if not raised:
                return encoded
            called = np.ones(len(batch), np.bool_)
            called[list(raised)] = False
            results = np.zeros((len(batch), result.arity), np.int64)
            results[called] = encoded.results
            good = called.copy()
            good[called] = encoded.good
            refused = iter(encoded.reasons)
            places = np.flatnonzero(~good).tolist()
            return Outcome(results, good, [raised[at] if at in raised else next(refused) for at in places])

        return evaluate


def attempt(evaluate: Callable[[Codes], Rows], rows: Codes, arity: int) -> Outcome:
    """Evaluate the rows; halve a part of them that fails, to find the rows without a result."""
    results = np.zeros((len(rows), arity), np.int64)
    good = np.ones(len(rows), np.bool_)
    reasons: list[str] = []
    parts = [(0, len(rows))] if len(rows) else []
    while parts:
        start, end = parts.pop()
        try:
            results[start:end] = evaluate(rows[start:end])
        except _FAILURES as error:
            if end - start == 1:
                good[start] = False
                reasons.append(_reason(error))
            else:
                middle = (start + end) // 2
                parts += [(middle, end), (start, middle)]
    return Outcome(results, good, reasons)


def _reason(error: DbspError) -> str:
    """Return the text of the error of one row, which does not need its number."""
    return error.message.removeprefix("row 0: ").removeprefix("row 0, ")
