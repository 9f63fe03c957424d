"""Comparison of an operator with its batch definition, in and outside a scope, in every stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dbsp import Circuit, Run, Schema, Stream, col
from dbsp.circuit.stage import Stage

from .harness import apply, view
from .reference import Z, add, consolidate, distinct, minus, select
from .strategies import Tick

LIMIT = 4
"""The recursion inside the scope raises a column up to this value."""


def follow_everywhere(
    operator: Callable[[Stream], Stream],
    model: Callable[[Z], Z],
    columns: Mapping[str, Any],
    grows: str,
    ticks: Sequence[Tick],
    *,
    stages: Sequence[Stage] = tuple(Stage),
) -> None:
    """Check views and deltas of `operator` after each tick, outside and inside a scope.

    The operator reads the input 'a'. Inside, it reads a stream that changes in every iteration: the
    input with all its weights, plus the set of the rows in which the int column `grows` is
    incremented step by step.
    """
    place = Schema.of(**columns).index(grows)
    runs = {stage: _start(operator, columns, grows, stage) for stage in stages}
    inputs: dict[str, Z] = {"a": {}}
    before: dict[str, Z] = {"outside": {}, "inside": {}}
    for number, tick in enumerate(ticks, 1):
        apply(inputs, tick)
        a = inputs["a"]
        after = {"outside": model(a), "inside": model(add(a, _grown(a, place)))}
        for stage, run in runs.items():
            result = run.step(tick)
            for name, value in after.items():
                where = f"{name}, {stage}, tick {number} of {ticks}"
                assert view(run, name) == value, where
                assert result[name].to_dict() == minus(value, before[name]), where
        before = after


def _start(operator: Callable[[Stream], Stream], columns: Mapping[str, Any], grows: str, stage: Stage) -> Run:
    circuit = Circuit("test")
    a = circuit.input("a", schema=columns)
    circuit.output("outside", operator(a))
    with circuit.fixpoint("scope") as scope:
        grown = scope.variable("grown", columns)
        raised = {name: col(name) + 1 if name == grows else col(name) for name in columns}
        scope.define(grown, (a + grown.filter(col(grows) < LIMIT).map(**raised)).distinct())
        inside = operator(a + grown)
    circuit.output("inside", scope.leave(inside))
    return circuit.start(stage)


def _grown(a: Z, place: int) -> Z:
    grown: Z = {}
    while True:
        rising = select(grown, lambda row: row[place] is not None and row[place] < LIMIT)
        raised = ((*row[:place], row[place] + 1, *row[place + 1 :]) for row in rising)
        following = distinct(add(a, consolidate((row, 1) for row in raised)))
        if following == grown:
            return grown
        grown = following
