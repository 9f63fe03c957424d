"""The kinds of values: the primitive types, and one kind for each type of records or branches."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from dbsp.data.terms import Branch, Record
from dbsp.data.types import FLOAT, INT, OBJECT, STR, Structure, Type, structure_type
from dbsp.lazy_dataclass import dataclass


class Kind(enum.Enum):
    """The primitive type of a value; every declared type is based on one of these."""

    NUMBER = "number"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    SYMBOL = "symbol"

    @property
    def numeric(self) -> bool:
        return self is not Kind.SYMBOL


@dataclass(frozen=True, slots=True)
class Structured:
    """The kind of the records or branches of one declared type; each such type is another kind."""

    name: str
    structure: Structure = field(compare=False, repr=False)

    @property
    def value(self) -> str:
        return self.name

    @property
    def numeric(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Opaque:
    """The kind of values of any Python class, such as keywords; programs in Datalog have none."""

    value: str = "value"

    @property
    def numeric(self) -> bool:
        return False


AnyKind: TypeAlias = Kind | Structured | Opaque

VALUE = Opaque()

UNTYPED = Structured("untyped", Structure("untyped"))
"""The kind of a term before inference; the checked program has no such term."""

_TYPES: Mapping[Kind, Type] = {Kind.NUMBER: INT, Kind.UNSIGNED: INT, Kind.FLOAT: FLOAT, Kind.SYMBOL: STR}


def type_of(kind: AnyKind) -> Type:
    """The type as which the engine stores values of a kind."""
    if isinstance(kind, Opaque):
        return OBJECT
    return structure_type(kind.structure) if isinstance(kind, Structured) else _TYPES[kind]


Value: TypeAlias = int | float | str | Record | Branch | None


@dataclass(frozen=True, slots=True, eq=False)
class FunctorSignature:
    """A user-defined function: `.functor name(parameters): result`."""

    name: str
    parameters: tuple[AnyKind, ...]
    result: AnyKind
    function: Callable[..., Any]
