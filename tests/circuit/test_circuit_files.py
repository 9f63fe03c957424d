"""Errors of circuits that are written to a file or read from one: the exact text and the code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import dbsp
from dbsp import (
    ArgumentError,
    CheckpointError,
    Circuit,
    CircuitError,
    DbspError,
    Schema,
    from_json,
    from_networkx,
)
from dbsp.circuit.operator import Operator
from dbsp.circuit.value_json import MissingPartError, encode
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.expressions import Expression
from dbsp.operators.groups.distinct import Distinct

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


class Nameless:
    """A function without a name."""

    def __call__(self, row: Any) -> bool:
        return True

    def __repr__(self) -> str:
        return "<nameless>"


NODE = "node 0 of 'c': "

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
        NODE + "it cannot be read: KeyError: 'operator' [invalid-circuit-file]",
    ),
    (
        lambda: read(**node("x")),
        CircuitError,
        NODE + "expected an operator, got a value of type str [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": "Distinkt", "fields": {}})),
        CircuitError,
        NODE + "unknown operator 'Distinkt'; did you mean 'Distinct'? [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": "Distinct", "fields": {"n": 1}})),
        CircuitError,
        NODE
        + "Distinct does not have the fields n: Distinct.__init__() got an unexpected keyword argument 'n' "
        "[invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": "Scale", "fields": {"factor": "x"}})),
        CircuitError,
        NODE + "Scale.factor: expected int, got 'x' [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": "TopK", "fields": {"partition": [0], "order": [[0]], "k": 1}})),
        CircuitError,
        NODE + "TopK.order: expected tuple[tuple[int, bool], ...], got ((0,),) [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"a": 1, "b": 2})),
        CircuitError,
        NODE + "unknown kind of value with the keys a, b [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"function": "json:loads"})),
        MissingPartError,
        NODE
        + "the circuit calls the function 'json:loads', which was not passed; if you trust the circuit, pass "
        "the function, as in from_json(text, functions=[loads]) [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": "fractions:Fraction", "fields": {}})),
        MissingPartError,
        NODE
        + "the circuit has an operator of the class 'fractions:Fraction', which is not part of dbsp; if you "
        "trust the circuit, pass the class, as in from_json(text, operators=[Fraction]) "
        "[invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"class": ["Distinct"], "fields": {}})),
        CircuitError,
        NODE + "unknown operator ['Distinct'] [invalid-circuit-file]",
    ),
    (
        lambda: from_json("{}", functions=[3]),  # type: ignore[list-item]
        ArgumentError,
        "functions: expected a list of functions, or a mapping of their names, got 3 of type int "
        "[invalid-argument]",
    ),
    (
        lambda: from_json("{}", functions=len),  # type: ignore[arg-type]
        ArgumentError,
        "functions: expected a list of functions, or a mapping of their names, got <built-in function len> "
        "of type builtin_function_or_method [invalid-argument]",
    ),
    (
        lambda: from_json("{}", functions=[Nameless()]),
        ArgumentError,
        "functions: <nameless> has no name; pass a mapping of names to functions [invalid-argument]",
    ),
    (
        lambda: from_json("{}", operators=[int]),
        ArgumentError,
        "operators: expected a list of classes of operators, got <class 'int'> of type type "
        "[invalid-argument]",
    ),
    (
        lambda: from_json("{}", operators=Distinct),  # type: ignore[arg-type]
        ArgumentError,
        "operators: expected a list of classes of operators, got <class "
        "'dbsp.operators.groups.distinct.Distinct'> of type type [invalid-argument]",
    ),
    (
        lambda: read(**node({"literal": {"scope": {}}})),
        CircuitError,
        NODE + "expected a plain value, got a nested scope [invalid-circuit-file]",
    ),
    (
        lambda: read(**node({"functor": "f", "types": ["int"], "arguments": []})),
        MissingPartError,
        NODE + "the circuit calls the functor 'f', whose function is not in the file; pass it, as in "
        'from_json(text, functors={"f": function}) [invalid-circuit-file]',
    ),
    (
        lambda: from_json(
            json.dumps(HEADER | {"nodes": [EDGE_NODE, {"operator": MAP, "inputs": [0]}]}),
            functors={"f": lambda n: n},
        ),
        CircuitError,
        'node 1 of \'c\', Map: @f(col("x")): @f expects (str), got col("x") (int) [invalid-circuit-file]',
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


@dataclass(frozen=True)
class Doubled(Operator):
    """An operator of the user: every weight times two."""

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return lambda batch: Batch(batch.rows, batch.weights * 2)


def is_positive(row: Any) -> bool:
    return bool(row.x > 0)


def doubled() -> Circuit:
    circuit = Circuit("c")
    circuit.output("out", Doubled()(circuit.input("a", x=int).filter(is_positive)))
    return circuit


def test_a_circuit_names_only_what_the_caller_passes() -> None:
    text = doubled().to_json()
    with pytest.raises(CircuitError, match=r"calls the function '[\w.]+:is_positive', which was not passed"):
        from_json(text, operators=[Doubled])
    with pytest.raises(CircuitError, match=r"of the class '[\w.]+:Doubled', which is not part of dbsp"):
        from_json(text, functions=[is_positive])
    with pytest.raises(CircuitError, match=r"calls the function"):
        from_networkx(doubled().to_networkx(), operators=[Doubled])
    name = f"{__name__}:is_positive"
    copies = [
        from_json(text, functions=[is_positive], operators=[Doubled]),
        from_json(text, functions={name: is_positive, "other:f": len}, operators=[Doubled]),
        from_networkx(doubled().to_networkx(), functions=[is_positive], operators=[Doubled]),
    ]
    for copy in copies:
        assert isinstance(copy, Circuit)
        assert copy.start().step({"a": [(1,), (-1,)]})["out"].to_dict() == {(1,): 2}
    replaced = from_json(text, functions={name: lambda row: row.x < 0}, operators=[Doubled])
    assert isinstance(replaced, Circuit)
    assert replaced.start().step({"a": [(1,), (-1,)]})["out"].to_dict() == {(-1,): 2}


def test_reading_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not_imported.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for operator in ({"function": "not_imported:f"}, {"class": "not_imported:F", "fields": {}}):
        with pytest.raises(CircuitError, match="not_imported"):
            read(**node(operator))
    assert "not_imported" not in sys.modules


COPY = dbsp.compile(".decl a(x: number) .input a .output a\n.decl b(x: number) .output b\nb(x) :- a(x).")


def extended(program: dbsp.Program) -> Circuit:
    circuit = program.circuit_for(program.plans)
    circuit.output("positive", Doubled()(circuit.named["b"].filter(is_positive)))  # type: ignore[attr-defined]
    return circuit


def test_a_checkpoint_of_a_circuit_with_another_function_is_refused(tmp_path: Path) -> None:
    run = COPY.start({"a": [(1,)]}, circuit=extended(COPY), checkpoint=tmp_path)
    run.log.snapshot()  # type: ignore[union-attr]
    run.log.close()  # type: ignore[union-attr]
    with pytest.raises(CheckpointError) as caught:
        COPY.start(checkpoint=tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} is the checkpoint of a circuit with the function '{__name__}:is_positive', which the "
        "circuit to start does not have; start the circuit that wrote it, or choose another folder "
        "[checkpoint-other-program]"
    )
    again = COPY.start(circuit=extended(COPY), checkpoint=tmp_path)  # the folder was released
    assert again.view("positive").to_dict() == {(1,): 2}
    again.log.close()  # type: ignore[union-attr]


def test_a_program_with_a_function_continues_from_its_checkpoint(tmp_path: Path) -> None:
    program = COPY
    run = program.start({"a": [(1,), (-1,)]}, circuit=extended(program), checkpoint=tmp_path)
    run.log.snapshot()  # type: ignore[union-attr]
    run.log.close()  # type: ignore[union-attr]
    again = program.start(circuit=extended(program), checkpoint=tmp_path)
    assert again.view("positive").to_dict() == {(1,): 2}
    assert again.step({"a": [(2,)]})["positive"].to_dict() == {(2,): 2}
    again.log.close()  # type: ignore[union-attr]


def test_the_relations_of_a_program_keep_their_names() -> None:
    program = dbsp.compile("""
        .decl edge(x: number, y: number) .input edge
        .decl path(x: number, y: number) .output path
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
        .decl far(x: number) .output far
        far(x) :- path(x, _), !edge(x, _).
    """)
    for stage in ("query", "incremental", "physical"):
        circuit = program.circuit(stage)
        read = dbsp.from_json(circuit.to_json())
        assert read.named.keys() == circuit.named.keys() >= {"edge", "path"}
        for name, stream in circuit.named.items():
            found = read.named[name].node
            assert (found.id, found.graph.name) == (stream.node.id, stream.node.graph.name), name
        assert read.content_hash() == circuit.content_hash()


@pytest.mark.parametrize("place", [[], [99], [3, 0], [3, 1, 0], [0, 0, 0], "3", None])
def test_a_place_of_a_relation_that_does_not_exist_is_refused(place: Any) -> None:
    program = dbsp.compile(".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x).")
    written = json.loads(program.circuit("physical").to_json())
    written["names"]["b"] = place
    with pytest.raises(CircuitError, match=r"cannot be read.*\[invalid-circuit-file\]$"):
        dbsp.from_json(json.dumps(written))
