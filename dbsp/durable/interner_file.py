"""The values of an interner in files: a piece has the values of a range of ids.

The journal has a piece per tick, as JSON: its first id and its values. Snapshots have larger pieces
as arrays (see `dbsp.durable.value_arrays`). `dbsp.durable.typed_values` writes a value, and a
constructed value is `{"cell": [layout, codes of the fields ...]}`. A tuple refers to its inner
tuples by their ids, which are smaller.

Ids without a value are those of freed values, and of values without a typed encoding: they are
refused if a row has them, but their ids stay in use when a tick is rolled back. Files of earlier
versions have a `LostValue` in their place.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import numpy as np

from dbsp.data.cells import RepeatedValueError
from dbsp.data.interner import CELL, Interner
from dbsp.data.types import Layout
from dbsp.durable.typed_values import Decoding, Encoding, UnsupportedValueError
from dbsp.kernels.arrays import Codes

Refused = dict[int, UnsupportedValueError]
"""The values without a typed encoding, by id."""


class LostValue:
    """Takes the id of a refused value that no row has, since its tick was rolled back."""

    __slots__ = ()


def values_piece(
    interner: Interner, start: int, end: int, allow_pickle: bool, lost: Container[int] = ()
) -> tuple[dict[str, Any], Refused]:
    """Return the values with ids from `start` to `end` as JSON, and those that cannot be written.

    The latter are left out. `lost` are earlier ids of such values.
    """
    refused: Refused = {}
    encode = encoder(interner, allow_pickle, lambda code: code in refused or code in lost)
    layouts: dict[Layout, int] = {}
    ids = interner.ids_between(start, end).tolist()
    values: list[Any] = interner.decode_many(ids)
    for place, (code, value) in enumerate(zip(ids, values, strict=True)):
        if type(value) is str:
            continue
        if value is CELL:
            layout, fields = interner.cells.cell(code)
            values[place] = {"cell": [layouts.setdefault(layout, len(layouts)), *fields]}
            continue
        try:
            values[place] = encode(value, code)
        except UnsupportedValueError as error:
            refused[code] = error
    if refused:
        values = [value for code, value in zip(ids, values, strict=True) if code not in refused]
        ids = [code for code in ids if code not in refused]
    piece: dict[str, Any] = {
        "start": start,
        "values": values,
        "layouts": [[layout.constructor, list(layout.nested)] for layout in layouts],
    }
    if len(ids) != end - start:
        piece["ids"] = ids
    return piece, refused


def encoder(
    interner: Interner, allow_pickle: bool, unwritten: Callable[[int], bool]
) -> Callable[[Any, int], Any]:
    """Return a function that writes a value with an id as JSON. It raises UnsupportedValueError.

    `unwritten` returns whether the value of a smaller id is not written. The function reads values
    below the id only, so another thread may add values meanwhile.
    """
    before = 0

    def known(part: Any) -> int | None:
        code = interner.code_of_tuple(part)
        if code is None or code >= before:  # only tuples in tuples are interned objects
            return None
        if unwritten(code):
            raise UnsupportedValueError(part)
        return code

    typed = Encoding(allow_pickle, known)

    def encode(value: Any, code: int) -> Any:
        nonlocal before
        before = code
        if type(value) is LostValue:
            raise UnsupportedValueError(value)
        return typed.encode(value)

    return encode


def restore_values(interner: Interner, piece: dict[str, Any], allow_pickle: bool) -> None:
    """Add the values of a piece of the journal to an interner, under their previous ids.

    Raises RepeatedValueError for a value that has another id, ValueError for another wrong piece,
    PickleRefusedError, and the errors of `Decoding.decode`.
    """
    start, values = piece["start"], piece["values"]
    layouts = [Layout(str(constructor), tuple(map(bool, nested))) for constructor, nested in piece["layouts"]]
    if start != interner.end:
        raise ValueError(f"its values start with id {start}, expected {interner.end}")
    ids = np.array(piece.get("ids", range(start, start + len(values))), np.int64)
    end = int(ids[-1]) + 1 if len(ids) else start
    interner.expect_ids(checked_ids(ids, len(values)), end)
    try:
        begin = 0
        for kind, group in _grouped(values):
            part = ids[begin : begin + len(group)]
            begin += len(group)
            if kind == "text":
                interner.put_plain(group, part)
            elif isinstance(kind, int):
                _put_constructed(interner, layouts[kind], group, part)
            else:
                put_others(interner, group, part, allow_pickle)
    finally:
        interner.restored(end)


def without_known(interner: Interner, piece: dict[str, Any], allow_pickle: bool) -> dict[str, Any]:
    """Return a piece without the ids that an interner has given already.

    Raises RepeatedValueError if one of these ids has another value there, or none. O(piece).
    """
    start, values, end = piece["start"], piece["values"], interner.end
    if start >= end:
        return piece
    ids = piece.get("ids", range(start, start + len(values)))
    known = bisect.bisect_left(ids, end)
    own, _ = values_piece(interner, start, end, allow_pickle)
    ours = zip(own.get("ids", range(start, end)), _resolved(own, own["values"]), strict=True)
    of_id = dict(ours)
    for code, value in zip(ids, _resolved(piece, values[:known]), strict=False):
        if code not in of_id or of_id[code] != value:
            raise RepeatedValueError
    return {**piece, "start": end, "ids": list(ids[known:]), "values": values[known:]}


def _resolved(piece: dict[str, Any], values: Sequence[Any]) -> Iterator[Any]:
    """Yield values as JSON, with the layouts of constructed values in place of their numbers."""
    for value in values:
        if type(value) is dict and "cell" in value:
            number, *fields = value["cell"]
            yield piece["layouts"][number], fields
        else:
            yield value


def checked_ids(ids: Codes, count: int) -> Codes:
    """Return the ids of `count` values. Raises ValueError unless they ascend."""
    if ids.shape != (count,) or (np.diff(ids) <= 0).any():
        raise ValueError("its ids are not those of its values, in ascending order")
    return ids


def put_others(interner: Interner, values: Sequence[Any], ids: Codes, allow_pickle: bool) -> None:
    """Add values that are neither strings nor constructed. Raises as `restore_values`."""

    def inner_tuple(code: Any) -> Any:
        found = interner.decode(code)
        if not isinstance(found, tuple):
            raise ValueError(f"the value {code} is not a tuple")
        return found

    decode = Decoding(allow_pickle, inner_tuple).decode
    for value, code in zip(values, ids.tolist(), strict=True):
        interner.put(LostValue() if value == {"lost": None} else decode(value), code)


def _grouped(values: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Yield runs of strings, of constructed values of one layout, and of other values."""

    def kind(value: Any) -> Any:
        if type(value) is str:
            return "text"
        if type(value) is dict and "cell" in value:
            return int(value["cell"][0])
        return "other"

    for found, group in itertools.groupby(values, kind):
        yield found, list(group)


def _put_constructed(interner: Interner, layout: Layout, values: Sequence[Any], ids: Codes) -> None:
    rows = np.array([value["cell"][1:] for value in values], np.int64).reshape(len(values), -1)
    if rows.shape[1] != len(layout.nested):
        raise ValueError(f"a constructed value has {rows.shape[1]} fields, expected {len(layout.nested)}")
    put_rows(interner, layout, rows, ids)


def put_rows(interner: Interner, layout: Layout, rows: Codes, ids: Codes) -> None:
    """Add constructed values; those that refer to earlier ones come after them."""
    nested = [place for place, inside in enumerate(layout.nested) if inside]
    deepest = rows[:, nested].max(axis=1).tolist() if nested else [-1] * len(rows)
    listed, begin = ids.tolist(), 0
    for place in range(1, len(rows) + 1):
        if place == len(rows) or deepest[place] >= listed[begin]:
            if max(deepest[begin:place]) >= listed[begin]:
                raise ValueError("a constructed value refers to a later one")
            interner.put_constructed(layout, rows[begin:place], ids[begin:place])
            begin = place
