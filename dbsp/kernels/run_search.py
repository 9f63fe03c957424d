"""Access to a stack of sorted runs through one array argument.

A trace stores its runs in separate arrays, so that a run can be shared, written to a checkpoint or
replaced by a merge without moving other runs. A kernel call costs about 0.15 us per array argument,
so the runs are passed as one *run table*, int64[capacity, 3]: the addresses of the rows and weights
of each run, and its length. The Python objects of the trace keep the arrays alive.

A run is *narrow* if its codes are stored as int32. The address of its rows is odd in the table, and
`dbsp.kernels.jit.codes_at` reads both forms. The 4 bytes before the rows of a narrow run must be
readable: compiled kernels read 8 bytes that end with the code, and shift them, since a branch for
each code would be slower.

A run whose weights are all 1 has a single weight for all rows. The address of its weights is odd in
the table, which turns into a mask of 0 for the index of a weight: `weights[at & mask]`.
"""

from __future__ import annotations

from dbsp.kernels.arrays import Codes, Pointer, Rows, RunCodes
from dbsp.kernels.jit import at_address, kernel
from dbsp.kernels.limits import INT64_MIN


@kernel
def register_run(table: Rows, index: int, rows: Rows, weights: Codes) -> int:
    """Write a run into the table; return its largest absolute weight.

    `weights` has a weight for each row, or a single 1 for all of them.
    """
    table[index, 0] = rows.ctypes.data
    table[index, 1] = weights.ctypes.data
    table[index, 2] = rows.shape[0]
    if weights.shape[0] < rows.shape[0]:
        table[index, 1] += 1
    largest = 0
    for i in range(weights.shape[0]):
        w = weights[i]
        if w < 0:
            # -2**63 has no positive counterpart; 2**63 - 1 is a good enough bound.
            w = -(w + 1) if w == INT64_MIN else -w
        if w > largest:
            largest = w
    return largest


@kernel
def weights_at(word: int) -> tuple[Pointer, int]:
    """Return the weights of a run, by their address in the table, and the mask of their index."""
    return at_address(word & -2), (word & 1) - 1


@kernel
def weight_at(word: int, at: int) -> int:
    """Return the weight of a row of a run, by the address of the weights in the table."""
    weights, mask = weights_at(word)
    weight: int = weights[at & mask]
    return weight


@kernel
def compare_prefix(run: RunCodes, at: int, keys: Rows, i: int, m: int) -> int:
    """Return -1, 0 or 1: whether the m columns at run[at:] sort before, with or after keys[i]."""
    for c in range(m):
        value = run[at + c]
        if value != keys[i, c]:
            return -1 if value < keys[i, c] else 1
    return 0


@kernel
def compare_run_rows(a: RunCodes, at_a: int, b: RunCodes, at_b: int, k: int) -> int:
    """Return -1, 0 or 1: whether the k columns at a[at_a:] sort before, with or after b[at_b:]."""
    for c in range(k):
        if a[at_a + c] != b[at_b + c]:
            return -1 if a[at_a + c] < b[at_b + c] else 1
    return 0


@kernel
def code_of_pair(pair: int, column: int) -> int:
    """Return a column of a narrow pair as one word: column 0 is its lower half."""
    return pair >> 32 if column else ((pair & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@kernel
def gallop(run: RunCodes, k: int, low: int, high: int, keys: Rows, i: int, m: int, after: int) -> int:
    """Return the first row in run[low:high] with prefix >= keys[i] (after=0) or > it (after=1).

    The prefix has m columns. Exponential search from `low`, so a sorted sequence of keys costs
    O(1 + log gap) each.
    """
    # Invariant: the rows before `low` are too small, the rows from `high` on are large enough.
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
def gallop_keys(keys: Rows, low: int, run: RunCodes, at: int, m: int) -> int:
    """Return the first i >= low for which keys[i] is >= the m columns at run[at:]."""
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
