"""Bind the inputs and outputs of a circuit to DataFrames, and check the schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dbsp.circuit.graph import Node
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator import Operator
from dbsp.data.schema import suggestion
from dbsp.errors import CircuitError, DbspError, InputError, SchemaError
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.streams.builder import Circuit
from dbsp.runtime.run import Run
from dbsp.spark.spark_types import arrow_types, as_struct, check_fits, conform, schema_of, struct_of


def bind_ports(circuit: Circuit, ports: Iterable[SparkSource | SparkSink]) -> Circuit:
    """Return the circuit with these inputs and outputs in place of those with the same names.

    Further sinks of an output read the same stream. Raises CircuitError if an input or output does
    not exist, and SchemaError if its columns differ.
    """
    replaced: dict[Node, Operator] = {}
    further: list[tuple[Node, SparkSink]] = []
    for port in ports:
        base = Input if isinstance(port, Input) else Output
        node = _port(circuit, base, port)
        present = node.operator
        if isinstance(port, SparkSink) and port.columns is None and isinstance(present, Output):
            port = replace(port, columns=present.columns)
        if port.schema(*(stream.schema for stream in node.inputs)) != node.schema:
            given = port.schema(*(stream.schema for stream in node.inputs))
            raise SchemaError(
                f"expected the columns ({node.schema.describe()}), got ({given.describe()})",
                where=f"{base.__name__} {port.relation}",
                code="schema-mismatch",
            )
        if node in replaced and isinstance(port, SparkSink):
            further.append((node, port))
        else:
            replaced[node] = port
    bound, copy = _copy(circuit, lambda node: True, replaced)
    for node, sink in further:
        inputs = tuple(copy.image(stream.node) for stream in node.inputs)
        bound.append(sink, inputs, node.schema, node.source)
    return bound


def plain_ports(circuit: Circuit) -> Circuit:
    """Return the circuit with an Input for each SparkSource and one Output for all its sinks."""
    replaced: dict[Node, Operator] = {}
    names: set[str] = set()
    again: set[Node] = set()
    for node in circuit.nodes:
        operator = node.operator
        if isinstance(operator, SparkSource):
            replaced[node] = Input(operator.relation, operator.columns, operator.kind, operator.key)
        elif isinstance(operator, Output):
            if operator.relation in names:
                again.add(node)
            names.add(operator.relation)
            if isinstance(operator, SparkSink):
                replaced[node] = Output(operator.relation, operator.columns)
    return _copy(circuit, lambda node: node not in again, replaced)[0]


def _copy(
    circuit: Circuit, keeps: Callable[[Node], bool], replaced: Mapping[Node, Operator]
) -> tuple[Circuit, GraphCopy]:
    copied = Circuit(circuit.name)
    ports = {
        (isinstance(node.operator, Input), node.operator.relation)
        for node in circuit.nodes
        if isinstance(node.operator, Input | Output)
    }
    for is_input, relation in sorted(ports):
        copied.declare("input" if is_input else "output", relation)
    copy = GraphCopy(keeps, replaced)
    copy.fill(circuit, copied)
    return copied, copy


def _port(circuit: Circuit, base: type[Input | Output], port: SparkSource | SparkSink) -> Node:
    relation = port.relation
    found = [
        node
        for node in circuit.nodes
        if isinstance(node.operator, base) and node.operator.relation == relation
    ]
    for node in found:
        present = node.operator
        if isinstance(port, SparkSink) and isinstance(present, SparkSink) and present.sink == port.sink:
            return node
    if found:
        return found[0]
    kind = base.__name__.lower()
    known = [node.operator.relation for node in circuit.nodes if isinstance(node.operator, base)]
    raise CircuitError(
        f"circuit '{circuit.name}' has no {kind} '{relation}'{suggestion(relation, known)}",
        code="unknown-input" if base is Input else "unknown-output",
    )


def check_frame(source: SparkSource, struct: Any) -> None:
    """Raise SchemaError unless the source can read a DataFrame of that schema."""
    try:
        source.check(struct.names)
        columns = type(struct)([field for field in struct.fields if field.name in source.columns.names])
        schema_of(columns)
        check_fits(columns, source.columns)
    except DbspError as error:
        error.where = source.where
        raise


def sink_struct(operator: SparkSink, columns: Any) -> Any:
    """Return the Spark schema of a sink's tables: the output's columns, the weight or operation."""
    from pyspark.sql.types import LongType, StringType, StructType

    struct = StructType(list(as_struct(columns).fields))
    if operator.encoding == "weight":
        struct.add(operator.control, LongType(), nullable=False)
    elif operator.encoding == "operations":
        struct.add(operator.control, StringType(), nullable=False)
    return struct


def view_frame(session: Any, run: Run, output: str, sink_schema: Any = None) -> Any:
    """Return the view of an output as a DataFrame. Cost: O(v log v) for v rows.

    Parameters:
        session: the SparkSession of the DataFrame.
        run: the run.
        output: the name of the output.
        sink_schema: the Spark types (StructType or DDL) of columns with a choice of types; required
            for columns of objects.

    Returns:
        A DataFrame in which each row is repeated by its weight.

    Raises:
        InputError: the output does not exist, or a row of the view has a negative weight.
        SchemaError: a column of objects has no Spark type.

    Examples:
        >>> run = dbsp.compile(".decl r(x: number)\\n.output r\\nr(1).").start()
        >>> dbsp.spark.view_frame(dbsp.spark.session(), run, "r").collect()
        [Row(x=1)]
    """
    if output not in run.outputs:
        raise InputError(f"unknown output '{output}'{suggestion(output, run.outputs)}", code="unknown-output")
    schema = run.outputs[output]
    struct = struct_of(schema, sink_schema)
    table = SparkSink(output, schema, "view").table(
        run.view(output), lambda: run.view(output), arrow_types(struct)
    )
    return session.createDataFrame(conform(table, struct), struct)
