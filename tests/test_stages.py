"""The stages of a query have equal deltas and views in every tick, for any query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dbsp import Circuit, DbspError, IterationLimitError
from dbsp.circuit.stage import Stage
from dbsp.runtime.run import Run
from tests.profiles import examples

from .harness import deltas_of, views
from .random_plans import Plan, build, changes, outputs, plans, regrouped
from .strategies import Tick

CAP = 14
"""The iteration limit of the query form, which recomputes; a tick above it ends the test.

The incremental forms also visit the iterations of the previous tick, so their limit is higher."""


def runs_of(plan: Plan, out: Sequence[int]) -> dict[Stage, Run]:
    return {stage: build(plan, out, CAP if stage is Stage.QUERY else 3 * CAP).start(stage) for stage in Stage}


def follow_all(runs: Mapping[Stage, Run], sequence: Sequence[Tick]) -> None:
    """Step every run through the ticks; after each tick all answers must be equal."""
    for number, tick in enumerate(sequence, 1):
        expected = answer(runs[Stage.QUERY], tick)
        if expected == "IterationLimitError":
            event("does not converge")
            return
        for stage in (Stage.INCREMENTAL, Stage.PHYSICAL, Stage.DISTRIBUTED):
            assert answer(runs[stage], tick) == expected, f"{stage}, tick {number} of {sequence}"


def answer(run: Run, tick: Tick) -> Any:
    """Return the deltas and views of a tick, or the name of its error."""
    before = views(run)
    try:
        deltas = deltas_of(run.step(tick))
    except DbspError as error:
        assert views(run) == before
        return type(error).__name__
    return deltas, views(run)


@settings(max_examples=examples(80))
@given(plans(scopes=False), outputs, changes())
def test_the_stages_agree(plan: Plan, out: list[int], sequence: list[Tick]) -> None:
    follow_all(runs_of(plan, out), sequence)


@settings(max_examples=examples(80))
@given(plans(), outputs, changes())
def test_the_stages_agree_with_scopes(plan: Plan, out: list[int], sequence: list[Tick]) -> None:
    follow_all(runs_of(plan, out), sequence)


@given(plans(failing=True), outputs, changes())
def test_the_stages_refuse_the_same_ticks(plan: Plan, out: list[int], sequence: list[Tick]) -> None:
    """A step of the plan fails for some rows; a tick with such a row changes nothing."""
    follow_all(runs_of(plan, out), sequence)


@given(plans(timeless=True), outputs, changes(), st.data())
def test_any_split_of_the_changes_gives_the_same_views(
    plan: Plan, out: list[int], sequence: list[Tick], data: st.DataObject
) -> None:
    run, other = (build(plan, out, 3 * CAP).start() for _ in range(2))
    try:
        for tick in sequence:
            run.step(tick)
        for staged in data.draw(regrouped(sequence)):
            for name, row, weight in staged:
                if name == "bag":
                    other.input(name).add({row: weight})
                elif weight > 0:
                    other.input(name).insert([row])
                else:
                    other.input(name).delete([row])
            other.step()
    except IterationLimitError:
        event("does not converge")
        return
    assert views(run) == views(other)


@pytest.mark.parametrize("stage", list(Stage))
def test_a_body_that_does_not_converge_is_an_error_in_every_stage(stage: Stage) -> None:
    circuit = Circuit("swing")
    a = circuit.input("a", x=int, y=int)
    with circuit.fixpoint("swing", max_iterations=20) as scope:
        swinging = scope.variable("swinging", a.schema)
        scope.define(swinging, a.join(swinging, on=["x"], how="anti"))
    circuit.output("out", scope.leave(swinging))
    run = circuit.start(stage)
    for _ in range(2):
        with pytest.raises(IterationLimitError, match="scope 'swing' has not converged after 20 iterations"):
            run.step({"a": {(1, 2): 1}})
        assert run.tick == 0
        assert not run.view("out")
