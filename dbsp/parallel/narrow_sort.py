"""Rows of 32-bit codes, sorted in their own memory by several threads.

    rows  ->  packed keys  ->  keys by leading digit  ->  digits sorted one by one  ->  rows

All steps are in the memory of the rows (`dbsp.kernels.narrow_keys`), so a sort needs a constant
beside them. One thread packs, divides and unpacks the keys; several threads sort the digits.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels import divide_keys, narrow_limits, pack_narrow, sort_divided, unpack_narrow
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.narrow_keys import DIGIT
from dbsp.kernels.run_tables import run_entry
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel.packed_part import layout_of
from dbsp.parallel.packed_sum import digit_ranges

CACHED = 1 << 15
"""So many keys are sorted in the cache of the processor."""

_CODES = np.empty(0, np.int64)
_INT64 = np.dtype(np.int64)


def sort_narrow(rows: StoredRows, columns: Codes) -> bool:
    """Sort int32 rows in their own memory, by these columns, which become their columns.

    `columns` are all columns in some order. Nobody else may read the rows, and 4 bytes before them
    must be readable. Returns False, and changes nothing, if a row does not fit into 64 bits.
    O(rows) per 11 bits of a row.
    """
    size, width = rows.shape
    if width == 1:
        rows.sort(axis=0)
        return True
    word, _, _ = run_entry(rows, _CODES)
    limits = narrow_limits(word, size, columns).reshape(1, 2, width)
    layout = layout_of(limits, DIGIT)
    if layout is None:
        return False
    layout[3::3] = columns[layout[3::3]]
    keys = rows.reshape(-1)[: 2 * size].view(_INT64)
    pack_narrow(word, layout, keys)
    used, low_bits = int(layout[1]), int(layout[2])
    if size <= CACHED:
        sort_divided(keys, np.array([size]), used, np.empty(size, np.int64))
    else:
        ends = np.empty(1 << (used - low_bits), np.int64)
        divide_keys(keys, low_bits, used - low_bits, np.empty_like(ends), ends)
        ranges = digit_ranges(ends.tolist())

        def sort(piece: int) -> None:
            start, ends = ranges[piece]
            sort_divided(keys[start : ends[-1]], np.array(ends) - start, low_bits, np.empty(CACHED, np.int64))

        in_pieces(len(ranges), sort)
    unpack_narrow(keys, layout, word)
    return True
