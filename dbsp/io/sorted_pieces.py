"""The rows of a Z-set sorted by value, in pieces: writing them takes the memory of one piece."""

from __future__ import annotations

from collections.abc import Iterator

from dbsp.data.value_order import value_order
from dbsp.data.zset import ZSet
from dbsp.kernels.arrays import Codes


def sorted_pieces(zset: ZSet, size: int) -> Iterator[Codes]:
    """Yield the codes of the rows, int64[up to `size`, arity], sorted by value (None first).

    Cost: O(n log n) for n rows, O(n) if the order of the codes is that of the values.
    """
    rows = zset.stored.rows
    order = value_order(zset.schema, rows, zset.interner)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        yield rows[part] if order is None else rows.take(order[part], 0)
