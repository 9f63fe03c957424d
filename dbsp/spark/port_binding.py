"""Binding the inputs and outputs of a circuit to DataFrames: which operators, and which schemas fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dbsp.circuit.graph import Node
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator import Operator
from dbsp.errors import CircuitError, DbspError, SchemaError
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.streams.builder import Circuit
from dbsp.runtime.run import Run
from dbsp.spark.spark_types import arrow_types, as_struct, check_fits, conform, schema_of, struct_of


def source_of(port: Any, encoding: str, column: str, key: tuple[str, ...], sequence_by: str) -> SparkSource:
    """The source that reads a micro-batch for an input (its operator, or its port in a run)."""
    columns, kind, keys = port.columns, port.kind, port.key
    if key:
        kind, keys = "key", columns.indices(key)
    return SparkSource(port.relation, columns, kind, keys, encoding, column, sequence_by)


def bind_ports(circuit: Circuit, ports: Iterable[SparkSource | SparkSink]) -> Circuit:
    """The circuit with these inputs and outputs in place of the ones with the same names.

    Raises CircuitError if there is no such input or output, and SchemaError if it has other columns.
    """
    replaced: dict[Node, Operator] = {}
    for port in ports:
        base = Input if isinstance(port, Input) else Output
        node = _port(circuit, base, port.relation)
        present = node.operator
        if isinstance(port, SparkSink) and port.columns is None and isinstance(present, Output):
            port = replace(port, columns=present.columns)
        if port.schema(*(stream.schema for stream in node.inputs)) != node.schema:
            raise SchemaError(
                f"it has the columns ({node.schema.describe()})", where=f"{base.__name__} {port.relation}"
            )
        replaced[node] = port
    bound = Circuit(circuit.name)
    for node in circuit.nodes:
        if isinstance(node.operator, Input | Output):
            bound.declare("input" if isinstance(node.operator, Input) else "output", node.operator.relation)
    GraphCopy(lambda node: True, replaced).fill(circuit, bound)
    return bound


def _port(circuit: Circuit, base: type[Input | Output], relation: str) -> Node:
    for node in circuit.nodes:
        if isinstance(node.operator, base) and node.operator.relation == relation:
            return node
    raise CircuitError(f"circuit '{circuit.name}' has no {base.__name__.lower()} '{relation}'")


def check_frame(source: SparkSource, struct: Any) -> None:
    """Raises SchemaError unless a DataFrame of that schema can be read by the source."""
    try:
        source.check(struct.names)
        columns = type(struct)([field for field in struct.fields if field.name in source.columns.names])
        schema_of(columns)
        check_fits(columns, source.columns)
    except DbspError as error:
        error.where = source.where
        raise


def sink_struct(operator: SparkSink, columns: Any) -> Any:
    """The Spark schema of a sink's tables: the columns of the output, and the weight or operation."""
    from pyspark.sql.types import LongType, StringType, StructType

    struct = StructType(list(as_struct(columns).fields))
    if operator.encoding == "weight":
        struct.add(operator.control, LongType(), nullable=False)
    elif operator.encoding == "operations":
        struct.add(operator.control, StringType(), nullable=False)
    return struct


def view_frame(session: Any, run: Run, output: str, sink_schema: Any = None) -> Any:
    """What an output of a run holds now, as a DataFrame of its rows. O(v log v) for v rows."""
    schema = run.outputs[output]
    struct = struct_of(schema, sink_schema)
    table = SparkSink(output, schema, "view").table(
        run.view(output), lambda: run.view(output), arrow_types(struct)
    )
    return session.createDataFrame(conform(table, struct), struct)
