"""Drawings and listings show the declared types of relations, and Datalog's types of variables."""

from __future__ import annotations

import dbsp
from dbsp.circuit.drawing import to_dot
from dbsp.circuit.graph import Graph
from dbsp.circuit.listing import to_text

TEXT = """\
.type Id <: unsigned
.type Shape = Box {w: unsigned} | Dot {}
.decl s(n: number, t: symbol, u: Id, f: float, b: Shape)
.input s
.decl r(n: Id, x: number, z: Shape)
.output r
r(u, c, b) :- s(k, "x", u, _, b), c = k + count : { s(3, _, u, _, _) }.
.decl q(u: Id)
.output q
q(u) :- s(_, _, u, _, _).
q(u + v) :- q(u), q(v), u < 9, v < 9.
"""


def listed(stage: str) -> list[str]:
    """The lines of the listing of a circuit without numbers of nodes and places."""
    text = to_text(dbsp.compile(TEXT).circuit(stage))
    return [line.strip().split("  ")[-2 if "[" in line else -1].strip() for line in text.split("\n")]


def test_a_listing_has_the_declared_types() -> None:
    lines = listed("query")
    relation = "(n: number, t: symbol, u: Id, f: float, b: Shape)"
    assert f"Input s: {relation}" in lines
    assert any(line.startswith("Filter col(\"t\") == 'x'") and line.endswith(relation) for line in lines)
    assert any(
        line.startswith("Output r") and line.endswith("(n: Id, x: number, z: Shape)") for line in lines
    )
    assert any(line.startswith("Delay q") and line.endswith("(u: Id)") for line in lines)


def test_variables_have_base_types() -> None:
    lines = listed("query")
    assert any(
        line.startswith("Join") and line.endswith("u: unsigned, b: Shape, #1: number)") for line in lines
    )


def test_no_stage_shows_types_of_the_engine() -> None:
    for stage in ("query", "incremental", "physical", "distributed"):
        circuit = dbsp.compile(TEXT).circuit(stage)
        for text in (to_text(circuit), to_dot(circuit), *nodes_of(circuit)):
            assert ": int" not in text
            assert ": str" not in text
            assert ": record" not in text


def nodes_of(circuit: Graph) -> list[str]:
    """The schemas of the nodes of a circuit in its networkx form."""
    return [schema for _, schema in circuit.to_networkx().nodes(data="schema")]


def test_a_circuit_from_json_has_the_types_of_the_engine() -> None:
    circuit = dbsp.compile(TEXT).circuit()
    read = dbsp.from_json(circuit.to_json())
    assert read.same_as(circuit)
    assert "Input s: (n: int, t: str, u: int, f: float, b: Shape)" in to_text(read)


def test_circuits_of_python_keep_their_types() -> None:
    circuit = dbsp.Circuit("shop")
    circuit.output("out", circuit.input("sale", item=str, price=int))
    assert "Input sale: (item: str, price: int)" in to_text(circuit)
