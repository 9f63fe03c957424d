"""Every error the engine raises on purpose: one family under `DbspError`.

An error says what is wrong, where (the operator and the user's own source line, filled in by
whoever knows it) and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dbsp.diagnostics import Diagnostic

T = TypeVar("T")


class DbspError(Exception):
    """Base of all errors of this package.

    `where` names the node, file, relation or row the message is about. Code deep inside the engine
    raises without it; the scheduler, which knows the operator, adds it on the way out.

    `code` is a short stable name of the cause, such as `unknown-column`. It ends the text of the
    error, and a section of `docs/reference/errors` explains it.
    """

    code: str | None = None

    def __init__(self, message: str, *, where: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} [{self.code}]" if self.code else text


class SchemaError(DbspError):
    """A column or a type does not fit: unknown name, wrong arity, two types that cannot meet."""


class InputError(DbspError):
    """A change handed to a circuit is not acceptable: unknown relation, wrong arity, wrong type."""


class ArgumentError(DbspError, ValueError):
    """An argument of a call is not acceptable; the message names the argument and what it expects."""

    code = "invalid-argument"


class ValueOutOfRangeError(DbspError):
    """A value does not fit its 64-bit code; nothing wraps silently."""

    code = "value-out-of-range"


class WeightOverflowError(DbspError):
    """A sum or product of weights leaves int64."""

    code = "weight-overflow"


class EvaluationError(DbspError):
    """An expression has no value for a row: division by zero, text that is no number."""


class UserFunctionError(DbspError):
    """A function supplied by the user raised; the original exception is the cause."""

    code = "user-function"


class InvariantError(DbspError):
    """The data breaks a promise that a validator of the circuit holds it to, or dbsp one of its own."""

    code = "invariant"


class CircuitError(DbspError):
    """A circuit is not well formed: streams of two circuits, a cycle without a delay."""


class IterationLimitError(DbspError):
    """A fixpoint scope did not converge within its cap on iterations."""

    code = "iteration-limit"


class MemoryLimitError(DbspError):
    """A tick needs more memory than there is."""

    code = "memory-limit"


class CheckpointError(DbspError):
    """A checkpoint cannot be used or written: another circuit's, in use elsewhere, damaged."""


class SetupError(DbspError):
    """The machine lacks something that is needed, such as a Java for Spark; says how to get it."""

    code = "setup"


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


def shorten(value: Any, width: int = 60) -> str:
    """`repr(value)`, cut to `width` characters for error messages."""
    text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def expect_present(value: T | None, what: str, *, where: str | None = None) -> T:
    """Return a value that is never None at this place; raise InvariantError, which names it, if it is."""
    if value is None:
        raise InvariantError(f"expected {what}, got None; this is a defect of dbsp", where=where)
    return value


def expect_type(value: object, type_: type[T], what: str, *, where: str | None = None) -> T:
    """Return a value that always has this type at this place; raise InvariantError if it does not."""
    if not isinstance(value, type_):
        got = type(value).__name__
        raise InvariantError(f"expected {what}, got {got}; this is a defect of dbsp", where=where)
    return value
