"""A node is checked against its inputs: the errors of circuits built by hand and read from JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dbsp import Circuit, CircuitError, DbspError, Run, Schema, SchemaError, col, count, from_json
from dbsp.circuit.operator import Operator
from dbsp.operators.groups.ranking import Rank, TopK
from dbsp.operators.joins.band import Band
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.range_join import RangeJoin
from dbsp.operators.joins.semijoin import Antijoin
from dbsp.operators.joins.semijoin_terms import SemijoinTerms
from dbsp.operators.linear.filter import FilterFunction
from dbsp.operators.linear.pad import Pad
from dbsp.operators.linear.project import Project
from dbsp.operators.linear.sample import Sample
from dbsp.operators.linear.union import Union, Widen
from dbsp.operators.ports.constant import Constant
from dbsp.operators.ports.input import Input
from dbsp.operators.time.nested import Nested
from dbsp.operators.traces.arrange import Arrange

SCHEMA = Schema.of(x=int, y=int)
OTHER = Schema.of(x=int, s=str)


def placed(operator: Operator, inputs: int = 1) -> Any:
    """Place an operator over inputs with the columns (x: int, y: int)."""
    circuit = Circuit("c")
    with circuit.at("here.py:1"):
        return circuit.add(operator, *(circuit.input(f"a{i}", schema=SCHEMA) for i in range(inputs)))


CASES: list[tuple[Operator, int, str]] = [
    (
        Project((0, 2), ("x", "z")),
        1,
        "Project at here.py:1: columns: expected a column from 0 to 1 of "
        "(x: int, y: int), got 2 [unknown-column]",
    ),
    (
        Project((-1,), ("x",)),
        1,
        "Project at here.py:1: columns: expected a column from 0 to 1 of "
        "(x: int, y: int), got -1 [unknown-column]",
    ),
    (Project((0,), ("x",)), 2, "Project at here.py:1: expected 1 input, got 2 [wrong-arity]"),
    (
        Join((0,), (0,), (0, -3), ("x", "y")),
        2,
        "Join at here.py:1: columns: expected a column from 0 to 1 of "
        "(x: int, y: int), got 2 of input 1 [unknown-column]",
    ),
    (
        Join((0, 1), (0,), (0,), ("x",)),
        2,
        "Join at here.py:1: expected keys of the same number of columns, got (0, 1) and (0,) [wrong-arity]",
    ),
    (
        TopK((0, 0), ((1, False),), 1),
        1,
        "TopK at here.py:1: partition: column 0 occurs twice [duplicate-column]",
    ),
    (
        TopK((), ((2, True),), 1),
        1,
        "TopK at here.py:1: order: expected a column from 0 to 1 of (x: int, y: int), got 2 [unknown-column]",
    ),
    (
        TopK((), ((1, True),), 0),
        1,
        "TopK at here.py:1: k: expected a number from 1 to 9223372036854775807, got 0 [invalid-argument]",
    ),
    (
        Rank((), ((1, True),), "size", ("x", "y", "n")),
        1,
        "Rank at here.py:1: kind: expected one of 'rank', "
        "'dense_rank', 'row_number', got 'size' [invalid-argument]",
    ),
    (
        Sample(float("nan"), 0, (0,)),
        1,
        "Sample at here.py:1: fraction: expected a number from 0 to 1, got nan [invalid-argument]",
    ),
    (
        FilterFunction(bool, over=OTHER),
        1,
        "Filter at here.py:1: over: expected the types of (x: int, y: int), "
        "got (x: int, s: str) [schema-mismatch]",
    ),
    (
        Arrange((1,)),
        1,
        "Arrange at here.py:1: expected an order of all columns of (x: int, y: int), got (1,) [wrong-arity]",
    ),
    (Widen(OTHER.types), 1, "Widen at here.py:1: expected int or int?, got str [schema-mismatch]"),
    (
        Pad((0, None), (), ("x", "y")),
        1,
        "Pad at here.py:1: expected a column or None, a type and a name for "
        "each output column, got 2, 0 and 2 [wrong-arity]",
    ),
    (
        RangeJoin((), (), 0, 0, Band(True, 0.5, None), (0,), ("x",)),
        2,
        "RangeJoin at here.py:1: expected a "
        "range of type int, got Band(floats=True, low=0.5, high=None) [invalid-range]",
    ),
    (
        DeltaSemijoin(True, 1, (0, 1), ("x", "y"), True),
        2,
        "Semijoin at here.py:1: expected 1 key column as the right input and in the left one, got "
        "(x: int, y: int) and (x: int, y: int) [wrong-arity]",
    ),
    (
        DeltaSemijoin(False, 2, (0, 2), ("x", "y"), True),
        2,
        "Antijoin at here.py:1: columns: expected a column from 0 to 1 of "
        "(x: int, y: int), got 2 [unknown-column]",
    ),
    (
        DeltaSemijoin(False, 2, (0, 1), ("x", "y"), True, realign=(0, 0)),
        2,
        "Antijoin at here.py:1: expected numbers of the 2 key columns, got () and (0, 0) [unknown-column]",
    ),
    (
        DeltaSemijoin(False, 2, (0, 1), ("x", "y"), True),
        2,
        "Antijoin at here.py:1: expected an arrangement, got Input at here.py:1 [invalid-circuit-file]",
    ),
    (
        SemijoinTerms(Antijoin((0,), (0,))),
        2,
        "SemijoinTerms at here.py:1: expected the terms of Antijoin, got Input at here.py:1 and Input at "
        "here.py:1 [invalid-circuit-file]",
    ),
    (
        Nested(Project((0,), ("x",))),
        1,
        "Nested at here.py:1: expected a nested scope, got the circuit [scope-misuse]",
    ),
]


@pytest.mark.parametrize(("operator", "inputs", "text"), CASES, ids=[text for _, _, text in CASES])
def test_an_operator_is_checked_where_it_is_placed(operator: Operator, inputs: int, text: str) -> None:
    with pytest.raises((SchemaError, CircuitError)) as caught:
        placed(operator, inputs)
    assert str(caught.value) == text


SOURCES: list[tuple[Operator, str]] = [
    (Union(), "Union at here.py:1: expected 1 or more inputs, got 0 [wrong-arity]"),
    (
        Input("a", SCHEMA, "sets"),
        "Input at here.py:1: expected one of 'zset', 'set', 'key', 'external', got 'sets' [invalid-argument]",
    ),
    (
        Input("a", SCHEMA, "key", (2,)),
        "Input at here.py:1: expected a column from 0 to 1 of (x: int, y: int), got 2 [unknown-column]",
    ),
    (
        Input("a", SCHEMA, "key"),
        "Input at here.py:1: expected key columns for kind 'key' and for no other, got "
        "kind 'key' and the key () [missing-key]",
    ),
    (
        Constant((((1, 2), 2**63),), SCHEMA),
        "Constant at here.py:1: expected a weight of 64 bits, got 9223372036854775808 [weight-overflow]",
    ),
]


@pytest.mark.parametrize(("operator", "text"), SOURCES, ids=[text for _, text in SOURCES])
def test_a_source_is_checked(operator: Operator, text: str) -> None:
    circuit = Circuit("c")
    with pytest.raises(DbspError) as caught, circuit.at("here.py:1"):
        circuit.add_source(operator)
    assert str(caught.value) == text


# --- changed files --------------------------------------------------------------------------------


def joined() -> Circuit:
    circuit = Circuit("j")
    a, b = circuit.input("a", schema=SCHEMA), circuit.input("b", schema=SCHEMA, kind="set")
    circuit.output("out", a.join(b, on=["x"]).group_by("x").agg(n=count()))
    return circuit


def closure() -> Circuit:
    circuit = Circuit("r")
    edge = circuit.input("edge", x=int, y=int)
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", edge.schema)
        step = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (edge + step).distinct())
    circuit.output("path", scope.leave(path))
    return circuit


def node_of(document: Any, cls: str) -> Any:
    """The first node of a class, also in nested scopes."""
    for node in document["nodes"]:
        operator = node["operator"]
        if operator["class"] == cls:
            return node
        if operator["class"] == "Fixpoint":
            found = node_of(operator["fields"]["body"]["scope"], cls)
            if found is not None:
                return found
    return None


def scope_of(document: Any) -> Any:
    return node_of(document, "Fixpoint")["operator"]["fields"]["body"]["scope"]


def set_field(cls: str, name: str, value: Any) -> Callable[[Any], None]:
    return lambda document: node_of(document, cls)["operator"]["fields"].__setitem__(name, value)


def set_inputs(cls: str, *inputs: int, kind: str = "inputs") -> Callable[[Any], None]:
    return lambda document: node_of(document, cls).__setitem__(kind, list(inputs))


FILES: list[tuple[Callable[[], Circuit], str, Callable[[Any], None], str]] = [
    (
        joined,
        "query",
        set_inputs("Join", 0, -1),
        r"node 2 of 'j': expected the number of a node that is read "
        r"before, below 2, got -1 \[",
    ),
    (joined, "query", set_inputs("Join", 0, 2), r"below 2, got 2 \["),
    (joined, "query", set_inputs("Join", 0), r"node 2 of 'j', Join at .*: expected 2 inputs, got 1 \["),
    (
        joined,
        "query",
        set_field("Join", "left_key", [9]),
        r"node 2 of 'j', Join at .*: left_key: expected a "
        r"column from 0 to 1 of \(x: int, y: int\), got 9 \[",
    ),
    (joined, "query", set_field("Input", "relation", "b"), r"circuit 'j' already has an input 'b'"),
    (joined, "physical", set_field("Input", "relation", "b"), r"circuit 'j' already has an input 'b'"),
    (
        joined,
        "physical",
        set_inputs("DeltaJoin", 0, 1),
        r"Join at .*: expected an arrangement, got "
        r"Input at .* \[",
    ),
    (
        joined,
        "physical",
        set_inputs("Input", 0, kind="strict"),
        r"node 0 of 'j', Input.*expected a delay",
    ),
    (
        closure,
        "query",
        set_field("Leave", "index", 1),
        r"Leave at .*: expected the number of a result of a "
        r"scope, got 1 of Fixpoint at .*, which has 1 result \[",
    ),
    (
        closure,
        "query",
        set_field("Leave", "columns", {"schema": [["x", "str"], ["y", "int"]]}),
        r"Leave at .*: expected the columns \(x: int, y: int\), got \(x: str, y: int\) \[",
    ),
    (closure, "query", lambda d: scope_of(d).update(exports=[-1]), r"expected the number of a node .*got -1"),
    (
        closure,
        "query",
        lambda d: scope_of(d).update(entered=[]),
        r"Delta0.*: expected a "
        r"stream that enters the scope, got none \[",
    ),
    (
        closure,
        "query",
        lambda d: scope_of(d)["entered"].append([0, 0]),
        r"scope 'closure' twice",
    ),
    (
        closure,
        "query",
        set_inputs("Fixpoint"),
        r"Fixpoint at .*: expected the streams that enter the scope "
        r"'closure' as inputs, in their order \[",
    ),
]


@pytest.mark.parametrize(("source", "stage", "change", "pattern"), FILES, ids=range(len(FILES)))
def test_a_changed_file_is_refused(
    source: Callable[[], Circuit], stage: str, change: Callable[[Any], None], pattern: str
) -> None:
    document = json.loads(source().circuit(stage).to_json())
    change(document)
    with pytest.raises(CircuitError, match=pattern):
        from_json(json.dumps(document))


def test_an_output_without_its_integral_does_not_start() -> None:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", schema=SCHEMA).filter(col("x") > 1))
    document = json.loads(circuit.circuit("physical").to_json())
    del node_of(document, "Output")["inputs"][1]
    graph = from_json(json.dumps(document))
    with pytest.raises(CircuitError, match=r"Output at .*: expected a stream whose operator keeps"):
        Run(graph)
