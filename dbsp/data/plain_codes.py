"""The codes of plain values: all values but records, branches, lists and structs.

`dbsp.data.values` has the table of all types and their codes.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dbsp.data.decimals import decimal_code, decimal_of
from dbsp.data.interner import Interner
from dbsp.data.timestamps import (
    EPOCH,
    MICROSECOND,
    duration_code,
    has_unit,
    in_zone,
    instant,
    naive,
    nanoseconds_refused,
    time_code,
    time_of,
    whole_duration,
    whole_microseconds,
)
from dbsp.data.types import Type
from dbsp.errors import InputError, ValueOutOfRangeError, shorten
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL

Encoder: TypeAlias = Callable[[Any, Interner], int]
Decoder: TypeAlias = Callable[[int, Interner], Any]

_EPOCH_DAY = EPOCH.toordinal()
_as_float = struct.Struct("=d")
_as_int = struct.Struct("=q")


def float_code(value: float) -> int:
    """Return the code of one float; `dbsp.data.columns.float_codes` does so for arrays.

    Adding 0.0 turns -0.0 into 0.0.
    """
    if value != value:
        return NAN_CODE
    bits: int = _as_int.unpack(_as_float.pack(value + 0.0))[0]
    return bits if bits >= 0 else bits ^ INT64_MAX


def code_float(code: int) -> float:
    """Return the float of a code; the inverse of `float_code`."""
    value: float = _as_float.unpack(_as_int.pack(code if code >= 0 else code ^ INT64_MAX))[0]
    return value


NAN_CODE: int = _as_int.unpack(_as_float.pack(math.nan))[0]


_NOT_NUMBERS = (bool, np.bool_, np.timedelta64)
"""Subclasses of numbers that are not numbers here."""

ANY_INT = "an int from -2**63 to 2**63 - 1"
"""The range of an int column, as messages write it."""

NULL_AS_INT = "expected an int from -2**63 + 1 to 2**63 - 1 in an optional column, got -2**63"
"""The message for the int whose code represents None."""


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaT of numpy or pandas, or NA of pandas."""
    if isinstance(value, (dt.datetime, np.datetime64, np.timedelta64)):
        return bool(value != value)
    return value is None or type(value).__name__ == "NAType"


def _misfit(kind: str, value: Any) -> InputError:
    if _is_missing(value):
        return InputError(
            f"expected {kind}, got None; to allow None, declare the column optional", code="missing-value"
        )
    return InputError(
        f"expected {kind}, got {shorten(value)} of type {type(value).__name__}", code="wrong-type"
    )


def out_of_int_range(value: int) -> ValueOutOfRangeError:
    """Return the error for an int that is too large or too small for a column."""
    return ValueOutOfRangeError(f"expected {ANY_INT}, got {shorten(value)}")


def _encode_int(value: Any, interner: Interner) -> int:
    if type(value) is not int:
        if isinstance(value, _NOT_NUMBERS) or not isinstance(value, (int, np.integer)):
            raise _misfit("int", value)
        value = int(value)
    code: int = value
    if not INT64_MIN <= code <= INT64_MAX:
        raise out_of_int_range(value)
    return code


def _encode_float(value: Any, interner: Interner) -> int:
    if type(value) is not float:
        if isinstance(value, _NOT_NUMBERS) or not isinstance(value, (float, int, np.floating, np.integer)):
            raise _misfit("float", value)
        try:
            value = float(value)
        except OverflowError:
            raise ValueOutOfRangeError(
                f"expected a float, got the int {shorten(value)}, which is too large for a float"
            ) from None
    return float_code(value)


def _encode_bool(value: Any, interner: Interner) -> int:
    if not isinstance(value, (bool, np.bool_)):
        raise _misfit("bool", value)
    return int(value)


def _encode_date(value: Any, interner: Interner) -> int:
    if isinstance(value, np.datetime64):
        value = value.item()
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise _misfit("date", value)
    days: int = value.toordinal() - _EPOCH_DAY
    return days


def _datetime(value: Any, kind: str) -> dt.datetime:
    """Return a datetime, also of numpy and pandas. Raises ValueOutOfRangeError for nanoseconds."""
    if isinstance(value, np.datetime64):
        value = whole_microseconds(value)
    if not isinstance(value, dt.datetime):
        raise _misfit(kind, value)
    if _is_missing(value):
        raise _misfit(kind, value)
    if getattr(value, "nanosecond", 0):  # of pandas
        raise nanoseconds_refused(value)
    return value


