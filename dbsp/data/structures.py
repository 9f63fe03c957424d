"""Structures: the types of constructed values, that is records and algebraic data types.

A structure has a name and constructors; a record has a single one without a name, and `nil` besides. Fields
may be of structures again, also of the same one, so a type is a graph. Its text names every structure in it
and is what two of them are compared by:

    @List = [head: int, tail: @List]
    @Tree = $Leaf{} | $Node{left: @Tree, value: @Pair, right: @Tree}; @Pair = [a: int, b: str]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from dbsp.data.int_range import IntRange, read_range
from dbsp.data.values import Type
from dbsp.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Layout:
    """What a constructed value is kept as: its constructor, and which of its fields are constructed too.

    Two structures share the layouts of constructors that look the same, and then equal values are one.
    """

    constructor: str
    nested: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field; of ints perhaps only those of a range."""

    name: str
    type: Type
    range: IntRange | None = None


@dataclass(frozen=True)
class Constructor:
    """A way to make values of a structure; that of a record has no name."""

    name: str
    fields: tuple[Field, ...]

    @cached_property
    def layout(self) -> Layout:
        """How values made by it are kept."""
        return Layout(self.name, tuple(field.type.structure is not None for field in self.fields))


Definition: TypeAlias = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Constructors with their fields, each a name and the text of its type: a kind, a range
or `@Name`."""


class Structure:
    """A record type or an algebraic data type. Equal to another of the same text; made by `define`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.constructors: tuple[Constructor, ...] = ()

    @property
    def is_record(self) -> bool:
        """Whether its values are records (or nil), rather than branches of an algebraic data type."""
        return len(self.constructors) == 1 and not self.constructors[0].name

    @cached_property
    def by_name(self) -> Mapping[str, Constructor]:
        """The constructors by name."""
        return {constructor.name: constructor for constructor in self.constructors}

    @cached_property
    def by_layout(self) -> Mapping[Layout, Constructor]:
        """The constructors by how their values are kept."""
        return {constructor.layout: constructor for constructor in self.constructors}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The place of each constructor."""
        return {constructor.name: place for place, constructor in enumerate(self.constructors)}

    @cached_property
    def text(self) -> str:
        """The definition of this structure and of all that occur in it."""
        found: dict[str, Structure] = {self.name: self}
        waiting = [self]
        while waiting:
            for constructor in waiting.pop().constructors:
                for field in constructor.fields:
                    inner = field.type.structure
                    if inner is not None and inner.name not in found:
                        found[inner.name] = inner
                        waiting.append(inner)
        others = [found[name] for name in sorted(found) if name != self.name]
        return "; ".join(one._definition() for one in (self, *others))

    def _definition(self) -> str:
        parts = [
            (constructor, ", ".join(f"{field.name}: {_written(field)}" for field in constructor.fields))
            for constructor in self.constructors
        ]
        if self.is_record:
            return f"@{self.name} = [{parts[0][1]}]"
        return f"@{self.name} = " + " | ".join(f"${one.name}{{{fields}}}" for one, fields in parts)

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
    """The type of the values of a structure."""
    return Type("record", structure=structure)


def define(definitions: Mapping[str, Definition]) -> dict[str, Structure]:
    """The structures of these definitions, which may refer to each other.

    >>> define({"List": [("", [("head", "int"), ("tail", "@List")])]})["List"].text
    '@List = [head: int, tail: @List]'

    Raises SchemaError for a field of a type that is neither a kind nor defined.
    """
    made = {name: Structure(name) for name in definitions}

    def field(name: str, text: str) -> Field:
        if (range_ := read_range(text)) is not None:
            return Field(name, Type("int"), range=range_)
        plain = text.removesuffix("?")
        if not plain.startswith("@"):
            return Field(name, Type(plain, nullable=plain != text))
        if plain[1:] not in made:
            raise SchemaError(f"field {name!r} is of the structure {plain}, which is not defined")
        return Field(name, Type("record", plain != text, made[plain[1:]]))

    for name, constructors in definitions.items():
        made[name].constructors = tuple(
            Constructor(constructor, tuple(field(*one) for one in fields))
            for constructor, fields in constructors
        )
    return made


_DEFINITION = re.compile(r"\s*@(?P<name>[^\s=;]+)\s*=\s*(?P<body>[^;]*)")
_CONSTRUCTOR = re.compile(r"\s*\$(?P<name>[^\s{]+)\{(?P<fields>[^}]*)\}\s*")


@lru_cache(maxsize=1024)
def read_structure(text: str) -> Structure:
    """The structure that a text defines first. Raises SchemaError for text that defines none."""
    definitions: dict[str, Definition] = {}
    for part in text.split(";"):
        found = _DEFINITION.fullmatch(part)
        if found is None:
            raise SchemaError(f"{part.strip()!r} defines no structure; write @Pair = [a: int, b: str]")
        definitions[found["name"]] = list(_constructors(found["body"].strip()))
    return define(definitions)[next(iter(definitions))]


def _constructors(body: str) -> Iterable[tuple[str, Sequence[tuple[str, str]]]]:
    if body.startswith("[") and body.endswith("]"):
        yield "", _fields(body[1:-1])
        return
    for part in body.split("|"):
        found = _CONSTRUCTOR.fullmatch(part)
        if found is None:
            raise SchemaError(f"{part.strip()!r} is no constructor; write $Name{{x: int}}")
        yield found["name"], _fields(found["fields"])


def _fields(text: str) -> list[tuple[str, str]]:
    pairs = [part.split(":", 1) for part in text.split(",") if part.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise SchemaError(f"{text.strip()!r} has a field without a type; write x: int")
    return [(name.strip(), type_.strip()) for name, type_ in pairs]
