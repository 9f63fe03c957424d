"""Rows of 32-bit codes, sorted in their own memory as packed keys.

    memory of n rows of three codes    a b c a b c a b c ...
    packed, from the start on          key key ... (8 bytes each)
    sorted                             key key ...
    unpacked, from the end on          a b c a b c a b c ...

A key has 8 bytes, and a row of at least two codes has no fewer. So a row is read before a key is
written over it, and a key before a row is.

The ranges of keys with one leading digit are divided in place (American flag sort, with independent
swaps), until a range fits the cache; then a radix sort sorts it. See `packed_parts` for layouts.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import codes_at, kernel
from dbsp.kernels.packed_keys import radix_sort
from dbsp.kernels.packed_parts import BLOCK, COLUMN, LAYOUT
from dbsp.kernels.run_search import compare_run_rows

DIGIT = 10
"""The most bits of a digit by which keys are divided: more places would not fit the cache."""


@kernel
def narrow_limits(word: int, rows: int, columns: Codes) -> Codes:
    """Return the minimum of each of these columns of narrow rows, and then the maximum of each.

    `columns` are all columns in some order, and `word` is the word of the rows in a run table.
    """
    codes = codes_at(word)
    k = columns.shape[0]
    limits = np.empty(2 * k, np.int64)
    for c in range(k):
        limits[c] = limits[k + c] = codes[columns[c]]
    for start in range(0, rows, BLOCK):
        for c in range(k):
            column = columns[c]
            low = limits[c]
            high = limits[k + c]
            for i in range(start, min(start + BLOCK, rows)):
                code = codes[i * k + column]
                low = min(low, code)
                high = max(high, code)
            limits[c] = low
            limits[k + c] = high
    return limits


@kernel
def pack_narrow(word: int, layout: Codes, keys: Codes) -> None:
    """Write the key of each narrow row over the rows.

    `word` is the word of the rows in a run table; `keys` is the start of their memory. A column of
    the layout names the column of the row, so that keys may have another order.
    """
    rows = codes_at(word)
    k = layout[0]
    block = np.empty(BLOCK, np.int64)
    for start in range(0, keys.shape[0], BLOCK):
        size = min(BLOCK, keys.shape[0] - start)
        for i in range(size):
            block[i] = 0
        for at in range(LAYOUT, LAYOUT + COLUMN * k, COLUMN):
            column, low = layout[at], layout[at + 1]
            if layout[at + 2] < 64:
                place = np.uint64(layout[at + 2])
                for i in range(size):
                    offset = np.uint64(rows[(start + i) * k + column] - low)
                    block[i] |= np.int64(offset << place)
        for i in range(size):
            keys[start + i] = block[i]


@kernel
def unpack_narrow(keys: Codes, layout: Codes, word: int) -> None:
    """Write the columns of each key over the keys, in the order of the layout: see
    `pack_narrow`."""
    rows = codes_at(word)
    k = layout[0]
    mask = np.empty(k, np.uint64)
    place = np.empty(k, np.uint64)
    low = np.empty(k, np.int64)
    end = layout[1]
    for c in range(k):
        at = LAYOUT + COLUMN * c
        low[c] = layout[at + 1]
        mask[c] = np.uint64(0)
        place[c] = np.uint64(0)
        if end > layout[at + 2]:
            mask[c] = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - (end - layout[at + 2]))
            place[c] = np.uint64(layout[at + 2])
        end = layout[at + 2]
    for step in range(keys.shape[0]):
        i = keys.shape[0] - 1 - step
        key = np.uint64(keys[i])
        for c in range(k):
            rows[i * k + c] = np.int64((key >> place[c]) & mask[c]) + low[c]


@kernel
def divide_keys(keys: Codes, right: int, bits: int, starts: Codes, ends: Codes) -> None:
    """Move the keys in place so that those with digit d end at ends[d], and digits are in order.

    The digit of a key is `bits` of its bits, which `right` bits follow. `starts` is overwritten.
    """
    shift = np.uint64(right)
    mask = np.uint64((1 << bits) - 1)
    digits = 1 << bits
    for d in range(digits):
        ends[d] = 0
    for i in range(keys.shape[0]):
        ends[np.int64((np.uint64(keys[i]) >> shift) & mask)] += 1
    total = 0
    for d in range(digits):
        starts[d] = total
        total += ends[d]
        ends[d] = total
    # Invariant: the keys of digit d before starts[d] are in their place.
    left = True
    while left:
        left = False
        for d in range(digits):
            for i in range(starts[d], ends[d]):
                key = keys[i]
                digit = np.int64((np.uint64(key) >> shift) & mask)
                place = starts[digit]
                starts[digit] = place + 1
                keys[i] = keys[place]
                keys[place] = key
            if starts[d] < ends[d]:
                left = True


@kernel
def sort_divided(keys: Codes, ends: Codes, low_bits: int, spare: Codes) -> None:
    """Sort keys in their own memory that are divided: those with the d-th digit end at ends[d].

    They are equal but for their low bits. Ranges that fit `spare` are sorted by it.
    """
    most = ends.shape[0] + (64 // DIGIT + 1) * (1 << DIGIT)
    waiting = np.empty((most, 3), np.int64)
    size = 0
    start = 0
    for d in range(ends.shape[0]):
        waiting[size, 0], waiting[size, 1], waiting[size, 2] = start, ends[d], low_bits
        size += 1
        start = ends[d]
    starts = np.empty(1 << DIGIT, np.int64)
    inner = np.empty(1 << DIGIT, np.int64)
    while size:
        size -= 1
        start, end, bits = waiting[size, 0], waiting[size, 1], waiting[size, 2]
        n = end - start
        if n < 2 or bits == 0:
            continue
        if n <= spare.shape[0]:
            found = keys[start:end]
            if radix_sort(found, spare[:n], spare, spare, False, 0, bits):
                for i in range(n):
                    found[i] = spare[i]
            continue
        digit = min(bits, DIGIT)
        divide_keys(keys[start:end], bits - digit, digit, starts, inner)
        before = start
        for d in range(1 << digit):
            waiting[size, 0], waiting[size, 1], waiting[size, 2] = before, start + inner[d], bits - digit
            size += 1
            before = start + inner[d]


@kernel
def count_different(word: int, k: int, rows: int) -> int:
    """Return the number of different rows among sorted narrow rows."""
    codes = codes_at(word)
    found = min(rows, 1)
    for i in range(1, rows):
        if compare_run_rows(codes, (i - 1) * k, codes, i * k, k) != 0:
            found += 1
    return found


@kernel
def sum_repeated(word: int, k: int, rows: int, counts: Codes) -> None:
    """Move the first of equal sorted narrow rows to the start, and write how many each has been."""
    codes = codes_at(word)
    out = 0
    start = 0
    for i in range(1, rows + 1):
        if i == rows or compare_run_rows(codes, start * k, codes, i * k, k) != 0:
            for c in range(k):
                codes[out * k + c] = codes[start * k + c]
            counts[out] = i - start
            out += 1
            start = i
