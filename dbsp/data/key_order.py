"""The permutation that sorts rows by several keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.kernels.arrays import Codes
from dbsp.parallel.range_sort import sort_sole

_FEW = 1 << 13
"""So few rows are sorted by NumPy: a short run need not load compiled kernels for a millisecond."""


def key_order(keys: Sequence[Codes] | Codes) -> Codes:
    """Return the stable permutation that sorts by the first key, then by the second, and so on.

    `keys` is int64[k, n] with k > 0, or a list of k arrays. As `numpy.lexsort`, whose last key is
    the first one here. Cost: O(n) for n rows, a tenth of the time of `lexsort` if the keys of a row
    and its number fit a word, a fifth of it otherwise.
    """
    size = len(keys[0])
    if size <= _FEW:
        return np.lexsort(keys[::-1])
    rows = np.empty((size, len(keys) + 1), np.int64)
    for place, key in enumerate(keys):
        rows[:, place] = key
    rows[:, -1] = np.arange(size)
    return np.ascontiguousarray(sort_sole(rows)[:, -1])
