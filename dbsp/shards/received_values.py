"""The receiver's side of the values that travel between two interners (see `value_packets`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.nested_values import lists_of, struct_layout
from dbsp.data.types import Constructor, Type
from dbsp.durable.interner_file import restore_values
from dbsp.errors import InvariantError
from dbsp.kernels import translate_column
from dbsp.kernels.arrays import Codes, Rows
from dbsp.shards.packet_frames import numbers_of

_FREED = -1
_TRANSLATED, _NOT_A_NUMBER = 0, 1
"""Answers of `translate_column`."""


class Piece(NamedTuple):
    """Values that were new in a packet."""

    form: str
    space: str
    details: Any
    arrays: list[bytes]

    @property
    def has_parts(self) -> bool:
        """Whether the values refer to earlier ones by their numbers."""
        return self.form in ("structs", "lists", "records")


class _Ids:
    """The ids of the values of one space, by number; -1 for those that were freed."""

    def __init__(self) -> None:
        self.by_number = np.empty(16, np.int64)
        self.used = 0

    def append(self, ids: Codes) -> None:
        end = self.used + len(ids)
        if end > len(self.by_number):
            grown = np.empty(2 * end, np.int64)
            grown[: self.used] = self.by_number[: self.used]
            self.by_number = grown
        self.by_number[self.used : end] = ids
        self.used = end


class ReceivedValues:
    """The ids of the values that were received."""

    def __init__(self, interner: Interner, allow_pickle: bool) -> None:
        self.interner = interner
        """The interner of the ids; `follow` replaces it."""
        self._allow_pickle = allow_pickle
        self._spaces: dict[str, _Ids] = {}
        self._types: dict[str, Type] = {}
        self._kept: list[Piece] = []
        self._some_freed = False

    def follow(self, interner: Interner) -> None:
        """Continue with an interner that has some of the values, under the same ids."""
        self.interner = interner
        for space in self._spaces.values():
            ids = space.by_number[: space.used]
            lost = ~interner.has_ids(ids)
            ids[lost] = _FREED
            self._some_freed |= bool(lost.any())

    def receive(self, pieces: Sequence[Piece], types: tuple[Type, ...]) -> None:
        """Give ids to the values of a packet for columns of these types."""
        self._types |= _spaces(types)
        if self._some_freed and any(piece.has_parts for piece in pieces):
            self._read_again()
        for piece in pieces:
            self._read(piece)
            self._kept.append(piece)

    def translate(self, rows: Rows, column: int, type_: Type) -> None:
        """Replace the numbers in a column by ids."""
        if not type_.interned:
            return
        space = self._spaces.get(type_.id_space) or _Ids()
        answer = translate_column(rows, column, space.by_number, space.used)
        if answer == _TRANSLATED:
            return
        if answer == _NOT_A_NUMBER or not self._some_freed:
            raise InvariantError(f"expected numbers of values of type {type_} that were received before")
        self._read_again()
        self.translate(rows, column, type_)

    def _read_again(self) -> None:
        """Give ids to all received values again; those that were not freed have theirs already."""
        self._spaces, self._some_freed = {}, False
        for piece in self._kept:
            self._read(piece)

    def _read(self, piece: Piece) -> None:
        interner = self.interner
        if piece.form == "records":
            self._read_records(piece)
            return
        if piece.form == "texts":
            values = piece.arrays[0].decode("utf-8", "surrogatepass").split(piece.details)
            ids = interner.encode_plain(values)
        elif piece.form == "values":
            gathered = Interner()
            restore_values(gathered, json.loads(piece.arrays[1]), self._allow_pickle)
            ids = interner.encode_many(gathered.decode_many(numbers_of(piece.arrays[0])))
        elif piece.form == "structs":
            type_ = self._types[piece.space]
            rows = numbers_of(piece.arrays[0], len(type_.parts))
            for at, part in enumerate(type_.parts):
                self.translate(rows, at, part.type)
            ids = interner.construct(struct_layout(type_), rows)
        elif piece.form == "lists":
            elements = numbers_of(piece.arrays[1], 1)
            self.translate(elements, 0, self._types[piece.space].element)
            ids = lists_of(elements.reshape(-1), numbers_of(piece.arrays[0]), interner)
        else:
            raise InvariantError(f"expected a piece of a known form, got {piece.form!r}")
        self._append(piece.space, ids)

    def _append(self, space: str, ids: Codes) -> None:
        found = self._spaces.get(space)
        if found is None:
            found = self._spaces[space] = _Ids()
        found.append(ids)

    def _read_records(self, piece: Piece) -> None:
        groups = numbers_of(piece.arrays[0], 2)
        kinds = list(self._kinds(piece.details))
        matrices: list[Rows] = []
        for number, ((_, made), array) in enumerate(zip(kinds, piece.arrays[1:], strict=True)):
            count = int(groups[groups[:, 0] == number, 1].sum())
            rows = numbers_of(array).reshape(count, len(made.fields))
            for at, field in enumerate(made.fields):
                if field.type.structure is None:
                    self.translate(rows, at, field.type)
            matrices.append(rows)
        taken = [0] * len(kinds)
        for number, count in groups.tolist():
            space, made = kinds[number]
            rows = matrices[number][taken[number] : taken[number] + count]
            taken[number] += count
            for at, field in enumerate(made.fields):
                if field.type.structure is not None:
                    self.translate(rows, at, field.type)
            self._append(space, self.interner.construct(made.layout, rows))

    def _kinds(self, listed: Any) -> Iterator[tuple[str, Constructor]]:
        for space, constructor in listed:
            structure = self._types[space].structure
            if structure is None:
                raise InvariantError(f"expected the records of a structure, got values of {space}")
            yield space, structure.constructors[constructor]


@lru_cache(maxsize=1024)
def _spaces(types: tuple[Type, ...]) -> dict[str, Type]:
    """Return the types of the spaces that columns of these types need, also for parts."""
    found: dict[str, Type] = {}
    waiting = list(types)
    while waiting:
        type_ = waiting.pop()
        if type_.interned and type_.id_space not in found:
            found[type_.id_space] = type_
            waiting += [part.type for part in type_.parts]
            if type_.structure is not None:
                waiting += [field.type for made in type_.structure.constructors for field in made.fields]
    return found
