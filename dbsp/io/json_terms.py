"""Records and branches of algebraic data types as JSON.

A record is an array of its fields, or an object with a member for each; nil is null. A branch
`$Node(1, t)` is the array `["$Node", 1, t]`, or the object `{"$Node": {"value": 1, "next": t}}`.
No function here is recursive, because lists may be very long.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dbsp.data.terms import Branch, Record, parts_of
from dbsp.data.types import Constructor, Field, Structure, Type
from dbsp.io.cell_text import OutOfRange, in_range

_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Members:
    """A JSON object with all of its members, so that a duplicate member is detected."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.names = [name for name, _ in pairs]
        self.members = dict(pairs)


def json_column(type_: Type, values: list[Any], objects: bool) -> list[str]:
    """Return the JSON text of each value of a column, one or more. O(length)."""
    if type_.structure is not None:
        return [_term_text(type_, value, objects) for value in values]
    if type_.kind in ("int", "float"):  # no text has a comma
        return _ENCODER.encode(values)[1:-1].split(", ")
    return [*map(_ENCODER.encode, values)]


def _term_text(type_: Type, value: Any, objects: bool) -> str:
    texts: list[str] = []
    waiting: list[str | tuple[Type, Any]] = [(type_, value)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
        elif item[0].structure is None or item[1] is None:
            texts.append(_ENCODER.encode(item[1]))
        else:
            waiting.extend(reversed(_pieces(item[0].structure, item[1], objects)))
    return "".join(texts)


def _pieces(structure: Structure, value: Any, objects: bool) -> list[str | tuple[Type, Any]]:
    """Return the pieces of a record or a branch: texts, and fields that are still to be written."""
    name = value.name if isinstance(value, Branch) else ""
    fields = structure.by_name[name].fields
    tag = json.dumps(f"${name}")
    pieces: list[str | tuple[Type, Any]] = []
    for field, part in zip(fields, parts_of(value), strict=True):
        pieces += [", ", f"{_ENCODER.encode(field.name)}: ", (field.type, part)]
    if objects:
        inside = ["{", *pieces[1:], "}"]
        return [f"{{{tag}: ", *inside, "}"] if name else inside
    pieces = [piece for place, piece in enumerate(pieces) if place % 3 != 1]
    return [f"[{tag}", *pieces, "]"] if name else ["[", *pieces[1:], "]"]


class _Frame:
    """A partly read value; `left` has the fields that are still to be read, the next one last."""

    def __init__(self, constructor: Constructor, values: list[Any]) -> None:
        self.constructor = constructor
        self.left: list[tuple[Field, Any]] = list(zip(constructor.fields, values, strict=True))[::-1]
        self.parts: list[Any] = []

    def value(self) -> Any:
        name = self.constructor.name
        return Branch(name, *self.parts) if name else Record(self.parts)


def term_of_json(structure: Structure, value: Any, scalar: Callable[[Type, Any], Any]) -> Any:
    """Convert a decoded JSON value to a record or branch; `scalar` converts fields of other types.

    Objects are `Members`. Raises ValueError with the expected form.
    """
    first = _frame(structure, value)
    if first is None:
        return None
    frames = [first]
    while True:
        top = frames[-1]
        if top.left:
            field, part = top.left.pop()
            inner = None if field.type.structure is None else _frame(field.type.structure, part)
            if inner is not None:
                frames.append(inner)
            elif field.type.structure is not None:
                top.parts.append(None)
            else:
                top.parts.append(_fitted(field, part, scalar))
            continue
        frames.pop()
        if not frames:
            return top.value()
        frames[-1].parts.append(top.value())


def _fitted(field: Field, part: Any, scalar: Callable[[Type, Any], Any]) -> Any:
    try:
        fitted = in_range(field.range, scalar, field.type, part)
    except ValueError as error:
        class_ = OutOfRange if isinstance(error, OutOfRange) else ValueError
        raise class_(f"{error} as field '{field.name}'") from None
    return fitted


def _frame(structure: Structure, value: Any) -> _Frame | None:
    """Start to read a value; return None for nil."""
    if structure.is_record:
        if value is None:
            return None
        return _Frame(structure.constructors[0], _fields(structure.constructors[0], value, structure.name))
    name: Any = None
    inside: Any = None
    if isinstance(value, Members) and len(value.names) == 1:
        ((name, inside),) = value.members.items()
    elif isinstance(value, list) and value:
        name, inside = value[0], value[1:]
    constructor = structure.by_name.get(name[1:]) if isinstance(name, str) and name[:1] == "$" else None
    if constructor is None:
        known = ", ".join(
            f'["${branch.name}"{", ..." if branch.fields else ""}]' for branch in structure.constructors
        )
        raise ValueError(f"a branch of {structure.name} ({known})")
    return _Frame(constructor, _fields(constructor, inside, f"${constructor.name}"))


def _fields(constructor: Constructor, value: Any, owner: str) -> list[Any]:
    names = [field.name for field in constructor.fields]
    if isinstance(value, Members) and len(value.names) == len(names) and value.members.keys() == set(names):
        return [value.members[name] for name in names]
    if isinstance(value, list) and len(value) == len(names):
        return value
    raise ValueError(f"an array or an object of the fields of {owner} ({', '.join(names) or 'none'})")
