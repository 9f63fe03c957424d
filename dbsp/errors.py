"""The errors that dbsp raises on purpose: one family under `DbspError`.

An error says what is wrong, where (the operator and the line of the caller's source) and what to
do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dbsp.diagnostics import Diagnostic

T = TypeVar("T")
C = TypeVar("C", bound=StrEnum)


class DbspError(Exception):
    """Base class of all errors of this package.

    Attributes:
        message: the text without place and code.
        where: the operator, file, relation or row that the message is about, or None. Code that
            does not know the operator raises without it; the scheduler adds it.
        code: a short stable name of the cause, such as `unknown-column`. It ends the text of the
            error, and a section of `docs/reference/errors` explains it.

    Examples:
        >>> try:
        ...     Schema.of(x=int).index("y")
        ... except DbspError as error:
        ...     print(error.code)
        unknown-column
    """

    code: str | None = None

    defect = False
    """Whether dbsp itself is at fault; the traceback of such an error is never shortened."""

    diagnostic: Diagnostic | None = None
    """The place in a program's text, for an error of a rule; its rendering is the error's text."""

    def __init__(self, message: str, *, where: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        # An error of a worker process keeps its attributes, whatever its class takes as arguments.
        return _restored, (type(self), self.args), self.__dict__

    def locate(self, diagnostic: Diagnostic) -> None:
        """Point the error at a place in a program's text."""
        self.diagnostic = diagnostic
        self.where = str(diagnostic.span)

    def __str__(self) -> str:
        if self.diagnostic is not None:
            return self.diagnostic.render()
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} [{self.code}]" if self.code else text


def _restored(cls: type[DbspError], args: tuple[Any, ...]) -> DbspError:
    """Return an error for pickle, which then sets its attributes."""
    return cls.__new__(cls, *args)


class SchemaError(DbspError):
    """A column or a type does not fit: unknown name, wrong number of columns, other type."""


class InputError(DbspError):
    """A change is not acceptable: an unknown input, a wrong number of values, a wrong type."""


class EdnError(InputError):
    """An EDN text is not valid, or a value has no EDN text."""


class ArgumentError(DbspError, ValueError):
    """An argument is not acceptable; the message names it and what it expects."""

    code = "invalid-argument"


class ValueOutOfRangeError(DbspError):
    """A value is outside the range of its type. Arithmetic and conversions never wrap around."""

    code = "value-out-of-range"


class WeightOverflowError(DbspError):
    """A weight, or a sum or product of weights, is outside the range -2**63 to 2**63 - 1."""

    code = "weight-overflow"


class EvaluationError(DbspError):
    """An expression has no value for a row: a division by zero, text that is not a number."""


class UserFunctionError(DbspError):
    """A function of the caller raised an exception, which is the `__cause__` of this error."""

    code = "user-function"


class InvariantError(DbspError):
    """The data violates a validator of the circuit, or dbsp violates an invariant of its own."""

    code = "invariant"
    defect = True


class CircuitError(DbspError):
    """A circuit is not well formed: streams of two circuits, a cycle without a delay."""


class IterationLimitError(DbspError):
    """A fixpoint scope did not converge within its limit of iterations."""

    code = "iteration-limit"


class MemoryLimitError(DbspError):
    """A tick needs more memory than is available."""

    code = "memory-limit"


class CheckpointError(DbspError):
    """A checkpoint cannot be read or written: it is damaged, in use, or of another program."""


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged and nothing is lost: an intact file was read instead."""


class ShardError(DbspError):
    """A sharded run cannot continue, for example because the process of a shard has ended."""


class SetupError(DbspError):
    """A program that dbsp needs, such as Java, is missing; the message says how to get it."""

    code = "setup"


class SparkError(DbspError):
    """Spark ended the query of a pipeline; the message has Spark's description."""

    code = "spark-query"


