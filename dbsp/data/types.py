"""Types of columns, and structures: the types of records and of algebraic data types.

Some kinds have parameters: `decimal(18, 2)` the digits after the point, `timestamptz(Europe/Rome)`
the zone, `list[int]` the type of the elements, `{city: str, zip: int?}` the fields of a struct.
`dbsp.data.type_text` reads the text of a type.

A structure has a name and constructors. A record has one constructor without a name, and the value
`nil`. The types of fields may be structures, also the same one, so a type is a graph. Its text
names every structure in it, and two structures are equal if their texts are equal:

    @List = [head: int, tail: @List]
    @Tree = $Leaf{} | $Node{left: @Tree, value: @Pair, right: @Tree}; @Pair = [a: int, b: str]

`Type` and `Structure` are in one module because each refers to the other.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from dbsp.data.int_range import IntRange, read_range
from dbsp.diagnostics import did_you_mean
from dbsp.errors import SchemaError
from dbsp.lazy_dataclass import dataclass

NIL = -1
"""The code of the record nil, which is None in Python."""

KINDS = (
    "int",
    "float",
    "decimal",
    "bool",
    "str",
    "bytes",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "duration",
    "object",
    "list",
    "struct",
    "record",
)
_INTERNED = frozenset({"str", "bytes", "object", "record", "list", "struct"})
_DEFAULT_SCALE = 6
MOST_DIGITS = 18
"""The number of digits of a decimal: so many fit in the 64 bits of a code."""


_ELSEWHERE = {
    "bigint": "int",
    "binary": "bytes",
    "boolean": "bool",
    "datetime": "timestamp",
    "double": "float",
    "float64": "float",
    "int64": "int",
    "integer": "int",
    "interval": "duration",
    "long": "int",
    "number": "int",
    "numeric": "decimal",
    "real": "float",
    "string": "str",
    "symbol": "str",
    "text": "str",
    "timedelta": "duration",
    "varchar": "str",
}
"""Types by the names that SQL, Datalog, Arrow and modules of Python give them."""


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a column: the kind of its values, and whether None is one of them.

    Kind "record" has a `structure`, which defines the fields of the values (see `Structure`).
    """

    kind: str
    nullable: bool = False
    structure: Structure | None = None
    scale: int = 0
    """The number of digits after the point of a decimal."""
    zone: str = ""
    """The time zone of the returned values of kind "timestamptz"; their order is that of UTC."""
    parts: tuple[Field, ...] = ()
    """The fields of a struct; of a list, one field without a name, the element."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SchemaError(f"unknown type {self.kind!r}; {_hint(self.kind)}", code="unknown-type")
        if not 0 <= self.scale <= (MOST_DIGITS if self.kind == "decimal" else 0):
            raise SchemaError(
                f"expected 0 to {MOST_DIGITS} digits after the point of a decimal, got {self.scale}",
                code="invalid-type",
            )
        if (self.kind == "timestamptz") != bool(self.zone):
            raise SchemaError(
                "expected a time zone for the type 'timestamptz' and for no other type; write "
                '"timestamptz(UTC)"',
                code="invalid-type",
            )
        if (self.kind in ("list", "struct")) != bool(self.parts):
            raise SchemaError(
                "expected the types of the parts for the types 'list' and 'struct' and for no other "
                'type; write "list[int]" or "{city: str, zip: int}"',
                code="invalid-type",
            )
        if (self.kind == "record") != (self.structure is not None):
            raise SchemaError(
                "expected a structure for the type 'record' and for no other type; "
                "write the type as text, such as '@Pair = [a: int, b: str]'",
                code="invalid-type",
            )

    def optional(self) -> Type:
        """Return the same type with None as an additional value."""
        return self if self.nullable else replace(self, nullable=True)

    def required(self) -> Type:
        """Return the same type without None."""
        return replace(self, nullable=False) if self.nullable else self

    @property
    def interned(self) -> bool:
        """Whether codes are ids of the interner."""
        return self.kind in _INTERNED

    @property
    def ordered_codes(self) -> bool:
        """Whether codes compare like their values."""
        return self.kind not in _INTERNED

    @property
    def coding(self) -> tuple[Any, ...]:
        """What a code means: columns of equal coding hold equal values under equal codes.

        None and the structure of records apart. Zones do not matter.
        """
        return (self.kind, self.scale, self.parts) if self.scale or self.parts else (self.kind,)

    @property
    def id_space(self) -> str:
        """The name of what the ids of this type mean; equal ids of two types may differ in it."""
        if self.kind in ("str", "bytes", "object"):
            return ""
        return self._text if self.structure is None else self.structure.text

    @property
    def element(self) -> Type:
        """The type of the elements of a list."""
        return self.parts[0].type

    @property
    def written(self) -> str:
        """The type as text, which `as_type` reads."""
        text = self._text if self.structure is None else self.structure.text
        return f"{text}?" if self.nullable else text

    @property
    def _text(self) -> str:
        if self.kind == "decimal":
            return f"decimal({MOST_DIGITS}, {self.scale})"
        if self.kind == "timestamptz":
            return f"timestamptz({self.zone})"
        if self.kind == "list":
            return f"list[{self.element.written}]"
        if self.kind == "struct":
            return f"{{{', '.join(f'{part.name}: {part.type.written}' for part in self.parts)}}}"
        return self.kind

    def __str__(self) -> str:
        text = self._text if self.structure is None else self.structure.name
        return f"{text}?" if self.nullable else text

    def __repr__(self) -> str:
        if self.structure is not None or self.kind in _PARAMETRIC:
            text = f"as_type({self.required().written!r})"
        else:
            text = self.kind.upper()
        return f"{text}.optional()" if self.nullable else text


_PARAMETRIC = frozenset({"decimal", "timestamptz", "list", "struct"})
INT = Type("int")
FLOAT = Type("float")
BOOL = Type("bool")
STR = Type("str")
BYTES = Type("bytes")
DATE = Type("date")
TIME = Type("time")
TIMESTAMP = Type("timestamp")
DURATION = Type("duration")
OBJECT = Type("object")
INSTANT = Type("timestamptz", zone="UTC")
"""Timestamps with a zone, returned in UTC."""


def decimal_type(scale: int = _DEFAULT_SCALE) -> Type:
    """Return the type of decimals of 18 digits, `scale` of them after the point."""
    return Type("decimal", scale=scale)


def list_type(element: Type) -> Type:
    """Return the type of lists. Raises SchemaError for elements that lists do not support."""
    return Type("list", parts=(Field("", _part(element, "the element of a list")),))


def struct_type(fields: Mapping[str, Type]) -> Type:
    """Return the type of structs with these fields.

    Raises SchemaError for a field that structs do not support.
    """
    if not fields:
        raise SchemaError("a struct needs at least one field, such as {'city': str}", code="invalid-type")
    for name in fields:
        plain = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        if not plain or keyword.iskeyword(name):
            raise SchemaError(
                f"expected a name such as 'city' for a field of a struct, got {name!r}", code="invalid-type"
            )
    return Type("struct", parts=tuple(Field(n, _part(t, f"field {n!r}")) for n, t in fields.items()))


def _part(type_: Type, what: str) -> Type:
    if type_.kind in ("object", "record"):
        raise SchemaError(
            f"{what} has the type {type_}; lists and structs hold values of the other types",
            code="invalid-type",
        )
    return type_


@dataclass(frozen=True, slots=True)
class Layout:
    """The storage of a constructed value: its constructor, and which fields are constructed.

    Equal constructors of two structures share a layout, so they share equal values.
    """

    constructor: str
    nested: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a constructor; `range` limits a field of ints."""

    name: str
    type: Type
    range: IntRange | None = None


