"""Encoding and decoding of whole columns of one type, without a Python call per number."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsp.data.decimals import decimal_code, decimals_of
from dbsp.data.interner import Interner
from dbsp.data.nested_values import decode_lists, decode_structs, encode_lists, encode_structs
from dbsp.data.timestamps import EPOCH, duration_code, in_zone, instant, naive, time_code, time_of
from dbsp.data.types import Type
from dbsp.data.values import decoder, encoder
from dbsp.errors import DbspError, at_place
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, NULL

Floats = npt.NDArray[np.float64]

_MAGNITUDE = np.int64(INT64_MAX)
_EPOCH_DAY = EPOCH.toordinal()
_NONE = type(None)


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
        values = [naive(value) for value in values]
    return np.array(values, "datetime64[us]").view(np.int64)


def _instants(values: Sequence[Any], interner: Interner) -> Codes:
    return np.fromiter(map(instant, values), np.int64, len(values))


def _durations(values: Sequence[Any], interner: Interner) -> Codes:
    return np.fromiter(map(duration_code, values), np.int64, len(values))


def _times(values: Sequence[Any], interner: Interner) -> Codes:
    return np.fromiter(map(time_code, values), np.int64, len(values))


def _plain(values: Sequence[Any], interner: Interner) -> Codes:
    return interner.encode_plain(values)


_FAST: dict[str, tuple[frozenset[type], Callable[[Sequence[Any], Interner], Codes]]] = {
    "int": (frozenset({int}), _ints),
    "float": (frozenset({float, int}), _floats),
    "bool": (frozenset({bool}), _bools),
    "date": (frozenset({dt.date}), _dates),
    "time": (frozenset({dt.time}), _times),
    "timestamp": (frozenset({dt.datetime}), _timestamps),
    "timestamptz": (frozenset({dt.datetime}), _instants),
    "duration": (frozenset({dt.timedelta}), _durations),
    "str": (frozenset({str}), _plain),
    "bytes": (frozenset({bytes}), _plain),
    "object": (frozenset({str, bytes}), _plain),
}
_NEVER: tuple[frozenset[type], Callable[[Sequence[Any], Interner], Codes]] = (frozenset(), _ints)


def _fast(type_: Type) -> tuple[frozenset[type], Callable[[Sequence[Any], Interner], Codes]]:
    """Return the classes of values that have a fast encoder, and the encoder."""
    if type_.kind == "decimal":
        scale = type_.scale
        return _DECIMALS, lambda values, _: np.fromiter(
            (decimal_code(value, scale) for value in values), np.int64, len(values)
        )
    if type_.kind == "list":
        return _LISTS, lambda values, interner: encode_lists(type_, values, interner, encode_column)
    if type_.kind == "struct":
        return _STRUCTS, lambda values, interner: encode_structs(type_, values, interner, encode_column)
    return _FAST.get(type_.kind, _NEVER)


_DECIMALS = frozenset({Decimal, int})
_LISTS = frozenset({list, tuple})
_STRUCTS = frozenset({dict, tuple})


def encode_column(type_: Type, values: Sequence[Any], interner: Interner, name: str = "") -> Codes:
    """Return the codes of a column of values, int64[n].

    Raises InputError or ValueOutOfRangeError, which name the row, the column and the value.
    """
    classes = set(map(type, values))
    expected, fast = _fast(type_)
    if type_.nullable and _NONE in classes:
        return _encode_with_nulls(type_, values, interner, name)
    if classes <= expected:
        try:
            codes = fast(values, interner)
        except (OverflowError, DbspError):
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
    elif kind == "time":
        values = list(map(time_of, codes.tolist()))
    elif kind == "timestamptz":
        values = [in_zone(code, type_.zone) for code in codes.tolist()]
    elif kind == "duration":
        values = codes.astype("timedelta64[us]").tolist()
    elif kind == "decimal":
        values = decimals_of(codes.tolist(), type_.scale)
    elif kind == "list":
        values = decode_lists(type_, codes, interner, decode_column)
    elif kind == "struct":
        values = decode_structs(type_, codes, interner, decode_column)
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
