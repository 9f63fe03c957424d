"""Every error the engine raises on purpose: one family under `DbspError`.

An error says what is wrong, where (the operator and the user's own source line, filled in by
whoever knows it) and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dbsp.diagnostics import Diagnostic

T = TypeVar("T")


class DbspError(Exception):
    """Base of all errors of this package.

    `where` names the node, file, relation or row the message is about. Code deep inside the engine
    raises without it; the scheduler, which knows the operator, adds it on the way out.
    """

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class SchemaError(DbspError):
    """A column or a type does not fit: unknown name, wrong arity, two types that cannot meet."""


class InputError(DbspError):
    """A change handed to a circuit is not acceptable: unknown relation, wrong arity, wrong type."""


class ValueOutOfRangeError(DbspError):
    """A value does not fit its 64-bit code; nothing wraps silently."""


class WeightOverflowError(DbspError):
    """A sum or product of weights leaves int64."""


class EvaluationError(DbspError):
    """An expression has no value for a row: division by zero, text that is no number."""


class UserFunctionError(DbspError):
    """A function supplied by the user raised; the original exception is the cause."""


class InvariantError(DbspError):
    """The data breaks a promise that a validator of the circuit holds it to."""


class CircuitError(DbspError):
    """A circuit is not well formed: streams of two circuits, a cycle without a delay."""


class IterationLimitError(DbspError):
    """A fixpoint scope did not converge within its cap on iterations."""


class MemoryLimitError(DbspError):
    """A tick needs more memory than there is."""


class CheckpointError(DbspError):
    """A checkpoint cannot be used or written: another circuit's, in use elsewhere, damaged."""


class SetupError(DbspError):
    """The machine lacks something that is needed, such as a Java for Spark; says how to get it."""


class CompileError(DbspError):
    """A program was refused; carries every diagnostic found (see `dbsp.diagnostics`).

    Its text is all of them, each with its place, its line, a caret and a hint.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic] | str) -> None:
        if isinstance(diagnostics, str):
            self.diagnostics: tuple[Diagnostic, ...] = ()
            super().__init__(diagnostics)
            return
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(diagnostic.render() for diagnostic in self.diagnostics))


def required(value: T | None, what: str) -> T:
    """The value, which is there unless this package has a defect: then an AssertionError names it."""
    if value is None:
        raise AssertionError(f"expected {what}, got None")
    return value
