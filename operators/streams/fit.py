"""Preparing the arguments of stream methods: names, key columns, common types, places of errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from dbsp.circuit.graph import Graph, Stream, placed
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import ArgumentError, DbspError, SchemaError, shorten, wrong_argument
from dbsp.expressions import Expression
from dbsp.operators.linear.filter import SameValue
from dbsp.operators.linear.union import Widen, same_types

On = str | Sequence[str | tuple[str, str]]
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Stream)


def located(operator: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make errors of a method name the operator and the caller's line.

    For methods of graphs and of objects that have a `graph`.
    """

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(*args, **kwargs)
            except DbspError as error:
                if error.where is None:
                    owner = args[0]
                    graph = owner if isinstance(owner, Graph) else getattr(owner, "graph")  # noqa: B009
                    error.where = placed(operator, graph.current_source())
                raise

        return call

    return decorate


def expect_names(names: Sequence[Any], what: str, example: str) -> None:
    """Raise ArgumentError unless every argument is a string; `example` shows the right call."""
    for name in names:
        if not isinstance(name, str):
            hint = "pass each name as one argument" if isinstance(name, list | tuple | set) else ""
            hint = hint or "name an expression, as in select(name=...), or add it by with_columns() first"
            raise ArgumentError(
                f"{what} expects column names such as {example}, got {shorten(name)} of type "
                f"{type(name).__name__}; {hint}"
            )


def expect_stream(value: Any, what: str) -> None:
    """Raise ArgumentError unless the value is a stream."""
    if not isinstance(value, Stream):
        advice = getattr(value, "_not_a_value", None)
        raise ArgumentError(
            f"{what} expects a stream, as circuit.input() and the methods of a stream return it, got "
            f"{shorten(value)} of type {type(value).__name__}" + (f"; {advice}" if advice else "")
        )


def expect_pair(names: Any) -> tuple[str, str]:
    """Return the argument `names`, two names of columns. Raises ArgumentError for anything else."""
    if not isinstance(names, tuple | list) or len(names) != 2:
        raise wrong_argument("names", "the names of two columns", names)
    first, last = names
    return first, last


def expect_function(function: Any, what: str) -> None:
    """Raise ArgumentError unless the argument can be called."""
    if not callable(function):
        raise wrong_argument(what, "a function", function)


def expect_int(number: Any, what: str) -> None:
    """Raise ArgumentError unless the argument is an int."""
    if not isinstance(number, int):
        raise wrong_argument(what, "an int", number)


def listed(names: str | Sequence[str], what: str) -> tuple[str, ...]:
    """The column names of an argument such as `partition`: one name, or a sequence of names."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            f"{what} expects a column name or a list of column names, got {shorten(names)} of type "
            f"{type(names).__name__}"
        )
    return tuple(names)


def key_columns(left: Schema, right: Schema, on: On) -> list[tuple[int, int]]:
    """The pairs of columns that `on` names: (column of the left, column of the right)."""
    if isinstance(on, Expression):
        raise ArgumentError(
            f"on= expects column names, or pairs (name on the left, name on the right), got the condition "
            f"{on!r}; write the equalities as left_on= and right_on=, and other conditions as where="
        )
    if isinstance(on, Mapping):
        raise ArgumentError(
            f"on= expects column names, or pairs (name on the left, name on the right), got {shorten(on)}; "
            f"write on={list(on.items())!r}"
        )
    names = (on,) if isinstance(on, str) else on
    pairs = []
    for name in names if isinstance(names, Iterable) else [names]:
        pair = (name, name) if isinstance(name, str) else name
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(p, str) for p in pair):
            raise ArgumentError(
                "on= expects column names, or pairs (name on the left, name on the right), such as "
                f'on=["id", ("a", "b")]; got {shorten(name)} of type {type(name).__name__}'
            )
        try:
            pairs.append((left.index(pair[0]), right.index(pair[1])))
        except SchemaError as error:
            hint = f"; {advice}" if (advice := _pair_advice(left, right, on)) else ""
            raise SchemaError(f"on=: {error.message}{hint}", code=error.code) from None
    return pairs


def either_key(
    on: On | None, left_on: str | Sequence[str] | None, right_on: str | Sequence[str] | None
) -> On:
    """Return the key of a join in the form of `on`, which `left_on` and `right_on` can replace."""
    if on is not None and (left_on is not None or right_on is not None):
        raise SchemaError("a join has either on= or left_on= and right_on=", code="invalid-join-key")
    if on is not None:
        return on
    if left_on is None or right_on is None:
        raise SchemaError(
            'a join needs a key: on="id", or left_on="a" and right_on="b"; on=[] pairs every row with every '
            "row",
            code="invalid-join-key",
        )
    left, right = listed(left_on, "left_on="), listed(right_on, "right_on=")
    if len(left) != len(right):
        raise SchemaError(
            f"left_on= and right_on= name the same number of columns, got {len(left)} and {len(right)}",
            code="invalid-join-key",
        )
    return list(zip(left, right, strict=True))


def as_condition(where: Any) -> Expression:
    """Return the condition of a join. Raises ArgumentError unless it is an expression."""
    if not isinstance(where, Expression):
        raise ArgumentError(
            f'where= expects a condition such as left["x"] < right["y"], got {shorten(where)} of type '
            f"{type(where).__name__}"
        )
    return where


def _pair_advice(left: Schema, right: Schema, on: On) -> str | None:
    """Return how to write the pair of columns that `on` gives as two names."""
    pair = tuple(on)
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        return None
    if pair[0] not in left.names or pair[1] not in right.names:
        return None
    return f"to pair columns of different names, write on=[{pair!r}]"


def agreeing(stream: S, pairs: Sequence[tuple[int, int]]) -> S:
    """Keep the rows whose columns that are paired with one column of the other stream are equal.

    `pairs` are (column of the other, column of `stream`). Afterwards the first pair of each column
    of the other stream is enough for a join.
    """
    partner: dict[int, int] = {}
    for other, column in pairs:
        if partner.setdefault(other, column) != column:
            stream = SameValue(partner[other], column)(stream)
    return stream


def alike(*streams: S) -> tuple[S, ...]:
    """The streams, with None allowed in each column where one of them allows it.

    Raises SchemaError if the numbers or the types of their columns differ.
    """
    types = same_types(*(stream.schema for stream in streams)).types
    return tuple(widened(stream, types) for stream in streams)


def widened(stream: S, types: tuple[Type, ...]) -> S:
    """The stream, with None allowed in the columns whose type in `types` allows it."""
    own = stream.schema.types
    if own == types or len(own) != len(types):
        return stream  # the operator that reads the stream reports the wrong number of columns
    wide = tuple(a.optional() if b.nullable else a for a, b in zip(own, types, strict=True))
    return stream if wide == own else Widen(wide)(stream)
