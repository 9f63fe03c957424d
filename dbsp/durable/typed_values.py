"""Python values as JSON values, for files: no class is looked up by a name in the file.

Strings, None, bools, finite floats and ints of 64 bits are themselves. Any other value is an object
with one key that names its kind, such as `{"bytes": "00ff"}` or `{"tuple": [1, "a"]}`.

| kind              | written as                                              |
|-------------------|---------------------------------------------------------|
| int               | hexadecimal digits, since those have no limit           |
| float             | "nan", "inf" or "-inf"                                  |
| decimal, fraction | text                                                    |
| date, duration    | text in ISO format; days, seconds and microseconds      |
| datetime, time    | ISO format without zone, fold, zone                     |
| tuple, record     | the elements                                            |
| set               | the elements of a frozenset                             |
| branch            | the name and the arguments                              |
| known             | the id of an interned tuple, which is part of another   |
| pickle            | base64, only if the caller allows it                    |
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import fractions
import math
import pickle
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from dbsp.data.terms import Branch, Record
from dbsp.errors import CheckpointError, shorten
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.lazy_dataclass import dataclass


class UnsupportedValueError(Exception):
    """A value has no typed encoding; `value` is the innermost one."""

    def __init__(self, value: Any, reason: str = "") -> None:
        super().__init__(reason)
        self.value = value
        self.reason = reason


class PickleRefusedError(Exception):
    """A file has a pickled value, and the reader does not allow it."""


def _unknown(value: Any) -> int | None:
    return None


def _no_value(code: int) -> Any:
    raise ValueError(f"the value {code} is not known here")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How to write values: whether pickle is allowed, and the ids of tuples that are known."""

    allow_pickle: bool = False
    known: Callable[[Any], int | None] = _unknown
    """Returns the id of an inner tuple that the reader knows already, or None."""

    def encode(self, value: Any) -> Any:
        """Return a value as a JSON value. Raises UnsupportedValueError."""
        cls = type(value)
        if cls is str or value is None or cls is bool:
            return value
        if cls is int:
            return value if INT64_MIN <= value <= INT64_MAX else {"int": f"{value:x}"}
        if cls is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if cls is tuple or cls is Record:
            return {"tuple" if cls is tuple else "record": [self._part(part) for part in value]}
        if cls is frozenset:
            return {"set": [self._part(part) for part in value]}
        if cls is Branch:
            return {"branch": [value.name, *(self._part(part) for part in value.arguments)]}
        write = _WRITERS.get(cls)
        if write is not None:
            kind, text = write
            return {kind: text(value)}
        return self._pickled(value)

    def _part(self, part: Any) -> Any:
        if isinstance(part, tuple) and (code := self.known(part)) is not None:
            return {"known": code}
        return self.encode(part)

    def _pickled(self, value: Any) -> Any:
        if not self.allow_pickle:
            raise UnsupportedValueError(value)
        try:
            return {"pickle": base64.b64encode(pickle.dumps(value, protocol=5)).decode("ascii")}
        except Exception as error:
            raise UnsupportedValueError(value, str(error)) from None


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to read values: the counterpart of `Encoding`."""

    allow_pickle: bool = False
    known: Callable[[int], Any] = _no_value

    def decode(self, written: Any) -> Any:
        """Return the value that `encode` wrote.

        Raises PickleRefusedError, and ValueError, TypeError or another error of a wrong form.
        """
        if type(written) is not dict:
            if type(written) is list:
                raise ValueError("expected a value, got a list")
            return written
        ((kind, content),) = written.items()
        if kind == "tuple":
            return tuple(map(self.decode, content))
        if kind == "known":
            return self.known(content)
        if kind == "record":
            return Record(map(self.decode, content))
        if kind == "set":
            return frozenset(map(self.decode, content))
        if kind == "branch":
            return Branch(*map(self.decode, content))
        if kind == "pickle":
            if not self.allow_pickle:
                raise PickleRefusedError
            return pickle.loads(base64.b64decode(content, validate=True))
        read = _READERS.get(kind)
        if read is None:
            raise ValueError(f"unknown kind of value {shorten(kind)}")
        return read(content)


# --- times with zones -----------------------------------------------------------------------------


def _zone(value: dt.datetime | dt.time) -> Any:
    zone = value.tzinfo
    if zone is None:
        return None
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return zone.key
    if type(zone) is dt.timezone:
        offset = zone.utcoffset(None) // dt.timedelta(microseconds=1)
        # The name is written only if it is not the default one of this offset.
        name = zone.tzname(None)
        return [offset] if dt.timezone(zone.utcoffset(None)).tzname(None) == name else [offset, name]
    raise UnsupportedValueError(value, f"its time zone is of class {type(zone).__name__}")


def _read_zone(written: Any) -> dt.tzinfo | None:
    if written is None:
        return None
    if isinstance(written, str):
        try:
            return zoneinfo.ZoneInfo(written)
        except zoneinfo.ZoneInfoNotFoundError as error:
            raise ValueError(f"the time zone {written!r} is not known on this machine") from error
    offset, *name = written
    if offset == 0 and not name:
        return dt.UTC
    return dt.timezone(dt.timedelta(microseconds=offset), *name)


def _write_time(value: Any) -> Any:
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.fold, _zone(value)]


def _read_datetime(written: Any) -> dt.datetime:
    text, fold, zone = written
    return dt.datetime.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))


def _read_time(written: Any) -> dt.time:
    text, fold, zone = written
    return dt.time.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))


_WRITERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", bytes.hex),
    decimal.Decimal: ("decimal", str),
    fractions.Fraction: ("fraction", lambda value: [f"{value.numerator:x}", f"{value.denominator:x}"]),
    complex: ("complex", lambda value: [repr(value.real), repr(value.imag)]),
    uuid.UUID: ("uuid", str),
    dt.datetime: ("datetime", _write_time),
    dt.date: ("date", dt.date.isoformat),
    dt.time: ("time", _write_time),
    dt.timedelta: ("duration", lambda value: [value.days, value.seconds, value.microseconds]),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "bytes": bytes.fromhex,
    "decimal": decimal.Decimal,
    "fraction": lambda parts: fractions.Fraction(*(int(part, 16) for part in parts)),
    "complex": lambda parts: complex(*map(float, parts)),
    "uuid": uuid.UUID,
    "datetime": _read_datetime,
    "date": dt.date.fromisoformat,
    "time": _read_time,
    "duration": lambda parts: dt.timedelta(*parts),
}


def value_refused(error: UnsupportedValueError, place: str, advice: str) -> CheckpointError:
    """Return the error for a value without a typed encoding; `advice` says what to do."""
    shown = f"{shorten(error.value)} of class {type(error.value).__name__}"
    reason = error.reason and f" ({error.reason})"
    return CheckpointError(
        f"{place} holds {shown}, which a checkpoint does not store{reason}; {advice}", code="checkpoint-write"
    )


def pickle_refused(place: object, remedy: str = "Store(folder, allow_pickle=True)") -> CheckpointError:
    """Return the error for a folder with pickled values that is opened without `allow_pickle`."""
    return CheckpointError(
        f"{place} has pickled values, which can run any code when they are read; if you trust the "
        f"folder, open it with {remedy}",
        code="checkpoint-pickle",
    )
