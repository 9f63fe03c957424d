"""I, D, z^-1 and delta_0 over the iterations of a fixpoint, and recursion built of them by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, IterationLimitError, Stream, col
from dbsp.circuit.stage import Stage

from ...harness import apply
from ...reference import Z, join, project
from ...strategies import Tick, rows, set_ticks

NODE = st.integers(0, 4)
EDGES = {"x": int, "y": int}
CHANGES = set_ticks({"edge": rows(NODE, NODE)}, 4, 5)


def step_of(paths: Stream, edge: Stream) -> Stream:
    return paths.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")


def own_recursion(circuit: Circuit, edge: Stream) -> Stream:
    with circuit.fixpoint("own") as scope:
        path = scope.variable("path", EDGES)
        scope.define(path, (edge + step_of(path, edge)).distinct())
    return scope.leave(path)


def semi_naive(circuit: Circuit, edge: Stream) -> Stream:
    """The circuit of the paper: delta_0, D . distinct . I in a loop with z^-1, and the sum."""
    with circuit.fixpoint("by hand") as scope:
        fresh = scope.variable("fresh", EDGES)
        found = scope.delta0(edge) + step_of(fresh, edge)
        new = found.integrate().distinct().differentiate()
        scope.define(fresh, new)
        total = new.integrate()
    return scope.leave(total)


def with_known_rows(circuit: Circuit, edge: Stream) -> Stream:
    """Semi-naive evaluation with two variables: the new rows and all rows so far."""
    with circuit.fixpoint("two variables") as scope:
        fresh, known = scope.variable("fresh", EDGES), scope.variable("known", EDGES)
        found = scope.enter(edge).differentiate() + step_of(fresh, edge)
        new = (known + found).distinct() - known
        scope.define(fresh, new)
        scope.define(known, new.integrate())
    return scope.leave(known)


def closure(edges: Z) -> Z:
    paths = dict.fromkeys(edges, 1)
    while True:
        longer = join(paths, edges, [(1, 0)], [(0, 0), (1, 1)])
        if longer.keys() <= paths.keys():
            return paths
        paths |= dict.fromkeys(longer, 1)


@pytest.mark.parametrize("stage", [Stage.QUERY, Stage.INCREMENTAL, Stage.PHYSICAL])
@settings(max_examples=8)
@given(CHANGES)
def test_recursion_by_hand_equals_the_engine_in_every_tick(stage: Stage, changes: list[Tick]) -> None:
    circuit = Circuit("hand")
    edge = circuit.input("edge", schema=EDGES, kind="set")
    forms = {"own": own_recursion, "by hand": semi_naive, "two variables": with_known_rows}
    for name, form in forms.items():
        circuit.output(name, form(circuit, edge))
    run = circuit.start(stage)
    edges: dict[str, Z] = {"edge": {}}
    for tick in changes:
        result = run.step(tick)
        apply(edges, tick, ["edge"])
        for name in forms:
            assert result[name].to_dict() == result["own"].to_dict(), name
            assert run.view(name).to_dict() == closure(edges["edge"]), name


def test_every_iteration_has_the_rows_of_semi_naive_evaluation() -> None:
    circuit = Circuit("hand")
    edge = circuit.input("edge", schema=EDGES, kind="set")
    with circuit.fixpoint("path") as scope:
        fresh = scope.variable("fresh", EDGES)
        found = scope.delta0(edge) + step_of(fresh, edge)
        new = found.integrate().distinct().differentiate()
        scope.define(fresh, new)
        total = new.integrate()
    circuit.output("path", scope.leave(total))
    run = circuit.start()
    recording = run.record(streams=[new])
    run.step({"edge": [(1, 2), (2, 3), (3, 4)]})
    by_hand = {time: delta.rows() for time, delta in recording.by_iteration(new, summed=True).items()}
    assert by_hand == {(0,): [(1, 2), (2, 3), (3, 4)], (1,): [(1, 3), (2, 4)], (2,): [(1, 4)]}
    run.step({"edge": {(2, 3): -1}})
    run.step({"edge": {(2, 3): 1}})
    changed = {time: delta.to_dict() for time, delta in recording.by_iteration(new, summed=True).items()}
    assert changed == {(0,): {(2, 3): 1}, (1,): {(1, 3): 1, (2, 4): 1}, (2,): {(1, 4): 1}}


@settings(max_examples=8)
@given(set_ticks({"n": rows(st.integers(0, 5))}, 5, 3))
def test_the_sum_over_the_iterations(changes: list[Tick]) -> None:
    """Of a value that counts down to nothing, I has every number on the way; D and I cancel."""
    circuit = Circuit("down")
    n = circuit.input("n", x=int)
    with circuit.fixpoint("down") as scope:
        now = scope.variable("now", {"x": int})
        scope.define(now, scope.delta0(n) + now.filter(col("x") > 0).map(x=col("x") - 1))
        every = now.integrate()
        same = scope.enter(n).differentiate().integrate()
        late = scope.delta0(n).delay().delay().integrate()
        left = now.differentiate()
    for name, stream in {"every": every, "same": same, "late": late, "left": left}.items():
        circuit.output(name, scope.leave(stream))
    run = circuit.start()
    inputs: dict[str, Z] = {"n": {}}
    for tick in changes:
        run.step(tick)
        apply(inputs, tick)
        counts: Z = {}
        for (x,), weight in inputs["n"].items():
            for lower in range(x + 1):
                counts[lower,] = counts.get((lower,), 0) + weight
        assert run.view("every").to_dict() == {row: weight for row, weight in counts.items() if weight}
        assert run.view("same").to_dict() == run.view("late").to_dict() == project(inputs["n"], [0])
        assert run.view("left").to_dict() == {}


def test_the_sum_of_a_value_that_stays_has_no_end() -> None:
    circuit = Circuit("endless")
    n = circuit.input("n", x=int)
    with circuit.fixpoint("endless", max_iterations=20) as scope:
        kept = scope.variable("kept", {"x": int})
        scope.define(kept, n)
        total = scope.enter(n).integrate()
    circuit.output("total", scope.leave(total))
    run = circuit.start()
    with pytest.raises(IterationLimitError, match="has not converged after 20 iterations"):
        run.step({"n": [(1,)]})
    assert run.step({})["total"].to_dict() == {}


def test_differences_in_a_nested_scope() -> None:
    """Each iteration of the outer scope begins the iterations of the inner one again."""
    circuit = Circuit("nested")
    n = circuit.input("n", x=int)
    with circuit.fixpoint("outer") as outer:
        total = outer.variable("total", {"x": int})
        with outer.fixpoint("inner") as inner:
            now = inner.variable("now", {"x": int})
            lower = now.filter(col("x") > 0).map(x=col("x") - 1)
            inner.define(now, inner.delta0((total + outer.enter(n)).distinct()) + lower)
            every = now.integrate()
        outer.define(total, inner.leave(every).distinct())
    circuit.output("total", outer.leave(total))
    run = circuit.start()
    assert run.step({"n": [(2,)]})["total"].rows() == [(0,), (1,), (2,)]
    assert run.step({"n": [(4,)]})["total"].rows() == [(3,), (4,)]
    assert run.step({"n": {(4,): -1}})["total"].to_dict() == {(3,): -1, (4,): -1}
