"""Expressions: trees of columns, constants and calls, without types until they are bound."""

from __future__ import annotations

import datetime as dt
import functools
import types
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, get_args
from typing import Literal as TypingLiteral

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.data.named_choices import expect_choice
from dbsp.data.timestamps import zone_name
from dbsp.data.type_inference import infer_type
from dbsp.data.types import Type
from dbsp.data.values import plain_constant
from dbsp.display.displayed import Displayed
from dbsp.errors import ArgumentError, EvaluationError, cause_text, full_repr, shorten, wrong_argument
from dbsp.expressions.namespaces import Namespaces
from dbsp.expressions.notation import (
    Operand,
    aggregate_text,
    call_strength,
    call_text,
    literal_operand,
)
from dbsp.expressions.origin import Origin
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dbsp.display.document import Document


Closed: TypeAlias = TypingLiteral["both", "left", "right", "neither"]
_CLOSED: tuple[Closed, ...] = get_args(Closed)


@methods_end_at_caller
class Expression(Namespaces, Displayed):
    """A value computed from the columns of a row. Immutable and hashable.

    Operators, `==` included, build larger expressions; compare expressions with `same_as`, or use
    `key` in sets and dicts. The operators and methods mean the same as in Python where Python has
    them. An expression over None is None, except for `is_null`, `fill_null`, `when`, and `&` or `|`
    if the other side determines the result.

    Examples:
        >>> (col("x") + 1) * 2 <= col("y")
        (col("x") + 1) * 2 <= col("y")
    """

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A tuple that is equal for two expressions if and only if their structure is equal."""
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

    def _display(self) -> Document:
        from dbsp.display.document import Document, Note, code_of, printable

        names = ", ".join(self.columns)
        note = Note(printable(f"reads {names}", 200) if names else "a constant")
        return Document((), (code_of(repr(self), 1), note))

    def __bool__(self) -> NoReturn:
        raise ArgumentError(
            f"{self!r} has no truth value without a row; use & | ~ instead of and, or, not, when() "
            "instead of if, two comparisons instead of a < b < c, and same_as() to compare expressions",
            code="invalid-expression",
        )

    def __getitem__(self, key: object) -> NoReturn:
        raise ArgumentError(
            f"{self!r} cannot be indexed or iterated, since it stands for the value of each row; write "
            ".element(0) for an element of a list, .str.substr(0, 2) for a part of a text, "
            '.field("name") for a field of a struct, .max() instead of max(...)',
            code="invalid-expression",
        )

    def _call(self, function: str, *arguments: Any) -> Any:
        return call(function, self, *arguments)

    def _aggregate(self, function: str, *by: Any, **options: Any) -> Any:
        for value in by:
            if not isinstance(value, str | Expression):
                raise wrong_argument("by", "a column name or an expression", value)
        order = (Column(value) if isinstance(value, str) else value for value in by)
        return AggregateCall(function, (self, *order), options=tuple(options.items()))

    # The subclasses below define these methods.
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
        """Return the quotient rounded toward zero, as in C.

        Parameters:
            other: the divisor, a number or an expression.

        Raises:
            EvaluationError: the divisor of a row is 0.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").truncdiv(2)))
            >>> circuit.start().step({"a": [(7,), (-7,)]})["out"].rows()
            [(-3,), (3,)]
        """
        return call("truncdiv", self, other)

    def truncmod(self, other: Any) -> Expression:
        """Return the remainder with the sign of the dividend, as in C.

        Parameters:
            other: the divisor, a number or an expression.

        Raises:
            EvaluationError: the divisor of a row is 0.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").truncmod(4)))
            >>> circuit.start().step({"a": [(7,), (-7,)]})["out"].rows()
            [(-3,), (3,)]
        """
        return call("truncmod", self, other)

    # --- comparison and logic ---------------------------------------------------------------------

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        if other is None:
            raise _compared_with_none(f"{self!r} == None", f"{self!r}.is_null()")
        return call("eq", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        if other is None:
            raise _compared_with_none(f"{self!r} != None", f"~{self!r}.is_null()")
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
        """Return whether the value is None; the result is never None.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int | None).map(v=col("x").is_null()))
            >>> circuit.start().step({"a": [(7,), (None,)]})["out"].rows()
            [(False,), (True,)]
        """
        return call("is_null", self)

    def fill_null(self, other: Any) -> Expression:
        """Return the value, or `other` where the value is None.

        Parameters:
            other: a value or an expression of the same type.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int | None).map(v=col("x").fill_null(0)))
            >>> circuit.start().step({"a": [(7,), (None,)]})["out"].rows()
            [(0,), (7,)]
        """
        return call("fill_null", self, other)

    def isin(self, values: Collection[Any]) -> Expression:
        """Return whether the value is one of several constants; None for None.

        Values are equal as by `==`: NaN is one of the values if NaN is among them. No value is one
        of an empty collection.

        Parameters:
            values: the constants, as a list, a tuple, a set or another collection.

        Raises:
            ArgumentError: `values` is not a collection, or has None or an expression in it.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int | None).filter(col("x").isin([1, 3])))
            >>> circuit.start().step({"a": [(1,), (2,), (3,), (None,)]})["out"].rows()
            [(1,), (3,)]
        """
        return call("isin", self, *distinct_constants(values))

    def between(self, low: Any, high: Any, closed: Closed = "both") -> Expression:
        """Return whether the value is between two bounds; the comparisons of `low` and `high`.

        The result is that of `(low <= x) & (x <= high)`: None if the value is None, or if a bound
        is None and the other bound does not exclude the value.

        Parameters:
            low: the lower bound, a value or an expression.
            high: the upper bound, a value or an expression.
            closed: the bounds that belong to the range: "both", "left", "right" or "neither".

        Raises:
            ArgumentError: `closed` is another word.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).filter(col("x").between(2, 4, "left")))
            >>> circuit.start().step({"a": [(1,), (2,), (3,), (4,)]})["out"].rows()
            [(2,), (3,)]
        """
        closed = expect_choice("closed", _CLOSED, closed)
        above = call("ge" if closed in ("both", "left") else "gt", self, low)
        below = call("le" if closed in ("both", "right") else "lt", self, high)
        return above & below

    # --- bits (64, two's complement; shift counts modulo 64) --------------------------------------

    def band(self, other: Any) -> Expression:
        """Return the bitwise and of two ints of 64 bits.

        Parameters:
            other: an int or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").band(6)))
            >>> circuit.start().step({"a": [(13,), (7,)]})["out"].rows()
            [(4,), (6,)]
        """
        return call("band", self, other)

    def bor(self, other: Any) -> Expression:
        """Return the bitwise or of two ints of 64 bits.

        Parameters:
            other: an int or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").bor(6)))
            >>> circuit.start().step({"a": [(8,), (7,)]})["out"].rows()
            [(7,), (14,)]
        """
        return call("bor", self, other)

    def bxor(self, other: Any) -> Expression:
        """Return the bitwise exclusive or of two ints of 64 bits.

        Parameters:
            other: an int or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").bxor(6)))
            >>> circuit.start().step({"a": [(8,), (7,)]})["out"].rows()
            [(1,), (14,)]
        """
        return call("bxor", self, other)

    def bnot(self) -> Expression:
        """Return the bitwise not of an int of 64 bits in two's complement.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").bnot()))
            >>> circuit.start().step({"a": [(0,), (7,)]})["out"].rows()
            [(-8,), (-1,)]
        """
        return call("bnot", self)

    def shl(self, count: Any) -> Expression:
        """Shift left; bits beyond the 64th are dropped.

        Parameters:
            count: the number of bits, modulo 64.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").shl(3)))
            >>> circuit.start().step({"a": [(1,), (7,)]})["out"].rows()
            [(8,), (56,)]
        """
        return call("shl", self, count)

    def shr(self, count: Any) -> Expression:
        """Shift right and keep the sign.

        Parameters:
            count: the number of bits, modulo 64.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").shr(1)))
            >>> circuit.start().step({"a": [(9,), (-9,)]})["out"].rows()
            [(-5,), (4,)]
        """
        return call("shr", self, count)

    def shr_unsigned(self, count: Any) -> Expression:
        """Shift right and fill with zeros.

        Parameters:
            count: the number of bits, modulo 64.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=int).map(v=col("x").shr_unsigned(60)))
            >>> circuit.start().step({"a": [(9,), (-9,)]})["out"].rows()
            [(0,), (15,)]
        """
        return call("shr_unsigned", self, count)

    # --- strings ----------------------------------------------------------------------------------

    def length(self) -> Expression:
        """Return the number of characters of a string, of bytes, or of elements of a list.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").length()))
            >>> circuit.start().step({"a": [("ab",), ("é",)]})["out"].rows()
            [(1,), (2,)]
        """
        return call("length", self)

    def contains(self, element: Any) -> Expression:
        """Return whether a value is an element of the list; `str.contains` finds parts of strings.

        Parameters:
            element: the value, or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", l=list[int]).map(v=col("l").contains(2)))
            >>> circuit.start().step({"a": [([1, 2],), ([],)]})["out"].rows()
            [(False,), (True,)]
        """
        return call("contains_element", self, element)

    # --- conversion -------------------------------------------------------------------------------


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
class StreamColumn(Column):
    """A column of one stream, as `stream["x"]`; the methods of the stream read it as `col("x")`."""

    stream: Any

    def __repr__(self) -> str:
        return f'stream["{self.name}"]'

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), id(self.stream.node))


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
    origin: Origin[Expression] | None = field(default=None, kw_only=True)
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

    It is usually called once for the same arguments, so the result must depend only on the
    arguments, and the function must have no side effects. Arguments and result are Python values.
    An exception, or a result of another type, becomes an EvaluationError that names the functor.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        known: Callable[..., Any] = self._computed
        if all(type_.kind != "object" for type_ in self.parameters):
            # The cache would find 1, 1.0 and True under one key, which are three objects.
            known = functools.lru_cache(maxsize=_REMEMBERED)(known)
        object.__setattr__(self, "_known", known)

    def __reduce__(self) -> tuple[Any, ...]:
        return Functor, (self.name, self.parameters, self.result, self.function)  # no known results

    def __call__(self, *arguments: Any) -> Any:
        known: Callable[..., Any] = self._known  # type: ignore[attr-defined]  # set above
        return known(*arguments)

    def _computed(self, *arguments: Any) -> Any:
        shown = f"functor '@{self.name}'"
        try:
            value = self.function(*arguments)
        except EvaluationError:
            raise
        except Exception as error:
            message = f"{shown} raised {cause_text(error)}"
            raise EvaluationError(message, code="user-function") from error
        kind = self.result.kind
        if kind == "float" and type(value) is int:
            value = float(value)
        if kind in ("object", "record"):
            return value  # the encoding checks the type of a record
        if type(value) is not {"int": int, "float": float, "str": str}[kind]:
            returned = f"{shorten(value)} of type {type(value).__name__}"
            raise EvaluationError(f"{shown} returned {returned}, expected {kind}", code="user-function")
        return value


_REMEMBERED = 65_536
"""The number of results of a functor that are kept for equal arguments."""


@dataclass(frozen=True, eq=False, repr=False)
class FunctorCall(Call):
    """A functor applied to other expressions; `function` is `@` and the name of the functor."""

    functor: Functor

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), id(self.functor.function))


@dataclass(frozen=True, eq=False, repr=False)
class AggregateCall(Call):
    """An aggregate of the rows of a group, as `col("x").sum()`; only `agg` gives it a value."""

    options: tuple[tuple[str, Any], ...] = ()
    """The arguments that are not expressions, by name."""

    def __repr__(self) -> str:
        return aggregate_text(self.function, [a.operand for a in self.arguments], self.options)

    def _key(self) -> tuple[Any, ...]:
        options = (*(name for name, _ in self.options), *(_value_key(value) for _, value in self.options))
        return (*super()._key(), "of the group", *options)


def _value_key(value: Any) -> tuple[Any, ...]:
    """Return a key that is equal for the same constant only: 1, True and 1.0 differ, NaN is NaN."""
    if isinstance(value, tuple):
        return (type(value), *map(_value_key, value))
    if isinstance(value, float):
        return (type(value), repr(value))
    if isinstance(value, (str, int, bytes, types.NoneType)):
        return (type(value), value)
    return (type(value), full_repr(value), value)


def _compared_with_none(comparison: str, instead: str) -> ArgumentError:
    return ArgumentError(
        f"{comparison} is never true, because a comparison with None is None; use {instead}",
        code="invalid-expression",
    )


def as_expression(value: Any) -> Expression:
    """Return the value if it is an expression, else a constant expression of the value.

    Raises ArgumentError for a function or a class, and for an object that says by its attribute
    `_not_a_value` that it is a part of a query, such as a `when` without its `otherwise`.
    """
    if isinstance(value, Expression):
        return value
    advice = getattr(value, "_not_a_value", None)
    if advice is not None or callable(value):
        raise ArgumentError(
            f"expected an expression such as col('x') + 1, or a constant, got {shorten(value)} of type "
            f"{type(value).__name__}" + (f"; {advice}" if advice else ""),
            code="invalid-expression",
        )
    return literal(value, None)


def distinct_constants(values: Any) -> list[Literal]:
    """Return the constants of a collection, each once; those of a set in an order of their own."""
    if not isinstance(values, Collection) or isinstance(values, str | bytes | Expression):
        raise ArgumentError(
            f"isin expects a collection of constants such as [1, 2], got {shorten(values)} of type "
            f"{type(values).__name__}; to compare with one value, use ==",
            code="invalid-expression",
        )
    found: dict[tuple[Any, ...], Literal] = {}
    for value in values:
        constant = as_expression(value)
        if not isinstance(constant, Literal):
            raise ArgumentError(
                f"isin expects constants, got the expression {constant!r}; compare with it by ==, and "
                "combine comparisons by |",
                code="invalid-expression",
            )
        if constant.value is None:
            raise ArgumentError(
                "isin expects values that are not None, because a comparison with None is None; add "
                "| x.is_null()",
                code="invalid-expression",
            )
        found.setdefault(constant.key, constant)
    constants = list(found.values())
    # The order of a set of strings differs between processes, and that of a circuit must not.
    return sorted(constants, key=repr) if isinstance(values, Set) else constants


def literal(value: Any, type_: Type | None) -> Literal:
    """Return a constant; of a list or a dict as a tuple, since expressions are hashable."""
    if isinstance(value, list | dict):
        type_ = infer_type([value]) if type_ is None else type_
        value = plain_constant(type_, value)
    if isinstance(value, dt.datetime) and type_ is None and zone_name(value.tzinfo) != "UTC":
        type_ = infer_type([value])  # JSON keeps the offset of a datetime and not its zone
    return Literal(value, type_)


def call(function: str, *arguments: Any) -> Expression:
    """Return the call of a function by name; arguments are expressions or constants."""
    return Call(function, tuple(map(as_expression, arguments)))
