"""A piece of the values of an interner as arrays, for snapshots (see `dbsp.durable.interner_file`).

The arrays, in this order:

    ids      for each run of successive ids that have a value: the first id, the number of ids
    kinds    for each run of values of one kind: the kind, the number of values. Kind 0 is a string,
             1 a value of `dbsp.durable.typed_values`, from 2 on a constructed value of a layout
    text     the strings in UTF-8, filled up with zeros, with a separator that is in none of them
    rows     for each layout, the codes of the fields of its values
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import CELL, Interner
from dbsp.data.types import Layout
from dbsp.durable.background import rest
from dbsp.durable.interner_file import (
    checked_ids,
    encoder,
    put_others,
    put_rows,
    restore_values,
)
from dbsp.durable.typed_values import UnsupportedValueError
from dbsp.kernels.arrays import Codes

_TEXT, _OTHER, _CELL = 0, 1, 2
_SEPARATORS = ("\0", "\n", "\x1f", "\ufdd0")
_SLICE = 256
"""The values that are encoded at once."""


def value_arrays(
    interner: Interner, start: int, end: int, allow_pickle: bool, lost: Container[int] = ()
) -> tuple[dict[str, Any], list[Codes]]:
    """Return the values with ids from `start` to `end`, without those that cannot be written.

    `lost` are the ids of such values. The values must be complete; then another thread may add
    values meanwhile. O(values).
    """
    ids = interner.ids_between(start, end)
    kinds = np.full(len(ids), _TEXT, np.int64)
    layouts: dict[Layout, int] = {}
    texts: list[list[str]] = []
    others, unwritten, refused = [], [], set[int]()
    encode = encoder(interner, allow_pickle, lambda code: code in refused or code in lost)
    for begin in range(0, len(ids), _SLICE):
        rest()
        values = interner.decode_many(ids[begin : begin + _SLICE])
        texts.append([value for value in values if type(value) is str])
        if len(texts[-1]) == len(values):
            continue
        for place, value in enumerate(values, begin):
            if type(value) is str:
                continue
            code = int(ids[place])
            if value is CELL:
                layout = interner.cells.layout(code)
                kinds[place] = _CELL + layouts.setdefault(layout, len(layouts))
                continue
            kinds[place] = _OTHER
            try:
                others.append(encode(value, code))
            except UnsupportedValueError:
                refused.add(code)
                unwritten.append(place)
    if unwritten:
        ids, kinds = np.delete(ids, unwritten), np.delete(kinds, unwritten)
    separator, encoded = _joined(texts)
    head = {
        "start": start,
        "end": end,
        "layouts": [[layout.constructor, list(layout.nested)] for layout in layouts],
        "others": others,
        "separator": separator,
        "bytes": len(encoded),
        "texts": [text for part in texts for text in part] if separator is None else [],
    }
    rows = [interner.cells.rows(layout, ids[kinds == _CELL + n]) for layout, n in layouts.items()]
    words = np.frombuffer(encoded + bytes(-len(encoded) % 8), np.int64)
    return head, [_runs(ids, np.arange(len(ids))), _runs(kinds), words, *rows]


def merged_from(ends: list[int], end: int) -> int:
    """Remove the ends of the last pieces that the next one replaces, and return where it starts.

    `ends` has the id after each piece, `end` that after the next one. A piece is replaced if it is
    not longer than all that follows it, so n ids are in O(log n) pieces, and each value is written
    O(log n) times.
    """
    while ends:
        start = ends[-2] if len(ends) > 1 else 0
        if ends[-1] == end or ends[-1] - start > end - ends[-1]:
            return ends[-1]
        ends.pop()
    return 0


def count_values(head: Any, arrays: Sequence[Codes]) -> int:
    """Return the number of values in a piece."""
    return len(head["values"]) if "values" in head else int(arrays[0][1::2].sum())


def restore_arrays(interner: Interner, head: Any, arrays: Sequence[Codes], allow_pickle: bool) -> None:
    """Add the values of a piece to an interner, under their previous ids.

    Raises ValueError for a wrong piece, PickleRefusedError, and the errors of `Decoding.decode`.
    """
    if "values" in head:  # a piece of version 2
        restore_values(interner, head, allow_pickle)
        return
    layouts = [Layout(str(constructor), tuple(map(bool, nested))) for constructor, nested in head["layouts"]]
    runs, kinds, words, *flat = arrays
    start, end, counts = int(head["start"]), int(head["end"]), runs[1::2]
    if start != interner.end:
        raise ValueError(f"its values start with id {start}, expected {interner.end}")
    if (counts < 1).any() or counts.sum() > end - start:
        raise ValueError("its runs of ids are not in the range of the piece")
    ids = np.repeat(runs[::2] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    interner.expect_ids(checked_ids(ids, int(kinds[1::2].sum())), end)
    texts = _texts(head, words) if (kinds[::2] == _TEXT).any() else []
    others = list(head["others"])
    rows = []
    for number, (part, layout) in enumerate(zip(flat, layouts, strict=True)):
        count = int(kinds[1::2][kinds[::2] == _CELL + number].sum())
        rows.append(part.reshape(count, len(layout.nested)))  # a constructor may have no fields
    taken = [0] * (_CELL + len(layouts))
    begin = 0
    try:
        for kind, count in zip(kinds[::2].tolist(), kinds[1::2].tolist(), strict=True):
            part, at = ids[begin : begin + count], taken[kind]
            begin, taken[kind] = begin + count, at + count
            if kind == _TEXT:
                interner.put_plain(texts[at : at + count], part)
            elif kind == _OTHER:
                put_others(interner, others[at : at + count], part, allow_pickle)
            else:
                put_rows(interner, layouts[kind - _CELL], rows[kind - _CELL][at : at + count], part)
    finally:
        interner.restored(end)
    if taken != [len(texts), len(others), *map(len, rows)]:
        raise ValueError("it has values without an id")


def _joined(texts: Sequence[Sequence[str]]) -> tuple[str | None, bytes]:
    """Return a separator that is in none of the texts, or None, and the texts with it."""
    for separator in _SEPARATORS:
        parts = []
        for part in filter(None, texts):
            rest()
            joined = separator.join(part)
            if joined.count(separator) != len(part) - 1:
                break
            parts.append(joined.encode("utf-8", "surrogatepass"))
        else:
            return separator, separator.encode().join(parts)
    return None, b""


def _texts(head: Any, words: Codes) -> list[str]:
    if head["separator"] is None:
        return list(map(str, head["texts"]))
    joined = words.tobytes()[: head["bytes"]].decode("utf-8", "surrogatepass")
    return joined.split(head["separator"])


def _runs(numbers: Codes, less: Codes | None = None) -> Codes:
    """Return for each run of equal `numbers - less` the first number and the length of the run."""
    compared = numbers if less is None else numbers - less
    starts = np.flatnonzero(np.diff(compared, prepend=compared[:1] - 1))
    lengths = np.diff(starts, append=len(numbers))
    return np.column_stack((numbers[starts], lengths)).reshape(-1)
