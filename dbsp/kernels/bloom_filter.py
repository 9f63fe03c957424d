"""A Bloom filter of rows: it tells for most rows that no earlier row equals them.

Each row sets three bits in each of two words of one cache line (a blocked Bloom filter; Putze,
Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters", 2007). Rows that differ only in
the low bits of their last column share the line: the iterations of a recursion often visit
neighbours one after another.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows, Words
from dbsp.kernels.copies import first_codes
from dbsp.kernels.hashing import mix_columns
from dbsp.kernels.jit import kernel


@kernel
def _place(rows: Rows, i: int, k: int, lines: int) -> tuple[int, int, int, int]:
    """Return the two words of the first k columns of row i, and the bits of each.

    `lines` is one less than the number of cache lines of the filter.
    """
    mixed = mix_columns(rows, i, k - 1)
    last = np.uint64(rows[i, k - 1])
    line = (mixed ^ (last >> np.uint64(3))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ last) * np.uint64(0x94D049BB133111EB)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    # Use the high bits of the products: they depend on all bits of their factors.
    word = mixed >> np.uint64(61)
    other = word ^ (np.uint64(1) + ((mixed >> np.uint64(56)) & np.uint64(3)))
    start = ((line >> np.uint64(32)) & np.uint64(lines)) << np.uint64(3)
    bits = others = np.uint64(0)
    for place in range(16, 34, 6):
        bits |= np.uint64(1) << ((mixed >> np.uint64(place)) & np.uint64(63))
        others |= np.uint64(1) << ((mixed >> np.uint64(place + 18)) & np.uint64(63))
    return start | word, start | other, bits, others  # type: ignore[return-value]


@kernel
def may_have(rows: Rows, i: int, k: int, words: Words) -> bool:
    """Return whether the first k columns of row i may be in a filter. Each row in it may be."""
    word, other, bits, others = _place(rows, i, k, (words.shape[0] >> 3) - 1)
    return bool(words[word] & bits == bits and words[other] & others == others)


@kernel
def note_rows(rows: Rows, words: Words) -> Codes:
    """Add rows to a filter; return the positions of those that may have been in it before.

    The number of words is a power of two, at least 8. A row that was in the filter is always
    returned. Rows have a column at least. O(rows).
    """
    n, k = rows.shape
    lines = (words.shape[0] >> 3) - 1
    found = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        word, other, bits, others = _place(rows, i, k, lines)
        present = words[word] & bits == bits and words[other] & others == others
        words[word] |= bits
        words[other] |= others
        # Without a branch the processor reads the words of several rows at the same time.
        found[count] = i
        count += 1 if present else 0
    return first_codes(found, count, count)
