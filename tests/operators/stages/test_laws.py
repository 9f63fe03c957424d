"""Each law of incrementalisation: the graph it yields, and that this graph is D . Q . I."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from dbsp import Circuit, Stream, col, count
from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.cli import main
from dbsp.operators.stages.circuit_stages import incremental_circuit
from dbsp.operators.stages.passes.laws import LAWS
from dbsp.runtime.run import Run
from tests import reference
from tests.harness import apply, view
from tests.profiles import examples
from tests.reference import Z, minus
from tests.strategies import Tick, rows, small, ticks

X, Y = col("x"), col("y")
PAIR = {"x": int, "y": int}
PORT = ["Arrange by 0, 1", "Output out"]
"""The last nodes of every circuit: the integral of the result, for the view, and the port."""


@dataclass(frozen=True)
class Case:
    """A query of one operator: its law, its definition over complete Z-sets, and its incremental
    nodes."""

    law: str
    build: Callable[[Stream, Stream], Stream]
    model: Callable[[Z, Z], Z]
    nodes: tuple[str, ...]

    def circuit(self) -> Circuit:
        circuit = Circuit("one operator")
        result = self.build(circuit.input("a", schema=PAIR), circuit.input("b", schema=PAIR))
        circuit.output("out", result)
        return circuit


OLD = ("Integrate(a)", "Delay[Integrate]")
"""z^-1(I(D(a))), with the strict input in brackets."""

CASES = {
    "filter": Case(
        "linear",
        lambda a, b: a.filter(X > 1),
        lambda a, b: reference.select(a, lambda row: row[0] > 1),
        ('Filter col("x") > 1(a)',),
    ),
    "map": Case(
        "linear",
        lambda a, b: a.map(x=X + Y, y=Y),
        lambda a, b: reference.map_rows(a, lambda row: (row[0] + row[1], row[1])),
        ('Map x = col("x") + col("y"), y = col("y")(a)',),
    ),
    "flat_map": Case(
        "linear",
        lambda a, b: a.flat_map(both_ways, PAIR),
        lambda a, b: reference.flat_map(a, both_ways),
        ("FlatMap both_ways(a)",),
    ),
    "union": Case("linear", lambda a, b: a + b, lambda a, b: reference.add(a, b), ("Union(a, b)",)),
    "minus": Case("linear", lambda a, b: a - b, lambda a, b: minus(a, b), ("Minus(a, b)",)),
    "negate": Case("linear", lambda a, b: -a, lambda a, b: reference.negate(a), ("Negate(a)",)),
    "join": Case(
        "bilinear",
        lambda a, b: a.join(b, on=[("y", "x")], select=["x", "y_right"]),
        lambda a, b: reference.join(a, b, [(1, 0)], [(0, 0), (1, 1)]),
        (
            "Integrate(b)",
            "Delay[Integrate]",
            "Join(a, Delay)",
            "Integrate(a)",
            "Join(Integrate, b)",
            "Terms of Join(Join, Join)",
        ),
    ),
    # One integral is the new one of one term and, delayed, the old one of the other.
    "self-join": Case(
        "bilinear",
        lambda a, b: a.join(a, on=[("y", "x")], select=["x", "y_right"]),
        lambda a, b: reference.join(a, a, [(1, 0)], [(0, 0), (1, 1)]),
        (*OLD, "Join(a, Delay)", "Join(Integrate, a)", "Terms of Join(Join, Join)"),
    ),
    "semijoin": Case(
        "semijoin",
        lambda a, b: a.join(b, on=["y"], how="semi"),
        lambda a, b: reference.semijoin(a, b, [(1, 1)]),
        (
            "Integrate(b)",
            "Semijoin(a, Integrate)",
            "Project y(b)",
            "Integrate(Project)",
            "Delay[Integrate]",
            "Change of Distinct(Delay, Project)",
            "Integrate(a)",
            "Delay[Integrate]",
            "Join(Delay, Change)",
            "Terms of Semijoin(Semijoin, Join)",
        ),
    ),
    # The key has all columns, and the integral of a is also that of its keys.
    "antijoin": Case(
        "antijoin",
        lambda a, b: a.join(a, on=["x", "y"], how="anti"),
        lambda a, b: reference.antijoin(a, a, [(0, 0), (1, 1)]),
        (
            "Integrate(a)",
            "Antijoin(a, Integrate)",
            "Delay[Integrate]",
            "Change of Distinct(Delay, a)",
            "Join(Delay, Change)",
            "Terms of Antijoin(Antijoin, Join)",
        ),
    ),
    "distinct": Case(
        "distinct",
        lambda a, b: a.distinct(),
        lambda a, b: reference.distinct(a),
        (*OLD, "Change of Distinct(Delay, a)"),
    ),
    "aggregate": Case(
        "aggregate",
        lambda a, b: a.group_by("x").agg(y=col("y").max()),
        lambda a, b: reference.aggregate(a, [0], [(reference.largest, 1)]),
        (*OLD, "Change of Aggregate y(Delay, a)"),
    ),
}


def both_ways(row: Any) -> list[Any]:
    return [(row[0], row[1]), (row[1], row[0])]


def parts(graph: Graph) -> list[str]:
    """Every node by its label, with the labels of its inputs."""
    short = {node: node.label.removeprefix("Input ").partition(" ")[0] for node in graph.nodes}
    made = []
    for node in graph.nodes:
        inputs = ", ".join(short[stream.node] for stream in node.inputs)
        strict = ", ".join(short[stream.node] for stream in node.strict)
        label = node.label.removeprefix("Input ")
        made.append(label + (f"({inputs})" if inputs else "") + (f"[{strict}]" if strict else ""))
    return made


@pytest.mark.parametrize("name", CASES)
def test_the_nodes_of_each_law(name: str) -> None:
    case = CASES[name]
    graph, applications = incremental_circuit(case.circuit())
    made = parts(graph)
    assert made[:2] == ["a", "b"]
    assert tuple(made[2:-2]) == case.nodes
    assert [text.partition("(")[0] for text in made[-2:]] == PORT
    (applied,) = [one for one in applications if one.law.name not in ("source", "output")]
    assert (applied.law.name, applied.added) == (case.law, len(case.nodes))
    assert applied.node.endswith(f"at test_laws.py:{case.build.__code__.co_firstlineno}")


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=examples(15))
@given(sequence=ticks({"a": rows(small, small), "b": rows(small, small)}))
def test_a_law_is_d_q_i(name: str, sequence: list[Tick]) -> None:
    """The incremental circuit of one operator computes D(Q(I(a, b))), with Q defined over dicts."""
    case = CASES[name]
    run = Run(incremental_circuit(case.circuit())[0])
    inputs: dict[str, Z] = {"a": {}, "b": {}}
    before: Z = {}
    for number, tick in enumerate(sequence, 1):
        delta = run.step(tick)["out"].to_dict()
        apply(inputs, tick)
        after = case.model(inputs["a"], inputs["b"])
        assert delta == minus(after, before), f"tick {number} of {sequence}"
        assert view(run) == after
        before = after


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, nodes",
    [
        (lambda a: a.delay(), ["Delay[a]"]),
        (lambda a: a.integrate(), ["Integrate(a)"]),
        (lambda a: a.differentiate(), ["Differentiate(a)"]),
        (lambda a: a.integrate().delay(), ["Integrate(a)", "Delay[Integrate]"]),
    ],
)
@pytest.mark.parametrize("stage", list(Stage))
def test_delay_integral_and_difference_commute_with_each_other(
    build: Callable[[Stream], Stream], nodes: list[str], stage: Stage
) -> None:
    """They are linear and the same at all times, so each is its own incremental form."""
    circuit = Circuit("time")
    circuit.output("out", build(circuit.input("a", schema=PAIR)))
    assert sorted(parts(incremental_circuit(circuit)[0])[1:-2]) == sorted(nodes)
    operator, sequence = nodes, [{(1, 2): 2, (3, 4): -1}, {}, {(1, 2): -1}, {(5, 5): 1}]
    given: list[Z] = [{}]
    delayed: Z = {}
    whole: Z = {}
    run = circuit.start(stage)
    for delta in sequence:
        lines = run.step({"a": delta})["out"].to_dict()
        before, whole = whole, reference.add(whole, delta)
        expected: Z = {
            1: {"Delay[a]": delayed, "Integrate(a)": whole, "Differentiate(a)": minus(delta, given[-1])},
            2: {"Integrate(a)": before},
        }[len(operator)][operator[0]]
        assert lines == expected
        delayed = delta
        given.append(delta)


def test_a_cycle_is_incrementalised_inside() -> None:
    circuit = Circuit("cycle")
    a = circuit.input("a", schema=PAIR)
    before = circuit.feedback(PAIR)
    reached = (a + before.join(a, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")).distinct()
    circuit.connect(before, reached)
    circuit.output("out", reached)
    graph, applications = incremental_circuit(circuit)
    assert [application.law.name for application in applications] == [
        "source",
        "delay",
        "bilinear",
        "linear",
        "linear",
        "distinct",
        "output",
    ]
    cycle = next(
        node for node in graph.nodes if node.strict and not node.inputs and node.schema.names == ("x", "y")
    )
    assert cycle.label == "Delay"
    assert [stream.node.label for stream in cycle.strict] == ["Change of Distinct"]


# --- scopes ---------------------------------------------------------------------------------------


def scoped() -> Circuit:
    circuit = Circuit("scope")
    a = circuit.input("a", schema=PAIR)
    with circuit.fixpoint("least") as scope:
        far = scope.variable("far", PAIR)
        step = far.join(a, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        outside = a.distinct().filter(X != Y)  # independent of the scope: incremental outside of it
        scope.define(far, (outside + step).group_by("x").agg(y=col("y").max()).map(x=X, y=Y).distinct())
    circuit.output("out", scope.leave(far))
    return circuit


def test_laws_inside_a_scope() -> None:
    graph, applications = incremental_circuit(scoped())
    applied = [(application.law.name, application.node.partition(" ")[0]) for application in applications]
    assert ("nested", "Join") in applied
    assert ("nested", "Aggregate") in applied
    assert applied.count(("nested", "Distinct")) == 1
    assert ("distinct", "Distinct") in applied  # the node that reads only the input
    assert ("fixpoint", "Fixpoint") in applied
    (body,) = (child for node in graph.nodes for child in node.operator.children())
    labels = [node.label for node in body.nodes]
    assert [text for text in labels if text.startswith("Change of ")] == [
        "Change of Join",
        "Change of Aggregate y",
        "Change of Distinct",
    ]
    assert labels.count("Delta0") == 2
    assert not {"Integrate", "Distinct", "Join"} & set(labels)


@settings(max_examples=examples(25))
@given(ticks({"a": rows(small, small)}, max_ticks=4))
def test_the_laws_of_scopes_agree_with_recomputation(sequence: list[Tick]) -> None:
    def body(a: Z) -> Callable[[dict[str, Z]], dict[str, Z]]:
        start = reference.select(reference.distinct(a), lambda row: row[0] != row[1])

        def step(now: dict[str, Z]) -> dict[str, Z]:
            longer = reference.join(now["far"], a, [(1, 0)], [(0, 0), (1, 1)])
            grown = reference.aggregate(reference.add(start, longer), [0], [(reference.largest, 1)])
            return {"far": reference.distinct(grown)}

        return step

    run = Run(incremental_circuit(scoped())[0])
    inputs: dict[str, Z] = {"a": {}}
    for tick in sequence:
        following = dict(inputs)
        apply(following, tick)
        try:
            expected = reference.fixpoint(body(following["a"]), ["far"], 60)["far"]
        except reference.NoFixpoint:
            return  # the largest value may oscillate without end
        inputs = following
        run.step(tick)
        assert view(run) == expected


# --- the record -----------------------------------------------------------------------------------


def test_every_law_has_an_equation_and_a_reference() -> None:
    assert {case.law for case in CASES.values()} | {
        "source",
        "output",
        "delay",
        "nested",
        "fixpoint",
    } <= set(LAWS)
    for name, law in LAWS.items():
        assert law.name == name
        assert "D(" in law.equation
        assert "arXiv" in law.reference
        assert law.apply.__doc__


def test_an_application_names_its_law_operator_and_line() -> None:
    circuit = Circuit("lines")
    a = circuit.input("a", schema=PAIR)
    joined = a.filter(X > 0).join(a, on=["x"])
    line = joined.node.source
    circuit.output("out", joined.group_by("y").agg(n=count(), t=col("x").sum()))
    lines = [str(application) for application in incremental_circuit(circuit)[1]]
    assert [text.split()[0] for text in lines] == [
        "source",
        "linear",
        "bilinear",
        "linear",
        "aggregate",
        "output",
    ]
    assert lines[2] == f"bilinear   Join at {line}:  D(a x b) = D(a) x z^-1(I(D(b))) + I(D(a)) x D(b)"


def test_the_command_names_law_operator_and_line_of_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.dl"
    program.write_text(
        ".decl e(x: number, y: number)\n.input e\n.decl p(x: number, y: number)\n.output p\n"
        "p(x, y) :- e(x, y), !e(y, x).\np(x, z) :- p(x, y), e(y, z).\n"
    )
    with pytest.raises(SystemExit) as stopped:
        main(["check", str(program), "--ticks", "3", "--rules"])
    assert not stopped.value.code
    applied = [line.split() for line in capsys.readouterr().out.splitlines()[:-1]]
    places = {(words[0], words[1]): words[3] for words in applied if words[2] == "at"}
    assert places["nested", "Join"].startswith(f"{program}:6:")
    assert places["antijoin", "Antijoin"].startswith(f"{program}:5:")
    assert ("fixpoint", "Fixpoint") in places
