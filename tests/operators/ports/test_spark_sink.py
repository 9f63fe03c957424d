"""SparkSink: what the table of a tick holds. Without Spark: the table is an Arrow table."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from dbsp import Circuit, CircuitError, InputError, Run, Schema, SchemaError, ZSet
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.streams.spark_pair import bind_ports

SCHEMA = Schema.of(x=int, s=str)


def no_view() -> ZSet:
    raise AssertionError("the view is not looked at")


def delta() -> ZSet:
    return ZSet({(1, "a"): 2, (2, "b"): -1, (3, "c"): 1}, SCHEMA)


def test_weights() -> None:
    table = SparkSink("out").table(delta(), no_view)
    assert table.column_names == ["x", "s", "weight"]
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == [(1, "a", 2), (2, "b", -1), (3, "c", 1)]
    assert SparkSink("out", column="n").table(delta(), no_view).column_names == ["x", "s", "n"]


def test_operations_take_away_first_and_repeat_rows() -> None:
    table = SparkSink("out", encoding="operations").table(delta(), no_view)
    rows = list(zip(*table.to_pydict().values(), strict=True))
    assert rows[0] == (2, "b", "delete")
    assert sorted(rows[1:]) == [(1, "a", "insert"), (1, "a", "insert"), (3, "c", "insert")]


def test_the_view_is_what_there_is_now() -> None:
    sink = SparkSink("out", encoding="view")
    view = ZSet({(1, "a"): 2, (3, "c"): 1}, SCHEMA)
    rows = sorted(zip(*sink.table(delta(), lambda: view).to_pydict().values(), strict=True))
    assert rows == [(1, "a"), (1, "a"), (3, "c")]
    with pytest.raises(InputError, match="sink 'out': the view has rows with negative weight"):
        sink.table(delta(), delta)


@pytest.mark.parametrize("encoding", ["append", "view", "operations"])
def test_rows_that_no_table_can_repeat(encoding: str) -> None:
    many = ZSet({(x, "a"): 2**62 for x in range(4)}, SCHEMA)
    with pytest.raises(InputError, match="more rows than a table can have"):
        SparkSink("out", encoding=encoding).table(many, lambda: many)


@pytest.mark.parametrize("encoding", ["weight", "operations"])
def test_a_source_reads_what_a_sink_wrote(encoding: str) -> None:
    table = SparkSink("out", encoding=encoding).table(delta(), no_view)
    source = SparkSource("in", SCHEMA, encoding=encoding)
    circuit = Circuit("again")
    circuit.output("out", circuit.input("in", schema=SCHEMA))
    assert circuit.start().step({"in": source.change(table)})["out"].to_dict() == delta().to_dict()


def test_objects_get_the_requested_type() -> None:
    zset = ZSet({(Decimal("1.50"), (1, 2)): 1}, Schema.of(d=Decimal, xs=tuple))
    types = {"d": pa.decimal128(10, 2), "xs": pa.list_(pa.int32())}
    table = SparkSink("out").table(zset, no_view, types)
    assert table.schema.types[:2] == list(types.values())
    assert table.to_pylist() == [{"d": Decimal("1.50"), "xs": [1, 2], "weight": 1}]
    with pytest.raises(
        SchemaError, match="column 'xs': the objects cannot be converted to the Arrow type int64"
    ):
        SparkSink("out").table(zset, no_view, {"xs": pa.int64()})


def test_the_circuit_runs_as_before_in_every_stage() -> None:
    def started(stage: str, bound: bool) -> Run:
        circuit = Circuit("sums")
        circuit.output("out", circuit.input("in", x=int, y=int).select("x").distinct())
        if bound:
            circuit = bind_ports(circuit, [SparkSink("out", encoding="operations")])
        return circuit.start(stage)

    for stage in ("query", "incremental", "physical", "distributed"):
        bound, plain = started(stage, True), started(stage, False)
        for change in ({(1, 2): 1, (1, 3): 1}, {(1, 2): -1}, {(1, 3): -1}):
            assert bound.step({"in": change})["out"].to_dict() == plain.step({"in": change})["out"].to_dict()
        assert any(node.label == "SparkSink out [operations]" for node in bound.graph.nodes)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"unknown encoding 'operation'; expected .*view; did you mean 'operations'.*unknown-encoding",
    ):
        SparkSink("out", encoding="operation")
    with pytest.raises(SchemaError, match="sink 'out': 'x' is a column of the output, so encoding='weight'"):
        SparkSink("out", SCHEMA, column="x")
    with pytest.raises(CircuitError, match="has no output 'out'"):
        bind_ports(Circuit("empty"), [SparkSink("out")])
