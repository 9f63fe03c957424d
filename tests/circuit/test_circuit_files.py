"""Errors of circuits that are written to a file or read from one: the exact text and the code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest

from dbsp import ArgumentError, Circuit, CircuitError, DbspError, SchemaError, from_json, from_networkx
from dbsp.circuit.value_json import encode
from dbsp.expressions import Expression

HEADER = {"format": "dbsp circuit", "version": 2, "form": "query", "name": "c"}
EDGE = Circuit("c").input("edge", x=int)

EDGE_NODE = {
    "operator": {
        "class": "Input",
        "fields": {"relation": "edge", "columns": {"schema": [["x", "int"]]}, "kind": "zset"},
    },
    "inputs": [],
}
MAP = {
    "class": "Map",
    "fields": {
        "expressions": [{"functor": "f", "types": ["str", "int"], "arguments": [{"column": "x"}]}],
        "names": ["n"],
    },
}


def read(**changes: Any) -> Any:
    """Read a circuit from a document with these changes."""
    return from_json(json.dumps(HEADER | changes))


def node(operator: Any) -> dict[str, Any]:
    """A document with one node."""
    return {"nodes": [{"operator": operator, "inputs": []}]}


def scope_inside(circuit: Circuit) -> Any:
    """The nested scope of a circuit."""
    edge = circuit.input("edge", x=int)
    with circuit.fixpoint("f") as scope:
        scope.define(scope.variable("v", {"x": int}), edge)
    return next(child for node in circuit.nodes for child in node.operator.children())


class Unknown(Expression):
    """An expression of a class that JSON circuits do not have."""

    def __repr__(self) -> str:
        return "unknown"


CASES: list[tuple[Callable[[], Any], type[DbspError], str]] = [
    (
        lambda: from_json(3),  # type: ignore[arg-type]
        ArgumentError,
        "text: expected the JSON text of a circuit, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: from_networkx(3),
        ArgumentError,
        "graph: expected a networkx.MultiDiGraph, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: from_networkx(nx.MultiDiGraph()),
        CircuitError,
        "expected a graph from circuit.to_networkx(), got one without the attribute 'name' "
        "[invalid-circuit-file]",
    ),
    (
        lambda: from_json("{"),
        CircuitError,
        "expected JSON, got '{': Expecting property name enclosed in double quotes: line 1 column 2 (char 1) "
        "[invalid-circuit-file]",
    ),
    (
        lambda: from_json("[]"),
        CircuitError,
        'expected a JSON object with "format": "dbsp circuit", as circuit.to_json() writes it '
        "[invalid-circuit-file]",
    ),
    (
        lambda: read(version=1),
        CircuitError,
        "expected a circuit of version 2, got version 1; write it again with this version of dbsp "
        "[invalid-circuit-file]",
    ),
    (lambda: read(), CircuitError, "the circuit is incomplete: 'nodes' missing [invalid-circuit-file]"),
    (
        lambda: read(nodes=[{}]),
        CircuitError,
        "the circuit 'c' cannot be read: KeyError: 'operator' [invalid-circuit-file]",
    ),
    (
        lambda: read(**node("x")),
        CircuitError,
        "node 0: expected an operator, got a value of type str [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": "Distinkt", "fields": {}})),
        CircuitError,
        "unknown operator 'Distinkt'; did you mean 'Distinct'? [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": "Distinct", "fields": {"n": 1}})),
        CircuitError,
        "Distinct does not have the fields n: Distinct.__init__() got an unexpected keyword argument 'n' "
        "[invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"a": 1, "b": 2})),
        CircuitError,
        "unknown kind of value with the keys a, b [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"function": "json:nothing"})),
        CircuitError,
        "'json:nothing' cannot be imported: module 'json' has no attribute 'nothing' [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"literal": {"scope": {}}})),
        CircuitError,
        "expected a plain value, got a nested scope [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"functor": "f", "types": ["int"], "arguments": []})),
        CircuitError,
        "the circuit calls the functor 'f', whose function is not in the file; pass it, as in "
        'from_json(text, functors={"f": function}) [invalid-circuit-file]',
    ),
    (
        lambda: from_json(
            json.dumps(HEADER | {"nodes": [EDGE_NODE, {"operator": MAP, "inputs": [0]}]}),
            functors={"f": lambda n: n},
        ),
        SchemaError,
        'Map: @f(col("x")): @f expects (str), got col("x") (int) [wrong-type]',
    ),
    (
        lambda: encode([1]),
        CircuitError,
        "[1] of type list cannot be written as JSON [not-serialisable]",
    ),
    (
        lambda: encode(Unknown()),
        CircuitError,
        "the expression unknown of type Unknown cannot be written as JSON [not-serialisable]",
    ),
    (
        lambda: scope_inside(Circuit("c")).to_json(),
        CircuitError,
        "expected a circuit, got the nested scope 'f'; write the circuit around it [scope-misuse]",
    ),
    (
        lambda: Circuit("c").entering(EDGE),
        CircuitError,
        "expected a nested scope, got the circuit 'c' [scope-misuse]",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), CASES, ids=[text for _, _, text in CASES])
def test_an_error_says_what_is_wrong_and_names_its_cause(
    call: Callable[[], Any], error: type[DbspError], text: str
) -> None:
    with pytest.raises(DbspError) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == text


def filtered(function: Any) -> Circuit:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int).filter(function))
    return circuit


def test_a_function_without_a_name_to_import_is_not_written() -> None:
    advice = "define it with def at the top level of a module [not-serialisable]"
    cases = [
        (lambda row: True, "since it has no name by which it can be imported"),
        (namesake, "since 'tests.circuit.test_circuit_files:other' is another object"),
    ]
    for function, reason in cases:
        with pytest.raises(CircuitError, match=rf"Filter at .*{reason}; {re.escape(advice)}$"):
            filtered(function).to_json()
    namesake.__module__ = "__main__"
    with pytest.raises(CircuitError, match=r"since it is defined in the main script; define it"):
        filtered(namesake).to_json()


def namesake(row: Any) -> bool:
    return True


namesake.__qualname__ = "other"


def test_a_stream_from_inside_does_not_enter() -> None:
    scope = scope_inside(Circuit("c"))
    entered = [stream.node for stream in scope.entered.values()]
    inner = next(scope.stream_class(node) for node in scope.nodes if node not in entered)
    with pytest.raises(CircuitError, match=r"expected a stream that enters scope 'f' from outside \[scope-"):
        scope.outer_of(inner)
