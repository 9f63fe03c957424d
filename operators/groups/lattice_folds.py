"""Least upper bounds of the values of a group, for `fold`: of flat lattices and of the user's."""

from __future__ import annotations

from functools import reduce
from typing import Any

from dbsp.data.terms import Branch
from dbsp.errors import ValueOutOfRangeError
from dbsp.expressions.expression import Functor
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, repr=False)
class FlatBound:
    """The only value of a group, or the branch `top` for different values."""

    top: str

    def __repr__(self) -> str:
        return "flat"

    def __call__(self, pairs: list[tuple[Any, int]]) -> Any:
        (value, _), *others = pairs
        return Branch(self.top) if others else value


@dataclass(frozen=True, repr=False, eq=False)
class FunctorBound:
    """The values of a group joined by a functor, in their order.

    A result outside of `limits`, the least and the greatest int, is an error with the words
    `expected`.
    """

    functor: Functor
    limits: tuple[int, int] | None = None
    expected: str = ""

    def __call__(self, pairs: list[tuple[Any, int]]) -> Any:
        value = reduce(self.functor.function, [value for value, _ in pairs])
        if self.limits is not None and not self.limits[0] <= value <= self.limits[1]:
            raise ValueOutOfRangeError(f"expected {self.expected}, got {value}")
        return value

    def __repr__(self) -> str:
        return f"@{self.functor.name}"

    def _key(self) -> tuple[Any, ...]:
        functor = self.functor
        return functor.name, functor.parameters, functor.result, functor.function, self.limits, self.expected

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctorBound) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
