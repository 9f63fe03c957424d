"""Sample: a fixed part of the rows, chosen by a hash of the row.

    sample(s)(x) = s(x) if hash(seed, x[columns]) < fraction * 2^64 else 0

Linear: its own incremental form, because the choice depends on the row alone; so a retraction
always meets its insertion. The hash is over values, not over codes and not Python's `hash`, so a
seed selects the same rows in every run and on every machine. Cost: O(|delta|); each string and
object is hashed once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dbsp.circuit.field_ranges import COLUMN, FRACTION, ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.object_hashes import GOLDEN, mix_words
from dbsp.data.schema import Schema
from dbsp.errors import full_repr
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.filter import filter_rows

Hashes: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Sample(Operator):
    """The rows whose hash over `columns` is in the lowest `fraction` of all hashes."""

    input_counts = ONE_INPUT

    fraction: float = field(metadata=FRACTION)
    seed: int
    columns: tuple[int, ...] = field(metadata=COLUMN)

    @property
    def label(self) -> str:
        return f"Sample {self.fraction:g}"

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        if self.fraction >= 1.0:
            return lambda batch: batch
        limit = np.uint64(int(self.fraction * 2.0**64))
        hashes = RowHashes(inputs[0], self.columns, self.seed, interner)
        return lambda batch: filter_rows(batch, hashes.of(batch.rows) < limit)


class RowHashes:
    """Computes 64-bit hashes of rows by value, over some of their columns."""

    def __init__(self, schema: Schema, columns: tuple[int, ...], seed: int, interner: Interner) -> None:
        self._columns = [(column, schema.types[column].interned) for column in columns]
        self._start = np.uint64(seed % 2**64)
        self._interner = interner
        self._by_id: dict[int, int] = {NULL: 0}

    def of(self, rows: Codes) -> Hashes:
        """One hash for each of the rows, uint64[n]."""
        with np.errstate(over="ignore"):
            result = mix_words(np.full(len(rows), self._start, np.uint64))
            for column, interned in self._columns:
                values = self._of_ids(rows[:, column]) if interned else rows[:, column].astype(np.uint64)
                result = mix_words((result + GOLDEN) ^ mix_words(values + GOLDEN))
        return result

    def _of_ids(self, ids: Codes) -> Hashes:
        known, find = self._by_id, self._interner.decode
        hashes = []
        for id in ids.tolist():
            found = known.get(id)
            if found is None:
                found = known[id] = value_hash(find(id))
            hashes.append(found)
        return np.array(hashes, np.uint64)


def value_hash(value: Any) -> int:
    """64 bits of BLAKE2b over the class and the content of a value; the same on every machine.

    Objects of unknown classes are hashed by their `repr`.
    """
    return int.from_bytes(hashlib.blake2b(_content(value), digest_size=8).digest(), "little")


def _content(value: Any) -> bytes:
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, tuple):
        return b"t" + b"".join(_framed(_content(element)) for element in value)
    if isinstance(value, frozenset):
        return b"f" + b"".join(sorted(_framed(_content(element)) for element in value))
    return b"o" + f"{type(value).__name__} {full_repr(value)}".encode("utf-8", "surrogatepass")


def _framed(content: bytes) -> bytes:
    """The content after its length, so that different tuples have different contents."""
    return struct.pack("<q", len(content)) + content
