"""Inputs of any weight: rows leave without iterations while no row has a negative weight."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Run, Stream
from tests.harness import view
from tests.operators.recursion.closures import EDGE, STEPS, reachable, then
from tests.operators.recursion.reachability import then_from, ways
from tests.profiles import examples
from tests.reference import Z, add, minus
from tests.strategies import Tick, rows, small, ticks

pytestmark = pytest.mark.usefixtures("eager", "unlimited")

TICKS = ticks({"edge": rows(small, small)}, st.sampled_from([1, 1, 2, -1, -2]), max_ticks=7)
INSERT_ONLY = "insert-only"
RESTARTED = "incremental, restarted once"
"""Rows of negative weight need iterations in every mode."""

FORMS: dict[str, Callable[[Stream], Stream]] = {
    "the stream": lambda edge: edge,
    "rows in front of the scope": lambda edge: edge + edge,
    "recent rows": lambda edge: edge.recent(edge.watermark("x", 10**6).watermark, "x"),
}
"""The stream that enters; its rows have the weights of the input, or twice them."""


def started(step: str, form: str, arranged: bool = False) -> Run:
    """Start the closure of an input of any weight. If `arranged`, another join reads its rows by y,
    too."""
    circuit = Circuit("test")
    edge = FORMS[form](circuit.input("edge", schema=EDGE))
    if arranged:
        circuit.output("pairs", then(edge, edge))
    with circuit.fixpoint("closure", recursion="insert-only") as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (edge + STEPS[step](path, edge)).distinct())
    circuit.output("out", scope.leave(path))
    return circuit.start()


@pytest.mark.parametrize("step", ["right linear", "left linear", "non-linear", "both linear"])
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(60))
@given(sequence=TICKS, arranged=st.booleans())
def test_deletions_agree_with_a_recomputation_without_a_restart(
    step: str, form: str, sequence: list[Tick], arranged: bool
) -> None:
    run = started(step, form, arranged)
    edge: Z = {}
    before: Z = {}
    for tick in sequence:
        # No row may have a negative weight: an edge loses at most its weight.
        change = {
            row: max(weight, -edge.get(row, 0))
            for row, weight in tick.get("edge", {}).items()
            if max(weight, -edge.get(row, 0))
        }
        edge = add(edge, change)
        after = reachable(edge)
        assert run.step({"edge": change})["out"].to_dict() == minus(after, before)
        assert view(run) == after and ways(run) == {INSERT_ONLY}
        before = after


@pytest.mark.parametrize("step", ["right linear", "left linear", "non-linear"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("arranged", [False, True])
def test_a_row_of_negative_weight_needs_iterations(step: str, form: str, arranged: bool) -> None:
    run = started(step, form, arranged)
    run.step({"edge": {(1, 2): 1, (2, 3): 2, (3, 4): 1}})
    run.step({"edge": {(2, 3): -1, (1, 2): -1}})
    assert ways(run) == {INSERT_ONLY} and set(view(run)) == {(2, 3), (3, 4), (2, 4)}
    run.step({"edge": {(2, 3): -2, (1, 2): 1}})
    assert ways(run) == {RESTARTED} and set(view(run)) == {(1, 2), (3, 4)}
    run.step({"edge": {(2, 3): 2}})
    assert set(view(run)) == {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}


@pytest.mark.parametrize("later", [False, True])
def test_a_stream_that_enters_as_it_is(later: bool) -> None:
    """The scope keeps the stream, or an arrangement does that steps after the scope."""
    circuit = Circuit("test")
    edge, start = circuit.input("edge", schema=EDGE, kind="set"), circuit.input("start", x=int)
    circuit.output("out", reached(circuit, edge, start))
    if later:
        circuit.output("starts", start.join(edge, on=["x"]))
    run = circuit.start()
    run.step({"edge": [(1, 2), (2, 3), (5, 6)], "start": {(1,): 1, (5,): 2}})
    run.step({"start": {(1,): -1, (5,): -1}})
    assert ways(run) == {INSERT_ONLY} and set(view(run)) == {(5,), (6,)}
    run.step({"start": {(1,): -1}})
    assert ways(run) == {RESTARTED} and set(view(run)) == {(5,), (6,)}


def test_a_stream_that_only_enters_sorted() -> None:
    circuit = Circuit("test")
    edge, start = circuit.input("edge", schema=EDGE), circuit.input("start", x=int, kind="set")
    circuit.output("out", reached(circuit, edge, start))
    run = circuit.start()
    run.step({"edge": {(1, 2): 2, (2, 3): 1}, "start": [(1,)]})
    run.step({"edge": {(1, 2): -1, (2, 3): -1}})
    assert ways(run) == {INSERT_ONLY} and set(view(run)) == {(1,), (2,)}
    run.step({"edge": {(2, 3): -1}})
    assert ways(run) == {RESTARTED} and set(view(run)) == {(1,), (2,)}


def reached(circuit: Circuit, edge: Stream, start: Stream) -> Stream:
    with circuit.fixpoint("reach", recursion="insert-only") as scope:
        found = scope.variable("found", start.schema)
        scope.define(found, (start + then_from(found, edge)).distinct())
    return scope.leave(found)


def test_a_first_tick_with_retractions() -> None:
    run = started("right linear", "the stream")
    run.step({"edge": {(1, 2): 1, (2, 3): -1}})
    assert ways(run) == {RESTARTED} and set(view(run)) == {(1, 2)}
