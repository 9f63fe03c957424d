"""The sender's side of the values that travel between two interners (see `value_packets`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.data.id_places import distinct_ids
from dbsp.data.interner import Interner
from dbsp.data.nested_values import list_elements, struct_layout
from dbsp.data.record_parts import Kind, RecordMarks, missing_records
from dbsp.data.types import Structure, Type
from dbsp.durable.interner_file import values_piece
from dbsp.durable.typed_values import UnsupportedValueError
from dbsp.errors import InvariantError
from dbsp.kernels import number_column
from dbsp.kernels.arrays import Codes, Rows

_UNKNOWN = -1
_SEPARATORS = ("\0", "\n", "\x1f", "\ufdd0")


class Pieces:
    """The values that are new in a packet."""

    def __init__(self) -> None:
        self.heads: list[Any] = []
        """For each piece its form, its space, what the form needs besides, the number of arrays."""
        self.arrays: list[Codes | bytes] = []
        """The arrays of all pieces, in order."""

    def add(self, form: str, space: str, details: Any, arrays: Sequence[Codes | bytes]) -> None:
        """Add a piece after those with its parts."""
        self.heads.append([form, space, details, len(arrays)])
        self.arrays += arrays


class _Numbers:
    """The numbers of the values of one space, by the places of their ids; -1 for the others."""

    def __init__(self) -> None:
        self.by_place = np.full(16, _UNKNOWN, np.int64)
        self.used = 0

    def fit(self, count: int) -> Codes:
        """Return the numbers of so many places."""
        if count > len(self.by_place):
            grown = np.full(2 * count, _UNKNOWN, np.int64)
            grown[: len(self.by_place)] = self.by_place
            self.by_place = grown
        return self.by_place[:count]


class SentValues:
    """The numbers of the values that were sent."""

    def __init__(self, interner: Interner, allow_pickle: bool) -> None:
        self._interner = interner
        self._allow_pickle = allow_pickle
        self._spaces: dict[str, _Numbers] = {}

    def follow(self, interner: Interner) -> None:
        """Continue with an interner that has the same values under the same ids."""
        self._interner = interner

    def number(self, rows: Rows, column: int, type_: Type, pieces: Pieces) -> None:
        """Replace the ids in a column by numbers; add the values that are new to the pieces.

        Raises UnsupportedValueError, and then some numbers are of values that were not sent.
        """
        if not type_.interned:
            return
        space = self._space(type_.id_space)
        if type_.structure is not None:
            self._send_records(rows[:, column], type_.structure, pieces)
        places = self._interner.places
        numbers = space.fit(len(self._interner))
        try:
            new = number_column(rows, column, places.kept, places.base, places.shift, numbers, space.used)
        except OverflowError as error:
            raise InvariantError(str(error)) from None
        if len(new):
            # In the order of the ids, so that sorted rows are sorted for the receiver as well.
            order = np.argsort(new)
            ranks = np.empty(len(new), np.int64)
            ranks[order] = np.arange(space.used, space.used + len(new))
            renumbered = rows[:, column] >= space.used
            rows[renumbered, column] = ranks[rows[renumbered, column] - space.used]
            numbers[places.of(new)] = ranks
            self._send(new[order], type_, pieces)
            space.used += len(new)

    def _space(self, name: str) -> _Numbers:
        numbers = self._spaces.get(name)
        if numbers is None:
            numbers = self._spaces[name] = _Numbers()
        return numbers

    def _send(self, ids: Codes, type_: Type, pieces: Pieces) -> None:
        """Send values in the order of their numbers."""
        interner = self._interner
        if type_.kind == "struct":
            rows = interner.cells.rows(struct_layout(type_), ids)
            for at, part in enumerate(type_.parts):
                self.number(rows, at, part.type, pieces)
            pieces.add("structs", type_.id_space, None, [rows])
        elif type_.kind == "list":
            elements, lengths = list_elements(ids, interner)
            self.number(elements.reshape(-1, 1), 0, type_.element, pieces)
            pieces.add("lists", type_.id_space, None, [lengths, elements])
        else:
            self._send_plain(ids, pieces)

    def _send_plain(self, ids: Codes, pieces: Pieces) -> None:
        values = self._interner.decode_many(ids)
        if set(map(type, values)) == {str}:
            for separator in _SEPARATORS:
                joined = separator.join(values)
                if joined.count(separator) == len(values) - 1:
                    pieces.add("texts", "", separator, [joined.encode("utf-8", "surrogatepass")])
                    return
        # Tuples in tuples are values of their own here, so nesting has no limit.
        gathered = Interner()
        numbers = gathered.encode_many(values)
        try:
            text = self._written(gathered)
        except RecursionError:  # branches in branches, in a column of objects
            raise self._too_deep(values) from None
        pieces.add("values", "", None, [numbers, text])

    def _written(self, gathered: Interner) -> bytes:
        piece, refused = values_piece(gathered, 0, gathered.end, self._allow_pickle)
        if refused:
            raise next(iter(refused.values()))
        return json.dumps(piece, separators=(",", ":")).encode("ascii")

    def _too_deep(self, values: Sequence[Any]) -> UnsupportedValueError:
        for value in values:
            alone = Interner()
            alone.encode(value)
            try:
                self._written(alone)
            except RecursionError:
                return UnsupportedValueError(value, "it is nested too deeply")
        return UnsupportedValueError(values, "they are nested too deeply")

    # --- records and branches ---------------------------------------------------------------------

    def _send_records(self, codes: Codes, structure: Structure, pieces: Pieces) -> None:
        """Send the values that are new, and their parts, in groups of one kind; parts first."""
        cells, places, count = self._interner.cells, self._interner.places, len(self._interner)
        ids = codes[codes >= 0]
        known = self._space(structure.text).fit(count)[places.of(ids)]
        ids = distinct_ids(ids[known == _UNKNOWN])
        if not len(ids):
            return
        marks = RecordMarks(lambda each: self._space(each.text).fit(count) != _UNKNOWN)
        kinds: dict[Kind, int] = {}
        found: list[tuple[int, Codes]] = []
        for kind, part in missing_records(self._interner, structure, ids, marks):
            found.append((kinds.setdefault(kind, len(kinds)), part))
        members = np.concatenate([part for _, part in found])
        numbers = np.repeat([number for number, _ in found], [len(part) for _, part in found])
        depths = cells.depths(members)
        order = np.lexsort((numbers, depths))
        members, numbers, depths = members[order], numbers[order], depths[order]
        for name in dict.fromkeys(each.text for each, _ in kinds):
            space = self._space(name)
            chosen = members[np.isin(numbers, [n for kind, n in kinds.items() if kind[0].text == name])]
            space.fit(count)[places.of(chosen)] = np.arange(space.used, space.used + len(chosen))
            space.used += len(chosen)
        matrices = []
        for (each, constructor), number in kinds.items():
            made = each.constructors[constructor]
            rows = cells.rows(made.layout, members[numbers == number])
            for at, field in enumerate(made.fields):
                self.number(rows, at, field.type, pieces)
            matrices.append(rows)
        starts = np.flatnonzero((np.diff(numbers, prepend=-1) != 0) | (np.diff(depths, prepend=-1) != 0))
        groups = np.column_stack((numbers[starts], np.diff(starts, append=len(members))))
        listed = [[each.text, constructor] for each, constructor in kinds]
        pieces.add("records", "", listed, [groups, *matrices])
