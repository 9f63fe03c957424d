"""Lists and structs: their values in Python, and their codes.

A list is interned as the tuple of the codes of its elements. A struct is a constructed value, a row
of the codes of its fields (see `dbsp.data.cells`): a field of a column is read without a Python
object per value. Both are values, so equal lists have one id.

In Python a list is a tuple and a struct a named tuple: rows are hashable. Lists, dicts, dataclasses
and plain tuples are accepted as well.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.plain_codes import Decoder, Encoder
from dbsp.data.types import Layout, Type
from dbsp.errors import DbspError, InputError, at_place, counted, shorten
from dbsp.kernels.arrays import Codes

EncodeColumn = Callable[[Type, Sequence[Any], Interner, str], Codes]
DecodeColumn = Callable[[Type, Codes, Interner], list[Any]]


def _of_part(error: DbspError, part: str) -> DbspError:
    """Return the error of a part of a value; a missing one needs an optional part, not a column."""
    if error.code == "missing-value":
        error.message = error.message.replace("declare the column optional", f"declare the {part} optional")
    return error


# --- structs --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def struct_class(names: tuple[str, ...]) -> Any:
    """Return the class of the values of structs with these fields."""
    named: Any = namedtuple
    cls = named("Struct", names)
    cls.__reduce__ = _reduce_struct  # pickle cannot find the class by its name
    return cls


def _reduce_struct(struct: Any) -> tuple[Any, ...]:
    return _struct, (struct._fields, tuple(struct))


def _struct(names: tuple[str, ...], values: Iterable[Any]) -> Any:
    return struct_class(names)._make(values)


@functools.lru_cache(maxsize=1024)
def _layout(arity: int) -> Layout:
    return Layout("", (False,) * arity)


def struct_layout(type_: Type) -> Layout:
    """Return the layout of the structs of a type."""
    return _layout(len(type_.parts))


def _fields_of(value: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """Return the values of the fields of a struct, in order. Raises InputError."""
    expected = f"expected a struct of the fields {', '.join(names)}"
    if isinstance(value, tuple):
        given = getattr(value, "_fields", None)
        if given is not None and given != names:
            value = dict(zip(given, value, strict=True))
        elif len(value) == len(names):
            return value
        else:
            raise InputError(
                f"{expected}, got {counted(len(value), 'value')}: {shorten(value)}", code="wrong-arity"
            )
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if not isinstance(value, Mapping):
        if value is None:
            raise InputError(
                f"{expected}, got None; to allow None, declare the column optional", code="missing-value"
            )
        raise InputError(
            f"{expected}, got {shorten(value)} of type {type(value).__name__}", code="wrong-type"
        )
    if value.keys() != set(names):
        raise InputError(f"{expected}, got the fields {', '.join(map(str, value))}", code="unknown-column")
    return [value[name] for name in names]


def encode_struct(value: Any, fields: Sequence[tuple[str, Encoder]], interner: Interner) -> int:
    """Return the code of one struct. Raises the errors of its fields, with their names."""
    codes = []
    parts = _fields_of(value, tuple(name for name, _ in fields))
    for (name, encode), part in zip(fields, parts, strict=True):
        try:
            codes.append(encode(part, interner))
        except DbspError as error:
            raise at_place(_of_part(error, "field"), f"field {name!r}") from None
    return interner.construct_one(_layout(len(codes)), codes)


def decode_struct(code: int, fields: Sequence[tuple[str, Decoder]], interner: Interner) -> Any:
    """Return the struct of a code."""
    _, codes = interner.cells.cell(code)
    parts = [decode(part, interner) for part, (_, decode) in zip(codes, fields, strict=True)]
    return struct_class(tuple(name for name, _ in fields))._make(parts)


def encode_structs(type_: Type, values: Sequence[Any], interner: Interner, encode: EncodeColumn) -> Codes:
    """Return the codes of many structs, field by field."""
    names = tuple(part.name for part in type_.parts)
    rows = [_fields_of(value, names) for value in values]
    codes = np.empty((len(rows), len(names)), np.int64)
    for at, part in enumerate(type_.parts):
        codes[:, at] = encode(part.type, [row[at] for row in rows], interner, "")
    return interner.construct(struct_layout(type_), codes)


def struct_columns(type_: Type, codes: Codes, interner: Interner) -> list[Codes]:
    """Return the codes of each field of many structs, none of which is None."""
    layout = struct_layout(type_)
    return [interner.cells.field(layout, codes, at, 0) for at in range(len(type_.parts))]


def decode_structs(type_: Type, codes: Codes, interner: Interner, decode: DecodeColumn) -> list[Any]:
    """Return many structs, field by field."""
    columns = struct_columns(type_, codes, interner)
    parts = [decode(part.type, column, interner) for part, column in zip(type_.parts, columns, strict=True)]
    make = struct_class(tuple(part.name for part in type_.parts))._make
    return [make(row) for row in zip(*parts, strict=True)]


# --- lists ----------------------------------------------------------------------------------------


def _elements(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return list(value)
    if value is None:
        raise InputError(
            "expected a list, got None; to allow None, declare the column optional", code="missing-value"
        )
    raise InputError(
        f"expected a list, got {shorten(value)} of type {type(value).__name__}", code="wrong-type"
    )


def encode_list(value: Any, encode: Encoder, interner: Interner) -> int:
    """Return the code of one list. Raises the error of an element, with its position."""
    codes = []
    for at, element in enumerate(_elements(value)):
        try:
            codes.append(encode(element, interner))
        except DbspError as error:
            raise at_place(_of_part(error, "elements"), f"element {at}") from None
    return interner.encode(tuple(codes))


def decode_list(code: int, decode: Decoder, interner: Interner) -> tuple[Any, ...]:
    """Return the list of a code, as a tuple."""
    return tuple([decode(element, interner) for element in interner.decode(code)])


def encode_lists(type_: Type, values: Sequence[Any], interner: Interner, encode: EncodeColumn) -> Codes:
    """Return the codes of many lists; the elements of all lists are encoded at once."""
    elements = [element for value in values for element in value]
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return lists_of(encode(type_.element, elements, interner, ""), lengths, interner)


def lists_of(elements: Codes, lengths: Codes, interner: Interner) -> Codes:
    """Return the codes of lists whose elements are one after the other."""
    return interner.encode_int_tuples(elements, np.cumsum(lengths))


def list_elements(codes: Codes, interner: Interner) -> tuple[Codes, Codes]:
    """Return the codes of the elements of many lists, in sequence, and the length of each list."""
    distinct, inverse = distinct_codes(codes)
    lists = interner.decode_many(distinct)
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    total = int(lengths.sum())
    flat = np.fromiter(itertools.chain.from_iterable(lists), np.int64, total)
    starts = np.cumsum(lengths) - lengths
    counts = lengths[inverse]
    ends = np.cumsum(counts)
    places = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    return flat[np.repeat(starts[inverse], counts) + places], counts


def decode_lists(type_: Type, codes: Codes, interner: Interner, decode: DecodeColumn) -> list[Any]:
    """Return many lists as tuples; the elements of all lists are decoded at once."""
    elements, lengths = list_elements(codes, interner)
    values, start, lists = decode(type_.element, elements, interner), 0, []
    for length in lengths.tolist():
        lists.append(tuple(values[start : start + length]))
        start += length
    return lists


def list_keys(
    type_: Type, codes: Codes, interner: Interner, rank: Callable[[Type, Codes, Interner], Codes]
) -> list[Any]:
    """Return tuples that compare like the lists: element by element, a shorter list first."""
    elements, lengths = list_elements(codes, interner)
    ranks, start, keys = rank(type_.element, elements, interner).tolist(), 0, []
    for length in lengths.tolist():
        keys.append(tuple(ranks[start : start + length]))
        start += length
    return keys
