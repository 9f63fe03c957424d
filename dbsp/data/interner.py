"""The interner: a dictionary that assigns an id to every hashable value."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from dbsp.data.cells import Cells, RepeatedValueError
from dbsp.data.id_places import IdPlaces, no_value
from dbsp.data.keyed_values import PLAIN, KeyedValues
from dbsp.data.types import Layout, Structure
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.limits import INT64_MAX


class _Cell:
    """The placeholder among the values for a constructed value (see `dbsp.data.cells`)."""

    def __repr__(self) -> str:
        return "<cell>"


CELL: Final = _Cell()


class Interner(KeyedValues):
    """An append-only dictionary between values and ids 0, 1, 2, ...

    An interner never frees a value. `dbsp.data.live_values` makes another one, with some of the
    values under the same ids; the ids of the others are not used again.

    Two values have the same id exactly if they are of the same class and equal, with two more
    rules: NaN equals itself, and -0.0 is 0.0. So 1, True and 1.0 are three values, inside tuples
    too.

    Tuples are hash-consed: a nested tuple is interned once and its parents refer to it by id. So a
    long linked list of pairs costs one entry per cell, and a decoded tuple is found by its
    identity.

    >>> names = Interner()
    >>> names.encode("a"), names.encode((1, "a")), names.encode("a"), names.decode(1)
    (0, 1, 0, (1, 'a'))
    """

    __slots__ = ("_codes_of_terms", "_terms", "cells", "generation", "hashes")

    def __init__(self) -> None:
        super().__init__()
        self.cells = Cells(self.places)
        self.generation = 0
        """How often values were freed."""
        self.hashes: dict[str, Codes] = {}
        """Known hashes of values by their places (see `dbsp.data.value_hashes`)."""
        # Decoded constructed values by id, and id(object) -> code of them; they stay alive.
        self._terms: dict[Structure, dict[int, Any]] = {}
        self._codes_of_terms: dict[Structure, dict[int, int]] = {}

    def __len__(self) -> int:
        if self._adding:
            self._repair()
        return len(self._values)

    @property
    def end(self) -> int:
        """The id of the next new value; more than the number of values once some were freed."""
        return len(self) + self._shift

    @property
    def ids(self) -> Codes:
        """The ids of all values, sorted. O(n)."""
        return self.places.ids(self.end)

    def ids_between(self, start: int, end: int) -> Codes:
        """Return the ids from `start` to `end` that have a value. O(result)."""
        kept, base = self.places.kept, self.places.base
        if start >= base:
            return np.arange(start, end)
        low, high = np.searchsorted(kept, (start, end))
        return np.concatenate((kept[low:high], np.arange(base, end)))

    def has_ids(self, codes: Codes) -> Mask:
        """Return which of the codes are ids of values."""
        places = self.places.of(codes)
        return (places >= 0) & (places < len(self))

    def skip_to(self, end: int) -> None:
        """Leave out the ids below `end` that are not in use. O(n) if there are any."""
        if end > self.end:
            self._number(IdPlaces.of_ids(self.ids, end))

    def _number(self, places: IdPlaces) -> None:
        self.places = self.cells.places = places
        self._shift = places.shift
        self._unplaced = INT64_MAX if places.base else 0

    def __repr__(self) -> str:
        return f"<Interner of {len(self)} values>"

    def __contains__(self, value: Any) -> bool:
        return self.find(value) is not None

    # --- one value --------------------------------------------------------------------------------

    def encode(self, value: Any) -> int:
        """Return the id of `value`, a new one for a new value.

        Raises InputError if it is not hashable.
        """
        if self._adding:
            self._repair()
        if type(value) in PLAIN:
            code = self._ids.get(value)
            return self._add(value, value) if code is None else code
        code = self._lookup(value, add=True)
        if code is None:
            raise InvariantError("expected a code from a lookup that may add, got None")
        return code

    def find(self, value: Any) -> int | None:
        """Return the id of `value`, or None if it has none; adds nothing."""
        if self._adding:
            self._repair()
        if type(value) in PLAIN:
            return self._ids.get(value)
        return self._lookup(value, add=False)

    def code_of_tuple(self, value: tuple[Any, ...]) -> int | None:
        """Return the id of a tuple that `decode` returned; None for any other object."""
        return self._tuple_ids.get(id(value))

    # --- many values ------------------------------------------------------------------------------

    def encode_many(self, values: Sequence[Any]) -> Codes:
        """Return the ids of many values, in order.

        Strings cost one pass over a dictionary, O(n).
        """
        if PLAIN.issuperset(map(type, values)):
            return self.encode_plain(values)
        return np.fromiter(map(self.encode, values), np.int64, len(values))

    def encode_plain(self, values: Sequence[str] | Sequence[bytes]) -> Codes:
        """Return the ids of values whose classes are exactly `str` or `bytes`."""
        return self._encode_keys(values, lambda new: new)

    def encode_int_tuples(self, elements: Codes, ends: Codes) -> Codes:
        """Return the ids of tuples of ints: `elements` up to each of `ends`, one after the other.

        Cost: O(elements), a third of the time of `encode_many`.
        """
        parts: list[Any] = [int] * (2 * len(elements))  # before each int, its class
        parts[1::2] = elements.tolist()
        stops = (2 * ends).tolist()
        keys = [(tuple, *parts[start:stop]) for start, stop in zip([0, *stops], stops, strict=False)]
        first = self.end
        codes = self._encode_keys(keys, lambda new: [key[2::2] for key in new])
        new = self._values[first - self._shift :]
        self._tuple_ids.update(zip(map(id, new), range(first, self.end), strict=True))
        return codes

    def _encode_keys(self, keys: Sequence[Any], values: Callable[[list[Any]], list[Any]]) -> Codes:
        """Return the ids of many keys, in order; `values` returns the values of new keys."""
        if self._adding:
            self._repair()
        ids, known, before = self._ids, len(self._values) + self._shift, len(self._ids)
        self._adding = True
        # The default factory counts, so that one pass in C both finds and assigns ids.
        ids.default_factory = itertools.count(known).__next__
        codes = np.fromiter(map(ids.__getitem__, keys), np.int64, len(keys))
        ids.default_factory = None
        # A dictionary keeps the order of insertion, so the new keys are its last ones.
        new = list(itertools.islice(reversed(ids), len(ids) - before))
        new.reverse()
        self._values.extend(values(new))
        self._adding = False
        return codes

    def decode_many(self, codes: Codes | Iterable[int]) -> list[Any]:
        """Return the values of many ids, in order. Raises IndexError if an id has none."""
        if self._unplaced:
            given = codes if isinstance(codes, np.ndarray) else np.fromiter(codes, np.int64)
            places = self.places.of(given)
            if len(places) and places.min() < 0:
                raise no_value(int(given[np.argmin(places)]))
            listed = places.tolist()
        else:
            listed = codes.tolist() if isinstance(codes, np.ndarray) else list(codes)
            if listed and min(listed) < 0:
                raise no_value(min(listed))
        return list(map(self._values.__getitem__, listed))

    # --- constructed values: records and branches -------------------------------------------------

    def construct(self, layout: Layout, rows: Codes) -> Codes:
        """Return the ids of the values with the field codes int64[n, k].

        O(n), no Python object per value.
        """
        if self._adding:
            self._repair()
        self._adding = True
        codes, new = self.cells.intern(layout, rows, len(self._values) + self._shift)
        self._values.extend(itertools.repeat(CELL, new))
        self._adding = False
        return codes

    def construct_one(self, layout: Layout, fields: Sequence[int]) -> int:
        """The id of the value with these field codes."""
        return int(self.construct(layout, np.array(fields, np.int64).reshape(1, -1))[0])

    def find_constructed(self, layout: Layout, fields: Sequence[int]) -> int | None:
        """Return the id of the value with these field codes, or None if it has none."""
        if self._adding:
            self._repair()
        return self.cells.find(layout, fields)

    def terms(self, structure: Structure) -> dict[int, Any]:
        """Return the decoded values of a structure, by id."""
        known = self._terms.get(structure)
        return self._terms.setdefault(structure, {}) if known is None else known

    def codes_of_terms(self, structure: Structure) -> dict[int, int]:
        """Return the ids of the decoded values of a structure, by `id(value)`."""
        known = self._codes_of_terms.get(structure)
        return self._codes_of_terms.setdefault(structure, {}) if known is None else known

    # --- values with given ids --------------------------------------------------------------------

    def expect_ids(self, ids: Codes, end: int) -> None:
        """Prepare for values with these ids, sorted, after all others; the next id is then `end`.

        `restored` ends this. If values are missing then, their ids stay unused.
        """
        if len(ids) and ids[0] < self.end:
            raise ValueError(f"its values start with id {ids[0]}, expected {self.end}")
        if end - self.end > len(ids):
            self._number(IdPlaces.of_ids(np.concatenate((self.ids, ids)), end))

    def restored(self, end: int) -> None:
        """End the addition of values with given ids."""
        self._shift = self.places.shift
        if len(self._values) < len(self.places.kept):
            self._number(IdPlaces.of_ids(self.places.kept[: len(self._values)], end))

    def put_plain(self, values: Sequence[str] | Sequence[bytes], ids: Codes) -> None:
        """Add new values whose classes are exactly `str` or `bytes`, with the next expected ids.

        Raises RepeatedValueError if the interner has one of them, ValueError if two are equal.
        """
        if not self._ids.keys().isdisjoint(values):
            raise RepeatedValueError
        total = len(self._ids) + len(values)
        self._ids.update(zip(values, ids.tolist(), strict=True))
        if len(self._ids) != total:
            raise ValueError("a value occurs twice")
        self._values.extend(values)

    def put(self, value: Any, code: int) -> None:
        """Add one new value with the next expected id. Raises RepeatedValueError, InputError."""
        self._shift = code - len(self._values)
        if self.encode(value) != code:
            raise RepeatedValueError

    def put_constructed(self, layout: Layout, rows: Codes, ids: Codes) -> None:
        """Add new constructed values with the next expected ids.

        Raises RepeatedValueError if the interner has one of them, ValueError if two are equal.
        """
        self.cells.put(layout, rows, ids)
        self._values.extend(itertools.repeat(CELL, len(ids)))

    # --- some of the values -----------------------------------------------------------------------

    @property
    def has_tuples(self) -> bool:
        """Whether there are tuples among the values."""
        return bool(self._tuple_ids)

    def keyed(self) -> Iterable[tuple[Any, int]]:
        """Return the keys of all values but constructed ones, with their ids in ascending order.

        The key of a string is the string, that of a tuple its class and for each part the class and
        the key; the key of a tuple inside is its id. Other keys are a class and a value.
        """
        if self._adding:
            self._repair()
        return self._ids.items()

    def some(self, marks: Mask) -> Interner:
        """Return an interner of the values with a mark, under the same ids, with the same next id.

        `marks` has one element per value, in the order of the ids; the parts of a marked value must
        be marked as well (see `dbsp.data.live_values`). O(n).
        """
        made = Interner()
        made.fill(self, marks, self.end)
        made.generation = self.generation + 1
        return made

    def fill(self, other: Interner, marks: Mask, end: int) -> None:
        """Fill a new interner with the marked values of another one; the next id is `end`."""
        self._number(IdPlaces.of_ids(other.ids[marks], end))
        codes = np.fromiter(other._ids.values(), np.int64, len(other._ids))
        self._values = list(itertools.compress(other._values, marks.tolist()))
        keyed = marks[other.places.of(codes)].tolist()
        self._ids = defaultdict(None, itertools.compress(other._ids.items(), keyed))
        self._tuple_ids = {
            address: code for address, code in other._tuple_ids.items() if marks[other.places.place(code)]
        }
        self.cells = other.cells.some(marks, self.places)

    def _repair(self) -> None:
        """Remove what an addition left that an interrupt or a failed allocation has ended.

        The values are the truth: a key without its value, a value without its key, and a cell
        without its place among the values are removed. An interrupted repair is repeated.
        """
        ids, values, shift = self._ids, self._values, self._shift
        ids.default_factory = None
        while ids and next(reversed(ids.values())) >= len(values) + shift:
            ids.popitem()
        last = next(reversed(ids.values()), -1)
        old = len(self.places.kept)  # those were complete before this interner added any
        while len(values) > old and values[-1] is not CELL and last < len(values) + shift - 1:
            values.pop()
        self.cells.truncate(len(values) + shift)
        self._adding = False
