"""The band of a range join: how far the value on the right may be from the one on the left.

    low <= y - x <= high

The difference is exact, for floats too: `x + low` is a sum without rounding, of which only the
floats on either side of it matter. So a band seen from the right, -high <= x - y <= -low, is the
same band.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbsp.data.columns import Floats, code_floats, float_codes
from dbsp.data.plain_codes import float_code
from dbsp.data.types import Type
from dbsp.errors import SchemaError, ValueOutOfRangeError, shorten
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL

_DAY = dt.timedelta(days=1)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Band:
    """Bounds of `y - x` in the unit of the codes (days, microseconds) or a float; None for none."""

    floats: bool
    low: int | float | None
    high: int | float | None

    @staticmethod
    def of(type_: Type, low: Any, high: Any) -> Band:
        """The band over columns of a type: ints, floats, or timedeltas for dates and timestamps."""
        if type_.kind not in ("int", "float", "date", "timestamp"):
            raise SchemaError(
                f"there is no distance between values of {type_}; take int, float, date, timestamp"
            )
        bounds = distance(type_, low, "low"), distance(type_, high, "high")
        if bounds[0] is not None and bounds[1] is not None and bounds[0] > bounds[1]:
            raise SchemaError(f"low={shorten(low)} is more than high={shorten(high)}: no pair would match")
        return Band(type_.kind == "float", *bounds)

    def turned(self) -> Band:
        """The band of x - y."""
        return Band(
            self.floats,
            None if self.high is None else -self.high,
            None if self.low is None else -self.low,
        )

    def around(self, codes: Codes, type_: Type, other: Type) -> tuple[Codes, Codes, Mask]:
        """From which to which code the partners of each value are, and which values can have any.

        None is near nothing, and NaN neither.
        """
        valid = codes != NULL if type_.nullable else np.ones(len(codes), np.bool_)
        if self.floats:
            values = code_floats(np.ascontiguousarray(codes))
            valid &= ~np.isnan(values)
            start = _float_sums(values, self.low, up=True)
            end = _float_sums(values, self.high, up=False)
        else:
            least = INT64_MIN + 1 if other.nullable else INT64_MIN
            start, over = _int_sums(codes, self.low, least)
            start = np.where(over < 0, least, np.maximum(start, least))
            end, under = _int_sums(codes, self.high, INT64_MAX)
            end = np.where(under > 0, INT64_MAX, end)
            valid &= (over <= 0) & (under >= 0)
        return start, end, valid & (start <= end)


def distance(type_: Type, bound: Any, which: str) -> int | float | None:
    """A bound in the unit of the type's codes."""
    if bound is None:
        return None
    if type_.kind == "float":
        if isinstance(bound, bool) or not isinstance(bound, int | float) or bound != bound:
            raise SchemaError(f"{which} is a number between floats, not {shorten(bound)}")
        return None if bound in (math.inf, -math.inf) else _float(bound, which)
    if type_.kind == "int":
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise SchemaError(f"{which} is an int between ints, not {shorten(bound)}")
        steps = bound
    else:
        unit = _DAY if type_.kind == "date" else _MICROSECOND
        if not isinstance(bound, dt.timedelta) or bound % unit:
            unit_text = " of whole days" if type_.kind == "date" else ""
            raise SchemaError(
                f"{which} is a timedelta{unit_text} between {type_.kind}s, not {shorten(bound)}"
            )
        steps = bound // unit
    if abs(steps) > INT64_MAX:
        raise ValueOutOfRangeError(f"{which}={shorten(bound)} does not fit 64 bits")
    return steps


def _float(bound: float, which: str) -> float:
    try:
        return float(bound)
    except OverflowError:
        raise ValueOutOfRangeError(f"{which}={shorten(bound)} is too large for a float") from None


def _int_sums(values: Codes, distance: int | float | None, default: int) -> tuple[Codes, Codes]:
    """values + distance, and 1 or -1 where that is above or below all of int64."""
    nowhere = np.zeros(len(values), np.int64)
    if distance is None:
        return np.full(len(values), default, np.int64), nowhere
    with np.errstate(over="ignore"):
        sums = values + np.int64(distance)
    if distance > 0:
        return sums, np.where(sums < values, 1, nowhere)
    return sums, np.where(sums > values, -1, nowhere)


def _float_sums(values: Floats, distance: int | float | None, up: bool) -> Codes:
    """The codes of the first float >= values + distance (`up`), or of the last one <= it."""
    infinity = math.inf if up else -math.inf
    if distance is None:
        return np.full(len(values), float_code(-infinity), np.int64)
    with np.errstate(all="ignore"):
        sums = values + distance
        # Knuth's two-sum: sums + lost is the exact sum. Where that is beyond all floats, sums is
        # infinite and lost is NaN; the last float before it is what lies on the inner side.
        shifted = sums - values
        lost = (values - (sums - shifted)) + (distance - shifted)
        inward = (lost > 0) if up else (lost < 0)
        inward |= np.isinf(sums) & np.isfinite(values) & (sums == -infinity)
        result: Floats = np.where(inward, np.nextafter(sums, infinity), sums)
    return float_codes(result)
