"""Hashes of Python objects that are equal for equal objects, in every process and version.

Python's own `hash` depends on the process. docs/reference/file-formats.md has the definition.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import xxhash

from dbsp.data.terms import Branch, Record
from dbsp.data.timestamps import EPOCH, MICROSECOND, has_unit, whole_duration, whole_microseconds
from dbsp.kernels.arrays import Words

_WORD = 2**64 - 1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The increment of splitmix64."""
STRING, BYTES, TEXT, NAME = 0, 1, 2, 3
"""The seeds of XXH3 for strings, bytes, texts of other values, and names."""
_TUPLE, _RECORD, _BRANCH, _SET, _OTHER = 3, 4, 5, 6, 7
"""The starts of the hashes of compound objects; lists and structs of columns have 1 and 2."""
_COMPOUND = (tuple, Branch, frozenset)


class TupleHashes:
    """The hashes of some tuples that are known already: of none."""

    def get(self, value: tuple[Any, ...]) -> int:
        """Return the hash of a tuple, or 0."""
        return 0

    def put(self, value: tuple[Any, ...], found: int) -> None:
        """Note the hash of a tuple."""


_NO_TUPLES = TupleHashes()


def mix(total: int, value: int) -> int:
    """Return the hash `total` continued by a value, as `dbsp.kernels.placing` does."""
    word = ((total ^ value) + 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def mix_words(words: Words) -> Words:
    """Return the finaliser of splitmix64 of each word: every bit affects all others."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def text_hash(text: str, seed: int) -> int:
    """Return the XXH3 of a text in UTF-8, in which surrogates are encoded like other characters."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed)


def object_hash(value: Any, known: TupleHashes = _NO_TUPLES) -> int:
    """Return the hash of any value of an interner, from 0 to 2^64 - 1.

    Nesting has no limit. All objects of other classes have one hash per class.
    """
    if not isinstance(value, _COMPOUND):
        return _plain_hash(value)
    done: dict[int, int] = {}
    stack = [value]
    while stack:
        node = stack[-1]
        if id(node) in done:
            stack.pop()
            continue
        if isinstance(node, tuple) and (found := known.get(node)):
            done[id(node)] = found
            continue
        parts = node.arguments if isinstance(node, Branch) else node
        waiting = [part for part in parts if isinstance(part, _COMPOUND) and id(part) not in done]
        if waiting:
            stack.extend(waiting)
            continue
        hashes = [done[id(part)] if isinstance(part, _COMPOUND) else _plain_hash(part) for part in parts]
        found = done[id(node)] = _compound_hash(node, hashes)
        if isinstance(node, tuple):
            known.put(node, found)
    return done[id(value)]


def _compound_hash(node: Any, hashes: list[int]) -> int:
    cls = type(node)
    if cls is frozenset:
        return mix(mix(_SET, len(hashes)), sum(mix(0, part) for part in hashes) & _WORD)
    if cls is tuple or cls is Record:
        total = _TUPLE if cls is tuple else _RECORD
    elif cls is Branch:
        total = mix(_BRANCH, text_hash(node.name, NAME))
    else:
        total = mix(_OTHER, text_hash(f"{cls.__module__}.{cls.__qualname__}", NAME))
        if isinstance(node, frozenset):  # a class of its own, which may define equality
            return total
    total = mix(total, len(hashes))
    for part in hashes:
        total = mix(total, part)
    return total


def _plain_hash(value: Any) -> int:
    cls = type(value)
    if cls is str:
        return text_hash(value, STRING)
    if cls is bytes:
        return xxhash.xxh3_64_intdigest(value, BYTES)
    write = _TEXTS.get(cls)
    if write is not None:
        return text_hash(write(value), TEXT)
    if isinstance(value, np.generic):  # in a set; elsewhere the interner converts them
        return _plain_hash(_converted(value))
    return text_hash(f"class {cls.__module__}.{cls.__qualname__}", TEXT)


def _converted(value: np.generic) -> Any:
    if isinstance(value, np.datetime64):
        return whole_microseconds(value)
    if isinstance(value, np.timedelta64) and has_unit(value):
        return whole_duration(value)
    return value.item()


def _float(value: float) -> str:
    return "nan" if value != value else (value + 0.0).hex()


def _decimal(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return f"decimal {value}"
    text = "".join(map(str, digits)).strip("0")
    if not text:
        return "decimal 0e0"
    exponent += len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return f"decimal {'-' if sign else ''}{text}e{exponent}"


def _microseconds(value: dt.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _instant(value: dt.datetime) -> str:
    """Return the text of a datetime: equal for the same instant in two zones, as datetimes are."""
    value = value.replace(fold=0)
    offset, wall = value.utcoffset(), (value.replace(tzinfo=None) - EPOCH) // MICROSECOND
    return f"datetime {wall}" if offset is None else f"datetime {wall - offset // MICROSECOND} utc"


def _time(value: dt.time) -> str:
    value = value.replace(fold=0)
    offset, wall = value.utcoffset(), _microseconds(value)
    return f"time {wall}" if offset is None else f"time {wall - offset // MICROSECOND} utc"


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "none",
    bool: lambda value: f"bool {int(value)}",
    int: lambda value: f"int {value:x}",
    float: lambda value: f"float {_float(value)}",
    complex: lambda value: f"complex {_float(value.real)} {_float(value.imag)}",
    Decimal: _decimal,
    Fraction: lambda value: f"fraction {value.numerator:x}/{value.denominator:x}",
    uuid.UUID: lambda value: f"uuid {value.hex}",
    dt.date: lambda value: f"date {value.toordinal()}",
    dt.datetime: _instant,
    dt.time: _time,
    dt.timedelta: lambda value: f"duration {value // MICROSECOND}",
}
