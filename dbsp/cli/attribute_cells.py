"""The values of attributes in the cells of tables: columns of Arrow, and texts of CSV files."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dbsp.data.frames import place_of_nanoseconds
from dbsp.datomic.database_schema import Attribute
from dbsp.edn import Keyword, Symbol, read
from dbsp.errors import EdnError, InputError, shorten

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_REAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TEXTS = ("string", "uri")
_TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_ARROW = {"long": pa.int64(), "double": pa.float64()}
"""The Arrow types of the value types that Arrow reads from texts."""


def cell_values(column: Any, attribute: Attribute | None, is_csv: bool) -> Any:
    """Return a column with values of an attribute, or of entities if the attribute is None.

    Texts are read by the type of the attribute; times without a zone are in UTC. Raises InputError
    with the row if a text is not a value.
    """
    type_ = column.type
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        raise InputError(
            f"column {_name(attribute)}: expected one value per row, got lists; write a row for each value",
            code="wrong-type",
        )
    if attribute is not None and attribute.value_type == "instant":
        if pa.types.is_timestamp(type_):
            return _instants(column, _name(attribute))
        if pa.types.is_date(type_):
            return column.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    inside = type_.value_type if pa.types.is_dictionary(type_) else type_
    if not any(is_text(inside) for is_text in _TEXT_TYPES):
        return column
    value_type = "ref" if attribute is None else attribute.value_type
    if value_type in _TEXTS or (value_type is None and not is_csv):
        return column
    return _parsed(column.cast(pa.large_string()), value_type, _name(attribute))


def _name(attribute: Attribute | None) -> str:
    return ":db/id" if attribute is None else str(attribute)


def _instants(column: Any, name: str) -> Any:
    """Return timestamps with a zone, in microseconds."""
    type_ = column.type
    if type_.unit == "ns":
        at = place_of_nanoseconds(column)
        if at >= 0:
            shown = column[at].cast(pa.string()).as_py()
            raise InputError(
                f"column {name}, row {at}: expected an instant in whole microseconds, got {shown}; round it",
                code="value-out-of-range",
            )
    return column.cast(pa.timestamp("us", type_.tz or "UTC"))


def _parsed(column: Any, value_type: str | None, name: str) -> Any:
    """Return the values of texts."""
    if value_type in _ARROW:
        try:
            return pc.cast(column, _ARROW[value_type])
        except pa.ArrowInvalid:
            pass  # the loop below finds the text
    parse = _PARSERS[value_type]
    values: list[Any] = []
    for row, text in enumerate(column.to_pylist()):
        try:
            values.append(None if text is None else parse(text))
        except (ValueError, EdnError, InvalidOperation):
            kind = f"a value of type {value_type}"
            if value_type == "ref":
                kind = "an entity id, an ident or a lookup ref"
            raise InputError(
                f"column {name}, row {row}: expected {kind}, got {shorten(text)}", code="wrong-type"
            ) from None
    return values


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text.strip()) is None:
        raise ValueError
    return int(text)


def _real(text: str) -> float:
    if _REAL.fullmatch(text.strip()) is None and _NOT_FINITE.fullmatch(text.strip()) is None:
        raise ValueError  # `float` also takes underscores, and digits of all scripts
    return float(text)


def _decimal(text: str) -> Decimal:
    if _REAL.fullmatch(text.strip()) is None:
        raise ValueError
    return Decimal(text)


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError
    return text.strip().lower() == "true"


def _entity(text: str) -> Any:
    if text[:1] in (":", "["):
        return read(text)
    return _integer(text)


def _instant(text: str) -> Any:
    return read(f'#inst "{text.strip().replace(" ", "T", 1)}"')


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError from None


def _tuple(text: str) -> tuple[Any, ...]:
    value = read(text)
    if type(value) is not tuple:
        raise ValueError
    return value


def _any(text: str) -> Any:
    """Return a value without a type: a number, a boolean, a keyword, or the text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    if text in ("true", "false"):
        return text == "true"
    if text[:1] == ":":
        try:
            return Keyword(text[1:])
        except EdnError:
            return text
    return text


_PARSERS: Mapping[str | None, Callable[[str], Any]] = {
    "long": _integer,
    "bigint": _integer,
    "ref": _entity,
    "double": _real,
    "float": _real,
    "boolean": _boolean,
    "keyword": lambda text: Keyword(text.removeprefix(":")),
    "symbol": Symbol,
    "instant": _instant,
    "uuid": uuid.UUID,
    "bigdec": _decimal,
    "bytes": _bytes,
    "tuple": _tuple,
    None: _any,
}
