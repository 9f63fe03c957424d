"""Inspect: the callback gets every committed delta and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from dbsp import Circuit, CircuitError, Stream, UserFunctionError, WeightOverflowError, ZSet, col
from dbsp.circuit.stage import Stage
from tests.harness import Model, apply, view
from tests.profiles import examples
from tests.reference import Row, Z, add, distinct, join, minus
from tests.scopes import LEVELLED, scoped, scoped_model
from tests.strategies import Tick, rows, small, ticks

PAIR = rows(small, small)


@pytest.mark.parametrize("stage", Stage)
@given(ticks({"a": PAIR}))
def test_the_callback_gets_the_delta_of_every_tick_with_changes(stage: Stage, sequence: list[Tick]) -> None:
    received: list[Z] = []
    circuit = Circuit()
    a = circuit.input("a", x=int, y=int)
    seen = a.select("x").distinct().rename(z="x").inspect(lambda delta: received.append(delta.to_dict()))
    circuit.output("out", seen.filter(col("z") > 1))
    run = circuit.start(stage)
    expected = []
    value: Z = {}
    for tick in sequence:
        run.step(tick)
        value = add(value, tick.get("a", {}))
        expected.append(distinct(add(*({(x,): w} for (x, _), w in value.items()))))
    deltas = [minus(new, old) for old, new in zip([{}, *expected], expected, strict=False)]
    assert received == [delta for delta in deltas if delta]


def joined(a: Stream, b: Stream) -> Stream:
    return a.join(b, on=["l", "x"])


def again(row: Row) -> Row:
    level, x, y, z = row
    return (level + 1, 0 if z is None else z, x if y is None else y)


def joined_model(a: Z, b: Z) -> Z:
    return join(a, b, [(0, 0), (1, 1)], [(0, 0), (0, 1), (0, 2), (1, 2)])


@pytest.mark.parametrize("stage", Stage)
@settings(max_examples=examples(25))
@given(LEVELLED)
def test_inside_a_scope_the_callback_gets_the_fixpoint(stage: Stage, sequence: list[Tick]) -> None:
    received: list[Z] = []

    def tapped(a: Stream, b: Stream) -> Stream:
        return joined(a, b).inspect(lambda delta: received.append(delta.to_dict()))

    model: Model = scoped_model(joined_model, again)
    circuit = Circuit()
    circuit.output("out", scoped(tapped, again)(circuit))
    run = circuit.start(stage)
    inputs: dict[str, Z] = {"a": {}, "b": {}}
    before: Z = {}
    for tick in sequence:
        received.clear()
        run.step(tick)
        apply(inputs, tick)
        after = model(inputs)
        change = minus(after, before)
        assert received == ([change] if change else [])
        before = after


def follow_one(callback: Callable[[ZSet], Any], output: bool = True) -> Any:
    circuit = Circuit()
    a = circuit.input("a", x=int, y=int)
    tapped = a.inspect(callback)
    circuit.output("out", (tapped if output else a).join(a, on=["x"]))
    return circuit.start()


def test_the_callback_gets_no_failed_tick() -> None:
    received: list[Z] = []
    run = follow_one(lambda delta: received.append(delta.to_dict()))
    run.step({"a": {(1, 2): 1}})
    with pytest.raises(WeightOverflowError):
        run.step({"a": {(7, 7): 2**62}})
    run.step({"a": {(3, 4): 1}})
    run.step({})
    assert received == [{(1, 2): 1}, {(3, 4): 1}]


def test_is_called_after_the_commit_also_without_a_reader() -> None:
    seen: list[Z] = []
    run = follow_one(lambda delta: seen.append(view(run)), output=False)
    run.step({"a": {(1, 2): 1}})
    assert seen == [{(1, 2, 2): 1}]


def test_a_tick_stays_committed_if_the_callback_fails() -> None:
    received: list[Z] = []

    def fail(delta: ZSet) -> None:
        raise ValueError("no room")

    circuit = Circuit()
    a = circuit.input("a", x=int)
    circuit.output("out", a.inspect(fail).inspect(lambda delta: received.append(delta.to_dict())))
    run = circuit.start()
    with pytest.raises(
        UserFunctionError, match=r"Inspect at .*:\d+: .*no room; .* the tick remains committed"
    ) as caught:
        run.step({"a": {(1,): 1}})
    assert isinstance(caught.value.__cause__, ValueError)
    assert view(run) == {(1,): 1} and run.tick == 1 and received == [{(1,): 1}]
    run.step()


def test_a_callback_cannot_step_the_run() -> None:
    run = follow_one(lambda delta: run.step())
    with pytest.raises(UserFunctionError) as caught:
        run.step({"a": {(1, 1): 1}})
    assert isinstance(caught.value.__cause__, CircuitError)
    assert run.tick == 1
