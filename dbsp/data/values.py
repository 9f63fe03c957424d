"""What a value may be, and the one int64 code that stands for it inside the engine.

| type        | Python value                  | code                                              |
|-------------|-------------------------------|---------------------------------------------------|
| `INT`       | `int`                         | itself                                            |
| `FLOAT`     | `float` (ints are converted)  | order-preserving bit cast; -0.0 is 0.0, NaN last  |
| `BOOL`      | `bool`                        | 0 or 1                                            |
| `DATE`      | `datetime.date`               | days since 1970-01-01                             |
| `TIMESTAMP` | `datetime.datetime`           | microseconds since 1970-01-01T00:00               |
| `STR`       | `str`                         | id given by the interner                          |
| `BYTES`     | `bytes`                       | id given by the interner                          |
| `OBJECT`    | tuples, any other hashable    | id given by the interner                          |
| a structure | `Record` (a tuple), `Branch`  | id given by the interner; -1 for nil              |

Codes of the first five compare like their values; ids do not (`Type.ordered_codes`).

**None** is an ordinary value of a nullable column: equal to itself and to nothing else, and sorted before
every other value. Its code is `NULL`, the smallest int64; so a nullable int column ends one short of the
full range, and a column that is not nullable has all of it.

**NaN** is equal to itself and sorted after every other float, so a row with NaN can be retracted.

**Timestamps**: an aware `datetime` is converted to UTC, a naive one is kept as it is. What comes back is
always naive: put either aware or naive values into a column, and read aware ones as UTC.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import struct
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dbsp.errors import InputError, SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL

if TYPE_CHECKING:
    from dbsp.data.interner import Interner
    from dbsp.data.structures import Structure

Encoder: TypeAlias = "Callable[[Any, Interner], int]"
Decoder: TypeAlias = "Callable[[int, Interner], Any]"

NIL = -1
"""The code of the record nil. It is a value like others; as a Python value it is None."""

KINDS = ("int", "float", "bool", "str", "bytes", "date", "timestamp", "object", "record")
_INTERNED = frozenset({"str", "bytes", "object", "record"})


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a column: what its values are (`kind`) and whether None is one of them.

    Kind "record" has a `structure`, which says what the values are made of (see `dbsp.data.structures`).
    """

    kind: str
    nullable: bool = False
    structure: Structure | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SchemaError(f"unknown type {self.kind!r}; the types are {', '.join(KINDS)}")
        if (self.kind == "record") != (self.structure is not None):
            raise SchemaError("a type of records has a structure, and no other type has one")

    def optional(self) -> Type:
        """The same type with None as one more value."""
        return self if self.nullable else replace(self, nullable=True)

    def required(self) -> Type:
        """The same type without None."""
        return replace(self, nullable=False) if self.nullable else self

    @property
    def interned(self) -> bool:
        """Whether codes are ids of the interner."""
        return self.kind in _INTERNED

    @property
    def ordered_codes(self) -> bool:
        """Whether codes compare like the values they stand for."""
        return self.kind not in _INTERNED

    @property
    def written(self) -> str:
        """The type as text from which `as_type` makes it again."""
        text = self.kind if self.structure is None else self.structure.text
        return f"{text}?" if self.nullable else text

    def __str__(self) -> str:
        text = self.kind if self.structure is None else self.structure.name
        return f"{text}?" if self.nullable else text

    def __repr__(self) -> str:
        text = self.kind.upper() if self.structure is None else f"as_type({self.structure.text!r})"
        return f"{text}.optional()" if self.nullable else text


INT = Type("int")
FLOAT = Type("float")
BOOL = Type("bool")
STR = Type("str")
BYTES = Type("bytes")
DATE = Type("date")
TIMESTAMP = Type("timestamp")
OBJECT = Type("object")

# The first class that fits decides: bool before int, datetime before date, of which they are subclasses.
_CLASSES: tuple[tuple[type, Type], ...] = (
    (bool, BOOL),
    (np.bool_, BOOL),
    (int, INT),
    (np.integer, INT),
    (float, FLOAT),
    (np.floating, FLOAT),
    (str, STR),
    (bytes, BYTES),
    (dt.datetime, TIMESTAMP),
    (np.datetime64, TIMESTAMP),
    (dt.date, DATE),
)


def _type_of_class(cls: type) -> Type:
    for known, type_ in _CLASSES:
        if issubclass(cls, known):
            return type_
    return OBJECT


def as_type(spec: Any) -> Type:
    """The `Type` a user means by a `Type`, a Python class, `X | None` or the name of a kind.

    >>> as_type(int), as_type(str | None), as_type("date"), as_type("float?")
    (INT, STR.optional(), DATE, FLOAT.optional())

    Raises SchemaError for anything that is no type of values (a `list` is not hashable).
    """
    if isinstance(spec, Type):
        return spec
    if isinstance(spec, str):
        plain = spec.removesuffix("?")
        if not plain.startswith("@"):
            return Type(plain, nullable=plain != spec)
        from dbsp.data.structures import read_structure

        return Type("record", plain != spec, read_structure(plain))
    if spec is Any:
        return OBJECT
    origin = typing.get_origin(spec)
    if origin in (types.UnionType, typing.Union):
        members = [member for member in typing.get_args(spec) if member is not types.NoneType]
        found = {as_type(member) for member in members}
        union = found.pop() if len(found) == 1 else OBJECT
        return union.optional() if len(members) < len(typing.get_args(spec)) else union
    if origin is not None:
        return as_type(origin)
    if isinstance(spec, type) and spec is not types.NoneType:
        if spec.__hash__ is None:
            raise SchemaError(f"{spec.__name__} is not hashable, so it cannot be a column type; use tuple")
        return _type_of_class(spec)
    raise SchemaError(
        f"{spec!r} is not a type; write int, str, float, bool, str | None, ... or one of {KINDS}"
    )


