"""Where the values of the first column of a sorted run are: an index for terms of many delta rows.

    places[b]   the first row with (value - first) >> shift >= b
    index       PLACES numbers: the address of `places` or 0, the first value, the last one, shift

If the values are dense, as ids and small numbers are, `shift` is 0, and a look-up reads two
numbers. Else it bisects the few rows of a bucket. There are at most twice as many buckets as rows.
"""

from __future__ import annotations

from dbsp.kernels.arrays import Pointer, RunCodes
from dbsp.kernels.column_search import seek, seek_past
from dbsp.kernels.jit import at_address, kernel
from dbsp.kernels.limits import INT64_MAX

PLACES = 4
"""How many numbers describe the index of a run."""


@kernel
def describe_places(run: RunCodes, k: int, rows: int, indices: Pointer, at: int) -> int:
    """Write the limits of an index; return how many numbers it needs, 0 if there can be none."""
    if rows == 0:
        return 0
    first = run[0]
    last = run[(rows - 1) * k]
    if first < 0 and last > INT64_MAX + first:
        return 0  # the distance of the values is outside int64
    shift = 0
    while (last - first) >> shift >= 2 * rows:
        shift += 1
    indices[at + 1] = first
    indices[at + 2] = last
    indices[at + 3] = shift
    room: int = ((last - first) >> shift) + 2
    return room


@kernel
def write_places(run: RunCodes, k: int, rows: int, indices: Pointer, at: int, address: int) -> None:
    """Write the index that `describe_places` has described to an address. O(rows)."""
    indices[at] = address
    places = at_address(address)
    first, shift = indices[at + 1], indices[at + 3]
    written = 0
    for row in range(rows):
        bucket = (run[row * k] - first) >> shift
        while written <= bucket:
            places[written] = row
            written += 1
    places[written] = rows


@kernel
def first_place(run: RunCodes, k: int, rows: int, indices: Pointer, at: int, value: int) -> int:
    """Return the first row with at least this value."""
    if value <= indices[at + 1]:
        return 0
    if value > indices[at + 2]:
        return rows
    places = at_address(indices[at])
    bucket = (value - indices[at + 1]) >> indices[at + 3]
    low: int = places[bucket]
    if indices[at + 3]:
        low = seek(run, k, 0, low, places[bucket + 1], value)
    return low


@kernel
def place_after(run: RunCodes, k: int, indices: Pointer, at: int, row: int, value: int) -> int:
    """Return the first row with more than the value of this row, which is `value`."""
    bucket = (value - indices[at + 1]) >> indices[at + 3]
    end: int = at_address(indices[at])[bucket + 1]
    if indices[at + 3]:
        end = seek_past(run, k, 0, row + 1, end, value)
    return end
