"""The entries of large tables in files: each snapshot appends a piece with the changed entries.

    tables/7.table   {"codes": k}, and the arrays of set keys, their values and the removed keys
    tables/9.table   {"set": [[key, value], ...], "removed": [key, ...]}, for other keys and values

The first form is that of keys that are tuples of k ints, and of values that are ints. A later piece
replaces the entries of earlier ones. A piece is merged with the one before it unless that one is
more than `RATIO` times larger, so a snapshot writes O(changes log n), amortised, and the pieces
have O(n) entries.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from dbsp.data.key_order import key_order
from dbsp.durable.background import rest
from dbsp.durable.typed_values import Decoding, Encoding
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.scope import Scope
from dbsp.state.state_table import ABSENT, StateTable

LARGE = 4096
"""Tables of at least this many entries have pieces; snapshots rewrite the others."""
RATIO = 2
_SLICE = 256
"""The entries that are encoded at once."""

Frames = tuple[Any, list[Codes]]
Piece = tuple[str, int]
"""The name of the file of a piece, and the number of its entries."""


@dataclass(frozen=True)
class CapturedTable:
    """The entries of a table that a snapshot writes, and the pieces that have the others.

    Without pieces, these are all entries; `large` then decides whether they become a piece.
    """

    table: StateTable[Any, Any]
    entries: dict[Any, Any]
    pieces: list[Piece]
    large: bool


def captured_tables(scope: Scope, known: Container[str]) -> list[CapturedTable]:
    """Capture the changes of all tables; `known` are the files of the latest snapshot.

    O(changed entries), and O(n) for a table that is small or has no pieces.
    """
    captured = []
    for table in scope.tables:
        pieces = table.saved or []
        if len(table) >= LARGE and pieces and all(name in known for name, _ in pieces):
            captured.append(CapturedTable(table, table.capture(), pieces, True))
        else:
            captured.append(CapturedTable(table, table.capture_all(), [], len(table) >= LARGE))
    return captured


# --- writing --------------------------------------------------------------------------------------


def appended(
    captured: CapturedTable,
    read: Callable[[str], Frames],
    write: Callable[[Frames], str],
    allow_pickle: bool,
) -> list[Piece]:
    """Write the captured entries of a large table, merged with small pieces; return all pieces.

    `read` returns the content of a file, `write` writes one and returns its name. Raises
    UnsupportedValueError, and the errors of both.
    """
    pieces, entries = list(captured.pieces), captured.entries
    if not entries:
        return pieces
    newest = encoded(entries, allow_pickle)
    count = len(entries)
    merged = []
    while pieces and pieces[-1][1] <= RATIO * count:
        name, size = pieces.pop()
        merged.append(read(name))
        count += size
    if merged:
        newest = merge([*reversed(merged), newest], not pieces, allow_pickle)
        count = _size(newest)
    return [*pieces, (write(newest), count)]


def encoded(entries: dict[Any, Any], allow_pickle: bool) -> Frames:
    """Return a piece with these entries; `ABSENT` marks removed keys.

    Raises UnsupportedValueError.
    """
    if not entries:
        return {"set": [], "removed": []}, []
    present = [(key, value) for key, value in _rested(entries.items()) if value is not ABSENT]
    removed = [key for key, value in _rested(entries.items()) if value is ABSENT]
    return _as_codes(present, removed) or _as_values(present, removed, allow_pickle)


def _as_codes(present: Sequence[tuple[Any, Any]], removed: Sequence[Any]) -> Frames | None:
    """Return a piece of ints, or None if a key or a value is something else."""
    some = present[0][0] if present else removed[0]
    if type(some) is not tuple or not some:
        return None
    width = len(some)
    parts: tuple[list[Codes], list[Codes], list[Codes]] = ([], [], [])
    for place in range(0, len(present), _SLICE):
        rest()
        some_entries = present[place : place + _SLICE]
        keys = _codes([key for key, _ in some_entries], width)
        values = _codes([(value,) for _, value in some_entries], 1)
        if keys is None or values is None:
            return None
        parts[0].append(keys)
        parts[1].append(values)
    for place in range(0, len(removed), _SLICE):
        rest()
        keys = _codes(removed[place : place + _SLICE], width)
        if keys is None:
            return None
        parts[2].append(keys)
    return {"codes": width}, [np.concatenate([np.empty(0, np.int64), *found]) for found in parts]


def _codes(keys: Sequence[Any], width: int) -> Codes | None:
    """Return the ints of tuples of this width one after the other, or None for other keys."""
    if not {tuple}.issuperset(map(type, keys)) or not {width}.issuperset(map(len, keys)):
        return None
    if not {int}.issuperset(map(type, chain.from_iterable(keys))):
        return None
    try:
        return np.fromiter(chain.from_iterable(keys), np.int64, width * len(keys))
    except OverflowError:
        return None


def _as_values(present: Sequence[tuple[Any, Any]], removed: Sequence[Any], allow_pickle: bool) -> Frames:
    encode = Encoding(allow_pickle).encode
    head = {
        "set": [[encode(key), encode(value)] for key, value in _rested(present)],
        "removed": [encode(key) for key in _rested(removed)],
    }
    return head, []


def merge(pieces: Sequence[Frames], oldest: bool, allow_pickle: bool) -> Frames:
    """Return one piece with the entries of several, oldest first.

    With `oldest` there are no earlier pieces, so it needs no removed keys.
    """
    widths = {head.get("codes") for head, _ in pieces}
    if len(widths) == 1 and None not in widths:
        return _merged_codes(pieces, widths.pop(), oldest)
    entries: dict[Any, Any] = {}
    for piece in pieces:
        for key, value in _rested(entries_of(piece, allow_pickle)):
            if oldest and value is ABSENT:
                entries.pop(key, None)
            else:
                entries[key] = value
    return encoded(entries, allow_pickle)


def _merged_codes(pieces: Sequence[Frames], width: int, oldest: bool) -> Frames:
    """Sort the entries by key and keep the last one of each. O(n log n), without Python loops."""
    keys, values, gone = [], [], []
    for _, (set_keys, set_values, removed) in pieces:
        count = len(removed) // width
        keys += [set_keys.reshape(len(set_values), width), removed.reshape(count, width)]
        values += [set_values, np.zeros(count, np.int64)]
        gone += [np.zeros(len(set_values), np.bool_), np.ones(count, np.bool_)]
    rows, numbers, absent = np.concatenate(keys), np.concatenate(values), np.concatenate(gone)
    order = key_order(rows.T)
    rows = rows.take(order, 0)
    last = np.ones(len(rows), np.bool_)
    last[:-1] = (rows[1:] != rows[:-1]).any(axis=1)
    rows, numbers, absent = rows[last], numbers[order][last], absent[order][last]
    kept = rows[absent] if not oldest else rows[:0]
    return {"codes": width}, [rows[~absent].reshape(-1), numbers[~absent], kept.reshape(-1)]


def _size(piece: Frames) -> int:
    head, arrays = piece
    if "codes" not in head:
        return len(head["set"]) + len(head["removed"])
    return len(arrays[1]) + len(arrays[2]) // int(head["codes"])


def _rested(entries: Iterable[Any]) -> Iterator[Any]:
    """Yield the elements, and rest between slices of them."""
    for place, entry in enumerate(entries):
        if not place % _SLICE:
            rest()
        yield entry


# --- reading --------------------------------------------------------------------------------------


def entries_of(piece: Frames, allow_pickle: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a piece, `ABSENT` for removed keys.

    Raises errors of a wrong form.
    """
    head, arrays = piece
    if "codes" in head:
        width = int(head["codes"])
        keys, values, removed = arrays
        yield from zip(_tuples(keys, width, len(values)), values.tolist(), strict=True)
        for key in _tuples(removed, width, len(removed) // width):
            yield key, ABSENT
        return
    decode = Decoding(allow_pickle).decode
    for key, value in head["set"]:
        yield decode(key), decode(value)
    for key in head["removed"]:
        yield decode(key), ABSENT


def _tuples(keys: Codes, width: int, count: int) -> Iterator[tuple[int, ...]]:
    return map(tuple, keys.reshape(count, width).tolist())


def restored(pieces: Iterable[Frames], allow_pickle: bool) -> dict[Any, Any]:
    """Return the entries of a table from its pieces, oldest first. Raises if the form is wrong."""
    entries: dict[Any, Any] = {}
    for piece in pieces:
        for key, value in entries_of(piece, allow_pickle):
            if value is ABSENT:
                entries.pop(key, None)
            else:
                entries[key] = value
    return entries
