"""The net changes of the parts of a transaction, which one tick applies at the end.

Applying the net change in one tick changes an input as applying the parts in their order does:

| kind   | net change of the parts                                                    |
|--------|----------------------------------------------------------------------------|
| `zset` | the sum of the weights of each row                                         |
| `set`  | for each row its last assertion or retraction                              |
| `key`  | for each key its last row, or its removal                                  |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from dbsp.data.batch import Batch
from dbsp.kernels import consolidate, gather, project
from dbsp.kernels.arrays import Codes
from dbsp.runtime.delta_sum import DeltaSum
from dbsp.runtime.input_changes import expect_distinct_keys
from dbsp.runtime.ports import InputPort
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.trace import Trace


class PartChanges:
    """Collects the changes of the parts by input, in traces."""

    def __init__(self, ports: Mapping[str, InputPort], budget: MemoryBudget | None) -> None:
        self._inputs = {name: _net_change(port, budget) for name, port in ports.items()}

    @property
    def traces(self) -> Iterator[Trace]:
        """The traces with the changes."""
        return (change.sum.trace for change in self._inputs.values())

    def add(self, staged: Mapping[str, Batch]) -> None:
        """Add the changes of a part, which follow those of the parts before it.

        Raises InputError and WeightOverflowError as a tick does.
        """
        for name, batch in staged.items():
            self._inputs[name].add(batch)

    def total(self) -> dict[str, Batch]:
        """Return the net changes, as a tick stages them."""
        totals = {name: change.total() for name, change in self._inputs.items()}
        return {name: batch for name, batch in totals.items() if batch is not None}


class _SummedChange:
    """The sum of the weights of each row."""

    def __init__(self, port: InputPort, budget: MemoryBudget | None) -> None:
        self.sum = DeltaSum(f"relation '{port.relation}'", port.columns.arity, budget)

    def add(self, batch: Batch) -> None:
        self.sum.add(batch)

    def total(self) -> Batch | None:
        return self.sum.total()


class _LastChange(_SummedChange):
    """The last change of each key, as rows of weight 1 or -1; in a set the key is the row.

    The rows of the trace begin with the key. A key may have a row and also removals, like in a
    change without an order: the row wins.
    """

    def __init__(self, port: InputPort, budget: MemoryBudget | None) -> None:
        super().__init__(port, budget)
        arity = port.columns.arity
        key = port.key or tuple(range(arity))
        self._relation = port.relation
        self._keys = np.arange(len(key))
        self._order = np.array([*key, *(c for c in range(arity) if c not in key)], np.int64)

    def add(self, batch: Batch) -> None:
        """Replace the earlier changes of the keys of this batch. O(|batch| log n)."""
        ordered = batch.rearranged(self._order)
        rows, weights = ordered.rows, ordered.weights
        asserted = rows.compress(weights > 0, 0)
        removed = rows.compress(weights < 0, 0)
        if len(self._keys) < rows.shape[1]:
            expect_distinct_keys(asserted, len(self._keys), self._relation)
        trace, all_keys = self.sum.trace, self._prefixes(rows)
        earlier, signs, _ = gather(all_keys, len(self._keys), trace.table, trace.count, rows.shape[1], 0)
        change = Batch(
            *consolidate(
                np.concatenate((asserted, removed, earlier)),
                np.concatenate((np.ones(len(asserted), np.int64), np.full(len(removed), -1), -signs)),
            )
        )
        if change:
            self.sum.add(change)

    def total(self) -> Batch | None:
        batch = self.sum.total()
        return None if batch is None else batch.rearranged(np.argsort(self._order))

    def _prefixes(self, rows: Codes) -> Codes:
        keys, _ = project(rows, np.ones(len(rows), np.int64), self._keys)
        return keys


def _net_change(port: InputPort, budget: MemoryBudget | None) -> _SummedChange:
    kind = _LastChange if port.kind in ("set", "key") else _SummedChange
    return kind(port, budget)
