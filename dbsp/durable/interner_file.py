"""The values of an interner in a file: ids count up, so a piece is its first id and its values.

A value is written by `dbsp.durable.typed_values`, a constructed value as `{"cell": [layout, codes
of the fields ...]}`. A tuple refers to its inner tuples by their ids, which are smaller.

A value without a typed encoding is refused if a row has it. But ids stay in use when a tick is
rolled back, so a later piece has a `LostValue` in its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import CELL, Interner
from dbsp.data.types import Layout
from dbsp.durable.background import rest
from dbsp.durable.typed_values import Decoding, Encoding, UnsupportedValueError
from dbsp.kernels.arrays import Codes

_SLICE = 256
"""The values that are encoded at once."""

Refused = dict[int, UnsupportedValueError]
"""The values without a typed encoding, by id."""


class LostValue:
    """Takes the id of a refused value that no row has, since its tick was rolled back."""

    __slots__ = ()


def values_piece(
    interner: Interner, start: int, end: int, allow_pickle: bool, lost: Container[int] = ()
) -> tuple[dict[str, Any], Refused]:
    """Return the values with ids from `start` to `end` as JSON, and those that cannot be written.

    In the place of the latter the piece has a `LostValue`. `lost` are earlier ids of such values.
    The values must be complete; then another thread may add values meanwhile.
    """
    refused: Refused = {}

    def known(part: Any) -> int | None:
        code = interner.find_beside(part)
        if code is None or code >= start + place:  # a branch does not intern its parts
            return None
        if code in refused or code in lost:
            raise UnsupportedValueError(part)
        return code

    encode = Encoding(allow_pickle, known).encode
    layouts: dict[Layout, int] = {}
    place = 0
    values: list[Any] = []
    for begin in range(start, end, _SLICE):
        rest()
        values += interner.decode_many(range(begin, min(begin + _SLICE, end)))
    for place, value in enumerate(values):
        if not place % _SLICE:
            rest()
        cls = type(value)
        if cls is str:
            continue
        if value is CELL:
            layout, fields = interner.cells.cell(start + place)
            values[place] = {"cell": [layouts.setdefault(layout, len(layouts)), *fields]}
        elif cls is LostValue:
            values[place] = {"lost": None}
        else:
            try:
                values[place] = encode(value)
            except UnsupportedValueError as error:
                refused[start + place] = error
                values[place] = {"lost": None}
    written = [[layout.constructor, list(layout.nested)] for layout in layouts]
    return {"start": start, "values": values, "layouts": written}, refused


def restore_values(interner: Interner, piece: dict[str, Any], allow_pickle: bool) -> None:
    """Add the values of a piece to an interner, which then gives them their previous ids.

    Raises ValueError if it does not, PickleRefusedError, and the errors of `Decoding.decode`.
    """
    layouts = [Layout(str(constructor), tuple(map(bool, nested))) for constructor, nested in piece["layouts"]]

    def inner_tuple(code: Any) -> Any:
        found = interner.decode(code)
        if not isinstance(found, tuple):
            raise ValueError(f"the value {code} is not a tuple")
        return found

    decode = Decoding(allow_pickle, inner_tuple).decode
    if piece["start"] != len(interner):
        raise ValueError(f"its values start with id {piece['start']}, expected {len(interner)}")
    for kind, values in _grouped(piece["values"]):
        start = len(interner)
        if kind == "text":
            codes = interner.encode_many(values)
        elif isinstance(kind, int):
            codes = _constructed(interner, layouts[kind], values, start)
        else:
            read = (LostValue() if value == {"lost": None} else decode(value) for value in values)
            codes = np.fromiter(map(interner.encode, read), np.int64, len(values))
        if not np.array_equal(codes, np.arange(start, start + len(values))):
            raise ValueError("a value occurs twice")


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


def _constructed(interner: Interner, layout: Layout, values: Sequence[Any], start: int) -> Codes:
    """Return the ids of constructed values; those that refer to earlier ones come after them."""
    rows = np.array([value["cell"][1:] for value in values], np.int64).reshape(len(values), -1)
    if rows.shape[1] != len(layout.nested):
        raise ValueError(f"a constructed value has {rows.shape[1]} fields, expected {len(layout.nested)}")
    nested = [place for place, inside in enumerate(layout.nested) if inside]
    deepest = rows[:, nested].max(axis=1).tolist() if nested else [-1] * len(values)
    parts, begin = [], 0
    for place in range(1, len(values) + 1):
        if place == len(values) or deepest[place] >= start + begin:
            if max(deepest[begin:place]) >= start + begin:
                raise ValueError("a constructed value refers to a later one")
            parts.append(interner.construct(layout, rows[begin:place]))
            begin = place
    return np.concatenate(parts)
