"""Hashes of values: equal in every process and version, so that they can place rows on shards.

    hash(s; v1, ..., vk) = mix(... mix(mix(s, v1), v2) ..., vk)
    shard of a row       = (upper 32 bits of hash(0; its columns)) * shards / 2^32, rounded down

where the value of a column without interned values is its code, that of None is the code of None,
and that of an interned value is a hash of its content. Columns that a join or a union may bring
together have equal codes, whether they are nullable or not, so equal values are on one shard.

docs/reference/file-formats.md has the whole definition, which is fixed: stored shards depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xxhash

from dbsp.data.batch import Batch
from dbsp.data.id_places import distinct_ids
from dbsp.data.interner import Interner
from dbsp.data.nested_values import list_elements, struct_layout
from dbsp.data.object_hashes import NAME, TupleHashes, object_hash, text_hash
from dbsp.data.record_parts import Kind, RecordMarks, missing_records
from dbsp.data.types import Structure, Type
from dbsp.errors import InvariantError
from dbsp.kernels import find_shards, hash_runs, split_rows
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.limits import NULL

VERSION = 1
"""The version of the definition, which files with shards name."""

_LIST, _STRUCT = 1, 2
"""The starts of the hashes of lists and structs; `dbsp.data.object_hashes` has those after them."""
_NEW = 0
"""In the place of the hash of a value that was not computed yet."""


class ValueHashes:
    """The hashes of the rows of one run.

    The interner keeps the hashes of its values, so all that hash values of one interner share them.
    """

    def __init__(self, interner: Interner) -> None:
        self._interner = interner

    def shards(self, rows: Codes, columns: Sequence[int], types: Sequence[Type], shards: int) -> Codes:
        """Return the shard of each row by some of its columns; no columns mean shard 0.

        O(rows), and O(size) for each new value.
        """
        if not columns or shards == 1:
            return np.zeros(len(rows), np.int64)
        return find_shards(rows, *self._sources(rows, columns, types), shards)

    def split(
        self, batch: Batch, columns: Sequence[int], types: Sequence[Type], shards: int
    ) -> list[Batch | None]:
        """Return the rows of each shard, None for no rows. The cost is that of `shards`."""
        if not columns or shards == 1:
            return [batch if len(batch) else None, *[None] * (shards - 1)]
        rows, weights, ends = split_rows(
            batch.rows, batch.weights, *self._sources(batch.rows, columns, types), shards
        )
        parts: list[Batch | None] = []
        start = 0
        for end in ends.tolist():
            parts.append(Batch(rows[start:end], weights[start:end]) if end > start else None)
            start = end
        return parts

    def column(self, codes: Codes, type_: Type) -> Codes:
        """Return the value of each code of a column, for a hash of rows."""
        if not type_.interned:
            return codes
        present = codes >= 0  # the others are NULL, and NIL, which is None as well
        ids = codes if present.all() else codes[present]
        places = self._interner.places.of(ids)
        if len(places) and (places.min() < 0 or places.max() >= len(self._interner)):
            raise InvariantError(f"expected ids of values in a column of type {type_}, got other codes")
        hashes = self._hashes(type_.id_space)[places]
        new = hashes == _NEW
        if new.any():
            self._add(distinct_ids(ids[new]), type_)
            hashes = self._hashes(type_.id_space)[places]
        if ids is codes:
            return hashes
        result = np.full(len(codes), NULL, np.int64)
        result[present] = hashes
        return result

    def _sources(self, rows: Codes, columns: Sequence[int], types: Sequence[Type]) -> tuple[Codes, Rows]:
        """Return where the values of the columns are: in a column of the rows, or hashed."""
        sources, hashed = [], []
        for column in columns:
            if types[column].interned:
                hashed.append(self.column(rows[:, column], types[column]))
                sources.append(-len(hashed))
            else:
                sources.append(column)
        hashes = np.empty((len(rows) if hashed else 0, len(hashed)), np.int64)
        for at, column_hashes in enumerate(hashed):
            hashes[:, at] = column_hashes
        return np.array(sources, np.int64), hashes

    # --- interned values --------------------------------------------------------------------------

    def _hashes(self, space: str) -> Codes:
        """Return the hashes of the values of a space by place, with room for all of them."""
        known, count = self._interner.hashes.get(space), len(self._interner)
        if known is None or len(known) < count:
            grown = np.full(2 * count, _NEW, np.int64)
            if known is not None:
                grown[: len(known)] = known
            known = self._interner.hashes[space] = grown
        return known

    def _add(self, ids: Codes, type_: Type) -> None:
        """Compute the hashes of values, each of them once."""
        interner = self._interner
        if type_.structure is not None:
            self._add_records(ids, type_.structure)
            return
        if type_.kind == "struct":
            rows = interner.cells.rows(struct_layout(type_), ids)
            for at, part in enumerate(type_.parts):
                rows[:, at] = self.column(rows[:, at], part.type)
            hashes = _runs(np.full(len(ids), _STRUCT), np.full(len(ids), len(type_.parts)), rows)
        elif type_.kind == "list":
            elements, lengths = list_elements(ids, interner)
            starts = _runs(np.full(len(ids), _LIST), np.ones(len(ids), np.int64), lengths)
            hashes = _runs(starts, lengths, self.column(elements, type_.element))
        else:
            hashes = self._plain(ids)
        self._hashes(type_.id_space)[interner.places.of(ids)] = hashes

    def _plain(self, ids: Codes) -> Codes:
        values = self._interner.decode_many(ids)
        if set(map(type, values)) == {str}:
            try:
                texts = list(map(str.encode, values))
            except UnicodeEncodeError:
                texts = [value.encode("utf-8", "surrogatepass") for value in values]
            hashes: Iterable[int] = map(xxhash.xxh3_64_intdigest, texts)
        else:
            known = _KeptHashes(self._interner, self._hashes(""))
            hashes = (object_hash(value, known) for value in values)
        return np.fromiter(hashes, np.uint64, len(values)).view(np.int64)

    def _add_records(self, ids: Codes, structure: Structure) -> None:
        """Compute the hashes of constructed values, those of their parts first: ids ascend."""
        places = self._interner.places
        marks = RecordMarks(lambda each: self._hashes(each.text) != _NEW)
        groups = list(missing_records(self._interner, structure, ids, marks))
        members = np.concatenate([part for _, part in groups])
        sizes = [len(part) for _, part in groups]
        widths = np.repeat([len(_fields(kind)) for kind, _ in groups], sizes)
        names = [text_hash(kind[0].constructors[kind[1]].name, NAME) for kind, _ in groups]
        order = np.argsort(members, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ends = np.cumsum(widths[order])
        values = np.empty(int(widths.sum()), np.int64)
        earlier = np.full(len(values), -1, np.int64)
        ranks = np.split(rank, np.cumsum(sizes)[:-1])
        numbers: dict[str, Codes] = {}
        """By structure, the number of each value among those to hash, by place."""
        for (kind, part), numbered in zip(groups, ranks, strict=True):
            if kind[0].text not in numbers:
                numbers[kind[0].text] = np.full(len(self._interner), -1, np.int64)
            numbers[kind[0].text][places.of(part)] = numbered
        for (kind, part), numbered in zip(groups, ranks, strict=True):
            rows = self._interner.cells.rows(kind[0].constructors[kind[1]].layout, part)
            starts = ends[numbered] - rows.shape[1]
            for at, field in enumerate(_fields(kind)):
                if field.structure is None:
                    values[starts + at] = self.column(rows[:, at], field)
                    continue
                present = rows[:, at] >= 0
                inner = places.of(rows[present, at])
                values[starts + at] = NULL
                values[starts[present] + at] = self._hashes(field.structure.text)[inner]
                if field.structure.text in numbers:
                    earlier[starts[present] + at] = numbers[field.structure.text][inner]
        named = np.repeat(np.array(names, np.uint64).view(np.int64), sizes)[order]
        hashes = hash_runs(named, ends, values, earlier)
        for (kind, part), numbered in zip(groups, ranks, strict=True):
            self._hashes(kind[0].text)[places.of(part)] = hashes[numbered]


class _KeptHashes(TupleHashes):
    """The hashes of interned tuples, which are kept with those of other values."""

    def __init__(self, interner: Interner, hashes: Codes) -> None:
        self._code_of, self._places = interner.code_of_tuple, interner.places
        self._hashes = hashes.view(np.uint64)

    def get(self, value: tuple[Any, ...]) -> int:
        code = self._code_of(value)
        return 0 if code is None else int(self._hashes[self._places.place(code)])

    def put(self, value: tuple[Any, ...], found: int) -> None:
        code = self._code_of(value)
        if code is not None:
            self._hashes[self._places.place(code)] = found


def _fields(kind: Kind) -> list[Type]:
    return [field.type for field in kind[0].constructors[kind[1]].fields]


def _runs(starts: Codes, lengths: Codes, values: Codes) -> Codes:
    """Return the hash of each of the runs of values that come one after the other."""
    return hash_runs(starts, np.cumsum(lengths), values.reshape(-1), np.full(values.size, -1, np.int64))
