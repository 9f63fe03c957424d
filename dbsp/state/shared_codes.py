"""Large runs of several traces with equal rows: the traces keep the rows once.

    input of a distinct      rows, number of derivations
    output of a distinct     the same rows, weight 1

If both are stored in the same column order, a load leaves each with one run of the same rows. Runs
never change, so both refer to one array. A merge of one of them makes a new array.
"""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.kernels.arrays import StoredRows
from dbsp.state.merging_stack import MergingStack

LEAST = 1 << 16
"""Runs of fewer rows are left alone: their memory does not count."""

_PIECE = 1 << 16
"""So many rows are compared at a time."""


def share_codes(traces: Iterable[MergingStack]) -> None:
    """Let large runs in memory with equal rows refer to one array. O(rows)."""
    known: dict[tuple[int, int, int], list[StoredRows]] = {}
    for trace in traces:
        for run in list(trace.in_memory()):
            if run.size < LEAST:
                continue
            codes = run.codes
            same = known.setdefault((run.size, run.width, codes.itemsize), [])
            found = next((each for each in same if _equal(each, codes)), None)
            if found is None:
                same.append(codes)
            elif found is not codes:
                trace.refer(run, found)


def stored_bytes(traces: Iterable[MergingStack]) -> int:
    """Return the bytes in memory of all traces; rows that several runs share count once."""
    size = 0
    seen: set[int] = set()
    for trace in traces:
        size += trace.nbytes
        for run in trace.in_memory():
            if id(run.codes) in seen:
                size -= run.codes.nbytes
            seen.add(id(run.codes))
    return size


def _equal(a: StoredRows, b: StoredRows) -> bool:
    return a is b or all(
        bool((a[at : at + _PIECE] == b[at : at + _PIECE]).all()) for at in range(0, len(a), _PIECE)
    )
