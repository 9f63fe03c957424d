"""Hashes of values: equal in every process and version, so that they can place rows on shards.

    shard(row) = h(row) mod n,    h(row) = mix(... mix(mix(0 xor h(v1)) xor h(v2)) ...)

over the chosen columns, with `mix` the finaliser of splitmix64. The hash of a column without
interned values is that of its code; the hash of an interned value is the XXH3 of its canonical
bytes. None has the hash of its code. The definition is fixed: stored shards depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xxhash

from dbsp.data.columns import decode_column
from dbsp.data.interner import Interner
from dbsp.data.types import Type
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL

VERSION = 1
"""The version of the definition, which files with shards name."""


class ValueHashes:
    """The hashes of the rows of one run."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner

    def shards(self, rows: Codes, columns: Sequence[int], types: Sequence[Type], shards: int) -> Codes:
        """Return the shard of each row by some of its columns; no columns mean shard 0. O(rows)."""
        if not columns or shards == 1:
            return np.zeros(len(rows), np.int64)
        total = np.zeros(len(rows), np.uint64)
        for column in columns:
            total = _mix(total ^ self._column(rows[:, column], types[column]))
        return (total % np.uint64(shards)).astype(np.int64)

    def _column(self, codes: Codes, type_: Type) -> Any:
        if not type_.interned:
            return _mix(codes.view(np.uint64) if codes.flags.c_contiguous else codes.astype(np.uint64))
        distinct, inverse = np.unique(codes, return_inverse=True)
        values = decode_column(type_.optional(), distinct, self._interner)
        hashes = [_hash(code, value) for code, value in zip(distinct.tolist(), values, strict=True)]
        return np.array(hashes, np.uint64)[inverse]


def _hash(code: int, value: Any) -> int:
    if code == NULL:
        return 0
    if type(value) is str:
        return xxhash.xxh3_64_intdigest(b"s" + value.encode("utf-8", "surrogatepass"))
    return xxhash.xxh3_64_intdigest(repr(value).encode("utf-8", "surrogatepass"))


def _mix(value: Any) -> Any:
    with np.errstate(over="ignore"):
        value = value + np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))
