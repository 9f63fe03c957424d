"""Rows whose values are compared as queries compare them: 1, 1.0 and true are three values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from dbsp.compiler.datomic.meaning.checked_rules import storable
from dbsp.datomic.shared_values import SHARED_INTERNER

Environment: TypeAlias = Mapping[str, Any]
"""The values of variables, by name."""

_SELF_KEYED = frozenset({str, int})


def identity(value: Any) -> Any:
    """Return a key that two values share exactly if they are the same value."""
    if type(value) in _SELF_KEYED:
        return value
    return ("", SHARED_INTERNER.encode(storable(value)))


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same value."""
    return bool(identity(left) == identity(right))


def extended(environment: Environment, name: str, value: Any) -> Environment | None:
    """Return the environment with one more value; None if the variable has another one."""
    if name in environment:
        return environment if same(environment[name], value) else None
    return {**environment, name: value}


class ValueRow(tuple[Any, ...]):
    """A row that equals another one if their values are the same values."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(same, self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__
