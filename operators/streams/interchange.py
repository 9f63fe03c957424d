"""Circuits read back from JSON or networkx (see `dbsp.circuit.interchange` for the form and for writing).

A circuit names Python functions and classes, and reading imports their modules: read only what you trust.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import networkx as nx

import dbsp.operators
from dbsp.circuit.graph import Graph, Stream
from dbsp.circuit.interchange import FORMAT, VERSION
from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema
from dbsp.data.type_inference import as_type
from dbsp.errors import CircuitError
from dbsp.expressions import Call, Column, Expression, Functor, FunctorCall, Literal
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.recursion.fixpoint import Body
from dbsp.operators.streams.builder import Circuit

Scoped = Callable[[Mapping[str, Any]], Body]


_FUNCTORS: ContextVar[Mapping[str, Callable[..., Any]]] = ContextVar("functors")
"""The functions of the functors of the circuit that is being read."""


def from_json(text: str, functors: Mapping[str, Callable[..., Any]] | None = None) -> Graph:
    """The circuit that `to_json` wrote: a `Circuit` if it was one, else a lowered graph for `dbsp.Run`.

    `functors` are the functions of a Datalog program's functors, by name: they are not written. Raises
    CircuitError if the text is no circuit, or names what cannot be imported.
    """
    try:
        written = json.loads(text)
    except json.JSONDecodeError as error:
        raise CircuitError(f"this is no JSON: {error}") from None
    if not isinstance(written, dict) or written.get("format") != FORMAT:
        raise CircuitError(f'this JSON is no circuit: it lacks "format": "{FORMAT}"')
    if written.get("version") != VERSION:
        raise CircuitError(f"this circuit is of version {written.get('version')}, not {VERSION}")
    token = _FUNCTORS.set(functors or {})
    try:
        return from_document(written)
    finally:
        _FUNCTORS.reset(token)


def from_networkx(graph: nx.MultiDiGraph) -> Graph:
    """The circuit that `to_networkx` made a graph of. Raises CircuitError as `from_json`."""

    def scope(name: str) -> dict[str, Any]:
        members = [n for n, at in graph.nodes(data="scope") if at == name]
        members.sort(key=lambda n: int(graph.nodes[n]["number"]))
        numbers = {n: i for i, n in enumerate(members)}
        made: dict[str, Any] = {"nodes": [node(n, numbers) for n in members]}
        if name:
            entering = [(at["port"], n, m) for n, m, at in graph.edges(data=True) if at["kind"] == "enter"]
            made["entered"] = [[n, numbers[m]] for _, n, m in sorted(entering) if m in numbers]
            made["exports"] = [numbers[n] for n in sources(name, "leave")]
        return made

    def sources(name: str, kind: str, strict: bool = False) -> list[str]:
        edges = graph.in_edges(name, data=True)
        found = [(at["port"], n) for n, _, at in edges if at["kind"] == kind and at["strict"] == strict]
        return [n for _, n in sorted(found)]

    def node(name: str, numbers: Mapping[str, int]) -> dict[str, Any]:
        attributes = graph.nodes[name]
        if not attributes["spec"]:
            raise CircuitError(
                f"node {name} ({attributes['label']}) holds a function that cannot be imported by name",
                where=attributes["source"] or None,
            )
        operator = json.loads(attributes["spec"])
        for field in operator["fields"].values():
            if isinstance(field, dict) and "scope" in field:
                inside = scope(name)
                inside["entered"] = [[numbers[outer], inner] for outer, inner in inside["entered"]]
                field["scope"] |= inside
        return {
            "operator": operator,
            "inputs": [numbers[n] for n in sources(name, "stream")],
            "strict": [numbers[n] for n in sources(name, "stream", strict=True)],
            "source": attributes["source"],
        }

    return from_document({"name": graph.graph["name"], "form": graph.graph["form"], **scope("")})


def from_document(written: Mapping[str, Any]) -> Graph:
    """The circuit of a document as `dbsp.circuit.interchange.document` makes it."""
    graph = Graph(written["name"]) if written["form"] == "lowered" else Circuit(written["name"])
    _fill(graph, written, ())
    graph.validate()
    return graph


def _fill(graph: Graph, written: Mapping[str, Any], outer: Sequence[Stream]) -> None:
    """Add the nodes of a document to an empty graph; `outer` are the streams of the graph around it."""
    streams: list[Stream] = []
    entered = {inner: outer[number] for number, inner in written.get("entered", ())}

    def body(inside: Mapping[str, Any]) -> Body:
        scope = Body(inside["name"], graph, **inside["settings"])
        _fill(scope, inside, streams)
        scope.exports = [scope.stream_class(scope.nodes[number]) for number in inside["exports"]]
        scope.closed = isinstance(graph.root, Circuit)
        return scope

    for number, entry in enumerate(written["nodes"]):
        with graph.at(entry.get("source", "")):
            if number in entered:
                streams.append(graph.enter(entered[number]))
                continue
            operator = decode(entry["operator"], body)
            if not isinstance(operator, Operator):
                raise CircuitError(f"{type(operator).__name__} is no operator")
            if isinstance(graph, Circuit) and isinstance(operator, Input | Output):
                graph.declare("input" if isinstance(operator, Input) else "output", operator.relation)
            inputs = [streams[i] for i in entry["inputs"]]
            streams.append(graph.add(operator, *inputs) if inputs else graph.add_source(operator))
    for stream, entry in zip(streams, written["nodes"], strict=True):
        if entry.get("strict"):
            graph.connect(stream, *(streams[i] for i in entry["strict"]))


# --- values ----------------------------------------------------------------------------------------


def decode(written: Any, body: Scoped) -> Any:
    """The value that `dbsp.circuit.interchange.encode` wrote; `body` builds nested scopes."""
    if isinstance(written, list):
        return tuple(decode(item, body) for item in written)
    if not isinstance(written, dict):
        return written
    if "class" in written:
        cls = _class(written["class"])
        fields = {name: decode(value, body) for name, value in written["fields"].items()}
        try:
            return cls(**fields)
        except TypeError as error:
            raise CircuitError(f"{written['class']} is not made of {', '.join(fields)}: {error}") from None
    if not written.keys().isdisjoint(("call", "column", "functor", "literal")):
        return _expression(written)
    if len(written) == 1:
        ((tag, value),) = written.items()
        if tag == "scope":
            return body(value)
        if tag in _TAGS:
            return _TAGS[tag](value)
    raise CircuitError(f"unknown kind of value: {', '.join(written)}")


_TAGS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "bytes": bytes.fromhex,
    "timestamp": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "type": as_type,
    "schema": lambda columns: Schema(tuple(n for n, _ in columns), tuple(as_type(t) for _, t in columns)),
    "function": lambda name: _imported(name),
}


def _expression(written: Mapping[str, Any]) -> Expression:
    if "column" in written:
        return Column(written["column"])
    if "functor" in written:
        return _functor_call(written)
    if "call" in written:
        return Call(written["call"], tuple(map(_expression, written["arguments"])))
    type_ = as_type(written["of"]) if "of" in written else None
    return Literal(decode(written["literal"], _no_scope), type_)


def _functor_call(written: Mapping[str, Any]) -> Expression:
    name = written["functor"]
    function = _FUNCTORS.get({}).get(name)
    if function is None:
        raise CircuitError(
            f"the circuit calls the functor '{name}', whose function is not written: give it again, as in "
            f'from_json(text, functors={{"{name}": function}})'
        )
    *parameters, result = map(as_type, written["types"])
    functor = Functor(name, tuple(parameters), result, function)
    return FunctorCall(f"@{name}", tuple(map(_expression, written["arguments"])), functor)


def _no_scope(written: Mapping[str, Any]) -> Body:
    raise CircuitError("a constant is no scope")


def _class(name: str) -> Any:
    cls = _imported(name) if ":" in name else catalogue().get(name)
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise CircuitError(f"there is no operator '{name}'")
    return cls


def _imported(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise CircuitError(f"'{name}' cannot be imported: {error}") from None
    return found


@functools.cache
def catalogue() -> dict[str, type]:
    """The operators of this package, and what they are made of, by class name."""
    found: dict[str, type] = {}
    for module in walk_packages(dbsp.operators.__path__, "dbsp.operators."):
        for value in vars(import_module(module.name)).values():
            if not isinstance(value, type) or value.__module__ != module.name:
                continue
            if dataclasses.is_dataclass(value):
                found[value.__qualname__] = value
    return found
