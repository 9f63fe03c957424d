"""Joins of a large delta that add up equal pairs by groups (see `dbsp.kernels.grouped_pairs`).

    delta by key  ->  parts by the hash of the output columns  ->  the sum of the pairs of each part

Rows of a group are in one part, so equal pairs meet in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from dbsp import kernels
from dbsp.kernels.arrays import Codes
from dbsp.kernels.thread_count import threads
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel import probe_pieces

T = TypeVar("T")

FEW = 1 << 10
"""The pairs of fewer delta rows are listed one by one: samples would take too much of the time."""

SHARE = 4
"""Pairs may be added up if they are this many times as many as the rows of both sides."""

REPEATED = 2
"""They are if they are this many times as many as the different ones."""

BLOCK = 1 << 6
"""A sample for the number of pairs has so many neighbours: a key with many rows has many there."""

BLOCKS = 4
"""The number of these samples. One of them with many pairs is enough."""

SAMPLED = 32
"""The sample of different pairs has the groups with one of so many hashes."""

_NO_HASHES = np.empty((0, 0), np.int64)


def grouped_delta(
    arguments: Callable[[slice], Sequence[Any]],
    size: int,
    table: Codes,
    runs: int,
    width: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Codes, Codes, int] | None:
    """Return a delta of `size` rows if its pairs are many and most are repeated, else None.

    The results of `arguments` are the rows, the weights and the key of a part of the delta, which
    is sorted by the key, as is the result. The others are the arguments of `join_by_groups`.
    """
    for start in range(0, size, max(BLOCK, size // BLOCKS)):
        block, _, key = arguments(slice(start, start + BLOCK))
        if kernels.has_many_pairs(block, key, table, runs, width, SHARE):
            break
    else:
        return None
    rows, weights, key = arguments(slice(0, size))
    hashes = kernels.find_shards(rows, columns[columns >= 0], _NO_HASHES, SAMPLED)
    chosen = np.flatnonzero(hashes == hashes[0])
    if len(chosen) * REPEATED > size:
        return rows, weights, key  # few groups, each with many rows
    found = kernels.join_by_groups(
        rows.take(chosen, 0), weights.take(chosen), key, table, runs, width, columns, now, coordinates
    )
    return (rows, weights, key) if REPEATED * len(found[1]) <= found[-1] else None


def in_groups(rows: Codes, weights: Codes, columns: Codes, function: Callable[[Codes, Codes], T]) -> list[T]:
    """Return the results of a function of parts of a delta, one for each thread if it is large.

    Each part is sorted as the delta is, and has all rows with the values of its rows in `columns`.
    """
    parts = threads() if len(weights) >= probe_pieces.LARGE else 1
    if parts == 1 or not len(columns):
        return [function(rows, weights)]
    rows, weights, ends = kernels.split_rows(rows, weights, columns, _NO_HASHES, parts)
    starts = [0, *ends.tolist()]

    def of_part(part: int) -> T:
        place = slice(starts[part], starts[part + 1])
        return function(rows[place], weights[place])

    return in_pieces(parts, of_part)