@dataclass(frozen=True)
class Constructor:
    """A constructor of a structure; the constructor of a record has no name."""

    name: str
    fields: tuple[Field, ...]

    @cached_property
    def layout(self) -> Layout:
        """The storage of its values."""
        return Layout(self.name, tuple(field.type.structure is not None for field in self.fields))


Definition: TypeAlias = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Constructors with fields; a field is a name and a type: a kind, a range or `@Name`."""


class Structure:
    """A record type or an algebraic data type; structures with equal texts are equal.

    `define_structures` and `read_structure` build structures.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.constructors: tuple[Constructor, ...] = ()

    @property
    def is_record(self) -> bool:
        """Whether its values are records or nil, not branches of an algebraic data type."""
        return len(self.constructors) == 1 and not self.constructors[0].name

    @cached_property
    def by_name(self) -> Mapping[str, Constructor]:
        """The constructors by name."""
        return {constructor.name: constructor for constructor in self.constructors}

    @cached_property
    def by_layout(self) -> Mapping[Layout, Constructor]:
        """The constructors by the layout of their values."""
        return {constructor.layout: constructor for constructor in self.constructors}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each constructor."""
        return {constructor.name: place for place, constructor in enumerate(self.constructors)}

    @cached_property
    def text(self) -> str:
        """The definition of this structure and of all structures in it."""
        structures: dict[str, Structure] = {self.name: self}
        waiting = [self]
        while waiting:
            for constructor in waiting.pop().constructors:
                for field in constructor.fields:
                    inner = field.type.structure
                    if inner is not None and inner.name not in structures:
                        structures[inner.name] = inner
                        waiting.append(inner)
        inner_structures = [structures[name] for name in sorted(structures) if name != self.name]
        return "; ".join(structure.definition for structure in (self, *inner_structures))

    @property
    def definition(self) -> str:
        """The definition of this structure alone."""
        fields = [
            ", ".join(f"{field.name}: {_written(field)}" for field in constructor.fields)
            for constructor in self.constructors
        ]
        if self.is_record:
            return f"@{self.name} = [{fields[0]}]"
        branches = (f"${name}{{{text}}}" for name, text in zip(self.by_name, fields, strict=True))
        return f"@{self.name} = {' | '.join(branches)}"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Structure) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return read_structure, (self.text,)

    def __repr__(self) -> str:
        return f"<structure {self.text}>"


def _written(field: Field) -> str:
    structure = field.type.structure
    if structure is None:
        return field.type.written if field.range is None else field.range.written
    return f"@{structure.name}{'?' if field.type.nullable else ''}"


def structure_type(structure: Structure) -> Type:
    """Return the type of the values of a structure."""
    return Type("record", structure=structure)


def define_structures(definitions: Mapping[str, Definition]) -> dict[str, Structure]:
    """Return the structures of these definitions, which may refer to each other.

    >>> define_structures({"List": [("", [("head", "int"), ("tail", "@List")])]})["List"].text
    '@List = [head: int, tail: @List]'

    Raises SchemaError if the type of a field is neither a kind nor a defined structure.
    """
    structures = {name: Structure(name) for name in definitions}

    def field(name: str, text: str) -> Field:
        if (range_ := read_range(text)) is not None:
            return Field(name, Type("int"), range=range_)
        plain = text.removesuffix("?")
        if not plain.startswith("@"):
            return Field(name, Type(plain, nullable=plain != text))
        if plain[1:] not in structures:
            raise SchemaError(f"field {name!r}: the structure {plain} is not defined", code="unknown-type")
        return Field(name, Type("record", plain != text, structures[plain[1:]]))

    for name, constructors in definitions.items():
        structures[name].constructors = tuple(
            Constructor(constructor, tuple(field(*pair) for pair in fields))
            for constructor, fields in constructors
        )
    return structures


_DEFINITION = re.compile(r"\s*@(?P<name>[^\s=;]+)\s*=\s*(?P<body>[^;]*)")
_CONSTRUCTOR = re.compile(r"\s*\$(?P<name>[^\s{]+)\{(?P<fields>[^}]*)\}\s*")


@lru_cache(maxsize=1024)
def read_structure(text: str) -> Structure:
    """Return the first structure that a text defines. Raises SchemaError for text without one."""
    definitions: dict[str, Definition] = {}
    for part in text.split(";"):
        match = _DEFINITION.fullmatch(part)
        if match is None:
            raise SchemaError(
                f"expected a definition of a structure, such as '@Pair = [a: int, b: str]', "
                f"got {part.strip()!r}",
                code="invalid-type",
            )
        definitions[match["name"]] = list(_constructors(match["body"].strip()))
    return define_structures(definitions)[next(iter(definitions))]


def _constructors(body: str) -> Iterable[tuple[str, Sequence[tuple[str, str]]]]:
    if body.startswith("[") and body.endswith("]"):
        yield "", _fields(body[1:-1])
        return
    for part in body.split("|"):
        match = _CONSTRUCTOR.fullmatch(part)
        if match is None:
            raise SchemaError(
                f"expected a constructor, such as '$Name{{x: int}}', got {part.strip()!r}",
                code="invalid-type",
            )
        yield match["name"], _fields(match["fields"])


def _fields(text: str) -> list[tuple[str, str]]:
    pairs = [part.split(":", 1) for part in text.split(",") if part.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise SchemaError(
            f"expected a type for every field, as in 'x: int', got {text.strip()!r}", code="invalid-type"
        )
    return [(name.strip(), type_.strip()) for name, type_ in pairs]


def _hint(kind: str) -> str:
    """Return what to write instead of an unknown type."""
    plain, bar, none = kind.rpartition("|")
    if bar and none.strip() == "None":
        return f"write '{plain.strip()}?'"
    if known := _ELSEWHERE.get(kind.lower()):
        return f"write '{known}'"
    return did_you_mean(kind, KINDS) or f"the types are {', '.join(KINDS)}"
