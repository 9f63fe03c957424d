"""What enters a nested scope in one tick: the deltas of outer streams, or other values for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged
from dbsp.data.batch import Batch
from dbsp.kernels.arrays import Codes, Mask
from dbsp.operators.linear.filter import filter_rows
from dbsp.state.sorted_run import SortedRun


class EnteringValue(NamedTuple):
    """A value that enters instead of the delta of an outer stream.

    If the stream is arranged, `table` is its run table, with the value in the runs from `before` to
    `end`. `runs` keeps the arrays of runs that only this table has.
    """

    batch: Batch | None
    table: Codes | None = None
    before: int = 0
    end: int = 0
    runs: tuple[SortedRun, ...] = ()


class EnteringStreams:
    """The outer streams of one scope, shared by its delta_0 steps (`StepScope.shared`)."""

    __slots__ = ("iteration", "sources", "values")

    def __init__(self, sources: Sequence[Step] = ()) -> None:
        self.sources = tuple(sources)
        """The outer steps, in the order of the entering streams."""
        self.values: Sequence[EnteringValue] | None = None
        """The values that enter instead of the deltas of the outer streams."""
        self.iteration = 0
        """The iteration at which values enter."""

    def at(self, index: int, iteration: int) -> Batch | None:
        """The value of one stream at an iteration; None if it is empty."""
        if iteration != self.iteration:
            return None
        return self.sources[index].out if self.values is None else self.values[index].batch

    def enter(self, values: Sequence[EnteringValue] | None, iteration: int = 0) -> None:
        """Let values enter at an iteration; without values, the deltas of the outer streams."""
        self.values = values
        self.iteration = iteration


def whole(source: Step, total: Batch | None) -> EnteringValue:
    """Return the integral `total` of an outer stream as an entering value."""
    if isinstance(source, Arranged):
        return EnteringValue(total, source.table, 0, source.count)
    return EnteringValue(total)


def divided(source: Step, negated: bool) -> tuple[EnteringValue, EnteringValue]:
    """Divide the delta of an outer stream by signs, into two values that enter after each other.

    The first has the retractions, the second the insertions; the other way round if `negated`. So
    results only lose rows by the first value, and only gain rows by the second. O(delta).
    """
    delta = source.out
    first = second = None
    if delta is not None:
        first, second = part_of(delta, delta.weights < 0), part_of(delta, delta.weights > 0)
        if negated:
            first, second = second, first
    if not isinstance(source, Arranged):
        return EnteringValue(first), EnteringValue(second)
    table, start = source.table, source.before
    middle = start + (first is not None)
    end = middle + (second is not None)
    runs: tuple[SortedRun, ...] = ()
    if first is not None and second is not None:
        runs = SortedRun(first.rows, first.weights), SortedRun(second.rows, second.weights)
        table = np.concatenate((table[:start], np.array([run.entry() for run in runs], np.int64)))
    return EnteringValue(first, table, start, middle, runs), EnteringValue(second, table, middle, end, runs)


def part_of(delta: Batch, chosen: Mask) -> Batch | None:
    """Return the chosen rows of a delta, or None if there are none."""
    return filter_rows(delta, chosen) or None
