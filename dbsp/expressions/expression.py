"""What users write: a tree of columns, constants and calls, without types until it is bound to a schema."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from dbsp.data.types import Type
from dbsp.errors import EvaluationError, shorten
from dbsp.expressions.notation import Operand, call_strength, call_text, literal_operand
from dbsp.expressions.origin import Origin


class Expression:
    """A value computed from the columns of a row. Immutable and hashable.

    Operators build larger expressions, `==` included; so compare expressions with `same_as`, or use `key`
    in sets and dicts. The operators and methods are those of Python where it has them. An expression
    over None is None, except for `is_null`, `fill_null`, `when` and `&`, `|` whose other side decides.

    >>> from dbsp.expressions import col
    >>> (col("x") + 1) * 2 <= col("y")
    (col("x") + 1) * 2 <= col("y")
    """

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A plain tuple that is equal for expressions of the same structure and for no others."""
        return self._key()

    def same_as(self, other: object) -> bool:
        """Whether the other expression has the same structure and constants."""
        return isinstance(other, Expression) and self.key == other.key

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, in order of first use."""
        return tuple(dict.fromkeys(self._columns()))

    def __hash__(self) -> int:
        return hash(self.key)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} has no truth value before it meets a row; use & | ~ in place of and, or, not, "
            "and same_as() to compare expressions"
        )

    # Supplied by the three forms below.
    def _key(self) -> tuple[Any, ...]:
        raise TypeError(f"{type(self).__name__} is not a form of expression")

    def _columns(self) -> Iterator[str]:
        return iter(())

    @property
    def operand(self) -> Operand:
        """The text of the expression within a call."""
        return Operand(repr(self))

    # --- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        return call("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return call("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return call("sub", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return call("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return call("mul", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return call("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return call("truediv", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return call("truediv", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return call("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return call("floordiv", other, self)

    def __mod__(self, other: Any) -> Expression:
        return call("mod", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return call("mod", other, self)

    def __pow__(self, other: Any) -> Expression:
        return call("pow", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return call("pow", other, self)

    def __neg__(self) -> Expression:
        return call("neg", self)

    def __abs__(self) -> Expression:
        return call("abs", self)

    def truncdiv(self, other: Any) -> Expression:
        """The quotient rounded toward zero, as in C."""
        return call("truncdiv", self, other)

    def truncmod(self, other: Any) -> Expression:
        """The remainder with the sign of the dividend, as in C."""
        return call("truncmod", self, other)

    # --- comparison and logic ---------------------------------------------------------------------

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return call("eq", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return call("ne", self, other)

    def __lt__(self, other: Any) -> Expression:
        return call("lt", self, other)

    def __le__(self, other: Any) -> Expression:
        return call("le", self, other)

    def __gt__(self, other: Any) -> Expression:
        return call("gt", self, other)

    def __ge__(self, other: Any) -> Expression:
        return call("ge", self, other)

    def __and__(self, other: Any) -> Expression:
        return call("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return call("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return call("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return call("or", other, self)

    def __invert__(self) -> Expression:
        return call("not", self)

    def is_null(self) -> Expression:
        """Whether the value is None; itself never None."""
        return call("is_null", self)

    def fill_null(self, other: Any) -> Expression:
        """The value, or `other` where it is None."""
        return call("fill_null", self, other)

    # --- bits (64, two's complement; shift counts modulo 64) --------------------------------------

    def band(self, other: Any) -> Expression:
        """Bitwise and."""
        return call("band", self, other)

    def bor(self, other: Any) -> Expression:
        """Bitwise or."""
        return call("bor", self, other)

    def bxor(self, other: Any) -> Expression:
        """Bitwise exclusive or."""
        return call("bxor", self, other)

    def bnot(self) -> Expression:
        """Bitwise not."""
        return call("bnot", self)

    def shl(self, count: Any) -> Expression:
        """Shift left; bits beyond the 64th are dropped."""
        return call("shl", self, count)

    def shr(self, count: Any) -> Expression:
        """Shift right, keeping the sign."""
        return call("shr", self, count)

    def shr_unsigned(self, count: Any) -> Expression:
        """Shift right, filling with zeros."""
        return call("shr_unsigned", self, count)

    # --- strings ----------------------------------------------------------------------------------

    def concat(self, *others: Any) -> Expression:
        """The strings joined end to end."""
        return call("cat", self, *others)

    cat = concat

    def length(self) -> Expression:
        """The number of characters (of a string) or bytes."""
        return call("length", self)

    def substr(self, start: Any, count: Any) -> Expression:
        """At most `count` characters from position `start` (0 is the first); empty if outside."""
        return call("substr", self, start, count)

    def upper(self) -> Expression:
        """In upper case."""
        return call("upper", self)

    def lower(self) -> Expression:
        """In lower case."""
        return call("lower", self)

    def contains(self, part: Any) -> Expression:
        """Whether `part` occurs in the string."""
        return call("contains", self, part)

    def startswith(self, prefix: Any) -> Expression:
        """Whether the string starts with `prefix`."""
        return call("startswith", self, prefix)

    def endswith(self, suffix: Any) -> Expression:
        """Whether the string ends with `suffix`."""
        return call("endswith", self, suffix)

    def matches(self, pattern: Any) -> Expression:
        """Whether the whole string matches a regular expression (of Python's `re`)."""
        return call("matches", self, pattern)

    def ord(self) -> Expression:
        """A number that tells this string from every other within a run; it says nothing about order."""
        return call("ord", self)

    # --- conversion -------------------------------------------------------------------------------

    def to_string(self) -> Expression:
        """The value as text, as Python's `str` writes it."""
        return call("to_string", self)

    def to_number(self) -> Expression:
        """The integer a string spells (decimal, 0x... or 0b...). EvaluationError if it spells none."""
        return call("to_number", self)

    def to_int(self) -> Expression:
        """As an int: floats are cut toward zero, strings read as `to_number` does, booleans 0 or 1."""
        return call("to_int", self)

    def to_float(self) -> Expression:
        """As a float: from an int, a boolean, or a string that spells one."""
        return call("to_float", self)


@dataclass(frozen=True, eq=False, repr=False)
class Column(Expression):
    """The value of a column."""

    name: str

    def __repr__(self) -> str:
        return f'col("{self.name}")'

    def _key(self) -> tuple[Any, ...]:
        return ("column", self.name)

    def _columns(self) -> Iterator[str]:
        yield self.name


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Expression):
    """A constant; its type is inferred from the value unless it is given."""

    value: Any
    type: Type | None = None

    def __repr__(self) -> str:
        return self.operand.text

    @property
    def operand(self) -> Operand:
        return literal_operand(self.value, self.type)

    def _key(self) -> tuple[Any, ...]:
        return ("literal", _value_key(self.value), self.type)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expression):
    """A function of other expressions; see `dbsp.expressions.functions` for the names."""

    function: str
    arguments: tuple[Expression, ...]
    origin: Origin | None = field(default=None, kw_only=True)
    """Where the call was written, if it was in the text of a program."""

    def __repr__(self) -> str:
        return call_text(self.function, [argument.operand for argument in self.arguments])

    @property
    def operand(self) -> Operand:
        return Operand(repr(self), call_strength(self.function))

    def _key(self) -> tuple[Any, ...]:
        return ("call", self.function, *(argument.key for argument in self.arguments))

    def _columns(self) -> Iterator[str]:
        for argument in self.arguments:
            yield from argument.columns


