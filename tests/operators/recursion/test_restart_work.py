"""The work that a tick counts before a scope restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dbsp import Circuit, Run, Stream, multiway_join
from tests.operators.recursion.closures import EDGE, then
from tests.operators.recursion.reachability import reach, ways

pytestmark = pytest.mark.usefixtures("eager")


def by_range(path: Stream, edge: Stream) -> Stream:
    pairs = path.range_join(edge, left="y", right="x", low=0, high=0, select=["x", "y_right"])
    return pairs.rename(y="y_right")


def by_prefixes(path: Stream, edge: Stream) -> Stream:
    return multiway_join([path("x", "z"), edge("z", "y"), edge("z", "y")], ["x", "y"])


LONGER = pytest.mark.parametrize("longer", [then, by_range, by_prefixes])
NEAR, OTHERS = range(100, 150), range(1_000, 20_000)


def fan(longer: Callable[[Stream, Stream], Stream], sources: range, far: range) -> Run:
    """Paths from the sources to 0, from 0 to the near nodes, and from these to all far nodes."""
    circuit = Circuit("test")
    edge, start = (circuit.input(name, schema=EDGE, kind="set") for name in ("edge", "start"))
    with circuit.fixpoint("paths") as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (start + longer(path, edge)).distinct())
    circuit.output("out", scope.leave(path))
    run = circuit.start()
    edges = [(0, x) for x in NEAR] + [(x, y) for x in NEAR for y in far]
    run.step({"edge": edges, "start": [(x, 0) for x in sources] + [(x, x) for x in OTHERS]})
    run.step({"start": {(OTHERS[0], OTHERS[0]): -1}})
    assert ways(run) == {"incremental, restarted once"}
    return run


@pytest.mark.usefixtures("iterations_at_first_deletion")
@LONGER
def test_matches_count_as_work(longer: Callable[[Stream, Stream], Stream]) -> None:
    """The retracted rows have 122,500 matches, a restart evaluates 19,000 rows and few matches."""
    run = fan(longer, sources=range(300, 350), far=range(200, 250))
    run.step({"start": {(OTHERS[1], OTHERS[1]): -1}})
    assert ways(run) == {"incremental, restarted once"}
    run.step({"start": {(x, 0): -1 for x in range(301, 350)}})
    assert len(run.view("out")) == 101 + len(OTHERS) - 2
    assert ways(run) == {"incremental, restarted 2 times"}


@pytest.mark.usefixtures("iterations_at_first_deletion")
@LONGER
def test_matches_that_wait_count_as_work(longer: Callable[[Stream, Stream], Stream]) -> None:
    """Edges are retracted at the first iteration, the paths that they extend at the third."""
    run = fan(longer, sources=range(300, 600), far=range(200, 220))
    run.step({"edge": {(x, y): -1 for x in NEAR[5:] for y in range(200, 220)}})
    assert len(run.view("out")) == 300 * 71 + len(OTHERS) - 1
    assert ways(run) == {"incremental, restarted 2 times"}


def test_a_cut_chain_takes_one_iteration_per_remaining_link() -> None:
    circuit = Circuit("test")
    circuit.output("out", reach(circuit, "incremental"))
    run = circuit.start()
    run.step({"edge": [(i, i + 1) for i in range(500)], "start": [(0,)]})
    assert run.iterations() == {"reach": 502}
    assert len(run.step({"edge": {(10, 11): -1}})["out"]) == 490
    assert run.iterations()["reach"] < 15
    run.step({"edge": {(20, 21): -1}})
    run.step({"edge": [(10, 11)]})
    assert len(run.view("out")) == 21
