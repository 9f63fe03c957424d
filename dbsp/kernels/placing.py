"""The hashes of rows by which they are placed on shards, and the split of a batch by shard.

The definition in docs/reference/file-formats.md is fixed: stored shards depend on it.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel


@kernel
def _mix(total: int, value: int) -> int:
    """Return the hash `total` continued by a value: the finaliser of splitmix64."""
    word = (np.uint64(total) ^ np.uint64(value)) + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(word ^ (word >> np.uint64(31)))  # type: ignore[return-value]


@kernel
def find_shards(rows: Rows, columns: Codes, hashes: Rows, shards: int) -> Codes:
    """Return the shard of each row, of fewer than 2^31 shards.

    A number c >= 0 in `columns` is a column of `rows`; -1 - c is the column c of `hashes`. The
    inner loops are over rows: the compiler makes instructions for several rows of them.
    """
    n = rows.shape[0]
    places = np.zeros(n, np.int64)
    for at in range(columns.shape[0]):
        column = columns[at]
        if column >= 0:
            for row in range(n):
                places[row] = _mix(places[row], rows[row, column])
        else:
            for row in range(n):
                places[row] = _mix(places[row], hashes[row, -1 - column])
    for row in range(n):
        high = np.uint64(places[row]) >> np.uint64(32)
        places[row] = np.int64((high * np.uint64(shards)) >> np.uint64(32))
    return places


@kernel
def split_rows(
    rows: Rows, weights: Codes, columns: Codes, hashes: Rows, shards: int
) -> tuple[Rows, Codes, Codes]:
    """Return rows and weights ordered by shard, and the end of each shard among them.

    The rows of a shard keep their order, so the part of a sorted batch is sorted. See `find_shards`
    for `columns` and `hashes`.
    """
    n, k = rows.shape
    places = find_shards(rows, columns, hashes, shards)
    ends = np.zeros(shards, np.int64)
    for row in range(n):
        ends[places[row]] += 1
    total = 0
    for shard in range(shards):
        size = ends[shard]
        ends[shard] = total
        total += size
    out_rows = np.empty((n, k), np.int64)
    out_weights = np.empty(n, np.int64)
    for row in range(n):
        at = ends[places[row]]
        for c in range(k):
            out_rows[at, c] = rows[row, c]
        out_weights[at] = weights[row]
        ends[places[row]] = at + 1
    return out_rows, out_weights, ends


@kernel
def hash_runs(starts: Codes, ends: Codes, values: Codes, earlier: Codes) -> Codes:
    """Return the hash of each run of values, which continues a number of `starts`.

    A run ends where `ends` says, and starts at the end of the run before it.

    A value with a number `earlier` >= 0 is replaced by the hash of that earlier run.
    """
    n = starts.shape[0]
    hashes = np.empty(n, np.int64)
    at = 0
    for run in range(n):
        total = starts[run]
        while at < ends[run]:
            total = _mix(total, hashes[earlier[at]] if earlier[at] >= 0 else values[at])
            at += 1
        hashes[run] = total
    return hashes
