"""Checks the values of attributes and encodes them.

| value type | Python value                                                                     |
|------------|----------------------------------------------------------------------------------|
| `long`     | `int` of 64 bits; neither a `bool` nor a `float`                                 |
| `ref`      | `int`: the id of an entity (other forms are resolved before)                     |
| `double`   | `float`; an `int` that is exactly a float                                        |
| `float`    | the same, rounded to 32 bits                                                     |
| `boolean`  | `bool`                                                                           |
| `string`   | `str`                                                                            |
| `keyword`  | `Keyword`; a `str` that starts with ":"                                          |
| `symbol`   | `Symbol`                                                                         |
| `instant`  | `datetime` with a zone; returned in UTC                                          |
| `uuid`     | `uuid.UUID`                                                                      |
| `uri`      | `str`, `Tagged("uri", str)`; returned as `str`                                   |
| `bigint`   | `int`                                                                            |
| `bigdec`   | `Decimal`, finite; `int`                                                         |
| `bytes`    | `bytes`, `bytearray`                                                             |
| `tuple`    | `tuple` or `list` of 2 to 8 elements; an element may be None                     |
| none       | everything that is hashable, but None; lists and sets become tuples, frozensets  |

Scalars of NumPy are as those of Python.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dbsp.data.columns import encode_column
from dbsp.data.interner import Interner
from dbsp.data.timestamps import in_zone, instant
from dbsp.data.values import decode_value, encode_value
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.operation_places import value_text
from dbsp.edn.edn_values import Char, Keyword, Symbol, Tagged
from dbsp.errors import DbspError, InputError, ValueOutOfRangeError, shorten
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

MOST_ELEMENTS = 8
"""The largest number of elements of a tuple."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)


class _WrongValue(Exception):
    """A value that a type does not accept; with the reason, unless its class is the reason."""

    def __init__(self, reason: str = "", code: str = "value-out-of-range") -> None:
        super().__init__(reason)
        self.code = code


def _long(value: Any) -> int:
    if isinstance(value, np.integer):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _WrongValue
    if not INT64_MIN <= value <= INT64_MAX:
        raise _WrongValue(f"a long is from -2**63 to 2**63 - 1, got {shorten(value)}")
    return int(value)


def _double(value: Any) -> float:
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise _WrongValue
    try:
        exact = float(value) == int(value)
    except OverflowError:
        exact = False
    if not exact:
        raise _WrongValue(f"the long {shorten(int(value))} is not exactly a double")
    return float(value)


def _float(value: Any) -> float:
    double = _double(value)
    if math.isfinite(double) and abs(double) > _FLOAT32_MAX:
        raise _WrongValue(f"a float is from -3.4e38 to 3.4e38, got {double!r}")
    return float(np.float32(double))


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _WrongValue
    return bool(value)


def _string(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Keyword | Symbol | Char):
        raise _WrongValue
    return str.__str__(value)


def _keyword(value: Any) -> Keyword:
    if isinstance(value, Keyword):
        return value
    if type(value) is str and value.startswith(":") and len(value) > 1:
        return Keyword(value[1:])
    raise _WrongValue


def _symbol(value: Any) -> Symbol:
    if not isinstance(value, Symbol):
        raise _WrongValue
    return value


def _instant(value: Any) -> Any:
    if not isinstance(value, dt.datetime):
        raise _WrongValue
    if value.tzinfo is None:
        raise _WrongValue(
            f"an instant has a time zone, got {value.isoformat()}; use tzinfo=datetime.UTC", code="wrong-type"
        )
    if getattr(value, "nanosecond", 0):  # of pandas, also in Arrow tables
        raise _WrongValue(
            f"an instant is in whole microseconds, got {value.isoformat()}; round it to microseconds"
        )
    return in_zone(instant(value), "UTC")


def _uuid(value: Any) -> uuid.UUID:
    if not isinstance(value, uuid.UUID):
        raise _WrongValue
    return value


def _uri(value: Any) -> str:
    if isinstance(value, Tagged) and str(value.tag) == "uri":
        value = value.value
    return _string(value)


