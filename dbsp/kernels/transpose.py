"""Sort narrow pairs by a column with few values, if they are sorted by the other one.

The rows that a closure derives are sorted by the column that it carries, and then by the one that
changes; an arrangement by the latter has it first. As for the transposition of a sparse matrix, the
rows of each value are counted, and then each row is written where those of its value end so far. A
pair of int32 is one word of memory, which is read and written at once.
Method: Gustavson, Two fast algorithms for sparse matrices, ACM TOMS 4, 1978, section 2.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Rows
from dbsp.kernels.jit import at_address, kernel
from dbsp.kernels.run_search import code_of_pair, weights_at


@kernel
def transpose_pairs(table: Rows, column: int, most: int) -> bool:
    """Write the narrow pairs of two runs with this column first, sorted; the other one is second.

    Each run of the run table is sorted by the other column; if one is empty, it is enough that the
    pairs of each value in the other one are. No pair is in both, and at least one is in one. The
    third entry has room for all pairs and their weights; the address of its weights may be 0, then
    none are written. Returns False, without a result, if this column has a range of more than
    `most` values. O(rows + most).
    """
    other = 1 - column
    a, b, out = at_address(table[0, 0] - 1), at_address(table[1, 0] - 1), at_address(table[2, 0] - 1)
    n, m = table[0, 2], table[1, 2]
    low, high = 2**31, -(2**31) - 1
    for i in range(n):
        value = code_of_pair(a[i], column)
        low, high = min(low, value), max(high, value)
    for j in range(m):
        value = code_of_pair(b[j], column)
        low, high = min(low, value), max(high, value)
    if high - low >= most:
        return False
    places = np.zeros(high - low + 2, np.int64)
    for i in range(n):
        places[code_of_pair(a[i], column) - low + 1] += 1
    for j in range(m):
        places[code_of_pair(b[j], column) - low + 1] += 1
    for place in range(high - low + 1):
        places[place + 1] += places[place]
    a_weights, a_mask = weights_at(table[0, 1])
    b_weights, b_mask = weights_at(table[1, 1])
    weighted = table[2, 1] != 0
    out_weights = at_address(table[2, 1])
    i = j = 0
    while i < n or j < m:
        if j == m or (i < n and code_of_pair(a[i], other) <= code_of_pair(b[j], other)):
            pair, weight = a[i], a_weights[i & a_mask]
            i += 1
        else:
            pair, weight = b[j], b_weights[j & b_mask]
            j += 1
        value = code_of_pair(pair, column) - low
        place = places[value]
        places[value] = place + 1
        out[place] = (code_of_pair(pair, other) << 32) | (code_of_pair(pair, column) & 0xFFFFFFFF)
        if weighted:
            out_weights[place] = weight
    return True
