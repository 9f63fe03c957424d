"""The optimiser passes one by one: what each changes, what it must leave, and that results stay equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dbsp import Circuit, EvaluationError, Stream, col, count, lit
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.prune import prune
from dbsp.circuit.stage import Stage
from dbsp.operators.stages.circuit_passes import CIRCUIT_PASSES, optimise
from dbsp.operators.stages.passes.cancel import cancel
from dbsp.operators.stages.passes.expand_composites import expand
from dbsp.operators.stages.passes.fuse import fuse
from dbsp.operators.stages.passes.push_filters import push_filters
from dbsp.operators.stages.passes.push_projections import push_projections
from dbsp.operators.stages.three_stages import between_integrals
from dbsp.runtime.run import Run
from tests.harness import deltas_of

Pass = Callable[[Graph, list[str]], Graph]
Build = Callable[[Stream, Stream], Stream]

X, Y, Z, W = col("x"), col("y"), col("z"), col("w")
PAIR = {"x": int, "y": int}
TICKS: list[dict[str, dict[Any, int]]] = [
    {"a": {(0, 0): 2, (0, 1): 1, (1, 2): 1, (3, 1): -1}, "b": {(0, 4): 1, (1, 1): 3, (2, 2): 1}},
    {"a": {(0, 0): -2, (2, 2): 1, (3, 3): 1}, "b": {(0, 4): -1, (2, 0): 1}},
    {},
    {"a": {(3, 1): 1, (1, 2): -1}, "b": {(1, 1): -3, (3, 3): 1, (4, 0): -2}},
]


def query(build: Build) -> Circuit:
    circuit = Circuit("query")
    circuit.output("out", build(circuit.input("a", schema=PAIR), circuit.input("b", schema=PAIR)))
    return circuit


def after(one: Pass, build: Build) -> tuple[str, list[str]]:
    """The shape that a pass makes and its changes; checks that the results are those of before."""
    circuit = query(build)
    expected = answers(circuit)
    changes: list[str] = []
    made = one(circuit, changes)
    made = prune(made, [node for node in made.nodes if node.operator.is_port])
    assert answers(made) == expected
    return shape(made), [
        " ".join(w for w in change.split() if ".py:" not in w and w != "at") for change in changes
    ]


def answers(graph: Graph) -> list[Any]:
    """What the circuit, recomputed as it stands, gives in every tick, or how it refuses."""
    run, given = Run(between_integrals(graph)), []
    for tick in TICKS:
        try:
            given.append(deltas_of(run.step(tick)))
        except EvaluationError:
            given.append("refused")
    return given


def shape(graph: Graph) -> str:
    """The operators of a circuit as nested calls, from its one output inwards."""

    def show(node: Node) -> str:
        label = node.label.removeprefix("Input ").replace('col("', "").replace('")', "")
        inputs = ", ".join(show(stream.node) for stream in node.inputs)
        return f"{label}({inputs})" if inputs else label

    (out,) = (node for node in graph.nodes if node.label == "Output out")
    return show(out.inputs[0].node)


# --- expand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, expected, changes",
    [
        (
            lambda a, b: a.semijoin(b, on=["x"]),
            "Join(a, Distinct(Project k0(b)))",
            ["Semijoin is written as Join"],
        ),
        (
            lambda a, b: a.antijoin(b, on=["x", "y"]),
            "Minus(a, Join(a, Distinct(Project k0, k1(b))))",
            ["Antijoin is written as Minus"],
        ),
        (lambda a, b: a.join(b, on=["x"]), "Join(a, b)", []),
    ],
)
def test_expand(build: Build, expected: str, changes: list[str]) -> None:
    assert after(expand, build) == (expected, changes)


# --- cancel ----------------------------------------------------------------------------------------


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
    assert set(changes) <= {"Differentiate undoes Integrate", "Integrate undoes Differentiate"}
    assert len(changes) == times


# --- push_filters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda a, b: (a + b).filter(X > 0), "Union(Filter x > 0(a), Filter x > 0(b))"),
        (lambda a, b: (a - b).filter(X > 0), "Minus(Filter x > 0(a), Filter x > 0(b))"),
        (lambda a, b: (-a).filter(X > 0), "Negate(Filter x > 0(a))"),
        (lambda a, b: a.distinct().filter(X > 0), "Distinct(Filter x > 0(a))"),
        (lambda a, b: a.rename(z="x").filter(Z > 0), "Rename(Filter x > 0(a))"),
        (lambda a, b: a.project("y").filter(Y > 0), "Project y(Filter y > 0(a))"),
        (lambda a, b: a.map(z=X + 1, w=Y).filter(W > 0), "Map z = x + 1, w = y(Filter y > 0(a))"),
        (
            lambda a, b: a.group_by("x").agg(n=count()).filter(X > 0),
            "Aggregate n(Project x(Filter x > 0(a)))",
        ),
        (lambda a, b: a.join(b, on=["x"]).filter(Y > 0), "Join(Filter y > 0(a), b)"),
        (lambda a, b: a.join(b, on=["x"]).filter(col("y_right") > 0), "Join(a, Filter y > 0(b))"),
        (lambda a, b: (a + a).filter(X > 0), "Union(Filter x > 0(a), Filter x > 0(a))"),
        (
            lambda a, b: (a.join(b, on=["x", "y"]).distinct() + b).filter(Y > 0),
            "Union(Distinct(Join(Filter y > 0(a), b)), Filter y > 0(b))",
        ),
        (lambda a, b: a.filter(Y > 0).distinct().filter(X > 0), "Distinct(Filter x > 0(Filter y > 0(a)))"),
    ],
)
def test_a_condition_moves_down(build: Build, expected: str) -> None:
    text, changes = after(push_filters, build)
    assert text == expected
    assert len(changes) == 1
    assert changes[0].startswith("Filter moved below ")


@pytest.mark.parametrize(
    "build, expected",
    [
        # it reads what the operator makes
        (lambda a, b: a.map(z=X + 1, w=Y).filter(Z > 0), "Filter z > 0(Map z = x + 1, w = y(a))"),
        (
            lambda a, b: a.group_by("x").agg(n=count()).filter(col("n") > 0),
            "Filter n > 0(Aggregate n(Project x(a)))",
        ),
        (
            lambda a, b: a.join(b, on=["x"]).filter(col("y_right") > Y),
            "Filter y_right > y(Join(a, b))",
        ),
        # it may fail, for a row that the operator above it was never shown
        (lambda a, b: (a + b).filter(X % 2 == 0), "Filter x % 2 == 0(Union(a, b))"),
        (
            lambda a, b: a.join(b, on=["x"]).filter(lit(4) // Y > 1),
            "Filter 4 // y > 1(Join(a, b))",
        ),
        # the map may fail, and would no longer be shown that row
        (
            lambda a, b: a.map(z=lit(4) // X, w=Y).filter(W > 2),
            "Filter w > 2(Map z = 4 // x, w = y(a))",
        ),
        # others read the whole
        (lambda a, b: (s := a + b).filter(X > 0) + s, "Union(Filter x > 0(Union(a, b)), Union(a, b))"),
        # time, and functions that nobody can look into
        (lambda a, b: a.delay().filter(X > 0), "Filter x > 0(Delay)"),
        (
            lambda a, b: a.flat_map(twice, PAIR).filter(X > 0),
            "Filter x > 0(FlatMap twice(a))",
        ),
        (lambda a, b: a.map(same, PAIR).filter(X > 0), "Filter x > 0(Map same(a))"),
    ],
)
def test_a_condition_stays(build: Build, expected: str) -> None:
    assert after(push_filters, build) == (expected, [])


def twice(row: Any) -> list[Any]:
    return [row, row]


def same(row: Any) -> Any:
    return row


# --- push_projections ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, expected, changes",
    [
        (
            lambda a, b: a.join(b, on=["x"], select=["x", "y_right"]),
            "Join(Project x(a), b)",
            ["Join keeps only x: int of its left input"],
        ),
        (
            lambda a, b: a.join(b, on=[("y", "x")], select=["x"]),
            "Join(a, Project x(b))",
            ["Join keeps only x: int of its right input"],
        ),
        (
            lambda a, b: a.join(b, on=[("y", "y")], select=["y"]),
            "Join(Project y(a), Project y(b))",
            ["Join keeps only y: int of its left input", "Join keeps only y: int of its right input"],
        ),
        (
            lambda a, b: (
                a.join(b, on=["x"]) + a.join(b, on=["x", "y"], select=["x", "y", "y_right"])
            ).project("x"),
            "Union(Project x(Join(a, b)), Project x(Join(a, b)))",
            ["Project moved below Union"],
        ),
        # b has another reader, which keeps it whole
        (
            lambda a, b: a.join(b, on=["x"], select=["x", "y"]) + b,
            "Union(Join(a, b), b)",
            [],
        ),
        # nothing below the union could take the projection over
        (lambda a, b: (a + b).project("x"), "Project x(Union(a, b))", []),
        (lambda a, b: a.join(b, on=["x", "y"]), "Join(a, b)", []),
    ],
)
def test_push_projections(build: Build, expected: str, changes: list[str]) -> None:
    assert after(push_projections, build) == (expected, changes)


# --- fuse ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, expected, times",
    [
        (lambda a, b: a.filter(X > 0).filter(Y > 0), "Filter (x > 0) & (y > 0)(a)", 1),
        (
            lambda a, b: a.filter(X > 0).filter(Y > 0).filter(X < Y),
            "Filter (x > 0) & (y > 0) & (x < y)(a)",
            2,
        ),
        # the first of two conditions may fail, the second one must not
        (lambda a, b: a.filter(X % 2 == 0).filter(Y > 0), "Filter (x % 2 == 0) & (y > 0)(a)", 1),
        (lambda a, b: a.map(x=X + 1, y=Y).map(z=X < 2, w=Y), "Map z = x + 1 < 2, w = y(a)", 1),
        (
            lambda a, b: a.map(x=X, y=Y, s=X + Y).map(z=col("s") * 2, w=X * Y),
            "Map z = (x + y) * 2, w = x * y(a)",
            1,
        ),
        (
            lambda a, b: a.distinct().map(z=X + 1).map(w=Z * 2),
            "Map w = (x + 1) * 2(Distinct(a))",
            1,
        ),
    ],
)
def test_linear_operators_in_a_row_are_fused(build: Build, expected: str, times: int) -> None:
    text, changes = after(fuse, build)
    assert text == expected
    assert len(changes) == times
    assert set(changes) <= {"Filter fused with Filter", "Map fused with Map"}


@pytest.mark.parametrize(
    "build, expected",
    [
        # None of the first condition does not keep `&` from asking the second
        (
            lambda a, b: a.filter(X > 0).filter(lit(6) // X > 2),
            "Filter 6 // x > 2(Filter x > 0(a))",
        ),
        # another reader
        (
            lambda a, b: (s := a.filter(X > 0)).filter(Y > 0) + s,
            "Union(Filter y > 0(Filter x > 0(a)), Filter x > 0(a))",
        ),
        # an expression that would be evaluated twice, and one that would be dropped
        (
            lambda a, b: a.map(x=X, y=Y, s=X + 1).map(z=col("s") * col("s")),
            "Map z = s * s(Map x = x, y = y, s = x + 1(a))",
        ),
        (
            lambda a, b: a.map(x=X, y=Y, s=X + 1).map(z=X < 2),
            "Map z = x < 2(Map x = x, y = y, s = x + 1(a))",
        ),
        # rows that the first map makes equal may cancel: the second never sees them
        (
            lambda a, b: a.map(z=X * 0).map(w=lit(4) // Z),
            "Map w = 4 // z(Map z = x * 0(a))",
        ),
        # `when` asks for some of the rows only
        (
            lambda a, b: a.map(x=X, y=Y, q=lit(4) // Y).map(z=(X > 5) & (col("q") > 1)),
            "Map z = (x > 5) & (q > 1)(Map x = x, y = y, q = 4 // y(a))",
        ),
        (lambda a, b: a.filter(X > 0).map(z=X + 1), "Map z = x + 1(Filter x > 0(a))"),
    ],
)
def test_what_is_not_fused(build: Build, expected: str) -> None:
    assert after(fuse, build) == (expected, [])


# --- all together ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: a.map(z=X * 0).map(w=lit(4) // Z),
        lambda a, b: a.map(z=lit(4) // X, w=Y).filter(W > 2),
        lambda a, b: a.map(x=X, y=Y, q=lit(4) // Y).map(z=(X > 5) & (col("q") > 1)),
    ],
    ids=["no row to divide", "a row that is dropped later", "a value that is not asked for"],
)
@pytest.mark.parametrize("change", [{(1, 3): 1, (2, 3): -1}, {(1, 0): 1}, {(0, 1): 1}, {(2, 2): 1}])
def test_the_stages_refuse_the_same(build: Build, change: dict[Any, int]) -> None:
    outcomes = []
    for stage in Stage:
        run = query(build).start(stage)
        try:
            outcomes.append(deltas_of(run.step({"a": change})))
        except EvaluationError:
            outcomes.append({})
            assert run.tick == 0
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_what_is_used_by_several_outputs_is_pruned_by_neither() -> None:
    circuit = Circuit("ports")
    a = circuit.input("a", schema=PAIR)
    circuit.input("unread", schema=PAIR, kind="set")
    kept = a.filter(X > 0)
    kept.distinct().join(a, on=["x"])  # nobody reads this
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
    assert [one.name for one in applied] == [one.name for one in CIRCUIT_PASSES[:5]]
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
    assert changes == {"expand": 0, "cancel": 0, "push_filters": 2, "push_projections": 0, "fuse": 0} | {
        name: changes[name] for name in ("push_projections", "fuse")
    }
    for stage in Stage:
        run = circuit.start(stage)
        run.step({"a": {(1, 2): 1, (2, 3): 1, (3, 0): 1, (0, 1): 1}})
        assert run.view("out").rows() == [(1, 2), (1, 3), (2, 3)]
