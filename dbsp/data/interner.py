"""The interner: a dictionary that assigns a dense id to every hashable value."""

from __future__ import annotations

import itertools
import types
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from dbsp.data.cells import Cells
from dbsp.data.timestamps import has_unit, whole_duration, whole_microseconds
from dbsp.data.types import Layout, Structure
from dbsp.errors import InputError, InvariantError, shorten
from dbsp.kernels.arrays import Codes

_PLAIN = frozenset({str, bytes})
_SELF_KEYED = frozenset({str, int, bytes, bool, types.NoneType})


class _Cell:
    """The placeholder among the values for a constructed value (see `dbsp.data.cells`)."""

    def __repr__(self) -> str:
        return "<cell>"


CELL: Final = _Cell()


class Interner:
    """An append-only dictionary between values and dense ids 0, 1, 2, ...

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

    __slots__ = ("_adding", "_codes_of_terms", "_ids", "_terms", "_tuple_ids", "_values", "cells")

    def __init__(self) -> None:
        self.cells = Cells()
        # Whether values are being added. If this is still set at the next use, an interrupt or a
        # failed allocation has ended the addition: `_repair` removes what it left.
        self._adding = False
        # Decoded constructed values by id, and id(object) -> code of them; they stay alive.
        self._terms: dict[Structure, dict[int, Any]] = {}
        self._codes_of_terms: dict[Structure, dict[int, int]] = {}
        # Strings and bytes are their own keys; every other value has a key `(class, ...)`, a tuple.
        self._ids: defaultdict[Any, int] = defaultdict(None)
        self._values: list[Any] = []
        # id(object) -> code of the tuples in `_values`, which stay alive and so keep their
        # addresses.
        self._tuple_ids: dict[int, int] = {}

    def __len__(self) -> int:
        if self._adding:
            self._repair()
        return len(self._values)

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
        if type(value) in _PLAIN:
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
        if type(value) in _PLAIN:
            return self._ids.get(value)
        return self._lookup(value, add=False)

    def find_beside(self, value: Any) -> int | None:
        """Return the id of a value, as `find`, while another thread may be adding values.

        Only for values that were added before: this repairs nothing.
        """
        return self._ids.get(value) if type(value) in _PLAIN else self._lookup(value, add=False)

    def decode(self, code: int) -> Any:
        """Return the value with this id."""
        if code < 0:
            raise IndexError(f"expected an id of the interner, got {code}")
        return self._values[code]

    # --- many values ------------------------------------------------------------------------------

    def encode_many(self, values: Sequence[Any]) -> Codes:
        """Return the ids of many values, in order.

        Strings cost one pass over a dictionary, O(n).
        """
        if _PLAIN.issuperset(map(type, values)):
            return self.encode_plain(values)
        return np.fromiter(map(self.encode, values), np.int64, len(values))

    def encode_plain(self, values: Sequence[str] | Sequence[bytes]) -> Codes:
        """Return the ids of values whose classes are exactly `str` or `bytes`."""
        if self._adding:
            self._repair()
        ids, known, keys = self._ids, len(self._values), len(self._ids)
        self._adding = True
        # The default factory counts, so that one pass in C both finds and assigns ids.
        ids.default_factory = itertools.count(known).__next__
        codes = np.fromiter(map(ids.__getitem__, values), np.int64, len(values))
        ids.default_factory = None
        # A dictionary keeps the order of insertion, so the new values are its last keys.
        new = list(itertools.islice(reversed(ids), len(ids) - keys))
        new.reverse()
        self._values.extend(new)
        self._adding = False
        return codes

    def decode_many(self, codes: Codes | Iterable[int]) -> list[Any]:
        """Return the values of many ids, in order."""
        listed = codes.tolist() if isinstance(codes, np.ndarray) else list(codes)
        if listed and min(listed) < 0:
            raise IndexError(f"expected ids of the interner, got {min(listed)}")
        return list(map(self._values.__getitem__, listed))

    # --- constructed values: records and branches -------------------------------------------------

    def construct(self, layout: Layout, rows: Codes) -> Codes:
        """Return the ids of the values with the field codes int64[n, k].

        O(n), no Python object per value.
        """
        if self._adding:
            self._repair()
        self._adding = True
        codes, new = self.cells.intern(layout, rows, len(self._values))
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

    # --- keys -------------------------------------------------------------------------------------

    def _add(self, key: Any, value: Any) -> int:
        code = len(self._values)
        self._adding = True
        self._values.append(value)
        self._ids[key] = code
        self._adding = False
        return code

    def _repair(self) -> None:
        """Remove what an addition left that an interrupt or a failed allocation has ended.

        The values are the truth: a key without its value, a value without its key, and a cell
        without its place among the values are removed. An interrupted repair is repeated.
        """
        ids, values = self._ids, self._values
        ids.default_factory = None
        while ids and next(reversed(ids.values())) >= len(values):
            ids.popitem()
        last = next(reversed(ids.values()), -1)
        while values and values[-1] is not CELL and last < len(values) - 1:
            values.pop()
        self.cells.truncate(len(values))
        self._adding = False

    def _lookup(self, value: Any, *, add: bool) -> int | None:
        if isinstance(value, tuple):
            return self._lookup_tuple(value, add=add)
        part = self._part(value, add)
        if part is None:
            return None
        cls, key, stored = part
        full = key if cls in _PLAIN else (cls, key)
        code = self._ids.get(full)
        return self._add(full, stored) if code is None and add else code

    def _lookup_tuple(self, value: tuple[Any, ...], *, add: bool) -> int | None:
        """Intern a tuple after its inner tuples; without recursion, since nesting may be deep."""
        known = self._tuple_ids
        code = known.get(id(value))
        if code is not None:
            return code
        done: dict[int, int] = {}  # id(object) -> code of the tuples visited so far
        stack = [value]
        while stack:
            node = stack[-1]
            waiting = [
                inner
                for inner in node
                if isinstance(inner, tuple) and id(inner) not in known and id(inner) not in done
            ]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if id(node) in done:
                continue
            key: list[Any] = [type(node)]
            stored: list[Any] = []
            for inner in node:
                if isinstance(inner, tuple):
                    inner_code = known.get(id(inner))
                    inner_code = done[id(inner)] if inner_code is None else inner_code
                    key += (type(inner), inner_code)
                    stored.append(self._values[inner_code])
                else:
                    part = self._part(inner, add)
                    if part is None:
                        return None
                    key += part[:2]
                    stored.append(part[2])
            full = tuple(key)
            code = self._ids.get(full)
            if code is None:
                if not add:
                    return None
                code = self._add(full, _rebuild(node, stored))
                known[id(self._values[code])] = code
            done[id(node)] = code
        return done[id(value)]

    def _part(self, value: Any, add: bool) -> tuple[type, Any, Any] | None:
        """Return class, key within the class, and object to store, of a value but a tuple.

        None if the key depends on an inner value that is not interned and must not be added.
        """
        cls = type(value)
        if cls in _SELF_KEYED:
            return cls, value, value
        if cls is float:
            value = value + 0.0
            return cls, ("nan" if value != value else value), value
        if isinstance(value, np.datetime64):
            return self._part(whole_microseconds(value), add)
        if isinstance(value, np.timedelta64) and has_unit(value):
            return self._part(whole_duration(value), add)
        if isinstance(value, np.generic):
            plain = value.item()
            if isinstance(plain, np.generic):  # a scalar without a class in Python (long double)
                raise InputError(
                    f"{shorten(value)} of type {cls.__name__} cannot be a value: Python has no type for it; "
                    "convert it to float or int",
                    code="unsupported-value",
                )
            return self._part(plain, add)
        if isinstance(value, frozenset):
            keys = []
            for inner in value:
                if isinstance(inner, tuple):
                    code = self._lookup_tuple(inner, add=add)
                    if code is None:
                        return None
                    keys.append((type(inner), code))
                else:
                    part = self._part(inner, add)
                    if part is None:
                        return None
                    keys.append(part[:2])
            return cls, frozenset(keys), value
        try:
            hash(value)
        except TypeError:
            hint = "; use a tuple" if isinstance(value, list) else ""
            raise InputError(
                f"{shorten(value)} of type {cls.__name__} cannot be a value: it is not hashable{hint}",
                code="unsupported-value",
            ) from None
        if value != value:  # such as Decimal("NaN"), which equals itself here
            return cls, ("nan", repr(value)), value
        return cls, value, value


def _rebuild(node: tuple[Any, ...], stored: list[Any]) -> tuple[Any, ...]:
    """Return `node` with its elements replaced by the stored, interned objects."""
    if all(old is new for old, new in zip(node, stored, strict=True)):
        return node
    if type(node) is tuple:
        return tuple(stored)
    make = getattr(type(node), "_make", None)  # named tuples
    return make(stored) if make is not None else node


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
