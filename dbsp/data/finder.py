"""A view of an interner that adds no values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbsp.data.interner import Interner
from dbsp.data.types import Layout, Structure


class Finder(Interner):
    """A view of an interner for look-ups: a value that is not interned raises KeyError."""

    __slots__ = ("_interner",)

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self.cells = interner.cells

    def codes_of_terms(self, structure: Structure) -> dict[int, int]:
        return self._interner.codes_of_terms(structure)

    def construct_one(self, layout: Layout, fields: Sequence[int]) -> int:
        code = self._interner.find_constructed(layout, fields)
        if code is None:
            raise KeyError(tuple(fields))
        return code

    def encode(self, value: Any) -> int:
        code = self._interner.find(value)
        if code is None:
            raise KeyError(value)
        return code
