"""Types from their text, such as `int?`, `decimal(18, 2)` or `list[{x: int, y: str?}]`.

    type     = plain [ "?" ]
    plain    = kind | "decimal" [ "(18," scale ")" ] | "timestamptz" [ "(" zone ")" ]
             | "list[" type "]" | "{" name ":" type { "," name ":" type } "}" | structure
    structure: see `dbsp.data.types`

`Type.written` is the inverse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dbsp.data.timestamps import zone_of
from dbsp.data.types import (
    INSTANT,
    MOST_DIGITS,
    Type,
    decimal_type,
    list_type,
    read_structure,
    struct_type,
)
from dbsp.errors import SchemaError

_DECIMAL = re.compile(r"decimal\(\s*(?P<digits>\d+)\s*,\s*(?P<scale>\d+)\s*\)")
_ZONED = re.compile(r"timestamptz\(\s*(?P<zone>[^()]*?)\s*\)")


def read_type(text: str) -> Type:
    """Return the type that a text describes. Raises SchemaError for a text without a type."""
    text = text.strip()
    plain = text.removesuffix("?").rstrip()
    if plain.startswith("@"):
        return Type("record", plain != text, read_structure(plain))
    type_ = _read_plain(plain)
    return type_.optional() if plain != text else type_


def _read_plain(text: str) -> Type:
    if text == "decimal":
        return decimal_type()
    if match := _DECIMAL.fullmatch(text):
        if int(match["digits"]) != MOST_DIGITS:
            raise SchemaError(
                f"decimals have {MOST_DIGITS} digits, got {text!r}; write "
                f"'decimal({MOST_DIGITS}, {match['scale']})'",
                code="invalid-type",
            )
        return decimal_type(int(match["scale"]))
    if text == "timestamptz":
        return INSTANT
    if match := _ZONED.fullmatch(text):
        zone_of(match["zone"])
        return Type("timestamptz", zone=match["zone"])
    if text.startswith("list[") and text.endswith("]"):
        return list_type(read_type(text[len("list[") : -1]))
    if text.startswith("{") and text.endswith("}"):
        return struct_type(dict(_read_fields(text[1:-1])))
    return Type(text)


def _read_fields(text: str) -> Iterator[tuple[str, Type]]:
    seen = set()
    for part in _divided(text):
        name, colon, type_ = part.partition(":")
        if not colon:
            raise SchemaError(
                f"expected a type for every field, as in '{{x: int}}', got {part.strip()!r}",
                code="invalid-type",
            )
        if name.strip() in seen:
            raise SchemaError(f"field {name.strip()!r} occurs twice", code="duplicate-column")
        seen.add(name.strip())
        yield name.strip(), read_type(type_)


def _divided(text: str) -> Iterator[str]:
    """Yield the parts of a text between the commas that are not in brackets."""
    depth = start = 0
    for at, symbol in enumerate(text):
        depth += (symbol in "([{") - (symbol in ")]}")
        if symbol == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]
