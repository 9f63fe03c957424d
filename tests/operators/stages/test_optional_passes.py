"""Expansion and cancellation of operators, and all optimiser passes together."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp import Circuit, EvaluationError, col, lit
from dbsp.circuit.stage import Stage
from dbsp.operators.stages.circuit_passes import CIRCUIT_PASSES, optimise
from dbsp.operators.stages.passes.cancel import cancel
from dbsp.operators.stages.passes.expand_composites import expand
from tests.harness import deltas_of
from tests.operators.stages.support import PAIR, Build, W, X, Y, Z, after, query


@pytest.mark.parametrize(
    "build, expected, changes",
    [
        (
            lambda a, b: a.join(b, on=["x", "y"], how="left"),
            "Union(Join(a, b), Pad  with None(Antijoin(a, b)))",
            ["LeftJoin becomes Union"],
        ),
        (lambda a, b: a.join(b, on=["x"], how="semi"), "Semijoin(a, b)", []),
        (lambda a, b: a.join(b, on=["x"]), "Join(a, b)", []),
    ],
)
def test_expand(build: Build, expected: str, changes: list[str]) -> None:
    assert after(expand, build) == (expected, changes)


@pytest.mark.parametrize(
    "build, expected, times",
    [
        (lambda a, b: a.integrate().differentiate(), "a", 1),
        (lambda a, b: a.differentiate().integrate().distinct(), "Distinct(a)", 1),
        (lambda a, b: a.differentiate().differentiate().integrate(), "Differentiate(a)", 1),
        (lambda a, b: a.integrate().integrate().differentiate().differentiate(), "a", 2),
        (lambda a, b: a.integrate().distinct().differentiate(), "Differentiate(Distinct(Integrate(a)))", 0),
        (lambda a, b: a.integrate().integrate(), "Integrate(Integrate(a))", 0),
        (lambda a, b: (i := a.integrate()) + i.differentiate(), "Union(Integrate(a), a)", 1),
    ],
)
def test_cancel(build: Build, expected: str, times: int) -> None:
    text, changes = after(cancel, build)
    assert text == expected
    assert set(changes) <= {"Differentiate cancels Integrate", "Integrate cancels Differentiate"}
    assert len(changes) == times


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: a.map(z=X * 0).map(w=lit(4) // Z),
        lambda a, b: a.map(z=lit(4) // X, w=Y).filter(W > 2),
        lambda a, b: a.map(x=X, y=Y, q=lit(4) // Y).map(z=(X > 5) & (col("q") > 1)),
    ],
    ids=["no row to divide", "a row that is dropped later", "a value that is not selected"],
)
@pytest.mark.parametrize("change", [{(1, 3): 1, (2, 3): -1}, {(1, 0): 1}, {(0, 1): 1}, {(2, 2): 1}])
def test_the_stages_raise_the_same_errors(build: Build, change: dict[Any, int]) -> None:
    outcomes = []
    for stage in Stage:
        run = query(build).start(stage)
        try:
            outcomes.append(deltas_of(run.step({"a": change})))
        except EvaluationError:
            outcomes.append({})
            assert run.tick == 0
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_nodes_used_by_several_outputs_are_not_pruned() -> None:
    circuit = Circuit("ports")
    a = circuit.input("a", schema=PAIR)
    circuit.input("unread", schema=PAIR, kind="set")
    kept = a.filter(X > 0)
    kept.distinct().join(a, on=["x"])  # no node reads this
    circuit.output("one", kept)
    circuit.output("two", kept)
    made, applied = optimise(circuit)
    assert [node.label.replace('col("x")', "x") for node in made.nodes] == [
        "Input a",
        "Input unread",
        "Filter x > 0",
        "Output one",
        "Output two",
    ]
    assert [one.name for one in applied] == [one.name for one in CIRCUIT_PASSES[:6]]
    assert (applied[0].before, applied[-1].after) == (7, 5)
    assert set(circuit.start().inputs) == {"a", "unread"}


def test_scopes_are_pruned_too() -> None:
    circuit = Circuit("scopes")
    a = circuit.input("a", schema=PAIR)
    b = circuit.input("b", schema=PAIR)
    with circuit.fixpoint("outer") as outer:
        used, unused = outer.variable("used", PAIR), outer.variable("unused", PAIR)
        with outer.fixpoint("inner") as inner:
            deep, forgotten = inner.variable("deep", PAIR), inner.variable("forgotten", PAIR)
            inner.define(deep, (a + used + deep).distinct())
            inner.define(forgotten, (b + forgotten).distinct())
        outer.define(used, inner.leave(deep))
        outer.define(unused, (unused + b.filter(X > 1) + inner.leave(forgotten)).distinct())
    circuit.output("out", outer.leave(used))
    made, _ = optimise(circuit)
    labels = [node.label for node in made.walk()]
    assert labels.count("Fixpoint outer") == labels.count("Fixpoint inner") == 1
    assert labels.count("Delay used") == labels.count("Delay deep") == 1
    assert "Delay unused" not in labels
    assert "Delay forgotten" not in labels
    assert not any("Filter" in label for label in labels)
    assert "Input b" in labels  # a port is never dropped
    (scope,) = (node for node in made.nodes if node.label == "Fixpoint outer")
    assert [stream.node.label for stream in scope.inputs] == ["Input a"]
    for stage in Stage:
        run = circuit.start(stage)
        run.step({"a": {(1, 2): 2, (3, 4): -1}, "b": {(5, 5): 1}})
        assert run.view("out").to_dict() == {(1, 2): 1}


def test_passes_reach_into_scopes() -> None:
    circuit = Circuit("inside")
    a = circuit.input("a", schema=PAIR)
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        step = path.join(a, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (a + step).filter(X > 0).distinct().filter(Y > 0))
    circuit.output("out", scope.leave(path))
    _, applied = optimise(circuit)
    changes = {one.name: len(one.changes) for one in applied}
    assert {name: changes[name] for name in ("expand", "cancel", "push_filters", "plan_joins")} == {
        "expand": 0,
        "cancel": 0,
        "push_filters": 2,
        "plan_joins": 0,
    }
    for stage in Stage:
        run = circuit.start(stage)
        run.step({"a": {(1, 2): 1, (2, 3): 1, (3, 0): 1, (0, 1): 1}})
        assert run.view("out").rows() == [(1, 2), (1, 3), (2, 3)]