def infer_type(values: Iterable[Any]) -> Type:
    """The narrowest type that holds all of `values`: int and float meet in float, the rest in object."""
    classes = set(map(type, values))
    nullable = types.NoneType in classes
    found = {_type_of_class(cls) for cls in classes if cls is not types.NoneType}
    if found == {INT, FLOAT}:
        found = {FLOAT}
    inferred = found.pop() if len(found) == 1 else OBJECT
    return inferred.optional() if nullable else inferred


# --- one value: encode and decode ------------------------------------------------------------------

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)
_as_float = struct.Struct("=d")
_as_int = struct.Struct("=q")


def float_code(value: float) -> int:
    """The code of one float; see `dbsp.data.columns.float_codes` for arrays. Adding 0.0 turns -0.0
    into 0.0."""
    if value != value:
        return NAN_CODE
    bits: int = _as_int.unpack(_as_float.pack(value + 0.0))[0]
    return bits if bits >= 0 else bits ^ INT64_MAX


def code_float(code: int) -> float:
    """The float that a code stands for; the inverse of `float_code`."""
    value: float = _as_float.unpack(_as_int.pack(code if code >= 0 else code ^ INT64_MAX))[0]
    return value


NAN_CODE: int = _as_int.unpack(_as_float.pack(math.nan))[0]


def _misfit(kind: str, value: Any) -> InputError:
    hint = "; this column does not allow None (declare it optional)" if value is None else ""
    return InputError(f"expected {kind}, got {shorten(value)} of type {type(value).__name__}{hint}")


def shorten(value: Any, width: int = 60) -> str:
    """`repr(value)`, cut to `width` characters for error messages."""
    text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def _encode_int(value: Any, interner: Interner) -> int:
    if type(value) is not int:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise _misfit("int", value)
        value = int(value)
    code: int = value
    if not INT64_MIN <= code <= INT64_MAX:
        raise ValueOutOfRangeError(f"{shorten(value)} does not fit 64 bits (-2**63 to 2**63 - 1)")
    return code


def _encode_float(value: Any, interner: Interner) -> int:
    if type(value) is not float:
        if isinstance(value, (bool, np.bool_)) or not isinstance(
            value, (float, int, np.floating, np.integer)
        ):
            raise _misfit("float", value)
        try:
            value = float(value)
        except OverflowError:
            raise ValueOutOfRangeError(f"{shorten(value)} is too large for a float") from None
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


def _encode_timestamp(value: Any, interner: Interner) -> int:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, dt.datetime):
        raise _misfit("timestamp", value)
    return (naive_utc(value) - _EPOCH) // _MICROSECOND


def naive_utc(value: dt.datetime) -> dt.datetime:
    """The naive datetime kept for `value`: in UTC if it was aware, as it is if it was naive."""
    if value.tzinfo is None:
        return value
    try:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueOutOfRangeError(f"{value!r} leaves the years 1 to 9999 in UTC") from None


def _encode_str(value: Any, interner: Interner) -> int:
    if type(value) is not str:
        if not isinstance(value, str):
            raise _misfit("str", value)
        value = str.__str__(value)  # an exact str also for members of a str enumeration
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
    "timestamp": _encode_timestamp,
    "str": _encode_str,
    "bytes": _encode_bytes,
    "object": _encode_object,
}

_DECODERS: dict[str, Decoder] = {
    "int": lambda code, interner: code,
    "float": lambda code, interner: code_float(code),
    "bool": lambda code, interner: code != 0,
    "date": lambda code, interner: dt.date.fromordinal(code + _EPOCH_DAY),
    "timestamp": lambda code, interner: _EPOCH + dt.timedelta(microseconds=code),
    "str": lambda code, interner: interner.decode(code),
    "bytes": lambda code, interner: interner.decode(code),
    "object": lambda code, interner: interner.decode(code),
}


def _encoder_of(structure: Structure) -> Encoder:
    from dbsp.data.term_codes import encode_term

    return functools.partial(encode_term, structure)


def _decoder_of(structure: Structure) -> Decoder:
    from dbsp.data.term_codes import decode_term

    return functools.partial(decode_term, structure)


@functools.cache
def encoder(type_: Type) -> Encoder:
    """The function `(value, interner) -> code` of a type; raises InputError or ValueOutOfRangeError."""
    encode = _ENCODERS[type_.kind] if type_.structure is None else _encoder_of(type_.structure)
    if not type_.nullable:
        return encode

    def encode_optional(value: Any, interner: Interner) -> int:
        if value is None:
            return NULL
        code = encode(value, interner)
        if code == NULL:
            raise ValueOutOfRangeError(
                "-2**63 stands for None in an optional int column, so it is no value there"
            )
        return code

    return encode_optional


@functools.cache
def decoder(type_: Type) -> Decoder:
    """The function `(code, interner) -> value` of a type."""
    decode = _DECODERS[type_.kind] if type_.structure is None else _decoder_of(type_.structure)
    if not type_.nullable:
        return decode
    return lambda code, interner: None if code == NULL else decode(code, interner)


def encode_value(type_: Type, value: Any, interner: Interner) -> int:
    """The code of one value of `type_`; strings and objects get their id from `interner`.

    Raises InputError if the value is not of that type, ValueOutOfRangeError if it does not fit.
    """
    return encoder(type_)(value, interner)


def decode_value(type_: Type, code: int, interner: Interner) -> Any:
    """The value that `code` stands for in a column of `type_`."""
    return decoder(type_)(code, interner)