@dataclass(frozen=True, eq=False)
class Functor:
    """A function of the user's with the types of its arguments and of its result.

    It is called once for the same arguments, mostly: so it must be a function of them alone, and change
    nothing. It gets and gives Python values; a result of another type, and whatever it raises, is an
    EvaluationError that names it and the arguments.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", functools.lru_cache(maxsize=_REMEMBERED)(self._computed))

    def __call__(self, *arguments: Any) -> Any:
        known: Callable[..., Any] = self._known  # type: ignore[attr-defined]  # set above
        return known(*arguments)

    def _computed(self, *arguments: Any) -> Any:
        shown = f"functor '@{self.name}'"
        try:
            value = self.function(*arguments)
        except Exception as error:
            message = f"{shown} raised {type(error).__name__}: {error}"
            raise EvaluationError(message, code="user-function") from error
        kind = self.result.kind
        if kind == "float" and type(value) is int:
            value = float(value)
        if type(value) is not {"int": int, "float": float, "str": str}[kind]:
            returned = f"{shorten(value)} of type {type(value).__name__}"
            raise EvaluationError(f"{shown} returned {returned}, expected {kind}", code="user-function")
        return value


_REMEMBERED = 65_536
"""Results of a functor that are kept for arguments that come again."""


@dataclass(frozen=True, eq=False, repr=False)
class FunctorCall(Call):
    """A functor applied to other expressions; `function` is the functor's name with `@` before it."""

    functor: Functor

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), id(self.functor.function))


def _value_key(value: Any) -> tuple[Any, ...]:
    """Equal for the same constant only: 1, True and 1.0 differ, NaN is itself."""
    if isinstance(value, tuple):
        return (type(value), *map(_value_key, value))
    if isinstance(value, float):
        return (type(value), repr(value))
    if isinstance(value, (str, int, bytes, types.NoneType)):
        return (type(value), value)
    return (type(value), repr(value), value)


def as_expression(value: Any) -> Expression:
    """The value itself if it is an expression, else it as a constant."""
    return value if isinstance(value, Expression) else Literal(value)


def call(function: str, *arguments: Any) -> Expression:
    """The call of a function by name, constants allowed as arguments."""
    return Call(function, tuple(map(as_expression, arguments)))
