"""Comparison of a circuit with its model: all views and deltas must agree after every tick."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from dbsp import Circuit, IterationLimitError, Run, Stream

from .reference import NoFixpoint, Row, Z, add, minus
from .strategies import Tick

Build = Callable[[Circuit], Stream | Mapping[str, Stream]]
Model = Callable[[dict[str, Z]], Any]


def start(build: Build) -> Run:
    """Start the circuit that `build` builds; a single stream becomes the output 'out'."""
    circuit = Circuit("test")
    built = build(circuit)
    for name, stream in ({"out": built} if isinstance(built, Stream) else built).items():
        circuit.output(name, stream)
    return circuit.start()


def view(run: Run, name: str = "out") -> Z:
    return run.view(name).to_dict()


def views(run: Run) -> dict[str, Z]:
    return {name: view(run, name) for name in run.outputs}


def deltas_of(result: Mapping[str, Any]) -> dict[str, Z]:
    """Return the deltas of a tick that are not empty."""
    return {name: delta.to_dict() for name, delta in result.items() if delta}


def apply(inputs: dict[str, Z], tick: Tick, sets: Collection[str] = ()) -> None:
    """Add a tick to the integrals of the inputs; the inputs in `sets` have set semantics."""
    for name, delta in tick.items():
        if name in sets:
            inputs[name] = apply_set(inputs.get(name, {}), delta)
        else:
            inputs[name] = add(inputs.get(name, {}), delta)


def apply_set(before: Z, delta: Mapping[Row, int]) -> Z:
    after = dict(before)
    for row, weight in delta.items():
        if weight > 0:
            after[row] = 1
        elif weight < 0:
            after.pop(row, None)
    return after


def follow(build: Build, model: Model, ticks: Sequence[Tick], sets: Collection[str] = ()) -> Run:
    """Step a new run through the ticks and compare every delta and every view with the model.

    `model` maps the integrals of the inputs to the value of 'out', or to the values of all outputs
    by name. If it finds no fixpoint, the tick must fail and change nothing.
    """
    run = start(build)
    names = tuple(run.inputs)
    inputs: dict[str, Z] = {name: {} for name in names}
    before: dict[str, Z] = {name: {} for name in run.outputs}
    for tick in ticks:
        now = dict(inputs)
        apply(now, tick, sets)
        try:
            value = model(now)
        except NoFixpoint:
            with pytest.raises(IterationLimitError):
                run.step(tick)
            assert views(run) == before
            continue
        inputs = now
        result = run.step(tick)
        expected: dict[str, Z] = value if set(value) == set(run.outputs) else {"out": value}
        for name, after in expected.items():
            assert view(run, name) == after, f"view of {name!r} after tick {run.tick} of {ticks}"
            assert result[name].to_dict() == minus(after, before[name]), f"delta of {name!r}, tick {run.tick}"
        before = expected
        assert run.tick == result.number
    return run


def final_views(build: Build, ticks: Sequence[Tick]) -> dict[str, Z]:
    run = start(build)
    for tick in ticks:
        run.step(tick)
    return views(run)
