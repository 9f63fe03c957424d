"""Series of numbers: from a start, by equal steps, to an exclusive end.

    start, start + step, start + 2 step, ...   while < end (step > 0) or > end (step < 0)

The default step is 1 toward a greater end, -1 toward a smaller one. With step 0 the series has
only the start, or is empty if the start is the end. Floats are added one by one, as in Soufflé's
`range`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsp.data.columns import code_floats, float_codes
from dbsp.data.types import BOOL, FLOAT, INT
from dbsp.errors import EvaluationError
from dbsp.expressions.functions import Overload, define, overloads
from dbsp.expressions.nodes import Array, Operation
from dbsp.kernels.arrays import Codes

MOST_VALUES = 10_000_000
"""The longest series; a longer one is an error and not a lack of memory."""

Ints = npt.NDArray[np.int64]


def lengths(start: Ints, end: Ints, step: Ints | None) -> tuple[Ints, Ints]:
    """The number of values of each series of ints, and its step.

    Raises EvaluationError for a series that is too long.
    """
    if step is None:
        step = np.where(start <= end, 1, -1)
    # Distances up to 2^64 - 1 fit as unsigned; wrapping around is what makes the difference right.
    up = (step > 0) & (start < end)
    down = (step < 0) & (start > end)
    low, high = np.where(down, end, start), np.where(down, start, end)
    distance = high.view(np.uint64) - low.view(np.uint64)
    stride = np.where(step < 0, np.negative(step), step).view(np.uint64)
    moving = up | down
    counts = np.where(moving, (distance - np.uint64(1)) // np.where(moving, stride, 1) + np.uint64(1), 0)
    counts = np.where((step == 0) & (start != end), np.uint64(1), counts)
    too_long = counts > MOST_VALUES
    if too_long.any():
        i = int(np.argmax(too_long))
        raise _too_long(start[i], end[i], step[i], f"{int(counts[i]):,}")
    return counts.astype(np.int64), step


def int_series(start: Ints, end: Ints, step: Ints | None) -> tuple[Ints, Ints]:
    """Return the values of all series in sequence, and the number of values of each."""
    counts, step = lengths(start, end, step)
    places = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(start, counts) + places * np.repeat(step, counts), counts


def float_series(start: float, end: float, step: float | None) -> npt.NDArray[np.float64]:
    """Return the values of one series of floats. Raises EvaluationError if it is too long."""
    if step is None:
        step = 1.0 if start <= end else -1.0
    if not ((step > 0 and start < end) or (step < 0 and start > end)):
        alone = not (step > 0 or step < 0) and start != end
        return np.array([start] if alone else [], np.float64)
    with np.errstate(all="ignore"):
        expected = np.float64(end - start) / np.float64(step)
        if not expected <= MOST_VALUES:
            raise _too_long(start, end, step, "too many" if np.isnan(expected) else f"{expected:,.0f}")
        values = np.add.accumulate(np.append(start, np.full(int(expected) + 2, step)))
    inside = values < end if step > 0 else values > end
    if inside.all():
        reason = f"range({start}, {end}, {step}) has no end: its step is lost in rounding"
        raise EvaluationError(reason, code="value-out-of-range")
    return values[: int(np.argmin(inside))]


def coded_series(kind: str, ends: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Return the values of all series in sequence, and the number of each, from encoded ends."""
    start, end = ends[:2]
    step = ends[2] if len(ends) > 2 else None
    if kind != "float":
        return int_series(start, end, step)
    firsts, lasts = code_floats(start).tolist(), code_floats(end).tolist()
    steps = [None] * len(firsts) if step is None else code_floats(step).tolist()
    series = [float_series(*ends_of_series) for ends_of_series in zip(firsts, lasts, steps, strict=True)]
    values = np.concatenate([np.empty(0, np.float64), *series])
    return float_codes(values), np.array([len(values_of_series) for values_of_series in series], np.int64)


def _too_long(start: Any, end: Any, step: Any, count: str) -> EvaluationError:
    return EvaluationError(
        f"range({start}, {end}, {step}) has {count} values; the maximum is {MOST_VALUES:,}",
        code="value-out-of-range",
    )


def _in_ints(value: int, start: int, end: int, step: int | None = None) -> bool:
    if step is None:
        step = 1 if start <= end else -1
    if step == 0:
        return value == start != end
    inside = start <= value < end if step > 0 else start >= value > end
    return inside and (value - start) % step == 0


def _in_floats(value: float, start: float, end: float, step: float | None = None) -> bool:
    return bool((float_series(start, end, step) == value).any())


def _in_ints_vector(value: Any, start: Any, end: Any, step: Any = None) -> Array:
    value, start, end = np.broadcast_arrays(
        *(np.asarray(operand, np.int64) for operand in (value, start, end))
    )
    step = np.where(start <= end, 1, -1) if step is None else np.broadcast_to(np.int64(step), value.shape)
    up, down = (step > 0) & (start <= value) & (value < end), (step < 0) & (start >= value) & (value > end)
    away = np.where(down, start, value).view(np.uint64) - np.where(down, value, start).view(np.uint64)
    stride = np.where(step < 0, np.negative(step), step).view(np.uint64)
    on_step = (up | down) & (away % np.where(step == 0, np.uint64(1), stride) == 0)
    result: Array = on_step | ((step == 0) & (value == start) & (start != end))
    return result


_INTS, _FLOATS = Operation(_in_ints, _in_ints_vector), Operation(_in_floats, fallible=True)

define(
    "in_series",
    "in_series expects a number, where the series starts and ends, and its step, all of one type",
    overloads(
        Overload((INT,) * 3, BOOL, _INTS),
        Overload((INT,) * 4, BOOL, _INTS),
        Overload((FLOAT,) * 3, BOOL, _FLOATS),
        Overload((FLOAT,) * 4, BOOL, _FLOATS),
    ),
)
