"""Searches of the rows of a large delta in traces, by pieces of the delta.

A piece is a slice of the sorted delta, so each thread searches its own part of the runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from dbsp import kernels
from dbsp.kernels.arrays import Codes
from dbsp.kernels.thread_count import threads
from dbsp.kernels.thread_pool import in_pieces

T = TypeVar("T")

LARGE = 1 << 14
"""Fewer rows are searched by one call of a kernel."""

LEAST = 1 << 11
"""A piece has at least about this many rows."""

MOST = 1 << 17
"""A piece has at most about this many rows: what a search of it finds takes little memory."""

PIECES = 4
"""The number of pieces for each thread. Some pieces take longer than others."""


def pays(rows: int) -> bool:
    """Return whether several threads search so many rows faster than one."""
    return rows >= LARGE and threads() > 1


def in_slices(rows: int, function: Callable[[slice], T], cost: int = 1) -> list[T]:
    """Return the results of a function of slices of some rows, in order.

    `cost` says how many searches a row takes.
    """
    pieces = max(1, min(cost * rows // LEAST, max(PIECES * threads(), rows // MOST)))
    return in_pieces(
        pieces, lambda piece: function(slice(rows * piece // pieces, rows * (piece + 1) // pieces))
    )


def change_presence(rows: Codes, weights: Codes, table: Codes, runs: int, changes: Codes) -> tuple[int, bool]:
    """Write the change of f(w) = [w > 0] by each row of a delta, as the kernel of this name."""
    if not pays(len(weights)):
        return kernels.change_presence(rows, weights, table, runs, changes)
    found = in_slices(
        len(weights),
        lambda part: kernels.change_presence(rows[part], weights[part], table, runs, changes[part]),
    )
    return sum([changed for changed, _ in found]), all(same for _, same in found)


def sum_weights(rows: Codes, table: Codes, runs: int) -> Codes:
    """Return the weight of each of the sorted, distinct rows, as the kernel of this name."""
    if not pays(len(rows)):
        return kernels.sum_weights(rows, table, runs)
    return np.concatenate(in_slices(len(rows), lambda part: kernels.sum_weights(rows[part], table, runs)))
