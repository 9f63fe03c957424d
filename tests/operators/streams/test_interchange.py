"""Circuits to JSON and networkx and back: a circuit that was read equals the written one."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, datetime
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings

from dbsp import Circuit, CircuitError, Run, Schema, Stream, col, from_json, from_networkx, lit
from dbsp.circuit.graph import Graph
from dbsp.circuit.named_parts import functions_by_name
from dbsp.circuit.stage import Stage
from dbsp.circuit.value_json import DecodeContext, decode, encode
from dbsp.data.types import FLOAT
from dbsp.operators.streams.circuit_reader import catalogue
from tests.harness import deltas_of
from tests.profiles import examples
from tests.random_circuits import COLUMNS, FUNCTIONS, Choices, build, choices, is_small
from tests.strategies import Tick, nullable, rows, small, ticks, words

ROW = rows(small, nullable, words)
FEW_TICKS = ticks({"a": ROW, "b": ROW}, max_ticks=3, max_size=4)


def closure() -> Circuit:
    circuit = Circuit("closure")
    edge = circuit.input("edge", x=int, y=int, kind="set")
    with circuit.fixpoint("path", max_iterations=50) as scope:
        path = scope.variable("path", edge.schema)
        step = path.join(edge, on=[("y", "x")], select=["x", "y_right"])
        scope.define(path, (edge + step.rename(y="y_right")).distinct())
    circuit.output("path", scope.leave(path))
    return circuit


def start(graph: Graph) -> Run:
    return graph.start() if isinstance(graph, Circuit) else Run(graph)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(choices(), FEW_TICKS)
def test_a_round_trip_keeps_the_results_in_every_stage(chosen: Choices, sequence: list[Tick]) -> None:
    circuit = build(chosen)
    copies = [
        from_json(circuit.to_json(), functions=FUNCTIONS),
        from_networkx(circuit.to_networkx(), functions=FUNCTIONS),
    ]
    for copy in copies:
        assert isinstance(copy, Circuit)
        assert copy.same_as(circuit)
    expected: list[Any] = []
    for stage in Stage:
        lowered = circuit.circuit(stage)
        again = from_json(lowered.to_json(), functions=FUNCTIONS)
        assert again.content_hash() == lowered.content_hash()
        assert from_networkx(lowered.to_networkx(), functions=FUNCTIONS).same_as(lowered)
        runs = [circuit.start(stage), *(copy.start(stage) for copy in copies if isinstance(copy, Circuit))]
        if stage is not Stage.QUERY:
            runs.append(start(again))
        for number, tick in enumerate(sequence):
            answers = [deltas_of(run.step(tick)) for run in runs]
            expected += answers[:1] if stage is Stage.QUERY else []
            assert all(answer == expected[number] for answer in answers), stage


@given(choices())
def test_equal_circuits_have_equal_hashes_and_others_do_not(chosen: Choices) -> None:
    circuit = build(chosen)
    assert circuit.same_as(build(chosen))
    assert not circuit.same_as(build([*chosen, ("distinct", 0, 0)]))


def test_the_hash_does_not_depend_on_the_source_lines() -> None:
    one, other = closure(), closure()
    with other.at("elsewhere.py:7"):
        other.output("again", other.input("more", x=int))
    with one.at("here.py:1"):
        one.output("again", one.input("more", x=int))
    assert one.same_as(other)
    assert one.to_json() != other.to_json()
    script = "from tests.operators.streams.test_interchange import closure; print(closure().content_hash())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == closure().content_hash()


def test_the_stages_are_different_circuits() -> None:
    assert len({closure().circuit(stage).content_hash() for stage in Stage}) == 4


def test_every_cycle_in_networkx_passes_a_strict_edge() -> None:
    circuit = closure()
    graph = circuit.to_networkx()
    assert graph.graph == {"name": "closure", "form": "query"}
    by_label = {at["label"]: name for name, at in graph.nodes(data=True)}
    scope = by_label["Fixpoint path"]
    assert graph.nodes[by_label["Delay path"]]["scope"] == scope
    join = next(name for name, at in graph.nodes(data=True) if at["operator"] == "Join")
    assert graph.nodes[join]["schema"] == "x: int, y_right: int"
    assert graph.nodes[join]["source"].startswith("test_interchange.py:")
    ports = {at["port"]: n for n, _, at in graph.in_edges(join, data=True)}
    assert graph.nodes[ports[0]]["label"] == "Delay path"
    assert graph.nodes[ports[1]]["operator"] == "Delta0"
    kinds = {at["kind"] for _, _, at in graph.edges(data=True)}
    assert kinds == {"stream", "enter", "leave"}
    strict = [(n, m) for n, m, at in graph.edges(data=True) if at["strict"]]
    assert [graph.nodes[m]["label"] for _, m in strict] == ["Delay path"]
    assert not nx.is_directed_acyclic_graph(graph)
    loose = nx.MultiDiGraph((n, m) for n, m, at in graph.edges(data=True) if not at["strict"])
    assert nx.is_directed_acyclic_graph(loose)
    assert "\n".join(nx.generate_graphml(graph)).startswith("<graphml")
    for stage in Stage:
        lowered = circuit.circuit(stage)
        assert lowered.to_networkx().number_of_nodes() == sum(1 for _ in lowered.walk())


def test_nodes_may_be_relabelled() -> None:
    graph = nx.relabel_nodes(closure().to_networkx(), lambda name: name)
    assert from_networkx(graph).same_as(closure())


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        1.0,
        2**63,
        float("inf"),
        float("nan"),
        "é\n",
        b"\x00\xff",
        date(2024, 2, 29),
        datetime(2024, 1, 1, 12, 30, 0, 5),
        (1, ("a", (True, 1.0)), ()),
        FLOAT.optional(),
        Schema.of(x=int | None, y=tuple),
        len,
        str.upper,
    ],
)
def test_values_survive_a_round_trip(value: Any) -> None:
    written = json.loads(json.dumps(encode(value)))
    again = decode(written, DecodeContext(catalogue(), functions_by_name([len, str.upper])))
    assert type(again) is type(value)
    assert again == value or repr(again) == repr(value)


def test_expressions_survive_a_round_trip() -> None:
    expression = (col("x") + lit(1.5, FLOAT)).fill_null(0) > col("y").length() * -2
    again = decode(json.loads(json.dumps(encode(expression))), DecodeContext(catalogue()))
    assert expression.same_as(again)


def test_a_function_without_a_name_is_refused() -> None:
    def local(row: Any) -> bool:
        return bool(row.x)

    def circuit(function: Any) -> Circuit:
        circuit = Circuit("c")
        circuit.output("out", circuit.input("a", schema=COLUMNS).filter(function))
        return circuit

    advice = r"define it with def at the top level of a module \[not-serialisable\]"
    for function in (lambda row: True, local):
        with pytest.raises(CircuitError, match=rf"Filter at test_interchange.py:\d+: .*{advice}"):
            circuit(function).to_json()
    graph = circuit(lambda row: True).to_networkx()  # can be inspected,
    with pytest.raises(CircuitError, match="cannot be imported by its name"):
        from_networkx(graph)  # but not read again
    assert "tests.random_circuits:is_small" in circuit(is_small).to_json()


def test_what_is_not_a_circuit_is_refused() -> None:
    with pytest.raises(CircuitError, match="expected JSON, got"):
        from_json("{")
    with pytest.raises(CircuitError, match="expected a JSON object with"):
        from_json("[]")
    written = json.loads(closure().to_json())
    with pytest.raises(CircuitError, match="expected a circuit of version 2, got version 99"):
        from_json(json.dumps(written | {"version": 99}))
    text = closure().to_json()
    with pytest.raises(CircuitError, match=r"unknown operator 'Distinkt'; did you mean 'Distinct'\?"):
        from_json(text.replace('"Distinct"', '"Distinkt"'))
    with pytest.raises(CircuitError, match=r"of the class 'json:nothing', which is not part of dbsp"):
        from_json(text.replace('"Distinct"', '"json:nothing"'))
    with pytest.raises(CircuitError, match="expected a circuit, got the nested scope"):
        next(child for node in closure().nodes for child in node.operator.children()).to_json()


def test_operators_have_different_names() -> None:
    found = catalogue()
    assert {"Join", "Fixpoint", "TopK", "Quantile", "Aggregate", "DeltaJoin"} <= set(found)
    assert all(cls.__qualname__ == name for name, cls in found.items())


def test_a_circuit_that_was_read_can_be_extended() -> None:
    circuit = from_json(closure().to_json())
    assert isinstance(circuit, Circuit)
    more = circuit.input("more", x=int)
    assert isinstance(more, Stream)
    with pytest.raises(CircuitError, match="already has an input 'edge'"):
        circuit.input("edge", x=int)


def test_a_circuit_of_an_earlier_format_is_refused_by_its_number() -> None:
    written = json.loads(closure().to_json())
    written["version"] = 1
    with pytest.raises(
        CircuitError, match=r"^expected a circuit of version 2, got version 1; write it again"
    ):
        from_json(json.dumps(written))
