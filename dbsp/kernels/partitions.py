"""Classes of an equivalence relation, and choices of rows that exclude each other."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Mask, Rows
from dbsp.kernels.jit import kernel


@kernel
def least_members(pairs: Rows, size: int) -> Codes:
    """Return for each number below `size` the least one that the pairs int64[n, 2] connect to it.

    Union-find with path halving, O(n log size): the larger root becomes a child of the smaller one.
    """
    parent = np.arange(size)
    for i in range(len(pairs)):
        a, b = pairs[i, 0], pairs[i, 1]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a < b:
            parent[b] = a
        elif b < a:
            parent[a] = b
    for x in range(size):  # a parent is never larger, so its root is final
        parent[x] = parent[parent[x]]
    return parent


@kernel
def first_of_each(numbers: Rows) -> Mask:
    """Select rows in order, such that no two selected rows agree in a column: bool[n].

    Each column of `numbers` int64[n, k] numbers its values 0, 1, ... O(n k).
    """
    n, k = numbers.shape
    most = 0
    for i in range(n):
        for c in range(k):
            most = max(most, numbers[i, c])
    taken = np.zeros((k, most + 1), np.bool_)
    chosen = np.zeros(n, np.bool_)
    for i in range(n):
        free = True
        for c in range(k):
            if taken[c, numbers[i, c]]:
                free = False
        if free:
            chosen[i] = True
            for c in range(k):
                taken[c, numbers[i, c]] = True
    return chosen