def _encode_timestamp(value: Any, interner: Interner) -> int:
    if type(value) is not dt.datetime:
        value = _datetime(value, "timestamp")
    return (naive(value) - EPOCH) // MICROSECOND


def _encode_instant(value: Any, interner: Interner) -> int:
    if type(value) is not dt.datetime:
        value = _datetime(value, "timestamptz")
    return instant(value)


def _encode_duration(value: Any, interner: Interner) -> int:
    if type(value) is not dt.timedelta:
        if isinstance(value, np.timedelta64):
            if not np.isnat(value) and not has_unit(value):
                raise _misfit("duration", value)
            value = whole_duration(value)
        if not isinstance(value, dt.timedelta):
            raise _misfit("duration", value)
        if getattr(value, "nanoseconds", 0):  # of pandas
            raise nanoseconds_refused(value, "duration")
    return duration_code(value)


def _encode_time(value: Any, interner: Interner) -> int:
    if not isinstance(value, dt.time):
        raise _misfit("time", value)
    return time_code(value)


def _encode_str(value: Any, interner: Interner) -> int:
    if type(value) is not str:
        if not isinstance(value, str):
            raise _misfit("str", value)
        value = str.__str__(value)  # an exact str for members of a str enumeration too
    return interner.encode(value)


def _encode_bytes(value: Any, interner: Interner) -> int:
    if not isinstance(value, bytes):
        raise _misfit("bytes", value)
    return interner.encode(bytes(value))


def _encode_object(value: Any, interner: Interner) -> int:
    if value is None:
        raise _misfit("object", value)
    return interner.encode(value)


_ENCODERS: dict[str, Encoder] = {
    "int": _encode_int,
    "float": _encode_float,
    "bool": _encode_bool,
    "date": _encode_date,
    "time": _encode_time,
    "timestamp": _encode_timestamp,
    "timestamptz": _encode_instant,
    "duration": _encode_duration,
    "str": _encode_str,
    "bytes": _encode_bytes,
    "object": _encode_object,
}

_DECODERS: dict[str, Decoder] = {
    "int": lambda code, interner: code,
    "float": lambda code, interner: code_float(code),
    "bool": lambda code, interner: code != 0,
    "date": lambda code, interner: dt.date.fromordinal(code + _EPOCH_DAY),
    "time": lambda code, interner: time_of(code),
    "timestamp": lambda code, interner: EPOCH + dt.timedelta(microseconds=code),
    "duration": lambda code, interner: dt.timedelta(microseconds=code),
    "str": lambda code, interner: interner.decode(code),
    "bytes": lambda code, interner: interner.decode(code),
    "object": lambda code, interner: interner.decode(code),
}


def optional_encoder(type_: Type, encode: Encoder) -> Encoder:
    """Return `encode`, extended by None, and other missing values, if the type is nullable."""
    if not type_.nullable:
        return encode

    def encode_optional(value: Any, interner: Interner) -> int:
        if value is None:
            return NULL
        try:
            code = encode(value, interner)
        except InputError:
            if _is_missing(value):
                return NULL
            raise
        if code == NULL:
            raise ValueOutOfRangeError(NULL_AS_INT)
        return code

    return encode_optional


def optional_decoder(type_: Type, decode: Decoder) -> Decoder:
    """Return `decode`, extended by None if the type is nullable."""
    if not type_.nullable:
        return decode
    return lambda code, interner: None if code == NULL else decode(code, interner)


@functools.cache
def plain_encoder(type_: Type) -> Encoder:
    """Return the function `(value, interner) -> code` of a type without structure."""
    if type_.kind == "decimal":
        scale = type_.scale
        return optional_encoder(type_, lambda value, interner: decimal_code(value, scale))
    return optional_encoder(type_, _ENCODERS[type_.kind])


@functools.cache
def plain_decoder(type_: Type) -> Decoder:
    """Return the function `(code, interner) -> value` of a type without structure."""
    if type_.kind == "decimal":
        scale = type_.scale
        return optional_decoder(type_, lambda code, interner: decimal_of(code, scale))
    if type_.kind == "timestamptz":
        zone = type_.zone
        return optional_decoder(type_, lambda code, interner: in_zone(code, zone))
    return optional_decoder(type_, _DECODERS[type_.kind])
