"""Comparison of a circuit with its model: all views and deltas must agree after every tick."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from dbsp import Circuit, IterationLimitError, Run, Stream, TickResult
from dbsp.testing import Refused, check_incremental

from .reference import NoFixpoint, Row, Z, add
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
    followed = Followed(build, model)
    # hypothesis looks for smaller ticks, and draws other splits.
    check_incremental(followed, followed.query, ticks, sets, splits=False, attempts=0)
    return followed.run


class Followed:
    """A circuit and its model, as the test kit expects them."""

    def __init__(self, build: Build, model: Model) -> None:
        self._build = build
        self._model = model
        self.run: Run

    def start(self) -> Followed:
        self.run = start(self._build)
        return self

    def step(self, tick: Tick) -> TickResult:
        result = self.run.step(tick)
        assert self.run.tick == result.number
        return result

    def view(self, name: str) -> Z:
        return view(self.run, name)

    def query(self, contents: Mapping[str, Z]) -> dict[str, Z]:
        try:
            value = self._model({name: contents[name] for name in self.run.inputs})
        except NoFixpoint:
            raise Refused(IterationLimitError) from None
        return value if set(value) == set(self.run.outputs) else {"out": value}


def final_views(build: Build, ticks: Sequence[Tick]) -> dict[str, Z]:
    run = start(build)
    for tick in ticks:
        run.step(tick)
    return views(run)
