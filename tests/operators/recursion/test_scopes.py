"""Scopes two and three deep, compared with plain loops after every tick; iteration limits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, IterationLimitError, Stream, col, lit
from tests.harness import deltas_of, view
from tests.operators.recursion.nested_scopes import (
    ALL,
    PAIR,
    X,
    Y,
    alternating,
    alternating_model,
    closed,
    follow,
    longer,
)
from tests.profiles import examples
from tests.reference import Row
from tests.strategies import Tick, rows, set_ticks, small

pytestmark = pytest.mark.usefixtures("every_recursion")


two = set_ticks({"a": rows(small, small), "b": rows(small, small)}, max_ticks=5)


@settings(max_examples=examples(40))
@given(two)
def test_two_deep(sequence: list[Tick]) -> None:
    follow(alternating, alternating_model, sequence, ALL)


def nonlinear(circuit: Circuit) -> Stream:
    """As `alternating`, but the inner scope joins its variable with itself.

    Both sides of that join change at every iteration of both scopes. So the times of a delta and of
    its match may be incomparable: (2, 0) and (1, 3) match at (2, 3).
    """
    a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
    with circuit.fixpoint("turns", max_iterations=100) as outer:
        start = outer.variable("start", PAIR)
        with outer.fixpoint("steps", max_iterations=100) as inner:
            found = inner.variable("found", PAIR)
            inner.define(found, (start + a + longer(found, found)).distinct())
        reached = inner.leave(found)
        outer.define(start, longer(reached, b).distinct())
    return outer.leave(reached)


def nonlinear_model(a: set[Row], b: set[Row]) -> set[Row]:
    start: set[Row] = set()
    while True:
        reached = closed(start | a, start | a)
        following = {(x, z) for x, y in reached for w, z in b if w == y}
        if following == start:
            return reached
        start = following


@pytest.mark.parametrize("seed", range(4))
def test_a_join_of_an_inner_variable_with_itself(seed: int) -> None:
    draw = random.Random(seed)
    sequence: list[Tick] = []
    for _ in range(4):
        tick: Tick = {}
        for name in "ab":
            pairs = [(draw.randrange(8), draw.randrange(8)) for _ in range(5)]
            tick[name] = {pair: draw.choice([1, 1, -1]) for pair in pairs}
        sequence.append(tick)
    follow(nonlinear, nonlinear_model, sequence, ALL)


@settings(max_examples=examples(25))
@given(two)
def test_nonlinear_two_deep(sequence: list[Tick]) -> None:
    follow(nonlinear, nonlinear_model, sequence)


def three_deep(circuit: Circuit) -> Stream:
    """The same with one more scope around it, which reverses the result of the inner scopes."""
    a, b, c = (circuit.input(name, schema=PAIR, kind="set") for name in "abc")
    with circuit.fixpoint("one") as one:
        first = one.variable("first", PAIR)
        with one.fixpoint("two") as two_:
            second = two_.variable("second", PAIR)
            with two_.fixpoint("three") as three:
                third = three.variable("third", PAIR)
                three.define(third, (first + second + a + longer(third, a)).distinct())
            inside = three.leave(third)
            two_.define(second, longer(inside, b).distinct())
        middle = two_.leave(inside)
        one.define(first, middle.map(x=Y, y=X).join(c, on=["x", "y"], how="semi").distinct())
    return one.leave(middle)


def three_model(a: set[Row], b: set[Row], c: set[Row]) -> set[Row]:
    first: set[Row] = set()
    while True:
        second: set[Row] = set()
        while True:
            inside = closed(first | second | a, a)
            following = {(x, z) for x, y in inside for w, z in b if w == y}
            if following == second:
                break
            second = following
        turned = {(y, x) for x, y in inside} & c
        if turned == first:
            return inside
        first = turned


three = set_ticks(dict.fromkeys("abc", rows(st.integers(0, 3), st.integers(0, 3))), max_ticks=4)


@settings(max_examples=examples(25))
@given(three)
def test_three_deep(sequence: list[Tick]) -> None:
    follow(three_deep, three_model, sequence)


@settings(max_examples=8)
@given(three)
def test_three_deep_in_every_stage(sequence: list[Tick]) -> None:
    follow(three_deep, three_model, sequence, ALL)


@pytest.mark.parametrize("seed", range(4))
def test_deep_scopes_on_denser_graphs(seed: int) -> None:
    draw = random.Random(seed)
    sequence: list[Tick] = []
    for _ in range(12):
        tick: Tick = {}
        for name in "abc":
            pairs = [(draw.randrange(5), draw.randrange(5)) for _ in range(draw.randrange(4))]
            tick[name] = {pair: draw.choice([1, 1, -1]) for pair in pairs}
        sequence.append(tick)
    follow(three_deep, three_model, sequence)
    follow(alternating, alternating_model, [{n: t[n] for n in "ab"} for t in sequence])


@settings(max_examples=examples(25))
@given(two)
def test_negation_of_an_inner_result(sequence: list[Tick]) -> None:
    """A round keeps the pairs that the inner scope does not derive from those of the previous
    round."""

    def build(circuit: Circuit) -> Stream:
        a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
        with circuit.fixpoint("rounds") as outer:
            rounds = outer.variable("rounds", {"n": int, "x": int, "y": int})
            last = rounds.filter(col("n") < 4)
            with outer.fixpoint("paths") as inner:
                path = inner.variable("path", {"n": int, "x": int, "y": int})
                step = path.join(a, on=[("y", "x")], select=["n", "x", "y_right"]).rename(y="y_right")
                inner.define(path, (last + step).distinct())
            open_ = b.join(last.select("n").distinct(), on=[]).join(
                inner.leave(path), on=[("x", "y"), "n"], how="anti"
            )
            following = open_.map(n=col("n") + 1, x=X, y=Y)
            outer.define(rounds, (b.map(n=lit(0), x=X, y=Y) + following).distinct())
        return outer.leave(rounds)

    def model(a: set[Row], b: set[Row]) -> set[Row]:
        walks, now = {(0, *pair) for pair in b}, set(b)
        for n in range(4):
            ends = {y for _, y in closed(now, a)}
            now = {(x, y) for x, y in b if x not in ends} if now else set()
            walks |= {(n + 1, *pair) for pair in now}
        return walks

    follow(build, model, sequence, ALL)


def test_iterations_are_counted_by_scope() -> None:
    circuit = Circuit("chain")
    circuit.output("out", alternating(circuit))
    run = circuit.start()
    assert run.iterations() == {"turns": 0, "turns/steps": 0}
    run.step({"a": {(n, n + 1): 1 for n in range(6)}})
    # From 0 to 6 in steps of one: six iterations derive rows, and one more derives none.
    assert run.iterations()["turns/steps"] in (6, 7)
    assert run.iterations()["turns"] in (1, 2)
    run.step({})
    assert run.iterations()["turns"] == 0
    run.step({"b": {(6, 0): 1}})
    again = run.iterations()
    assert again["turns"] in (2, 3)
    run.step({"a": {(100, 101): 1}})
    assert run.iterations()["turns/steps"] <= 2


@pytest.mark.parametrize("deep", [False, True])
def test_the_limit_holds_for_each_evaluation_of_each_scope(deep: bool) -> None:
    circuit = Circuit("caps")
    a = circuit.input("a", schema=PAIR, kind="set")
    with circuit.fixpoint("wide", max_iterations=6 if not deep else 100) as outer:
        start = outer.variable("start", PAIR)
        with outer.fixpoint("deep", max_iterations=6 if deep else 100) as inner:
            found = inner.variable("found", PAIR)
            inner.define(found, (start + a + (longer(found, a) if deep else found)).distinct())
        reached = inner.leave(found)
        outer.define(start, reached if deep else longer(reached, a).distinct())
    circuit.output("out", outer.leave(reached))
    run = circuit.start()
    short = {(n, n + 1): 1 for n in range(4)}
    run.step({"a": short})
    before = view(run)
    assert len(before) == 10
    with pytest.raises(IterationLimitError, match=f"scope '{'deep' if deep else 'wide'}' has not converged"):
        run.step({"a": {(n, n + 1): 1 for n in range(4, 30)}})
    assert view(run) == before
    assert run.tick == 1
    # The next tick continues from the state before the failed tick.
    assert deltas_of(run.step({"a": {(0, 1): -1}})) == {"out": {(0, n): -1 for n in range(1, 5)}}
    run.step({"a": {(0, 1): 1}})
    assert view(run) == before
