"""Weights from callers, and batches from rows and weights in any order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import InputError, WeightOverflowError, counted, shorten, wrong_argument
from dbsp.kernels.arrays import Codes
from dbsp.parallel.range_sort import consolidate


def consolidated(rows: Codes, weights: Codes | None) -> Batch:
    """Return the batch of code rows in any order; without weights each row counts once.

    Raises WeightOverflowError if the sum of the weights of equal rows is outside the 64-bit range.
    """
    if weights is None:
        weights = np.ones(len(rows), np.int64)
    try:
        return Batch(*consolidate(rows, weights))
    except OverflowError as error:
        raise WeightOverflowError(overflow_text(error)) from None


def weight_array(weights: Iterable[Any], count: int) -> Codes:
    """Return weights as int64[count].

    Raises InputError unless they are `count` ints, WeightOverflowError if one is out of range.
    """
    if not isinstance(weights, Iterable):
        raise wrong_argument("weights", "one int per row", weights)
    listed: Sequence[Any] = list(weights)
    if len(listed) != count:
        raise InputError(
            f"expected {counted(count, 'weight')}, one per row, got {len(listed)}", code="invalid-weight"
        )
    for cls in set(map(type, listed)):
        if cls is not int and not issubclass(cls, np.integer):
            wrong = next(weight for weight in listed if type(weight) is cls)
            raise InputError(
                f"expected an int as weight, got {shorten(wrong)} of type {cls.__name__}",
                code="invalid-weight",
            )
    try:
        return np.fromiter(listed, np.int64, count)
    except OverflowError:
        largest = max(map(int, listed), key=abs)
        raise WeightOverflowError(
            f"expected a weight from -2**63 to 2**63 - 1, got {shorten(largest)}"
        ) from None


def overflow_text(error: OverflowError) -> str:
    """Return the message of an overflow error of a kernel, without its tag."""
    return str(error).removeprefix("weight: ")


def weight_name(schema: Schema) -> str:
    """Return the name of the column of weights in a table of rows of this schema.

    It is `weight`, with underscores appended while the schema has a column of that name.

    >>> weight_name(Schema.of(x=int)), weight_name(Schema.of(weight=float))
    ('weight', 'weight_')
    """
    name = "weight"
    while name in schema.names:
        name += "_"
    return name
