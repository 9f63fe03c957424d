"""Encoding and decoding of whole columns of one type, without a Python call per number."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsp.data.interner import Interner
from dbsp.data.timestamps import naive_utc
from dbsp.data.types import Type
from dbsp.data.values import decoder, encoder
from dbsp.errors import DbspError, ValueOutOfRangeError, at_place
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, NULL

Floats = npt.NDArray[np.float64]

_MAGNITUDE = np.int64(INT64_MAX)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_NONE = type(None)
MIN_DAY = dt.date.min.toordinal() - _EPOCH_DAY
MAX_DAY = dt.date.max.toordinal() - _EPOCH_DAY
_DAY_MICROSECONDS = 86_400_000_000
MIN_MICROSECOND = MIN_DAY * _DAY_MICROSECONDS
MAX_MICROSECOND = (MAX_DAY + 1) * _DAY_MICROSECONDS - 1


def float_codes(values: Floats) -> Codes:
    """Return the codes of an array of floats, ordered like the floats. -0.0 becomes 0.0;

    NaN is last.
    """
    values = values + 0.0
    nan = np.isnan(values)
    if nan.any():
        values[nan] = np.nan
    bits: Codes = values.view(np.int64)
    return bits ^ ((bits >> 63) & _MAGNITUDE)


def code_floats(codes: Codes) -> Floats:
    """Return the floats of codes; the inverse of `float_codes`."""
    return (codes ^ ((codes >> 63) & _MAGNITUDE)).view(np.float64)


# --- encode: one function per kind, for columns of exactly the expected class ---------------------
# They may raise OverflowError; then, and for every other class, the values are encoded one by one.


def _ints(values: Sequence[Any], interner: Interner) -> Codes:
    return np.fromiter(values, np.int64, len(values))


def _floats(values: Sequence[Any], interner: Interner) -> Codes:
    return float_codes(np.fromiter(values, np.float64, len(values)))


def _bools(values: Sequence[Any], interner: Interner) -> Codes:
    return np.fromiter(values, np.bool_, len(values)).astype(np.int64)


def _dates(values: Sequence[Any], interner: Interner) -> Codes:
    return np.fromiter(map(dt.date.toordinal, values), np.int64, len(values)) - _EPOCH_DAY


def _timestamps(values: Sequence[Any], interner: Interner) -> Codes:
    if any(value.tzinfo is not None for value in values):
        values = [naive_utc(value) for value in values]
    return np.array(values, "datetime64[us]").view(np.int64)


def _plain(values: Sequence[Any], interner: Interner) -> Codes:
    return interner.encode_plain(values)


_FAST: dict[str, tuple[frozenset[type], Callable[[Sequence[Any], Interner], Codes]]] = {
    "int": (frozenset({int}), _ints),
    "float": (frozenset({float, int}), _floats),
    "bool": (frozenset({bool}), _bools),
    "date": (frozenset({dt.date}), _dates),
    "timestamp": (frozenset({dt.datetime}), _timestamps),
    "str": (frozenset({str}), _plain),
    "bytes": (frozenset({bytes}), _plain),
    "object": (frozenset({str, bytes}), _plain),
    "record": (frozenset(), _ints),
}


def encode_column(type_: Type, values: Sequence[Any], interner: Interner, name: str = "") -> Codes:
    """Return the codes of a column of values, int64[n].

    Raises InputError or ValueOutOfRangeError, which name the row, the column and the value.
    """
    classes = set(map(type, values))
    expected, fast = _FAST[type_.kind]
    if type_.nullable and _NONE in classes:
        return _encode_with_nulls(type_, values, interner, name)
    if classes <= expected:
        try:
            codes = fast(values, interner)
        except (OverflowError, ValueOutOfRangeError):
            pass  # the slow path below finds the value and raises the error
        else:
            if not (type_.nullable and type_.kind == "int" and (codes == NULL).any()):
                return codes
    return _encode_one_by_one(type_, values, interner, name)


def _encode_with_nulls(type_: Type, values: Sequence[Any], interner: Interner, name: str) -> Codes:
    present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    codes = np.full(len(values), NULL, np.int64)
    try:
        codes[present] = encode_column(type_, [value for value in values if value is not None], interner)
    except DbspError:
        return _encode_one_by_one(type_, values, interner, name)  # names the right row
    return codes


def _encode_one_by_one(type_: Type, values: Sequence[Any], interner: Interner, name: str) -> Codes:
    encode = encoder(type_)
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        try:
            codes[row] = encode(value, interner)
        except DbspError as error:
            column = f", column {name!r}" if name else ""
            raise at_place(error, f"row {row}{column}") from None
    return codes


# --- decode ---------------------------------------------------------------------------------------


def decode_column(type_: Type, codes: Codes, interner: Interner) -> list[Any]:
    """Return the values of a column of codes."""
    if type_.nullable:
        null = codes == NULL
        if null.any():
            return _decode_with_nulls(type_, codes, null, interner)
    kind = type_.kind
    values: list[Any]
    if kind == "int":
        values = codes.tolist()
    elif kind == "float":
        values = code_floats(codes).tolist()
    elif kind == "bool":
        values = (codes != 0).tolist()
    elif kind == "date":
        values = codes.astype("datetime64[D]").tolist()
    elif kind == "timestamp":
        values = codes.astype("datetime64[us]").tolist()
    elif kind == "record":
        decode = decoder(type_)
        values = [decode(code, interner) for code in codes.tolist()]
    else:
        values = interner.decode_many(codes)
    return values


def _decode_with_nulls(
    type_: Type, codes: Codes, null: npt.NDArray[np.bool_], interner: Interner
) -> list[Any]:
    present = iter(decode_column(type_.required(), codes[~null], interner))
    return [None if missing else next(present) for missing in null.tolist()]
