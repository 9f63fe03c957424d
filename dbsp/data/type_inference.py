"""Types from the forms in which callers write them, and types that fit given values."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from dbsp.data.decimals import scale_of
from dbsp.data.timestamps import zone_name
from dbsp.data.type_text import read_type
from dbsp.data.types import (
    BOOL,
    BYTES,
    DATE,
    DURATION,
    FLOAT,
    INSTANT,
    INT,
    KINDS,
    OBJECT,
    STR,
    TIME,
    TIMESTAMP,
    Type,
    decimal_type,
    list_type,
    struct_type,
)
from dbsp.errors import SchemaError, at_place, shorten

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
    (dt.time, TIME),
    (dt.timedelta, DURATION),
    (np.timedelta64, DURATION),
    (Decimal, decimal_type()),
)


def _type_of_class(cls: type) -> Type:
    for known, type_ in _CLASSES:
        if issubclass(cls, known):
            return type_
    return OBJECT


def as_type(spec: Any) -> Type:
    """Return the type given as a `Type`, a Python class, `X | None` or the text of a type.

    >>> as_type(int), as_type(str | None), as_type("date"), as_type("float?")
    (INT, STR.optional(), DATE, FLOAT.optional())
    >>> print(as_type(Decimal), as_type(list[int]), as_type({"city": str, "zip": int | None}))
    decimal(18, 6) list[int] {city: str, zip: int?}

    A dataclass, a NamedTuple, a TypedDict and a mapping from names to types are structs.

    Raises SchemaError for anything else, and for classes without hashable values, such as `list`.
    """
    if isinstance(spec, Type):
        return spec
    if isinstance(spec, str):
        return read_type(spec)
    if isinstance(spec, Mapping):
        return _struct(spec)
    if spec is Any:
        return OBJECT
    origin = typing.get_origin(spec)
    if origin in (types.UnionType, typing.Union):
        members = [member for member in typing.get_args(spec) if member is not types.NoneType]
        types_of_members = {as_type(member) for member in members}
        union = types_of_members.pop() if len(types_of_members) == 1 else OBJECT
        return union.optional() if len(members) < len(typing.get_args(spec)) else union
    if origin is list:
        return list_type(as_type(*typing.get_args(spec)))
    if origin is not None:
        return as_type(origin)
    if typing.is_typeddict(spec):
        return _struct(typing.get_type_hints(spec))
    # Polars has a class for each type of columns; none of them is the class of a value.
    of_columns = getattr(spec, "__module__", "").startswith("polars.datatypes")
    if isinstance(spec, type) and spec is not types.NoneType and not of_columns:
        if dataclasses.is_dataclass(spec) or (issubclass(spec, tuple) and _annotated(spec)):
            return _struct(typing.get_type_hints(spec))
        if spec is list:
            raise SchemaError(
                "expected the type of the elements of a list; write list[int], or tuple for tuples of "
                "any values",
                code="invalid-type",
            )
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


def _annotated(spec: type) -> bool:
    """Return whether a class of named tuples has types of its fields."""
    return hasattr(spec, "_fields") and bool(inspect.get_annotations(spec))


def _struct(fields: Mapping[str, Any]) -> Type:
    inner = {}
    for name, spec in fields.items():
        try:
            inner[name] = as_type(spec)
        except SchemaError as error:
            raise at_place(error, f"field {name!r}") from None
    return struct_type(inner)


def infer_type(values: Iterable[Any]) -> Type:
    """Return the narrowest type of all values; mixtures are float or object.

    Decimals have the fewest digits after the point that all need. Timestamps with zones have the
    zone of all of them, or UTC. Lists and dicts have the types of their parts.
    """
    values = list(values)
    classes = set(map(type, values))
    nullable = types.NoneType in classes
    present = [value for value in values if value is not None] if nullable else values
    inferred = _infer_present(present, classes - {types.NoneType})
    return inferred.optional() if nullable else inferred


def _infer_present(values: list[Any], classes: set[type]) -> Type:
    if classes == {list}:
        return list_type(infer_type(element for value in values for element in value))
    if classes == {dict} and values[0] and all(value.keys() == values[0].keys() for value in values):
        return struct_type({name: infer_type(value[name] for value in values) for name in values[0]})
    inferred = {_type_of_class(cls) for cls in classes}
    if inferred == {INT, FLOAT}:
        return FLOAT
    kind = next(iter(inferred)).kind if len(inferred) == 1 else ""
    if kind == "timestamp" and all(getattr(value, "tzinfo", None) is not None for value in values):
        zones = {zone_name(value.tzinfo) for value in values}
        return Type("timestamptz", zone=zones.pop()) if len(zones) == 1 else INSTANT
    if kind == "decimal" or (inferred == {INT, decimal_type()}):
        scale = scale_of(value if isinstance(value, Decimal) else Decimal(int(value)) for value in values)
        return OBJECT if scale is None else decimal_type(scale)
    return inferred.pop() if len(inferred) == 1 else OBJECT
