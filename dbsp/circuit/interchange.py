"""Circuits written down: as JSON, as a networkx graph, and as a hash of their content.

The written form of an operator is its class and its fields. Python functions and classes of the user's are
written as `module:name`, so only what can be imported can be written. Reading lives with the
operators (`dbsp.operators.streams.interchange`).

    {"format": "dbsp circuit", "version": 1, "form": "query", "name": "closure", "nodes": [
        {"operator": {"class": "Input", "fields": {...}}, "inputs": [], "source": "etl.py:3"},
        {"operator": {"class": "Distinct", "fields": {}}, "inputs": [0], "source": "etl.py:4"}, ...]}

`inputs` and `strict` (inputs read one step late) count nodes of the same scope. A value that JSON has no
form for is an object with one key that says what it is: `{"schema": ...}`, `{"column": "x"}`,
`{"function": "math:sqrt"}`, `{"scope": ...}` and so on. Of a functor of a Datalog program there is only the
name; whoever reads the circuit gives the function again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import networkx as nx

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import CircuitError, expect_type, shorten
from dbsp.expressions import Call, Column, Expression, FunctorCall, Literal

FORMAT = "dbsp circuit"
VERSION = 1
CATALOGUE = "dbsp.operators."
"""The package whose classes are written by their bare names."""


def document(graph: Graph, *, sources: bool = True) -> dict[str, Any]:
    """The circuit as plain JSON values; without `sources` nothing tells which file made it.

    Raises CircuitError naming the node that holds something that cannot be written.
    """
    if graph.parent is not None:
        raise CircuitError(f"'{graph.name}' is a scope; write the circuit that it is part of")
    form = "lowered" if type(graph) is Graph else "query"
    return {"format": FORMAT, "version": VERSION, "form": form, **scope_document(graph, sources)}


def scope_document(graph: Graph, sources: bool) -> dict[str, Any]:
    """The nodes of one graph; for a nested scope also what enters it and leaves it."""
    made: dict[str, Any] = {"name": graph.name, "nodes": [_node(node, sources) for node in graph.nodes]}
    if graph.parent is not None:
        made["entered"] = [[outer.id, inside.node.id] for outer, inside in graph.entered.items()]
        made["exports"] = [stream.node.id for stream in graph.exports]
    return made


def _node(node: Node, sources: bool) -> dict[str, Any]:
    try:
        operator = encode(node.operator, sources)
    except CircuitError as error:
        error.where = error.where or node.describe()
        raise
    made: dict[str, Any] = {"operator": operator, "inputs": [stream.node.id for stream in node.inputs]}
    if node.strict:
        made["strict"] = [stream.node.id for stream in node.strict]
    if sources and node.source:
        made["source"] = node.source
    return made


def to_json(graph: Graph, *, indent: int | None = None) -> str:
    """The circuit as JSON text, for `dbsp.from_json`. Any stage. Errors as `document`."""
    return json.dumps(document(graph), indent=indent)


def content_hash(graph: Graph) -> str:
    """SHA-256, in hexadecimal, of the circuit without source lines: what it is, not where it was built.

    Equal for equal nodes in the same order, also in another process. Errors as `document`.
    """
    text = json.dumps(document(graph, sources=False), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# --- values ----------------------------------------------------------------------------------------


def encode(value: Any, sources: bool = True, whole: bool = True) -> Any:
    """A field of an operator as JSON values; a scope without its nodes if it is not to be `whole`.

    Raises CircuitError for what cannot be written.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is tuple:
        return [encode(item, sources, whole) for item in value]
    if type(value) is bytes:
        return {"bytes": value.hex()}
    if type(value) is dt.datetime:
        return {"timestamp": value.isoformat()}
    if type(value) is dt.date:
        return {"date": value.isoformat()}
    if isinstance(value, Type):
        return {"type": value.written}
    if isinstance(value, Schema):
        return {"schema": [[n, t.written] for n, t in zip(value.names, value.types, strict=True)]}
    if isinstance(value, Expression):
        return _expression(value)
    if isinstance(value, Graph):
        scope = scope_document(value, sources) if whole else {"name": value.name}
        return {"scope": scope | {"settings": value.settings()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"class": class_name(type(value)), "fields": dict(_fields(value, sources, whole))}
    if callable(value):
        return {"function": importable_name(value)}
    raise CircuitError(f"{shorten(value)} of type {type(value).__name__} cannot be written as JSON")


def _expression(value: Expression) -> Any:
    if isinstance(value, Column):
        return {"column": value.name}
    if isinstance(value, Literal):
        return {"literal": encode(value.value)} | ({} if value.type is None else {"of": value.type.written})
    if isinstance(value, FunctorCall):
        functor = value.functor
        types = [type_.written for type_ in (*functor.parameters, functor.result)]
        return {
            "functor": functor.name,
            "types": types,
            "arguments": [_expression(argument) for argument in value.arguments],
        }
    call = expect_type(value, Call, "an expression that can be written as JSON")
    return {"call": call.function, "arguments": [_expression(argument) for argument in call.arguments]}


def _fields(value: Any, sources: bool, whole: bool) -> Iterator[tuple[str, Any]]:
    """The fields that make the value, without those that have their default."""
    for field in dataclasses.fields(value):
        if field.init:
            written = encode(getattr(value, field.name), sources, whole)
            # Compared as written: `==` between expressions makes another expression.
            if field.default is dataclasses.MISSING or written != encode(field.default):
                yield field.name, written


def class_name(cls: type) -> str:
    """How a class of operators is written: bare if it is of the catalogue, else by its module."""
    return cls.__qualname__ if cls.__module__.startswith(CATALOGUE) else importable_name(cls)


def importable_name(value: Any) -> str:
    """`module:name` of a function or class. Raises CircuitError if nothing can be imported by that."""
    name = getattr(value, "__qualname__", None)
    owner = getattr(value, "__objclass__", value)  # of a method of a built-in class
    module = getattr(owner, "__module__", None)
    told = name or shorten(value)
    advice = "define it with a name of its own in a module that can be imported"
    if name is None or module is None or "<" in name:
        raise CircuitError(f"'{told}' cannot be written, since it has no name to be found by; {advice}")
    if module == "__main__":
        raise CircuitError(f"'{told}' cannot be written: it belongs to the script that runs; {advice}")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise CircuitError(f"'{told}' cannot be written: '{module}:{name}' is something else; {advice}")
    return f"{module}:{name}"


# --- networkx --------------------------------------------------------------------------------------


def to_networkx(graph: Graph) -> nx.MultiDiGraph:
    """The circuit as a networkx graph, of any stage, with the nodes of nested scopes in it.

    Nodes are called "3" or, inside the scope that is node 3, "3/0". Their attributes: `operator` (its
    name), `label`, `schema`, `source`, `scope` (the scope's node, "" outside), `number` (the
    place in its scope) and `spec`, the operator as JSON text ("" if it cannot be written).

    Edges have `port` (which input, from 0), `strict` (read one step late) and `kind`: "stream", or for
    a scope "enter" (an outer stream to its delta_0 inside) and "leave" (a result to the scope's node).
    Without the strict edges the graph has no cycle.
    """
    made = nx.MultiDiGraph(name=graph.name, form="lowered" if type(graph) is Graph else "query")
    _add_nodes(made, graph, "")
    return made


def _add_nodes(made: nx.MultiDiGraph, graph: Graph, scope: str) -> dict[Node, str]:
    prefix = f"{scope}/" if scope else ""
    names = {node: f"{prefix}{node.id}" for node in graph.nodes}
    for node, name in names.items():
        made.add_node(
            name,
            operator=node.operator.name,
            label=node.label,
            schema=node.schema.describe(),
            source=node.source,
            scope=scope,
            number=node.id,
            spec=_spec(node.operator),
        )
    for node, name in names.items():
        for strict, streams in ((False, node.inputs), (True, node.strict)):
            for port, stream in enumerate(streams):
                made.add_edge(names[stream.node], name, port=port, strict=strict, kind="stream")
        for child in node.operator.children():
            inside = _add_nodes(made, child, name)
            for port, (outer, inner) in enumerate(child.entered.items()):
                made.add_edge(names[outer], inside[inner.node], port=port, strict=False, kind="enter")
            for port, stream in enumerate(child.exports):
                made.add_edge(inside[stream.node], name, port=port, strict=False, kind="leave")
    return names


def _spec(operator: Operator) -> str:
    """The operator as JSON text; "" if it holds something that cannot be written."""
    try:
        return json.dumps(encode(operator, whole=False), sort_keys=True)
    except CircuitError:
        return ""
