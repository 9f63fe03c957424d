"""AssertNonnegative: no tick leaves a row of negative weight."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from dbsp import Circuit, InvariantError, Stream
from dbsp.circuit.stage import Stage
from tests.harness import apply, view
from tests.profiles import examples
from tests.reference import Row, Z, minus
from tests.scopes import LEVELLED, scoped, scoped_model
from tests.strategies import Tick, rows, small, ticks, words

PAIR = rows(small, words)


@pytest.mark.parametrize("stage", Stage)
@given(ticks({"a": PAIR, "b": PAIR}))
def test_a_tick_that_would_leave_a_negative_row_is_rolled_back(stage: Stage, sequence: list[Tick]) -> None:
    circuit = Circuit()
    a, b = (circuit.input(name, x=int, s=str) for name in "ab")
    circuit.output("out", (a - b).assert_nonnegative("enough in stock"))
    run = circuit.start(stage)
    inputs: dict[str, Z] = {"a": {}, "b": {}}
    for tick in sequence:
        after = dict(inputs)
        apply(after, tick)
        value = minus(after["a"], after["b"])
        negative = [row for row, weight in value.items() if weight < 0]
        if negative:
            with pytest.raises(InvariantError) as caught:
                run.step(tick)
            message = str(caught.value)
            assert "AssertNonnegative at test_nonnegative.py:" in message
            assert "'enough in stock' is broken" in message
            assert any(repr(row) in message for row in negative)
        else:
            run.step(tick)
            inputs = after
        assert view(run) == minus(inputs["a"], inputs["b"])


def again(row: Row) -> Row:
    level, x, y = row
    return (level + 1, 0 if y is None else y, x)


@pytest.mark.parametrize("stage", Stage)
@settings(max_examples=examples(25))
@given(LEVELLED)
def test_inside_a_scope_it_holds_at_every_iteration(stage: Stage, sequence: list[Tick]) -> None:
    def checked(a: Stream, b: Stream) -> Stream:
        return (a - b).assert_nonnegative("p")

    broken: list[bool] = []

    def model_of_one(a: Z, b: Z) -> Z:
        value = minus(a, b)
        broken.append(any(weight < 0 for weight in value.values()))
        return value

    model = scoped_model(model_of_one, again)
    circuit = Circuit()
    circuit.output("out", scoped(checked, again)(circuit))
    run = circuit.start(stage)
    inputs: dict[str, Z] = {"a": {}, "b": {}}
    for tick in sequence:
        after = dict(inputs)
        apply(after, tick)
        broken.clear()
        value = model(after)
        if any(broken):
            with pytest.raises(InvariantError):
                run.step(tick)
        else:
            run.step(tick)
            inputs = after
            assert view(run) == value


def test_is_checked_without_a_reader() -> None:
    circuit = Circuit()
    a = circuit.input("a", x=int)
    a.assert_nonnegative("counted")
    circuit.output("out", a)
    run = circuit.start()
    with pytest.raises(InvariantError, match=r"row \(1,\) would have a negative weight"):
        run.step({"a": {(1,): -1}})
    run.step({"a": {(1,): 2}})
    run.step({"a": {(1,): -2}})
    assert view(run) == {} and run.tick == 2


def test_is_checked_inside_a_scope_without_a_reader() -> None:
    circuit = Circuit()
    a = circuit.input("a", x=int)
    with circuit.fixpoint("scope") as scope:
        v = scope.variable("v", a.schema)
        scope.define(v, (a + v).distinct())
        (v - a).assert_nonnegative("inside")
    circuit.output("out", a)
    for stage in Stage:
        with pytest.raises(InvariantError, match="inside"):
            circuit.start(stage).step({"a": {(1,): 1}})


def test_a_set_needs_no_check() -> None:
    circuit = Circuit()
    a = circuit.input("a", kind="set", x=int)
    circuit.output("out", a.assert_nonnegative("set"))
    physical = circuit.circuit("physical")
    assert not any("Nonnegative" in node.operator.name for node in physical.walk())
    assert view(circuit.start()) == {}
