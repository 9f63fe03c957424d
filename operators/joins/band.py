"""The band of a range join: the allowed distance of the right value from the left one.

    low <= y - x <= high

The difference is exact, for floats too: `x + low` is computed without rounding, and the bound is
the nearest float inside the band. So the band from the right side, -high <= x - y <= -low, has
exactly the same pairs.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from typing import Any

import numpy as np

from dbsp.data.columns import Floats, code_floats, float_codes
from dbsp.data.plain_codes import float_code
from dbsp.data.types import Type
from dbsp.errors import SchemaError, ValueOutOfRangeError, shorten
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL
from dbsp.lazy_dataclass import dataclass

_DAY = dt.timedelta(days=1)
_MICROSECOND = dt.timedelta(microseconds=1)


_KINDS = ("int", "float", "date", "time", "timestamp", "timestamptz", "duration")
_MOST = {True: sys.float_info.max, False: INT64_MAX}
"""The largest absolute value of a bound, for floats and for codes."""


@dataclass(frozen=True)
class Band:
    """Bounds of `y - x` in the unit of the codes (days, microseconds) or as floats.

    None means no bound.
    """

    floats: bool
    low: int | float | None
    high: int | float | None

    @staticmethod
    def of(type_: Type, low: Any, high: Any) -> Band:
        """Return the band over columns of a type.

        Bounds are ints, floats, or timedeltas for dates, times, timestamps and durations.
        """
        if type_.kind not in _KINDS:
            raise SchemaError(
                f"expected an int, float, date, time, timestamp or duration column, got {type_}: its "
                "values have no distance",
                code="wrong-type",
            )
        bounds = distance(type_, low, "low"), distance(type_, high, "high")
        if bounds[0] is not None and bounds[1] is not None and bounds[0] > bounds[1]:
            raise SchemaError(
                f"expected low <= high, got low={shorten(low)} and high={shorten(high)}: no pair matches",
                code="invalid-range",
            )
        return Band(type_.kind == "float", *bounds)

    def check(self, type_: Type) -> None:
        """Raise SchemaError if this is not a band of a type."""
        unit = float if self.floats else int
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        fits = all(isinstance(bound, unit) and abs(bound) <= _MOST[self.floats] for bound in bounds)
        if type_.kind not in _KINDS or self.floats != (type_.kind == "float") or not fits:
            raise SchemaError(f"expected a range of type {type_}, got {self}", code="invalid-range")

    def turned(self) -> Band:
        """Return the band of x - y."""
        return Band(
            self.floats,
            None if self.high is None else -self.high,
            None if self.low is None else -self.low,
        )

    def around(self, codes: Codes, type_: Type, other: Type) -> tuple[Codes, Codes, Mask]:
        """Return the first and last code of the partners of each value, and which values have
        partners.

        None and NaN have no partners.
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
    """Return a bound in the unit of the codes of the type."""
    if bound is None:
        return None
    if type_.kind == "float":
        if isinstance(bound, bool) or not isinstance(bound, int | float) or bound != bound:
            raise SchemaError(
                f"{which}: expected a number for a float column, got {shorten(bound)}", code="wrong-type"
            )
        return None if bound in (math.inf, -math.inf) else _float(bound, which)
    if type_.kind == "int":
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise SchemaError(
                f"{which}: expected an int for an int column, got {shorten(bound)}", code="wrong-type"
            )
        steps = bound
    else:
        unit = _DAY if type_.kind == "date" else _MICROSECOND
        if not isinstance(bound, dt.timedelta) or bound % unit:
            unit_text = " of whole days" if type_.kind == "date" else ""
            raise SchemaError(
                f"{which}: expected a timedelta{unit_text} for a {type_.kind} column, got {shorten(bound)}",
                code="wrong-type",
            )
        steps = bound // unit
    if abs(steps) > INT64_MAX:
        raise ValueOutOfRangeError(f"{which}={shorten(bound)} does not fit in 64 bits")
    return steps


def _float(bound: float, which: str) -> float:
    try:
        return float(bound)
    except OverflowError:
        raise ValueOutOfRangeError(f"{which}={shorten(bound)} is too large for a float") from None


def _int_sums(values: Codes, distance: int | float | None, default: int) -> tuple[Codes, Codes]:
    """Return values + distance, and 1 or -1 where the sum is above or below int64."""
    inside = np.zeros(len(values), np.int64)
    if distance is None:
        return np.full(len(values), default, np.int64), inside
    with np.errstate(over="ignore"):
        sums = values + np.int64(distance)
    if distance > 0:
        return sums, np.where(sums < values, 1, inside)
    return sums, np.where(sums > values, -1, inside)


def _float_sums(values: Floats, distance: int | float | None, up: bool) -> Codes:
    """Return the codes of the first float >= values + distance (`up`), or of the last float <=
    it."""
    infinity = math.inf if up else -math.inf
    if distance is None:
        return np.full(len(values), float_code(-infinity), np.int64)
    with np.errstate(all="ignore"):
        sums = values + distance
        # Knuth's two-sum: sums + lost is the exact sum. If it is beyond all floats, sums is
        # infinite and lost is NaN; the result is then the last finite float.
        shifted = sums - values
        lost = (values - (sums - shifted)) + (distance - shifted)
        inward = (lost > 0) if up else (lost < 0)
        inward |= np.isinf(sums) & np.isfinite(values) & (sums == -infinity)
        result: Floats = np.where(inward, np.nextafter(sums, infinity), sums)
    return float_codes(result)
