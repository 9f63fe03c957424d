"""The exact mean of longs, whose sum may have more than 64 bits.

    x     =  2^32 * high + low,   0 <= low < 2^32
    mean  =  (2^32 * sum(high) + sum(low)) / count

The sums of the halves have 64 bits for every group that fits in memory. The division is rounded
once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbsp.data.types import FLOAT, INT
from dbsp.expressions import Expression
from dbsp.expressions import call as call_function
from dbsp.expressions.functions import Overload, define, overloads
from dbsp.expressions.nodes import Array, Operation
from dbsp.operators.streams.aggregate_calls import count

_MEAN = "mean_of_halves"


def mean_of_longs(value: Expression) -> Expression:
    """Return the aggregate for the mean of longs.

    >>> from dbsp import Circuit, col
    >>> circuit = Circuit("means")
    >>> numbers = circuit.input("numbers", x=int)
    >>> circuit.output("mean", numbers.group_by().agg(mean=mean_of_longs(col("x"))))
    >>> circuit.start().step({"numbers": [(2**63 - 1,), (2**63 - 2,)]})["mean"].rows()
    [(9.223372036854776e+18,)]
    """
    return call_function(_MEAN, value.shr(32).sum(), value.band(2**32 - 1).sum(), count())


def _mean(high: int, low: int, number: int) -> float:
    return ((high << 32) + low) / number


def _means(high: Any, low: Any, number: Any) -> Array:
    # Sums of at most 53 bits are exactly floats.
    small = (high >= -(2**20)) & (high < 2**20) & (low < 2**52)
    result: Array = np.where(small, (high << 32) + low, 0) / number
    for at in np.flatnonzero(~small):
        result[at] = _mean(int(high[at]), int(low[at]), int(number[at]))
    return result


define(
    _MEAN,
    f"{_MEAN} expects three ints",
    overloads(Overload((INT, INT, INT), FLOAT, Operation(_mean, _means))),
)
