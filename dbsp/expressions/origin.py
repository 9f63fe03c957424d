"""The place of an expression in a program, for the message when the expression has no value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Generic, Self, TypeVar

from dbsp.diagnostics import Diagnostic
from dbsp.lazy_dataclass import dataclass

E = TypeVar("E")
"""The class of expressions, which have an origin each."""

NamedValues = Sequence[tuple[str, Any]]
"""The variables of an expression with their values, in the order of the program text."""


@dataclass(frozen=True)
class Origin(ABC, Generic[E]):
    """The place of an expression in the text of a program.

    Every part of an expression may have an origin. Equality, hashes and JSON ignore it. A front end
    subclasses it. Nothing is computed before an error occurs.
    """

    definitions: tuple[Mapping[str, E], ...] = field(default=(), kw_only=True)
    """The replacements of the columns, oldest first (see `substitution.substitute`)."""

    def under(self, definitions: Mapping[str, E]) -> Self:
        """Return the origin after a replacement of the columns of the expression."""
        return replace(self, definitions=(*self.definitions, definitions))

    @abstractmethod
    def variables(self) -> Iterator[tuple[str, E]]:
        """Yield the variables with their names in the program, before any replacement."""

    @abstractmethod
    def diagnostic(self, reason: str, code: str | None, values: NamedValues) -> Diagnostic:
        """Return the message that the expression has no value for these values of its variables."""


def failure_text(reason: str, text: str, values: NamedValues, show: Callable[[Any], str]) -> str:
    """Return the reason, the text that failed, and the values of its variables.

    >>> failure_text("division by zero", "100 / n", [("n", 0)], repr)
    'division by zero: 100 / n with n = 0'
    """
    shown = ", ".join(f"{name} = {show(value)}" for name, value in values)
    return f"{reason}: {text}{f' with {shown}' if shown else ''}"
