"""Where an expression of a program was written, for the message when it has no value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from dbsp.diagnostics import Diagnostic

if TYPE_CHECKING:
    from dbsp.expressions.expression import Expression

NamedValues = Sequence[tuple[str, Any]]
"""The variables of an expression with their values, in the order in which they were written."""


@dataclass(frozen=True)
class Origin:
    """The place of an expression in the text of a program.

    Every part of an expression may have one. It is no part of what the expression means: equality, hashes
    and JSON ignore it. A front end subclasses it; nothing here is computed before an error occurs.
    """

    definitions: tuple[Mapping[str, Expression], ...] = field(default=(), kw_only=True)
    """What the columns were replaced by, first replacement first (see `substitution.substitute`)."""

    def under(self, definitions: Mapping[str, Expression]) -> Self:
        """The origin after the columns of the expression were replaced."""
        return replace(self, definitions=(*self.definitions, definitions))

    def variables(self) -> Iterator[tuple[str, Expression]]:
        """The variables by their names in the program, before any replacement."""
        raise NotImplementedError

    def diagnostic(self, reason: str, code: str | None, values: NamedValues) -> Diagnostic:
        """The message that the expression has no value for these values of its variables."""
        raise NotImplementedError


def failure_text(reason: str, text: str, values: NamedValues, show: Callable[[Any], str]) -> str:
    """What failed and why, with the values of its variables.

    >>> failure_text("division by zero", "100 / n", [("n", 0)], repr)
    'division by zero: 100 / n with n = 0'
    """
    shown = ", ".join(f"{name} = {show(value)}" for name, value in values)
    return f"{reason}: {text}{f' with {shown}' if shown else ''}"
