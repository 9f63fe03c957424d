"""Types from the forms in which callers write them, and types that fit given values."""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Iterable
from typing import Any

import numpy as np

from dbsp.data.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    KINDS,
    OBJECT,
    STR,
    TIMESTAMP,
    Type,
    read_structure,
)
from dbsp.errors import SchemaError, shorten

# The first match counts: bool is a subclass of int, and datetime of date, so they come first.
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
    """Return the type given as a `Type`, a Python class, `X | None` or the name of a kind.

    >>> as_type(int), as_type(str | None), as_type("date"), as_type("float?")
    (INT, STR.optional(), DATE, FLOAT.optional())

    Raises SchemaError for anything else, and for classes without hashable values, such as `list`.
    """
    if isinstance(spec, Type):
        return spec
    if isinstance(spec, str):
        plain = spec.removesuffix("?")
        if not plain.startswith("@"):
            return Type(plain, nullable=plain != spec)
        return Type("record", plain != spec, read_structure(plain))
    if spec is Any:
        return OBJECT
    origin = typing.get_origin(spec)
    if origin in (types.UnionType, typing.Union):
        members = [member for member in typing.get_args(spec) if member is not types.NoneType]
        types_of_members = {as_type(member) for member in members}
        union = types_of_members.pop() if len(types_of_members) == 1 else OBJECT
        return union.optional() if len(members) < len(typing.get_args(spec)) else union
    if origin is not None:
        return as_type(origin)
    if isinstance(spec, type) and spec is not types.NoneType:
        if spec.__hash__ is None:
            raise SchemaError(
                f"{spec.__name__} cannot be the type of a column, since its values are not hashable; "
                f"use {'frozenset' if issubclass(spec, set) else 'tuple'}",
                code="invalid-type",
            )
        return _type_of_class(spec)
    raise SchemaError(
        f"expected a type such as int, str or float | None, or one of {', '.join(map(repr, KINDS))}; "
        f"got {shorten(spec)}",
        code="invalid-type",
    )


def infer_type(values: Iterable[Any]) -> Type:
    """Return the narrowest type of all values; mixtures are float or object."""
    classes = set(map(type, values))
    nullable = types.NoneType in classes
    types_of_values = {_type_of_class(cls) for cls in classes if cls is not types.NoneType}
    if types_of_values == {INT, FLOAT}:
        types_of_values = {FLOAT}
    inferred = types_of_values.pop() if len(types_of_values) == 1 else OBJECT
    return inferred.optional() if nullable else inferred
