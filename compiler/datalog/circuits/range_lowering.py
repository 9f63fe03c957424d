"""A range condition of a rule to a range join, or to an interval join if it has two limits."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.compiler.datalog.plans.plan_steps import PlannedRange
from dbsp.errors import expect_present
from dbsp.operators.streams.stream import Stream


def join_range(
    points: Stream, limits: Stream, on: Sequence[str], within: PlannedRange, keep: Sequence[str]
) -> Stream:
    """Return the pairs of a point and its limits that agree in `on`, with the columns `keep`."""
    if within.first is None or within.last is None:
        name = expect_present(within.first or within.last, "a limit of a range")
        low, high = (None, -within.low) if within.last is None else (-within.high, None)
        return points.range_join(limits, left=within.point, right=name, low=low, high=high, select=list(keep))
    return points.interval_join(
        limits,
        on=list(on),
        left=within.point,
        first=within.first,
        last=within.last,
        low=within.low,
        high=within.high,
        select=list(keep),
    )
