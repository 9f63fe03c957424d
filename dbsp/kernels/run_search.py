"""Reading a stack of sorted runs through one array argument.

A trace keeps its runs in separately allocated arrays, so that a run can be shared, written to a
checkpoint or replaced by a merge without moving any other. A kernel call costs about 0.15 us per
array argument, so the runs travel together as one *run table*, int64[capacity, 3]: the addresses of
a run's rows and weights, and its length. The Python side keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import kernel
from dbsp.kernels.limits import INT64_MIN


def _at_address(typing_context: Any, address: Any) -> Any:
    """The pointer to int64 that stands at an address, for indexing inside a kernel."""

    pointer: Any = types.CPointer(types.int64)  # type: ignore[no-untyped-call]

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())

    return pointer(types.int64), generate


at_address: Any = intrinsic(_at_address)


@kernel
def register_run(table: Codes, index: int, rows: Codes, weights: Codes) -> int:
    """Enter a run in the table; returns the largest absolute weight in it."""
    table[index, 0] = rows.ctypes.data
    table[index, 1] = weights.ctypes.data
    table[index, 2] = rows.shape[0]
    largest = 0
    for i in range(weights.shape[0]):
        w = weights[i]
        if w < 0:
            # int64.min has no positive counterpart; one less is as good for a bound.
            w = -(w + 1) if w == INT64_MIN else -w
        if w > largest:
            largest = w
    return largest


@kernel
def compare_prefix(run: Any, at: int, keys: Codes, i: int, m: int) -> int:
    """-1, 0 or 1 as the m columns at run[at:] sort before, with or after those of keys[i]."""
    for c in range(m):
        value = run[at + c]
        if value != keys[i, c]:
            return -1 if value < keys[i, c] else 1
    return 0


@kernel
def compare_run_rows(a: Any, at_a: int, b: Any, at_b: int, k: int) -> int:
    """-1, 0 or 1 as the k columns at a[at_a:] sort before, with or after those at b[at_b:]."""
    for c in range(k):
        if a[at_a + c] != b[at_b + c]:
            return -1 if a[at_a + c] < b[at_b + c] else 1
    return 0


@kernel
def gallop(run: Any, k: int, low: int, high: int, keys: Codes, i: int, m: int, after: int) -> int:
    """The first row in run[low:high] whose m-column prefix is >= keys[i] (after=0) or > it (after=1).

    Exponential search from `low`, so a sorted sweep over the keys costs O(1 + log gap) each.
    """
    # Invariant: everything before `low` is too small, everything from `high` on is large enough.
    step = 1
    probe = low
    while probe < high:
        if compare_prefix(run, probe * k, keys, i, m) < after:
            low = probe + 1
            probe = low + step
            step += step
        else:
            high = probe
            break
    while low < high:
        middle = (low + high) >> 1
        if compare_prefix(run, middle * k, keys, i, m) < after:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def gallop_keys(keys: Codes, low: int, run: Any, at: int, m: int) -> int:
    """The first i >= low whose keys[i] is >= the m columns at run[at:]."""
    high = keys.shape[0]
    step = 1
    probe = low
    while probe < high:
        if compare_prefix(run, at, keys, probe, m) > 0:
            low = probe + 1
            probe = low + step
            step += step
        else:
            high = probe
            break
    while low < high:
        middle = (low + high) >> 1
        if compare_prefix(run, at, keys, middle, m) > 0:
            low = middle + 1
        else:
            high = middle
    return low
