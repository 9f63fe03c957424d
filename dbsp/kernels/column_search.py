"""Search of a value in one column of a range of sorted rows."""

from __future__ import annotations

from dbsp.kernels.arrays import RunCodes
from dbsp.kernels.jit import choose, kernel
from dbsp.kernels.limits import INT64_MAX


@kernel
def seek(run: RunCodes, k: int, c: int, low: int, high: int, value: int) -> int:
    """Return the first row of low:high, sorted by column c, with at least this value.

    Gallops to a near row in O(log distance), and bisects for a far one.
    """
    step = 1
    probe = low
    while probe < high and step < 128:
        if run[probe * k + c] < value:
            low = probe + 1
            probe = low + step
            step += step
        else:
            high = probe
            break
    # Bisect without a branch on the comparison, since the processor mispredicts half of them.
    left = high - low
    while left > 0:
        half = (left + 1) >> 1
        low = choose(run[(low + half - 1) * k + c] < value, low + half, low)
        left -= half
    return low


@kernel
def seek_past(run: RunCodes, k: int, c: int, low: int, high: int, value: int) -> int:
    """Return the first row of low:high, sorted by column c, with more than this value."""
    if value == INT64_MAX:
        return high
    return seek(run, k, c, low, high, value + 1)
