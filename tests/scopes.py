"""Operators in nested scopes, where their inputs change from iteration to iteration.

The first column of the relations `a` and `b` is a level l. The result of the operator for the rows
of one level becomes input of the next level. So a fixpoint exists for operators that are not
monotone, with any weights, and every level converges later than the level below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from dbsp import Circuit, Stream

from . import reference
from .harness import Build, Model
from .reference import Row, Z, add, flat_map
from .strategies import nullable, rows, small, ticks

LEVELS = 3

COLUMNS = {"l": int, "x": int, "y": int | None}

LEVEL = st.integers(0, 1)

LEVELLED = ticks(
    {"a": rows(LEVEL, small, nullable), "b": rows(LEVEL, small, nullable)},
    weight=st.sampled_from([1, 1, 1, -1, -1, 2]),
    max_ticks=5,
    max_size=4,
)

Pair = Callable[[Stream, Stream], Stream]
PairModel = Callable[[Z, Z], Z]


def scoped(operator: Pair, again: Callable[[Row], Row], depth: int = 1) -> Build:
    """Build `operator(a, b)` inside `depth` scopes.

    `again` converts a row of the result to a row of a, which must be of the next level.
    """

    def solve(owner: Any, a0: Stream, b0: Stream, depth: int) -> Stream:
        with owner.fixpoint(f"scope{depth}") as scope:
            a, b = scope.variable("a", a0.schema), scope.variable("b", b0.schema)
            result = operator(a, b) if depth == 1 else solve(scope, a, b, depth - 1)
            scope.define(a, a0 + result.flat_map(lambda row: _raised(again(tuple(row))), a0.schema))
            scope.define(b, b0 + b.flat_map(lambda row: _raised(_turned(tuple(row))), b0.schema))
        solved: Stream = scope.leave(result)
        return solved

    def build(circuit: Circuit) -> Stream:
        return solve(circuit, *(circuit.input(name, schema=COLUMNS) for name in "ab"), depth)

    return build


def scoped_model(operator: PairModel, again: Callable[[Row], Row], depth: int = 1) -> Model:
    """Return the model of `scoped`."""

    def solve(a0: Z, b0: Z, depth: int) -> Z:
        def result(a: Z, b: Z) -> Z:
            return operator(a, b) if depth == 1 else solve(a, b, depth - 1)

        def body(current: Mapping[str, Z]) -> dict[str, Z]:
            fed = flat_map(result(current["a"], current["b"]), lambda row: _raised(again(row)))
            turned = flat_map(current["b"], lambda row: _raised(_turned(row)))
            return {"a": add(a0, fed), "b": add(b0, turned)}

        solution = reference.fixpoint(body, ["a", "b"])
        return result(solution["a"], solution["b"])

    return lambda inputs: solve(inputs["a"], inputs["b"], depth)


def _raised(row: Row) -> list[Row]:
    return [row] if row[0] < LEVELS else []


def _turned(row: Row) -> Row:
    level, x, y = row
    return (level + 1, 0 if y is None else y, x)
