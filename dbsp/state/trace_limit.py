"""A limit of a trace: the rows below a threshold, which no step reads any more.

The threshold only rises. Rows below it are dropped between ticks, after a commit, when this pays:
a pass reads one column of all rows, so it takes place when the trace has doubled since the last
pass, or when enough ticks have gone by to pay for it. So the trace holds at most about four times
the rows that are not below the threshold, and a tick costs amortised O(1) for each row it appends.

Which rows are still there never changes what a tick returns: a checkpoint need not store a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.state.trace import Trace

SMALL = 1024
"""A trace of fewer rows is left alone."""

PER_TICK = 256
"""The rows that a pass may read for each tick since the pass before."""


class TraceLimit:
    """Drops the rows of a trace whose `column` is below every mark plus `offset`.

    `marks` returns the marks of the latest committed tick; one of them is None while there is none.
    """

    __slots__ = ("_column", "_left", "_marks", "_offset", "_passed", "_ticks", "trace")

    def __init__(
        self, trace: Trace, column: int, offset: int, marks: Callable[[], Sequence[int | None]]
    ) -> None:
        self.trace = trace
        self._column = column
        self._offset = offset
        self._marks = marks
        self._left = 0
        """The rows that the latest pass left."""
        self._passed = INT64_MIN
        """The threshold of the latest pass."""
        self._ticks = 0
        """The ticks since then."""

    def threshold(self) -> int:
        """Return the least value of the column of a row that a step may still read."""
        marks = self._marks()
        known = [mark for mark in marks if mark is not None]
        if len(known) < len(marks):
            return INT64_MIN
        return max(INT64_MIN, min(INT64_MAX, min(known) + self._offset))

    def apply(self) -> None:
        """Drop the rows below the threshold if this pays. Call it between ticks, after a commit."""
        self._ticks += 1
        rows = self.trace.rows
        if rows < SMALL or (rows < 2 * self._left and self._ticks * PER_TICK < rows):
            return
        threshold = self.threshold()
        if threshold > self._passed:
            self.trace.forget(self._column, threshold)
            self._passed = threshold
            self._ticks = 0
            self._left = self.trace.rows
