"""Negative weights inside a scope, in every mode."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Run
from tests.harness import view
from tests.operators.recursion.closures import EDGE, then
from tests.operators.recursion.reachability import MODES, then_from
from tests.profiles import examples
from tests.reference import Z, add, distinct, fixpoint
from tests.strategies import Tick, rows, ticks

pytestmark = pytest.mark.usefixtures("eager")


def test_negative_weights_are_exact() -> None:
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=EDGE)
    with circuit.fixpoint("path", recursion="insert-only") as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (edge + then(path, edge)).distinct())
    circuit.output("out", scope.leave(path))
    run = circuit.start()
    run.step({"edge": {(1, 2): 1, (2, 3): -2, (3, 4): 1}})
    assert view(run) == {(1, 2): 1, (3, 4): 1}
    run.step({"edge": {(2, 3): 3}})
    assert len(view(run)) == 6
    run.step({"edge": {(2, 3): -1, (1, 4): 1}})
    assert view(run) == {(1, 2): 1, (3, 4): 1, (1, 4): 1}


def bag_model(edge: Z, start: Z) -> Z:
    """The distinct rows of start plus the weighted ends of edges from found rows."""

    def body(now: Mapping[str, Z]) -> dict[str, Z]:
        found = dict(start)
        for (x, y), weight in edge.items():
            if (x,) in now["found"]:
                found[(y,)] = found.get((y,), 0) + weight
        return {"found": distinct(found)}

    return fixpoint(body, ["found"])["found"]


def reach_of_bags(mode: str) -> Run:
    circuit = Circuit("test")
    edge, start = circuit.input("edge", schema=EDGE), circuit.input("start", x=int)
    with circuit.fixpoint("reach", recursion=mode) as scope:
        found = scope.variable("found", start.schema)
        scope.define(found, (start + then_from(found, edge)).distinct())
    circuit.output("out", scope.leave(found))
    return circuit.start()


def test_equal_insertions_and_retractions_before_the_last_iteration() -> None:
    run = reach_of_bags("incremental")
    run.step({"start": {(0,): 1}, "edge": {(n, n + 1): 1 for n in (0, *range(1, 9))}})
    # At the same iteration, 10 retracts 11, which it derived before, and derives 12.
    new = {(0, 10): 1, (0, 11): 1, (10, 11): -1, (10, 12): 1, (12, 13): 1}
    run.step({"edge": {(0, 1): -1, **new}})
    assert view(run) == {(0,): 1, (10,): 1, (12,): 1, (13,): 1}


UPWARDS = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda edge: edge[0] < edge[1])
WEIGHTED = ticks(
    {"edge": UPWARDS, "start": rows(st.integers(0, 2))}, weight=st.sampled_from([1, 1, 1, 2, -1])
)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=examples(200))
@given(WEIGHTED)
def test_edges_of_negative_weight(mode: str, sequence: list[Tick]) -> None:
    run = reach_of_bags(mode)
    inputs: dict[str, Z] = {"edge": {}, "start": {}}
    for tick in sequence:
        for relation, delta in tick.items():
            inputs[relation] = add(inputs[relation], delta)
        run.step(tick)
        assert view(run) == bag_model(**inputs)
