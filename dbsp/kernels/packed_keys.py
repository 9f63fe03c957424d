"""Rows packed into words of 64 bits, which a radix sort sorts.

Words are unsigned; they are in int64 arrays, so that they may be in the memory of rows.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel
from dbsp.kernels.wide_sums import add_wide, fit_weight


@kernel
def bits_between(smallest: int, largest: int) -> int:
    """Return how many bits the differences of values to the smallest one take."""
    span = np.uint64(largest) - np.uint64(smallest)
    bits = 0
    while span != np.uint64(0):
        bits += 1
        span >>= np.uint64(1)
    return bits


@kernel
def plan_word(rows: Rows, columns: Codes) -> tuple[Codes, Codes, int]:
    """Lay the columns out in a word: (minimum, shift, bits); they do not fit if `bits` is above 64.

    Each column gets the bits that its value range needs, the last column the lowest ones.
    """
    n, k = rows.shape[0], columns.shape[0]
    low = np.empty(k, np.int64)
    shift = np.empty(k, np.int64)
    used = 0
    for place in range(k - 1, -1, -1):
        c = columns[place]
        smallest = rows[0, c]
        largest = rows[0, c]
        for i in range(1, n):
            value = rows[i, c]
            if value < smallest:
                smallest = value
            elif value > largest:
                largest = value
        low[place] = smallest
        shift[place] = used
        used += bits_between(smallest, largest)
        if used > 64:
            break
    return low, shift, used


@kernel
def pack_keys(rows: Rows, columns: Codes, low: Codes, shift: Codes, keys: Codes) -> None:
    """Write the word of each row to `keys`, which may be the start of the memory of `rows`."""
    n, k = rows.shape[0], columns.shape[0]
    for i in range(n):
        key = np.uint64(0)
        for c in range(k):
            if shift[c] < 64:
                key |= (np.uint64(rows[i, columns[c]]) - np.uint64(low[c])) << np.uint64(shift[c])
        keys[i] = np.int64(key)


@kernel
def radix_sort(
    keys: Codes, keys_to: Codes, payload: Codes, payload_to: Codes, with_payload: bool, skip: int, bits: int
) -> bool:
    """Sort (keys, payload), stably, by the low `bits` of the keys but the lowest `skip` ones.

    Returns whether the result is in (keys_to, payload_to); both pairs are overwritten.
    """
    n = keys.shape[0]
    digit = 8 if n < 8192 else 11
    # Passes over digits of equal size: fewer counts, with the same number of passes.
    passes = (bits - skip + digit - 1) // digit
    if passes > 0:
        digit = (bits - skip + passes - 1) // passes
    radix = 1 << digit
    mask = np.uint64(radix - 1)
    count = np.empty(radix, np.int64)
    moved = False
    for low in range(skip, bits, digit):
        s = np.uint64(low)
        count[:] = 0
        for i in range(n):
            count[np.int64((np.uint64(keys[i]) >> s) & mask)] += 1
        total = 0
        for d in range(radix):
            size = count[d]
            count[d] = total
            total += size
        if with_payload:
            for i in range(n):
                bucket = np.int64((np.uint64(keys[i]) >> s) & mask)
                keys_to[count[bucket]] = keys[i]
                payload_to[count[bucket]] = payload[i]
                count[bucket] += 1
            payload, payload_to = payload_to, payload
        else:
            for i in range(n):
                bucket = np.int64((np.uint64(keys[i]) >> s) & mask)
                keys_to[count[bucket]] = keys[i]
                count[bucket] += 1
        keys, keys_to = keys_to, keys
        moved = not moved
    return moved


@kernel
def sum_equal_keys(keys: Codes, weights: Codes, units: bool, sums: Codes) -> int:
    """Sum the weights of equal neighbours in `keys` into `sums`, drop the zeros.

    Returns the number of keys. `sums` may be `weights`; with `units`, all weights are 1.
    """
    n = keys.shape[0]
    out = 0
    i = 0
    while i < n:
        j = i + 1
        if units:
            while j < n and keys[j] == keys[i]:
                j += 1
            total = j - i
        else:
            total = weights[i]
            if j < n and keys[j] == keys[i]:
                high = total >> 63
                while j < n and keys[j] == keys[i]:
                    high, total = add_wide(high, total, weights[j])
                    j += 1
                total = fit_weight(high, total)
        if total != 0:
            keys[out] = keys[i]
            sums[out] = total
            out += 1
        i = j
    return out


@kernel
def unpack_keys(
    keys: Codes, size: int, forward: bool, low: Codes, shift: Codes, bits: int, rows: Rows
) -> None:
    """Write the columns of one-word keys to the first rows.

    The keys may be in the memory of all the rows: at its end to go forward, at its start to go
    backward. Then no key is overwritten before it is read.
    """
    k = rows.shape[1]
    mask = np.empty(k, np.uint64)
    place = np.empty(k, np.uint64)
    for c in range(k):
        column_bits = (bits if c == 0 else shift[c - 1]) - shift[c]
        mask[c] = np.uint64(0)
        place[c] = np.uint64(0)
        if column_bits > 0:
            mask[c] = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - column_bits)
            place[c] = np.uint64(shift[c])
    for step in range(size):
        i = step if forward else size - 1 - step
        key = np.uint64(keys[i])
        for c in range(k):
            rows[i, c] = np.int64(((key >> place[c]) & mask[c]) + np.uint64(low[c]))
