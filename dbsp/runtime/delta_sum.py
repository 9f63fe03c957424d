"""The sum of the deltas of a stream over several ticks, in a trace of its own."""

from __future__ import annotations

from dbsp.data.batch import Batch
from dbsp.data.weights import overflow_text
from dbsp.errors import WeightOverflowError
from dbsp.runtime.scope_state import MERGE_FACTOR, MERGE_FUEL
from dbsp.state.journal import Journalled
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.trace import Trace


class DeltaSum:
    """Sums deltas in sorted runs, which are merged as those of other traces.

    `name` is that of the stream in errors. The trace has its own journal, since it belongs to no
    step of the circuit. With a `budget`, its runs may be in files.
    """

    __slots__ = ("_budget", "_journal", "_name", "trace")

    def __init__(self, name: str, width: int, budget: MemoryBudget | None) -> None:
        self._name = name
        self._journal: list[Journalled] = []
        self._budget = budget
        self.trace = Trace(width, self._journal, budget)

    def add(self, batch: Batch) -> None:
        """Add a delta. Amortised O(log n) per row.

        Raises WeightOverflowError, and CheckpointError if the budget cannot write.
        """
        trace = self.trace
        try:
            trace.append(batch.rows, batch.weights)
        except OverflowError as error:
            raise WeightOverflowError(overflow_text(error), where=self._name) from None
        trace.commit()
        self._journal.clear()
        try:
            trace.maintain(MERGE_FUEL + MERGE_FACTOR * trace.grown)
        except MemoryError:
            trace.repair()  # the next addition merges again

    def total(self) -> Batch | None:
        """Return the sum; None if it is empty. Raises CheckpointError. O(n log n) for n rows."""
        self.trace.compact()
        return self.trace.contents() or None
