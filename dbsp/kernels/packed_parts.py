"""Sums of many unsorted rows that fit into one word each, in steps that several threads share.

    pack_part       the rows of a part become keys, and the keys with each leading digit are counted
    scatter_keys    the keys move to the place of their leading digit
    sum_scattered   the keys of some leading digits are sorted, and equal keys become one
    unpack_part     the keys become rows

The *layout* of the keys is an array: the number of columns, the bits of a key, the bits after the
leading digit, and for each column its number, its least value, and its shift in the key. A part
whose weights are all 1 needs no array of weights.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel
from dbsp.kernels.packed_keys import radix_sort, sum_equal_keys, unpack_keys

LAYOUT = 3
"""How many numbers of a layout come before its columns."""

COLUMN = 3
"""How many numbers of a layout describe a column."""

DIGIT = 11
"""The most bits of a leading digit: the counts of its values fit the first cache."""

BLOCK = 1 << 10
"""So many rows are read column by column: they stay in the cache that is closest to the
processor."""


@kernel
def pack_part(rows: Rows, layout: Codes, keys: Codes, counts: Codes) -> None:
    """Write the key of each row, and add to the counts of the leading digits."""
    right = np.uint64(layout[2])
    for start in range(0, rows.shape[0], BLOCK):
        end = min(start + BLOCK, rows.shape[0])
        for i in range(start, end):
            keys[i] = 0
        for at in range(LAYOUT, LAYOUT + COLUMN * layout[0], COLUMN):
            column, low = layout[at], np.uint64(layout[at + 1])
            if layout[at + 2] < 64:
                place = np.uint64(layout[at + 2])
                for i in range(start, end):
                    keys[i] |= np.int64((np.uint64(rows[i, column]) - low) << place)
        for i in range(start, end):
            counts[np.int64(np.uint64(keys[i]) >> right)] += 1


@kernel
def scatter_keys(
    keys: Codes, weights: Codes, layout: Codes, places: Codes, keys_to: Codes, weights_to: Codes
) -> None:
    """Move each key, and its weight if there are any, to the next place of its leading digit."""
    right = np.uint64(layout[2])
    if weights.shape[0] == 0:
        for i in range(keys.shape[0]):
            digit = np.int64(np.uint64(keys[i]) >> right)
            keys_to[places[digit]] = keys[i]
            places[digit] += 1
        return
    for i in range(keys.shape[0]):
        digit = np.int64(np.uint64(keys[i]) >> right)
        keys_to[places[digit]] = keys[i]
        weights_to[places[digit]] = weights[i]
        places[digit] += 1


@kernel
def sum_scattered(
    keys: Codes, sums: Codes, weights: Codes, weights_to: Codes, ends: Codes, low_bits: int
) -> int:
    """Sort the keys, sum the weights of equal ones, and drop the zeros; return how many are left.

    ends[d] is where the keys with the d-th leading digit end, which are equal but for their low
    bits. The keys that are left are at the start of `keys`, and their sums at the start of `sums`;
    the weights are overwritten. No weights mean that all are 1. Raises OverflowError if a sum is
    outside int64.
    """
    units = weights.shape[0] == 0
    out = 0
    start = 0
    for d in range(ends.shape[0]):
        end = ends[d]
        if end == start:
            continue
        found, spare = keys[start:end], sums[start:end]
        given, given_to = weights[start:end], weights_to[start:end]
        if radix_sort(found, spare, given, given_to, not units, 0, low_bits):
            found, spare = spare, found
            given, given_to = given_to, given
        if units:
            given = spare
        left = sum_equal_keys(found, given, units, given)
        for i in range(left):
            # Both may be in the memory that is written.
            key, total = found[i], given[i]
            keys[out + i] = key
            sums[out + i] = total
        out += left
        start = end
    return out


@kernel
def unpack_part(keys: Codes, layout: Codes, rows: Rows) -> None:
    """Write the columns of the keys to the rows."""
    k = layout[0]
    low = np.empty(k, np.int64)
    shift = np.empty(k, np.int64)
    for c in range(k):
        low[c] = layout[LAYOUT + COLUMN * c + 1]
        shift[c] = layout[LAYOUT + COLUMN * c + 2]
    unpack_keys(keys, keys.shape[0], True, low, shift, layout[1], rows)
