"""Rows of int32: large sorted runs are stored in them if every code fits.

Ids of values and most numbers are small, so a row takes half of the memory, and a search or a merge
reads half as much. Deltas and small runs are int64: a tick pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dbsp.kernels import growing_memory
from dbsp.kernels.arrays import Rows, StoredRows
from dbsp.kernels.growing_memory import memory_of, own_array, resized

LARGE = 4096
"""Runs of at least this many rows are stored in int32 if all codes fit, and without weights if all
are 1."""

LOAD = 1 << 18
"""Changes and copies of at least this many rows are in int32 before they are sorted. The memory of
fewer rows does not count, and the first use of the kernels that sort them takes 15 ms."""

_PIECE = 1 << 15
"""The codes that are examined at a time: they stay in the processor's cache for the copy."""

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)

_LEAST, _MOST = -(2**31), 2**31 - 1

_BEFORE = 2
"""Kernels read the 4 bytes before the first code (see `dbsp.kernels.run_search`). Twice as many
keep the alignment of the codes."""


def empty_rows(size: int, width: int, narrow: bool) -> StoredRows:
    """Return rows that are not initialised, int32 if `narrow`."""
    if growing_memory.pays(size * width * (4 if narrow else 8)):
        own: StoredRows = own_array(_INT32, size * width) if narrow else own_array(_INT64, size * width)
        return own.reshape(size, width)
    if not narrow:
        return np.empty((size, width), np.int64)
    return np.empty(_BEFORE + size * width, np.int32)[_BEFORE:].reshape(size, width)


def filled_rows(parts: Sequence[StoredRows]) -> StoredRows:
    """Return parts of stored rows, of one type, as one array."""
    size = sum(map(len, parts))
    rows = empty_rows(size, parts[0].shape[1], parts[0].itemsize == 4)
    return np.concatenate(parts, out=rows)


def copied_rows(parts: Sequence[StoredRows], columns: Sequence[int]) -> StoredRows:
    """Return these columns of all parts as one array, int32 if it is long and all codes fit."""
    size = sum(map(len, parts))
    narrow = size >= LOAD and all(fit_narrow(part) for part in parts)
    rows = empty_rows(size, len(columns), narrow)
    end = 0
    for part in parts:
        for at in range(0, len(part), _PIECE):  # a piece stays in the cache for all columns
            piece = part[at : at + _PIECE]
            start, end = end, end + len(piece)
            for column, source in enumerate(columns):
                rows[start:end, column] = piece[:, source]
    return rows


def fit_narrow(rows: StoredRows) -> bool:
    """Return whether every code fits int32. O(codes up to the first one that does not fit)."""
    return rows.itemsize == 4 or all(_fit(piece) for _, piece in _pieces(widened(rows)))


def narrowed(rows: Rows) -> StoredRows:
    """Return the rows as int32 if every code fits, else the same array."""
    found = empty_rows(len(rows), rows.shape[1], True)
    codes = found.reshape(-1)
    for at, piece in _pieces(rows):
        if not _fit(piece):
            return rows
        codes[at : at + len(piece)] = piece
    return found


def first_in_place(held: list[StoredRows], size: int) -> StoredRows:
    """Return the first rows of `empty_rows` in the same memory; release the memory of the others.

    `held` contains the rows and is emptied. Nobody else may refer to them.
    """
    rows = held.pop()
    width = rows.shape[1]
    if memory_of(rows) is not None:
        flat = [rows.reshape(-1)]
        del rows
        return resized(flat, size * width).reshape(size, width)
    memory = rows.base
    if memory is None:
        rows.resize((size, width), refcheck=False)
        return rows
    memory.resize(_BEFORE + size * width, refcheck=False)
    return memory[_BEFORE:].reshape(size, width)


def widened(rows: StoredRows) -> Rows:
    """Return the rows as int64: the same array if they are."""
    return rows.astype(np.int64, copy=False)


def _pieces(rows: Rows) -> Iterator[tuple[int, Rows]]:
    codes = rows.reshape(-1)
    return ((at, codes[at : at + _PIECE]) for at in range(0, len(codes), _PIECE))


def _fit(codes: Rows) -> bool:
    return bool(codes.min() >= _LEAST and codes.max() <= _MOST)
