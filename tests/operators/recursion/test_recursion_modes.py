"""The modes of a scope and every switch from one to another give the least fixpoint."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import ArgumentError, Circuit, IterationLimitError, Stream, col, count
from dbsp.operators.recursion import modes
from dbsp.operators.recursion.evaluation_options import (
    EvaluationOptions,
    describe_evaluation,
    evaluation_options,
)
from dbsp.operators.recursion.fixpoint import Fixpoint
from tests.harness import apply_set, view
from tests.operators.recursion.closures import EDGE, then
from tests.operators.recursion.reachability import MODES, reach, then_from, ways
from tests.profiles import examples
from tests.reference import Z, minus
from tests.strategies import Tick, rows, set_ticks, small

pytestmark = pytest.mark.usefixtures("eager")


TICKS = set_ticks({"edge": rows(small, small), "start": rows(small), "shut": rows(small)}, max_ticks=10)


def even(c: Circuit, mode: str) -> Stream:
    """Walks of even length, by two mutually recursive relations; only one leaves the scope."""
    edge = c.input("edge", schema=EDGE, kind="set")
    c.input("start", x=int, kind="set")
    c.input("shut", x=int, kind="set")
    with c.fixpoint("walks", recursion=mode) as scope:
        odd, even = scope.variable("odd", EDGE), scope.variable("even", EDGE)
        scope.define(odd, (edge + then(even, edge)).distinct())
        scope.define(even, then(odd, edge).distinct())
    return scope.leave(even)


def loops(c: Circuit, mode: str) -> Stream:
    """Two results of one scope, closures joined to themselves, united outside."""
    edge = c.input("edge", schema=EDGE, kind="set")
    c.input("start", x=int, kind="set")
    c.input("shut", x=int, kind="set")
    with c.fixpoint("loops", recursion=mode) as scope:
        path, loop = scope.variable("path", EDGE), scope.variable("loop", EDGE)
        scope.define(path, (edge + then(path, path)).distinct())
        scope.define(loop, (path.filter(col("x") == col("y")) + then(loop, edge)).distinct())
    return (scope.leave(path) + scope.leave(loop)).distinct()


def ahead(c: Circuit, mode: str) -> Stream:
    """What is reached by at least one edge: starts and edges meet inside of the scope."""
    edge = c.input("edge", schema=EDGE, kind="set")
    start = c.input("start", x=int, kind="set")
    c.input("shut", x=int, kind="set")
    with c.fixpoint("ahead", recursion=mode) as scope:
        found = scope.variable("found", start.schema)
        scope.define(found, then_from(start + found, edge).distinct())
    return scope.leave(found)


def grown(base: set[tuple[int, ...]], step: Callable[[set[tuple[int, ...]]], set[tuple[int, ...]]]) -> Z:
    found = base
    while (more := found | step(found)) != found:
        found = more
    return dict.fromkeys(found, 1)


def reach_model(edge: Z, shut: Z, start: Z) -> Z:
    base: set[tuple[int, ...]] = {row for row in start if row[0] < 5}
    return grown(base, lambda found: {(y,) for x, y in edge if (x,) in found and (x,) not in shut})


def even_model(edge: Z, shut: Z, start: Z) -> Z:
    two = {(x, z) for x, y in edge for w, z in edge if w == y}
    return grown(set(two), lambda found: {(x, z) for x, y in found for w, z in two if w == y})


def loops_model(edge: Z, shut: Z, start: Z) -> Z:
    path = grown(set(edge), lambda found: {(x, z) for x, y in found for w, z in found if w == y})
    loop = {(x, y) for x, y in path if x == y}
    return path | grown(set(loop), lambda found: {(x, z) for x, y in found for w, z in edge if w == y})


def ahead_model(edge: Z, shut: Z, start: Z) -> Z:
    base: set[tuple[int, ...]] = {(y,) for x, y in edge if (x,) in start}
    return grown(base, lambda found: {(y,) for x, y in edge if (x,) in found})


CIRCUITS = {
    "reach": (reach, reach_model),
    "even": (even, even_model),
    "loops": (loops, loops_model),
    "ahead": (ahead, ahead_model),
}


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=examples(60))
@given(
    TICKS,
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.5, 100.0]),
    st.sampled_from([1, 100]),
    st.sampled_from([0.0, 1.0, 100.0]),
)
def test_every_mode_and_every_change_of_it(
    name: str, mode: str, sequence: list[Tick], share: float, budget: float, many: int, removal: float
) -> None:
    build, model = CIRCUITS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modes, "REMOVAL", removal)
        patch.setattr(modes, "SHARE", share)
        patch.setattr(modes, "BUDGET", budget)
        patch.setattr(modes, "MANY", many)
        circuit = Circuit("test")
        circuit.output("out", build(circuit, mode))
        run = circuit.start()
        inputs: dict[str, Z] = {"edge": {}, "shut": {}, "start": {}}
        before: Z = {}
        for tick in sequence:
            for relation, delta in tick.items():
                inputs[relation] = apply_set(inputs[relation], delta)
            after = model(*inputs.values())
            assert run.step(tick)["out"].to_dict() == minus(after, before)
            assert view(run) == after
            before = after


@pytest.mark.usefixtures("iterations_at_first_deletion")
def test_a_large_retraction_restarts_the_scope() -> None:
    circuit = Circuit("test")
    circuit.output("out", even(circuit, "auto"))
    run = circuit.start()
    run.step({"edge": [(i, i + 1) for i in range(200)]})
    run.step({"edge": {(0, 1): -1}})
    run.step({"edge": {(i, i + 1): -1 for i in range(100, 150)}})
    assert ways(run) == {"incremental, restarted 2 times"}


@pytest.mark.usefixtures("iterations_at_first_deletion")
def test_a_failed_tick_leaves_the_mode_as_it_was() -> None:
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=EDGE, kind="set")
    with circuit.fixpoint("path", max_iterations=6) as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (edge + then(path, edge)).distinct())
    circuit.output("out", scope.leave(path))
    run = circuit.start()
    run.step({"edge": [(1, 2), (2, 3), (7, 8)]})
    before, kept = view(run), run.state_rows
    with pytest.raises(IterationLimitError):
        run.step({"edge": {(7, 8): -1} | {(i, i + 1): 1 for i in range(3, 12)}})
    assert (view(run), run.state_rows, ways(run)) == (before, kept, {"insert-only"})
    run.step({"edge": {(7, 8): -1}})
    assert ways(run) == {"incremental, restarted once"}
    before, kept = view(run), run.state_rows
    with pytest.raises(IterationLimitError):
        run.step({"edge": {(1, 2): -1} | {(i, i + 1): 1 for i in range(3, 12)}})
    assert (view(run), run.state_rows) == (before, kept)
    run.step({"edge": {(1, 2): -1}})
    assert view(run) == {(2, 3): 1}


@pytest.mark.usefixtures("iterations_at_first_deletion")
def test_statistics_continue_after_a_restart() -> None:
    circuit = Circuit("test")
    circuit.output("out", even(circuit, "auto"))
    run = circuit.start()
    run.observe()
    run.step({"edge": [(1, 2), (2, 3), (3, 4)]})
    joins = [stats for stats in run.stats() if stats.node.operator.name == "Join"]
    counted = sum(stats.rows_out for stats in joins)
    run.step({"edge": {(1, 2): -1}})
    joins = [stats for stats in run.stats() if stats.node.operator.name == "Join"]
    assert counted and sum(stats.rows_out for stats in joins) > counted


@pytest.mark.usefixtures("iterations_at_first_deletion")
def test_a_replanned_run_keeps_its_mode() -> None:
    circuit = Circuit("test")
    circuit.output("out", even(circuit, "auto"))
    run = circuit.start()
    for number in range(3):
        run.step({"edge": [(number, number + 1), (9, number)]})
        run.replan(circuit.circuit("physical"))
    assert ways(run) == {"insert-only"}
    run.step({"edge": {(0, 1): -1}})
    told, rows_ = ways(run), view(run)
    run.replan(circuit.circuit("physical"))
    assert ways(run) == told
    run.step({"edge": {(0, 1): 1}})
    run.step({"edge": {(0, 1): -1}})
    assert view(run) == rows_


def test_a_body_that_is_not_monotone_is_incremental() -> None:
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=EDGE, kind="set")
    with circuit.fixpoint("counted") as scope:
        found = scope.variable("found", EDGE)
        sizes = found.group_by("x").agg(y=count())
        scope.define(found, (edge + sizes).distinct())
    circuit.output("out", scope.leave(found))
    (body,) = [n.operator.body for n in circuit.circuit("physical").nodes if isinstance(n.operator, Fixpoint)]
    assert evaluation_options(body) == EvaluationOptions(restarts=True, insert_only=False, negated=None)
    assert describe_evaluation(body) == (
        "incremental by tick and iteration; restarts where that costs less "
        "(its variables may shrink when its inputs grow)"
    )


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ArgumentError) as refused:
        Circuit("test").fixpoint("path", recursion="eager")
    assert refused.value.message == (
        "recursion= expects one of 'auto', 'incremental', 'insert-only', got 'eager'"
    )


def test_switching_to_a_circuit_that_keeps_fewer_integrals() -> None:
    def query(pairs: bool) -> Circuit:
        circuit = Circuit("test")
        edge = circuit.input("edge", schema=EDGE, kind="set")
        near = circuit.input("start", x=int, kind="set").filter(col("x") < 5)
        with circuit.fixpoint("reach") as scope:
            found = scope.variable("found", near.schema)
            scope.define(found, (near + then_from(found, edge)).distinct())
        circuit.output("out", scope.leave(found))
        # A join keeps the integral of the entering stream, too.
        circuit.output("twice", near.join(near, on=["x"], select=["x"]) if pairs else near.scale(1))
        return circuit

    run = query(True).start()
    run.step({"edge": [(i, i + 1) for i in range(6)], "start": [(0,), (3,)]})
    before = view(run)
    run.replan(query(False).circuit("physical"))
    assert view(run) == before
    run.step({"start": {(0,): -1}})
    assert view(run) == {(i,): 1 for i in range(3, 7)}
