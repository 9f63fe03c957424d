"""The rows of a sorted run that are not below a threshold, counted and copied by pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.narrow_rows import filled_rows
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.sorted_run import SortedRun

_PIECE = 1 << 16
"""The rows that are read at a time."""


def count_recent(run: SortedRun, column: int, threshold: int) -> int:
    """Return the number of rows whose `column` is not below a threshold."""
    values = run.codes[:, column]
    return sum(
        int(np.count_nonzero(values[at : at + _PIECE] >= threshold)) for at in range(0, run.size, _PIECE)
    )


def copy_recent(
    run: SortedRun, column: int, threshold: int, size: int, budget: MemoryBudget | None
) -> SortedRun:
    """Return the `size` rows of `count_recent` as a run: in a file, if the budget demands it.

    Raises CheckpointError if the file cannot be written.
    """
    writer = None if budget is None else budget.writer(size, run.width, run.narrow, run.file is not None)
    if writer is None:
        parts = list(_recent(run, column, threshold))
        copy = SortedRun.of_stored(
            filled_rows([codes for codes, _ in parts]), np.concatenate([weights for _, weights in parts])
        )
        if budget is not None:
            budget.add(copy.nbytes)
        return copy
    for codes, weights in _recent(run, column, threshold):
        writer.write(codes, weights)
    return writer.result()


def _recent(run: SortedRun, column: int, threshold: int) -> Iterator[tuple[StoredRows, Codes]]:
    for at in range(0, run.size, _PIECE):
        codes = run.codes[at : at + _PIECE]
        recent = codes[:, column] >= threshold
        implicit = len(run.stored) < run.size
        weights = np.ones(len(codes), np.int64) if implicit else run.stored[at : at + _PIECE]
        yield codes[recent], weights[recent]
