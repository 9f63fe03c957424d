"""Iteration of a function to its fixpoint or while a condition holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, count, when
from dbsp.circuit.stage import Stage
from tests.operators.recursion.nested_scopes import ALL, PAIR, X, Y, follow, graph_ticks
from tests.profiles import examples
from tests.reference import Row
from tests.strategies import Tick, rows, set_ticks

pytestmark = pytest.mark.usefixtures("every_recursion")


def core(k: int) -> Callable[[Circuit], Stream]:
    """The k-core: drop edges while an end has fewer than k edges."""

    def build(circuit: Circuit) -> Stream:
        edge = circuit.input("edge", schema=PAIR, kind="set")
        both = (edge + edge.map(x=Y, y=X)).filter(X != Y).distinct()

        def peel(left: Stream) -> Stream:
            busy = left.group_by("x").agg(n=count()).filter(col("n") >= k)
            return left.join(busy, on=["x"], how="semi").join(busy, on=[("y", "x")], how="semi")

        return circuit.iterate("core", both, peel)

    return build


def core_model(k: int) -> Callable[[set[Row]], set[Row]]:
    def model(edge: set[Row]) -> set[Row]:
        left = {pair for x, y in edge if x != y for pair in ((x, y), (y, x))}
        while True:
            degree: dict[int, int] = {}
            for x, _ in left:
                degree[x] = degree.get(x, 0) + 1
            kept = {(x, y) for x, y in left if degree[x] >= k and degree[y] >= k}
            if kept == left:
                return left
            left = kept

    return model


@settings(max_examples=examples(30))
@given(set_ticks({"edge": rows(st.integers(0, 5), st.integers(0, 5))}, max_ticks=5, max_size=10))
def test_the_core_of_a_graph(sequence: list[Tick]) -> None:
    follow(core(2), core_model(2), sequence)


@pytest.mark.parametrize("seed", range(3))
def test_the_core_of_larger_graphs(seed: int) -> None:
    follow(core(3), core_model(3), graph_ticks(22, 48, 20, seed))


def test_the_core_in_every_stage() -> None:
    follow(core(2), core_model(2), graph_ticks(7, 10, 8, 1), ALL)


@settings(max_examples=examples(25))
@given(set_ticks({"a": rows(st.integers(0, 30))}, max_ticks=5))
def test_iterate_stops_with_its_condition(sequence: list[Tick]) -> None:
    """Collatz steps while some number is over ten: all numbers continue and stop together."""

    def build(circuit: Circuit) -> Stream:
        a = circuit.input("a", x=int, kind="set")
        return circuit.iterate(
            "steps",
            a,
            lambda x: x.map(x=when(X % 2 == 0).then(X // 2).otherwise(3 * X + 1)).distinct(),
            while_=lambda x: x.filter(X > 10),
            max_iterations=300,
        )

    def model(a: set[Row]) -> set[Row]:
        now = {x for (x,) in a}
        while any(x > 10 for x in now):
            now = {x // 2 if x % 2 == 0 else 3 * x + 1 for x in now}
        return {(x,) for x in now}

    follow(build, model, sequence, (Stage.QUERY, Stage.PHYSICAL))
