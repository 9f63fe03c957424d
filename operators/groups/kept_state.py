"""The state of a function of groups that follows the changes of a tick, and what it reads of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.data.batch import Batch
from dbsp.errors import expect_present
from dbsp.kernels import weigh_values
from dbsp.kernels.arrays import Codes, Rows
from dbsp.operators.traces.arrange import trace_of
from dbsp.state.counted_tables import counted_table
from dbsp.state.trace import Trace


class ValueWeights(NamedTuple):
    """The different (key, value) pairs of a tick, sorted, with their weights around it."""

    rows: Rows
    before: Codes
    after: Codes

    def positive(self) -> tuple[Codes, Codes]:
        """The weights before and after, and 0 for those below 0."""
        return np.maximum(self.before, 0), np.maximum(self.after, 0)


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
            table = counted_table((trace_of(order), order.before))
            found = weigh_values(delta.rows, delta.weights, self.keys.shape[1] + 1, table, len(table))
            self._weights[column] = ValueWeights(*found)
        return self._weights[column]


class KeptResult(ABC):
    """The state of one function of an aggregate, for all groups."""

    __slots__ = ()

    traces: tuple[Trace, ...]
    """The state; its rows begin with the key of a group."""

    @abstractmethod
    def change(self, changes: GroupChanges) -> tuple[Codes, Codes]:
        """Apply the changes of a tick; return the results of the changed groups before and after."""

    def forget_cache(self) -> None:  # noqa: B027
        """Drop what is not in traces, after they have returned to an earlier state."""

    @abstractmethod
    def current(self, keys: Rows, accumulated: Rows) -> Codes:
        """Return the results of groups, given their accumulators."""
