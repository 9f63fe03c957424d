"""Values with ids, and the keys by which they are found."""

from __future__ import annotations

import types
from collections import defaultdict
from typing import Any

import numpy as np

from dbsp.data.id_places import IdPlaces
from dbsp.data.timestamps import has_unit, whole_duration, whole_microseconds
from dbsp.errors import InputError, shorten

PLAIN = frozenset({str, bytes})
"""The classes of values that are their own keys."""
_SELF_KEYED = frozenset({str, int, bytes, bool, types.NoneType})


class KeyedValues:
    """The values of an interner, in the order of their ids, and the id of each key."""

    __slots__ = ("_adding", "_ids", "_shift", "_tuple_ids", "_unplaced", "_values", "places")

    def __init__(self) -> None:
        # Whether values are being added. If this is still set at the next use, an interrupt or a
        # failed allocation has ended the addition: `Interner` removes what it left.
        self._adding = False
        self.places = IdPlaces()
        self._shift = 0  # a copy from the places
        # The ids below this one have a place of their own: none, or all once values were freed.
        self._unplaced = 0
        # Strings and bytes are their own keys; every other value has a key `(class, ...)`, a tuple.
        self._ids: defaultdict[Any, int] = defaultdict(None)
        self._values: list[Any] = []
        # id(object) -> code of the tuples in `_values`, which stay alive and so keep their
        # addresses.
        self._tuple_ids: dict[int, int] = {}

    def decode(self, code: int) -> Any:
        """Return the value with this id. Raises IndexError if there is none."""
        if code < self._unplaced:
            return self._values[self.places.place(code)]
        return self._values[code]

    def _add(self, key: Any, value: Any) -> int:
        code = len(self._values) + self._shift
        self._adding = True
        self._values.append(value)
        self._ids[key] = code
        self._adding = False
        return code

    def _lookup(self, value: Any, *, add: bool) -> int | None:
        if isinstance(value, tuple):
            return self._lookup_tuple(value, add=add)
        part = self._part(value, add)
        if part is None:
            return None
        cls, key, stored = part
        full = key if cls in PLAIN else (cls, key)
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
                    stored.append(self.decode(inner_code))
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
                known[id(self._values[-1])] = code
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