class CompileError(DbspError):
    """A program has errors.

    Attributes:
        diagnostics: all errors and warnings of the program (see `dbsp.diagnostics`). The text of
            this error shows each of them with its place, its line, a caret and a hint.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic] | str, *, code: str | None = None) -> None:
        if isinstance(diagnostics, str):
            self.diagnostics: tuple[Diagnostic, ...] = ()
            super().__init__(diagnostics, code=code)
            return
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(diagnostic.render() for diagnostic in self.diagnostics))


E = TypeVar("E", bound=DbspError)


def at_place(error: E, place: str) -> E:
    """Return the same error with a place, such as a row and a column, in front of its message."""
    return type(error)(f"{place}: {error.message}", where=error.where, code=error.code)


def violated(message: str) -> InvariantError:
    """Return the error for data that violates a validator: the data are at fault, not dbsp."""
    error = InvariantError(message)
    error.defect = False
    return error


def wrong_argument(name: str, expected: str, value: object) -> ArgumentError:
    """Return the error for an argument of the wrong type; it shows the value and its type."""
    return ArgumentError(f"{name}: expected {expected}, got {shorten(value)} of type {type(value).__name__}")


def choice(parameter: str, choices: type[C], value: C | str) -> C:
    """Return the member of an enumeration with this value. Raise ArgumentError if there is none."""
    if value not in list(choices):
        known = ", ".join(repr(str(member)) for member in choices)
        raise ArgumentError(f"{parameter}= expects one of {known}, got {shorten(value)}")
    return choices(value)


def shorten(value: Any, width: int = 60) -> str:
    """Return `repr(value)` on one line, cut to `width` characters for error messages."""
    try:
        text = " ".join(repr(value).split("\n"))
    except ValueError:  # Python does not write an int of more than 4300 digits
        bits = f"an int of {value.bit_length()} bits" if isinstance(value, int) else None
        text = bits or "a value with an int of more than 4300 digits"
    return text if len(text) <= width else text[: width - 3] + "..."


def full_repr(value: Any) -> str:
    """Return `repr(value)`; an int of more than 4300 digits is in hexadecimal.

    >>> full_repr((1, "a")), len(full_repr((10**5000,)))
    ("(1, 'a')", 4157)
    """
    try:
        return repr(value)
    except ValueError:
        if isinstance(value, int):
            return hex(value)
        if isinstance(value, tuple):
            return f"({', '.join(map(full_repr, value))})"
        return f"<{type(value).__name__} at {id(value):#x}>"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as messages write it.

    >>> counted(1, "column"), counted(2, "column")
    ('1 column', '2 columns')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def cause_text(error: Exception) -> str:
    """Return the class and the message of an error that another message quotes, without its code.

    >>> cause_text(KeyError("x")), cause_text(SchemaError("too wide", code="wrong-arity"))
    ("KeyError: 'x'", 'SchemaError: too wide')
    """
    message = error.message if isinstance(error, DbspError) else error
    return f"{type(error).__name__}: {message}"


def broken_link(path: str | os.PathLike[str]) -> str | None:
    """Return where a link to nothing leads, for a message; None for other paths."""
    if not os.path.islink(path) or os.path.exists(path):
        return None
    return f"it is a link to {os.readlink(path)}, which does not exist"


def system_reason(error: OSError, folder: str | os.PathLike[str]) -> str:
    """Return why the system refused to make or use a folder."""
    if isinstance(error, FileExistsError):
        return broken_link(folder) or "it is a file"
    return error.strerror or str(error)


def expect_present(value: T | None, what: str, *, where: str | None = None) -> T:
    """Return `value`, which is never None here.

    Raises InvariantError with the name `what` if it is.
    """
    if value is None:
        raise InvariantError(f"expected {what}, got None; this is a defect of dbsp", where=where)
    return value


def expect_type(value: object, type_: type[T], what: str, *, where: str | None = None) -> T:
    """Return `value`, which always has this type here. Raises InvariantError if it has another."""
    if not isinstance(value, type_):
        got = type(value).__name__
        raise InvariantError(f"expected {what}, got {got}; this is a defect of dbsp", where=where)
    return value
