"""The state of a function of groups that follows the changes of a tick, and what it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.types import Type
from dbsp.errors import expect_present
from dbsp.kernels import weigh_values
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import expect_calls
from dbsp.operators.traces.arrange import trace_of
from dbsp.state.counted_tables import counted_table
from dbsp.state.trace import Trace


class ValueWeights(NamedTuple):
    """The different values of a tick, such as (key, value), with their weights around it."""

    rows: Rows
    before: Codes
    after: Codes

    def positive(self) -> tuple[Codes, Codes]:
        """The weights before and after, and 0 for those below 0."""
        return np.maximum(self.before, 0), np.maximum(self.after, 0)


def weigh_delta(delta: Batch, width: int, trace: Trace, runs: int) -> ValueWeights:
    """Return the weights of the first columns of the rows of a delta; the past is in `runs`."""
    table = counted_table((trace, runs))
    return ValueWeights(*weigh_values(delta.rows, delta.weights, width, table, len(table)))


class MissingWeights:
    """The weight that values of negative weight lack; with it, no value has a negative weight.

    Almost always it is empty.
    """

    __slots__ = ("trace",)

    def __init__(self, types: Sequence[Type], scope: StepScope) -> None:
        self.trace = scope.new_trace(len(types), types)
        expect_calls(weigh_values)  # its weights are those of `weigh_delta`

    def follow(self, values: ValueWeights) -> None:
        """Apply the changes of a tick."""
        missing = np.minimum(values.before, 0) - np.minimum(values.after, 0)
        moving = np.flatnonzero(missing)
        if len(moving):
            self.trace.append(values.rows.take(moving, 0), missing.take(moving))


class GroupChanges:
    """The groups that a tick changes: their keys, changed rows, and accumulators."""

    __slots__ = ("_orders", "_weights", "after", "batch", "before", "keys")

    def __init__(
        self, keys: Rows, batch: Batch, before: Rows, after: Rows, orders: dict[int, Arranged]
    ) -> None:
        self.keys = keys
        self.batch = batch
        self.before = before
        """The accumulators before the tick (see the kernel `accumulate`)."""
        self.after = after
        self._orders = orders
        self._weights: dict[int, ValueWeights] = {}

    def values(self, column: int) -> ValueWeights:
        """The changed values of a column; each key has one or more."""
        if column not in self._weights:
            order = self._orders[column]
            delta = expect_present(order.out, "the delta of an arrangement whose stream has one")
            width = self.keys.shape[1] + 1
            self._weights[column] = weigh_delta(delta, width, trace_of(order), order.before)
        return self._weights[column]


class KeptResult(ABC):
    """The state of one function of an aggregate, for all groups."""

    __slots__ = ()

    traces: tuple[Trace, ...]
    """The state; its rows begin with the key of a group."""

    @abstractmethod
    def change(self, changes: GroupChanges) -> tuple[Codes, Codes]:
        """Apply the changes of a tick; return the results of the groups before and after it."""

    def forget_cache(self) -> None:  # noqa: B027
        """Drop what is not in traces, after they have returned to an earlier state."""

    @abstractmethod
    def current(self, keys: Rows, accumulated: Rows) -> Codes:
        """Return the results of groups, given their accumulators."""
