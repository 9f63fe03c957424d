"""The aggregate functions, as functions of the groups of one whole Z-set.

A group is the Z-set of the values under one key. With w the weights of a group,

    count = sum of w(v)      sum = sum of w(v) * v      avg = sum / count
    min, max = the least, the largest v with w(v) > 0

None counts as no value: sum, avg, min and max pass over it and are None when nothing else is there;
count counts rows. A group is present when its summed weight is positive, so a group whose
weights cancel disappears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dbsp.batch import Batch, Codes
from dbsp.columns import code_floats, decode_column, float_codes
from dbsp.errors import SchemaError
from dbsp.interner import Interner
from dbsp.kernels import accumulate, consolidate, project, sum_floats
from dbsp.schema import Schema
from dbsp.values import FLOAT, INT, NULL, Type

NO_RUNS = np.zeros((1, 3), np.int64)


@dataclass(frozen=True)
class Function:
    """One aggregate: `kind` is count, sum, avg, min or max; `column` the input column it reads."""

    kind: str
    column: int = -1

    def result(self, schema: Schema) -> Type:
        """The type of the result; raises SchemaError when the column's type does not fit."""
        if self.kind == "count":
            return INT
        type_ = schema.types[self.column]
        if self.kind in ("min", "max"):
            return type_
        if type_.kind not in ("int", "float"):
            raise SchemaError(
                f"{self.kind} wants a number, but column '{schema.names[self.column]}' is {type_}"
            )
        result = FLOAT if self.kind == "avg" else type_.required()
        return result.optional() if type_.nullable else result

    def linear(self, schema: Schema) -> bool:
        """Whether the result follows from sums of weight * value in exact arithmetic."""
        if self.kind == "count":
            return True
        return self.kind in ("sum", "avg") and schema.types[self.column].kind == "int"

    def at_an_end(self, schema: Schema) -> bool:
        """Whether the result stands at one end of the group's values when sorted by code."""
        return self.kind in ("min", "max") and schema.types[self.column].ordered_codes


def accumulators(functions: Sequence[Function], schema: Schema) -> tuple[Codes, list[tuple[int, int]]]:
    """The accumulators that linear functions need, for the kernel `accumulate`.

    Returns its `columns` argument and, per function, where to find (sum, number of values);
    accumulator 0 is the summed weight.
    """
    columns: list[int] = []
    places = []
    for function in functions:
        total = count = 0
        if function.kind in ("sum", "avg") and function.linear(schema):
            if function.column not in columns:
                columns.append(function.column)
            total = columns.index(function.column) + 1
            if schema.types[function.column].nullable:
                if -function.column - 1 not in columns:
                    columns.append(-function.column - 1)
                count = columns.index(-function.column - 1) + 1
        places.append((total, count))
    return np.array(columns, np.int64), places


def linear_column(function: Function, place: tuple[int, int], accumulated: Codes) -> Codes:
    """The results of a linear function, int64[groups], from the groups' accumulators."""
    total, count = accumulated[:, place[0]], accumulated[:, place[1]]
    if function.kind == "avg":
        with np.errstate(divide="ignore", invalid="ignore"):
            result = float_codes(total / count)
    else:
        result = total
    if place[1]:
        result = np.where(count == 0, NULL, result)
    return result


def reducer(
    key: int, functions: Sequence[Function], schema: Schema, interner: Interner
) -> Callable[[Batch], Batch]:
    """The aggregates of a batch whose first `key` columns are the group's key.

    The result has one row (key, results) of weight 1 for each group present. O(n log n).
    """
    columns, places = accumulators(functions, schema)

    def reduce(batch: Batch) -> Batch:
        keys, _, sums = accumulate(batch.rows, batch.weights, key, columns, NO_RUNS, 0)
        out = np.empty((len(keys), key + len(functions)), np.int64)
        out[:, :key] = keys
        for at, (function, place) in enumerate(zip(functions, places, strict=True)):
            if function.linear(schema):
                out[:, key + at] = linear_column(function, place, sums)
            else:
                out[:, key + at] = _per_group(function, batch, keys, schema, interner)
        present = sums[:, 0] > 0
        rows = np.ascontiguousarray(out[present])
        return Batch(*consolidate(rows, np.ones(len(rows), np.int64)))

    return reduce


def _per_group(function: Function, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
    """The results of a function that has to look at the values of each group; int64[groups]."""
    key = keys.shape[1]
    type_ = schema.types[function.column]
    rows, weights = project(batch.rows, batch.weights, np.array([*range(key), function.column], np.int64))
    keep = np.ones(len(rows), np.bool_)
    if type_.nullable:
        keep &= rows[:, key] != NULL
    if function.kind in ("min", "max"):
        keep &= weights > 0
    rows, weights = rows[keep], weights[keep]
    result = np.full(len(keys), NULL, np.int64)
    if len(rows) == 0:
        return result
    group = _group_numbers(rows, keys, key)
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    values = np.ascontiguousarray(rows[:, key])
    if function.kind in ("sum", "avg"):
        floats = code_floats(values)
        sums = sum_floats(floats.view(np.int64), weights, starts).view(np.float64)
        if function.kind == "avg":
            with np.errstate(divide="ignore", invalid="ignore"):
                sums = sums / np.add.reduceat(weights, starts)
        result[group[starts]] = float_codes(sums)
    elif type_.ordered_codes:
        ends = np.append(starts[1:], len(values)) - 1
        result[group[starts]] = values[starts if function.kind == "min" else ends]
    else:
        best = min if function.kind == "min" else max
        decoded = decode_column(type_.required(), values, interner)
        ends = np.append(starts[1:], len(values))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            winner = best(range(start, end), key=decoded.__getitem__)
            result[group[start]] = values[winner]
    return result


def _group_numbers(rows: Codes, keys: Codes, key: int) -> Codes:
    """For each row, the index of its key among the sorted distinct `keys`; both are sorted."""
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:, :key] != rows[:-1, :key]).any(axis=1)
    ordinal = np.cumsum(new) - 1
    if int(ordinal[-1]) + 1 == len(keys):
        return ordinal
    # Some groups had no value left: look the keys that remain up.
    known = {tuple(k): i for i, k in enumerate(keys.tolist())}
    firsts = rows[new][:, :key].tolist()
    places: Codes = np.array([known[tuple(k)] for k in firsts], np.int64)
    return np.take(places, ordinal)
