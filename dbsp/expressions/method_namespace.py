"""The base of the namespaces of expressions, such as `.str`."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from dbsp.expressions.value_methods import ValueMethods

E = TypeVar("E", bound=ValueMethods)


class MethodNamespace(Generic[E]):
    """Some methods of an expression; each returns another expression."""

    __slots__ = ("_expression",)
    _name: ClassVar[str]
    _not_a_value: ClassVar[str]
    """The advice of an error for a namespace in the place of a value."""

    def __init__(self, expression: E) -> None:
        self._expression = expression

    def __repr__(self) -> str:
        return f"{self._expression!r}.{self._name}"
