"""Making streams fit before they meet: key columns paired, types made alike, errors placed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from dbsp.circuit.graph import Graph, Stream, placed
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import DbspError
from dbsp.operators.linear.filter import SameValue
from dbsp.operators.linear.union import Widen, same_types

On = str | Sequence[str | tuple[str, str]]
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Stream)


def located(operator: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Methods of graphs and of what has a `graph`: errors name the operator and the caller's own line."""

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


def key_columns(left: Schema, right: Schema, on: On) -> list[tuple[int, int]]:
    """The pairs of columns that `on` names: (column of the left, column of the right)."""
    listed = (on,) if isinstance(on, str) else on
    pairs = [(name, name) if isinstance(name, str) else name for name in listed]
    return [(left.index(a), right.index(b)) for a, b in pairs]


def agreeing(stream: S, pairs: Sequence[tuple[int, int]]) -> S:
    """The rows where columns of `stream` that are paired with one same other column hold one value.

    `pairs` are (column of the other, column of `stream`); afterwards the first pair of each column of the
    other says it all.
    """
    partner: dict[int, int] = {}
    for other, column in pairs:
        if partner.setdefault(other, column) != column:
            stream = SameValue(partner[other], column)(stream)
    return stream


def alike(*streams: S) -> tuple[S, ...]:
    """The streams with None allowed in a column where one of them allows it. Raises SchemaError."""
    types = same_types(*(stream.schema for stream in streams)).types
    return tuple(widened(stream, types) for stream in streams)


def widened(stream: S, types: tuple[Type, ...]) -> S:
    """The stream with None allowed where `types` do."""
    own = stream.schema.types
    if own == types or len(own) != len(types):
        return stream  # two schemas that do not fit are reported where they meet
    wide = tuple(a.optional() if b.nullable else a for a, b in zip(own, types, strict=True))
    return stream if wide == own else Widen(wide)(stream)
