"""Sorting and consolidation of rows: the canonical form of a Z-set.

Rows are packed into as few 64-bit words as their value ranges allow, and a least-significant-digit
radix sort sorts the words. Most relations (ids of a few million) fit one word; then no rows are
moved, since the sorted keys are unpacked again.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows, Words
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.jit import add_weights, kernel
from dbsp.kernels.limits import INT64_MIN
from dbsp.kernels.wide_sums import add_wide, fit_weight

_SMALL = 48  # up to this size an insertion sort is faster than the packed sort


@kernel
def compare_rows(a: Rows, i: int, b: Rows, j: int, k: int) -> int:
    """Return -1, 0 or 1: whether k columns of row a[i] sort before, with or after b[j]."""
    for c in range(k):
        if a[i, c] != b[j, c]:
            return -1 if a[i, c] < b[j, c] else 1
    return 0


@kernel
def _is_sorted(rows: Rows) -> bool:
    for i in range(1, rows.shape[0]):  # noqa: SIM110  (a generator does not compile)
        if compare_rows(rows, i - 1, rows, i, rows.shape[1]) > 0:
            return False
    return True


@kernel
def _plan_words(rows: Rows) -> tuple[Codes, Codes, Codes, Codes, int]:
    """Lay the columns out in words: (minimum, shift, word per column, bits per word, words).

    Word 0 is the least significant. Each column gets the bits that its value range needs.
    """
    n, k = rows.shape
    low = np.empty(k, np.int64)
    shift = np.empty(k, np.int64)
    word = np.empty(k, np.int64)
    used = np.zeros(k, np.int64)
    words = 0
    for c in range(k - 1, -1, -1):
        smallest = rows[0, c]
        largest = rows[0, c]
        for i in range(1, n):
            value = rows[i, c]
            if value < smallest:
                smallest = value
            elif value > largest:
                largest = value
        span = np.uint64(largest) - np.uint64(smallest)
        bits = 0
        while span != np.uint64(0):
            bits += 1
            span >>= np.uint64(1)
        if used[words] + bits > 64:
            words += 1
        low[c] = smallest
        shift[c] = used[words]
        word[c] = words
        used[words] += bits
    return low, shift, word, used, words + 1


@kernel
def _pack(rows: Rows, low: Codes, shift: Codes, word: Codes, at_word: int) -> Words:
    n, k = rows.shape
    keys = np.zeros(n, np.uint64)
    for c in range(k):
        if word[c] == at_word and shift[c] < 64:
            s = np.uint64(shift[c])
            base = np.uint64(low[c])
            for i in range(n):
                keys[i] |= (np.uint64(rows[i, c]) - base) << s
    return keys


@kernel
def _radix_sort(keys: Words, payload: Codes, with_payload: bool, bits: int) -> tuple[Words, Codes]:
    """Sort (keys, payload), stably, by the low `bits` of the keys; may overwrite its arguments."""
    n = keys.shape[0]
    digit = 8 if n < 8192 else 11
    radix = 1 << digit
    mask = np.uint64(radix - 1)
    keys_to = np.empty(n, np.uint64)
    payload_to = np.empty(n if with_payload else 0, np.int64)
    count = np.empty(radix, np.int64)
    for low in range(0, bits, digit):
        s = np.uint64(low)
        count[:] = 0
        for i in range(n):
            count[np.int64((keys[i] >> s) & mask)] += 1
        total = 0
        for d in range(radix):
            size = count[d]
            count[d] = total
            total += size
        if with_payload:
            for i in range(n):
                bucket = np.int64((keys[i] >> s) & mask)
                keys_to[count[bucket]] = keys[i]
                payload_to[count[bucket]] = payload[i]
                count[bucket] += 1
            keys, keys_to = keys_to, keys
            payload, payload_to = payload_to, payload
        else:
            for i in range(n):
                bucket = np.int64((keys[i] >> s) & mask)
                keys_to[count[bucket]] = keys[i]
                count[bucket] += 1
            keys, keys_to = keys_to, keys
    return keys, payload


@kernel
def _sort_order(rows: Rows) -> Codes:
    """Return the stable permutation that sorts the rows lexicographically."""
    n, k = rows.shape
    order = np.arange(n)
    if n <= _SMALL:
        for i in range(1, n):
            row = order[i]
            j = i - 1
            while j >= 0 and compare_rows(rows, order[j], rows, row, k) > 0:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = row
        return order
    low, shift, word, used, words = _plan_words(rows)
    for at_word in range(words):
        packed = _pack(rows, low, shift, word, at_word)
        keys = packed[order] if at_word else packed
        _, order = _radix_sort(keys, order, True, used[at_word])
    return order


@kernel
def _consolidate_sorted(rows: Rows, weights: Codes) -> tuple[Rows, Codes]:
    n, k = rows.shape
    out = 0
    out_rows = np.empty((n, k), np.int64)
    out_weights = np.empty(n, np.int64)
    i = 0
    while i < n:
        total = weights[i]
        j = i + 1
        if j < n and compare_rows(rows, i, rows, j, k) == 0:
            high = total >> 63
            while j < n and compare_rows(rows, i, rows, j, k) == 0:
                high, total = add_wide(high, total, weights[j])
                j += 1
            total = fit_weight(high, total)
        if total != 0:
            for c in range(k):
                out_rows[out, c] = rows[i, c]
            out_weights[out] = total
            out += 1
        i = j
    if out < n:
        return first_rows(out_rows, out, out), first_codes(out_weights, out, out)
    return out_rows, out_weights


@kernel
def _consolidate_packed(rows: Rows, weights: Codes) -> tuple[Rows, Codes]:
    """Consolidate through one-word keys, or by a permutation if the rows need more words."""
    n, k = rows.shape
    low, shift, word, used, words = _plan_words(rows)
    if words > 1:
        order = _sort_order(rows)
        sorted_rows = np.empty((n, k), np.int64)
        for i in range(n):
            for c in range(k):
                sorted_rows[i, c] = rows[order[i], c]
        return _consolidate_sorted(sorted_rows, weights[order])
    keys = _pack(rows, low, shift, word, 0)
    units = True
    for i in range(n):
        if weights[i] != 1:
            units = False
            break
    keys, payload = _radix_sort(keys, weights.copy(), not units, used[0])
    # First pass: sum equal keys in place, so that the result is allocated with its final size.
    out = 0
    sums = np.empty(n, np.int64) if units else payload
    i = 0
    while i < n:
        j = i + 1
        if units:
            while j < n and keys[j] == keys[i]:
                j += 1
            total = j - i
        else:
            total = payload[i]
            if j < n and keys[j] == keys[i]:
                high = total >> 63
                while j < n and keys[j] == keys[i]:
                    high, total = add_wide(high, total, payload[j])
                    j += 1
                total = fit_weight(high, total)
        if total != 0:
            keys[out] = keys[i]
            sums[out] = total
            out += 1
        i = j
    out_rows = np.empty((out, k), np.int64)
    for c in range(k):
        bits = used[0] if c == 0 else shift[c - 1]
        bits -= shift[c]
        base = np.uint64(low[c])
        if bits == 0:
            for i in range(out):
                out_rows[i, c] = low[c]
        else:
            s = np.uint64(shift[c])
            mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - bits)
            for i in range(out):
                out_rows[i, c] = np.int64(((keys[i] >> s) & mask) + base)
    return out_rows, first_codes(sums, out, out)


@kernel
def consolidate(rows: Rows, weights: Codes) -> tuple[Rows, Codes]:
    """Sort the rows, sum the weights of equal rows and drop the zeros.

    rows int64[n, k] in any order, weights int64[n]; returns the canonical pair in new arrays. O(n)
    per 8 or 11 bits of the packed row. Raises OverflowError if a weight is outside int64.
    """
    n, k = rows.shape
    if k == 0:
        high = total = 0
        for i in range(n):
            high, total = add_wide(high, total, weights[i])
        total = fit_weight(high, total)
        size = 1 if total != 0 else 0
        return np.empty((size, 0), np.int64), np.full(size, total)
    if _is_sorted(rows):
        return _consolidate_sorted(rows, weights)
    if n <= _SMALL:
        order = _sort_order(rows)
        sorted_rows = np.empty((n, k), np.int64)
        sorted_weights = np.empty(n, np.int64)
        for i in range(n):
            sorted_weights[i] = weights[order[i]]
            for c in range(k):
                sorted_rows[i, c] = rows[order[i], c]
        return _consolidate_sorted(sorted_rows, sorted_weights)
    return _consolidate_packed(rows, weights)


@kernel
def project(rows: Rows, weights: Codes, columns: Codes) -> tuple[Rows, Codes]:
    """Return the given columns, in that order, consolidated (a bag projection)."""
    n, k = rows.shape[0], columns.shape[0]
    picked = np.empty((n, k), np.int64)
    for i in range(n):
        for c in range(k):
            picked[i, c] = rows[i, columns[c]]
    return consolidate(picked, weights)


@kernel
def concatenate(
    a_rows: Rows, a_weights: Codes, b_rows: Rows, b_weights: Codes, sign: int
) -> tuple[Rows, Codes]:
    """Return a + sign * b for two consolidated Z-sets, by one merge; sign is 1 or -1."""
    n, m = a_rows.shape[0], b_rows.shape[0]
    k = a_rows.shape[1]
    out_rows = np.empty((n + m, k), np.int64)
    out_weights = np.empty(n + m, np.int64)
    i = j = out = 0
    while i < n or j < m:
        order = 1 if i == n else -1 if j == m else compare_rows(a_rows, i, b_rows, j, k)
        if order < 0:
            for c in range(k):
                out_rows[out, c] = a_rows[i, c]
            out_weights[out] = a_weights[i]
            i += 1
            out += 1
            continue
        if sign < 0 and b_weights[j] == INT64_MIN:
            raise OverflowError("weight: the negation of a weight is outside the 64-bit range")
        total = sign * b_weights[j]
        if order == 0:
            total = add_weights(a_weights[i], total)
            i += 1
        if total != 0:
            for c in range(k):
                out_rows[out, c] = b_rows[j, c]
            out_weights[out] = total
            out += 1
        j += 1
    if out < n + m:
        return first_rows(out_rows, out, out), first_codes(out_weights, out, out)
    return out_rows, out_weights


@kernel
def arrange(rows: Rows, weights: Codes, order: Codes) -> tuple[Rows, Codes]:
    """Return the rows with their columns permuted by `order`, sorted again."""
    n, k = rows.shape[0], order.shape[0]
    permuted = np.empty((n, k), np.int64)
    for i in range(n):
        for c in range(k):
            permuted[i, c] = rows[i, order[c]]
    if n > 1:
        return consolidate(permuted, weights)
    return permuted, weights


@kernel
def with_time(rows: Rows, time: Codes) -> Rows:
    """Return the rows followed by `time`: the iterations of the nested scopes, outermost first."""
    n, k = rows.shape
    depth = time.shape[0]
    timed = np.empty((n, k + depth), np.int64)
    for i in range(n):
        for c in range(k):
            timed[i, c] = rows[i, c]
        for d in range(depth):
            timed[i, k + d] = time[d]
    return timed
