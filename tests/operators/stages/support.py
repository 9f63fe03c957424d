"""Queries before and after one optimiser pass: their shape, and equal results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbsp import Circuit, EvaluationError, Stream, col
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.prune import prune
from dbsp.operators.stages.circuit_stages import between_integrals
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
    """Return the shape after a pass and its changes; check that the results stay the same."""
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
    """Return the results of recomputing the circuit in every tick, or its error."""
    run, given = Run(between_integrals(graph)), []
    for tick in TICKS:
        try:
            given.append(deltas_of(run.step(tick)))
        except EvaluationError:
            given.append("refused")
    return given


def shape(graph: Graph) -> str:
    """Return the operators of a circuit as nested calls, from its only output."""

    def show(node: Node) -> str:
        label = node.label.removeprefix("Input ").replace('col("', "").replace('")', "")
        inputs = ", ".join(show(stream.node) for stream in node.inputs)
        return f"{label}({inputs})" if inputs else label

    (out,) = (node for node in graph.nodes if node.label == "Output out")
    return show(out.inputs[0].node)
