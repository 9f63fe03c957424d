"""Put the Spark pair in place of the inputs and outputs of a circuit, and take it away again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from dbsp.circuit.graph import Node
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator import Operator
from dbsp.data.schema import suggestion
from dbsp.errors import CircuitError, SchemaError
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.streams.builder import Circuit


def bind_ports(circuit: Circuit, ports: Iterable[SparkSource | SparkSink]) -> Circuit:
    """Return the circuit with these inputs and outputs in place of those with the same names.

    Further sinks of an output read the same stream. Raises CircuitError if an input or output does
    not exist, and SchemaError if its columns differ.
    """
    replaced: dict[Node, Operator] = {}
    further: list[tuple[Node, SparkSink]] = []
    for port in ports:
        base = Input if isinstance(port, Input) else Output
        node = _port(circuit, base, port.relation, port.sink if isinstance(port, SparkSink) else "")
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
    copied = Circuit(circuit.name, strategy=circuit.strategy)
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


def _port(circuit: Circuit, base: type[Input | Output], relation: str, sink: str = "") -> Node:
    """Return the node of an input or output, and that of the sink if the output has several."""
    found = [
        node
        for node in circuit.nodes
        if isinstance(node.operator, base) and node.operator.relation == relation
    ]
    for node in found:
        if isinstance(node.operator, SparkSink) and node.operator.sink == sink:
            return node
    if found:
        return found[0]
    kind = base.__name__.lower()
    known = [node.operator.relation for node in circuit.nodes if isinstance(node.operator, base)]
    raise CircuitError(
        f"circuit '{circuit.name}' has no {kind} '{relation}'{suggestion(relation, known)}",
        code="unknown-input" if base is Input else "unknown-output",
    )


def named_ports(circuit: Circuit, sources: Iterable[str], sinks: Iterable[str]) -> Circuit:
    """Return the circuit with a source or sink for each `NAME` or `NAME=ENCODING`.

    Raises CircuitError if an input or output does not exist, InputError for an unknown encoding.
    """
    ports: list[SparkSource | SparkSink] = []
    for text in sources:
        name, _, encoding = text.partition("=")
        node = _port(circuit, Input, name)
        present = node.operator
        if isinstance(present, Input):
            settings = present.relation, present.columns, present.kind, present.key
            ports.append(SparkSource(*settings, encoding=encoding or "append"))
    for text in sinks:
        name, _, encoding = text.partition("=")
        ports.append(SparkSink(name, encoding=encoding or "weight"))
    return bind_ports(circuit, ports)