def _bigint(value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise _WrongValue
    return int(value)


def _bigdec(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise _WrongValue(f"a bigdec is finite, got {value}")
        return value
    return Decimal(_bigint(value))


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray):
        raise _WrongValue
    return bytes(value)


def _any(value: Any) -> Any:
    """Return a hashable form of any value."""
    if value is None:
        raise _WrongValue
    if isinstance(value, list):
        return tuple(_any_element(each) for each in value)
    if isinstance(value, set):
        return frozenset(_any_element(each) for each in value)
    if isinstance(value, np.generic):
        return value.item()
    return bytes(value) if isinstance(value, bytearray) else value


def _any_element(value: Any) -> Any:
    return None if value is None else _any(value)


_CHECKS: dict[str | None, Callable[[Any], Any]] = {
    "long": _long,
    "ref": _long,
    "double": _double,
    "float": _float,
    "boolean": _boolean,
    "string": _string,
    "keyword": _keyword,
    "symbol": _symbol,
    "instant": _instant,
    "uuid": _uuid,
    "uri": _uri,
    "bigint": _bigint,
    "bigdec": _bigdec,
    "bytes": _bytes,
    None: _any,
}

_EXACT: dict[str | None, frozenset[type]] = {
    # The classes of values that need no check.
    "long": frozenset({int}),
    "double": frozenset({float}),
    "boolean": frozenset({bool}),
    "string": frozenset({str}),
    "keyword": frozenset({Keyword}),
    "symbol": frozenset({Symbol}),
    "uuid": frozenset({uuid.UUID}),
    "uri": frozenset({str}),
    "bytes": frozenset({bytes}),
    "bigint": frozenset({int}),
    None: frozenset({str, int, float, bool, bytes, Keyword, Symbol, uuid.UUID}),
}
_FEW_VALUES = frozenset({bool, Keyword, Symbol})
"""Classes of values of which a column usually has few different ones."""


def encode_one(attribute: Attribute, value: Any, interner: Interner) -> int:
    """Return the code of a value of an attribute.

    Raises InputError or ValueOutOfRangeError if the attribute does not accept the value.
    """
    return encode_value(attribute.type, canonical(attribute, value), interner)


def decode_one(attribute: Attribute, code: int, interner: Interner) -> Any:
    """Return the value of a code of an attribute."""
    return decode_value(attribute.type, code, interner)


def encode_values(
    attribute: Attribute,
    values: Sequence[Any],
    interner: Interner,
    located: Callable[[int, DbspError], DbspError],
) -> Codes:
    """Return the codes of many values of an attribute, int64[n].

    `located(position, error)` returns the error to raise for the value at a position.
    """
    classes = set(map(type, values))
    if classes and classes <= _EXACT.get(attribute.value_type, frozenset()):
        if len(classes) == 1 and classes <= _FEW_VALUES:
            codes = {value: interner.encode(value) for value in set(values)}
            return np.fromiter(map(codes.__getitem__, values), np.int64, len(values))
        try:
            return encode_column(attribute.type, values, interner)
        except ValueOutOfRangeError:
            pass  # the loop below finds the value
    found = np.empty(len(values), np.int64)
    for position, value in enumerate(values):
        try:
            found[position] = encode_one(attribute, value, interner)
        except DbspError as error:
            raise located(position, error) from None
    return found


def canonical(attribute: Attribute, value: Any) -> Any:
    """Return a value as the database stores it, such as an instant in UTC.

    Raises InputError or ValueOutOfRangeError if the attribute does not accept the value.
    """
    try:
        if attribute.value_type == "tuple":
            return _tuple(attribute, value)
        return _CHECKS[attribute.value_type](value)
    except _WrongValue as problem:
        reason = str(problem)
        type_ = attribute.value_type
        if reason:
            raise _wrong(f"attribute {attribute}: {reason}", problem.code) from None
        expected = "a value" if type_ is None else _with_article(type_)
        raise _wrong(f"attribute {attribute} expects {expected}, got {described(value)}") from None


def _tuple(attribute: Attribute, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list):
        raise _WrongValue
    types: Sequence[str | None] = attribute.tuple_types or (attribute.tuple_type,) * len(value)
    if attribute.tuple_types and len(value) != len(types):
        raise _wrong(
            f"attribute {attribute} expects a tuple of {len(types)} elements, got {described(value)}"
        )
    if not 2 <= len(value) <= MOST_ELEMENTS:
        raise _wrong(f"attribute {attribute} expects a tuple of 2 to 8 elements, got {described(value)}")
    elements = []
    for place, (type_, element) in enumerate(zip(types, value, strict=True)):
        try:
            elements.append(None if element is None else _CHECKS[type_](element))
        except _WrongValue as problem:
            expected = str(problem) or f"expected {_with_article(type_ or 'value')}, got {described(element)}"
            code = problem.code if str(problem) else "wrong-type"
            raise _wrong(f"attribute {attribute}, element {place} of the tuple: {expected}", code) from None
    return tuple(elements)


def _wrong(message: str, code: str = "wrong-type") -> DbspError:
    return (ValueOutOfRangeError if code == "value-out-of-range" else InputError)(message, code=code)


def _with_article(name: str) -> str:
    return f"an {name}" if name == "instant" else f"a {name}"


_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "long"),
    (float, "double"),
    (Keyword, "keyword"),
    (Symbol, "symbol"),
    (Char, "char"),
    (str, "string"),
    (uuid.UUID, "uuid"),
    (Decimal, "bigdec"),
    (Fraction, "ratio"),
    (dt.datetime, "instant"),
    (bytes, "bytes"),
    (tuple, "vector"),
    (list, "vector"),
    (frozenset, "set"),
    (set, "set"),
    (dict, "map"),
)


def described(value: Any) -> str:
    """Return a value with its type, as messages name it.

    >>> described("x"), described(True), described(None)
    ('the string "x"', 'the boolean true', 'nil')
    """
    if value is None:
        return "nil"
    for class_, name in _NAMES:
        if isinstance(value, class_):
            return f"the {name} {value_text(value)}"
    return f"{value_text(value)} of type {type(value).__name__}"
