"""Circuits as JSON documents and back, and as a hash of their content.

    {"format": "dbsp circuit", "version": 2, "form": "query", "name": "closure", "nodes": [
        {"operator": {"class": "Input", "fields": {...}}, "inputs": [], "source": "etl.py:3"},
        {"operator": {"class": "Distinct", "fields": {}}, "inputs": [0], "source": "etl.py:4"}, ...]}

`inputs` and `strict` (inputs read one step late) count nodes of the same scope. The written form of
an operator is its class and its fields (see `dbsp.circuit.value_json`). A document is read into an
empty graph; which class a graph or a nested scope has is decided by the caller
(`dbsp.operators.streams.circuit_reader`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.value_json import DecodeContext, decode, encode, expressions_in
from dbsp.errors import CircuitError
from dbsp.expressions import Call
from dbsp.expressions.origin import Origin

FORMAT = "dbsp circuit"
VERSION = 2

NewScope = Callable[[Graph, Mapping[str, Any]], Graph]
"""Makes the empty scope of a document within a graph."""


# --- writing -------------------------------------------------------------------------------------


def document(graph: Graph, *, sources: bool = True) -> dict[str, Any]:
    """The circuit as plain JSON values; without `sources` no file names are in it.

    Raises CircuitError naming the node that holds something that cannot be written.
    """
    if graph.parent is not None:
        raise CircuitError(f"'{graph.name}' is a scope; write the circuit that it is part of")
    return {"format": FORMAT, "version": VERSION, "form": form_of(graph), **_nodes(graph, sources)}


def form_of(graph: Graph) -> str:
    """Whether a circuit is a "query", which can be built on, or has been "lowered"."""
    return "lowered" if type(graph) is Graph else "query"


def _nodes(graph: Graph, sources: bool) -> dict[str, Any]:
    return {"name": graph.name, "nodes": [_node(node, sources) for node in graph.nodes]}


def _scope(scope: Graph, sources: bool) -> dict[str, Any]:
    return {
        **_nodes(scope, sources),
        "entered": [[outer.id, inside.node.id] for outer, inside in scope.entered.items()],
        "exports": [stream.node.id for stream in scope.exports],
        "settings": scope.settings(),
    }


def _node(node: Node, sources: bool) -> dict[str, Any]:
    try:
        operator = encode(node.operator, lambda scope: _scope(scope, sources))
    except CircuitError as error:
        error.where = error.where or node.describe()
        raise
    written: dict[str, Any] = {"operator": operator, "inputs": [stream.node.id for stream in node.inputs]}
    if node.strict:
        written["strict"] = [stream.node.id for stream in node.strict]
    if sources and node.source:
        written["source"] = node.source
    return written


def to_json(graph: Graph, *, indent: int | None = None) -> str:
    """The circuit as JSON text, for `dbsp.from_json`. Any stage. Errors as `document`."""
    return json.dumps(document(graph), indent=indent)


def content_hash(graph: Graph) -> str:
    """SHA-256, in hexadecimal, of the circuit without source lines: what it is, not where it was built.

    Equal for equal nodes in the same order, also in another process. Errors as `document`.
    """
    text = json.dumps(document(graph, sources=False), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# --- reading -------------------------------------------------------------------------------------


def parse(text: str) -> Mapping[str, Any]:
    """The document in a JSON text. Raises CircuitError if it is not one of this version."""
    try:
        written = json.loads(text)
    except json.JSONDecodeError as error:
        raise CircuitError(f"this is no JSON: {error}") from None
    if not isinstance(written, dict) or written.get("format") != FORMAT:
        raise CircuitError(f'this JSON is no circuit: it lacks "format": "{FORMAT}"')
    if written.get("version") != VERSION:
        raise CircuitError(f"this circuit is of version {written.get('version')}, not {VERSION}")
    return written


def fill(
    graph: Graph,
    written: Mapping[str, Any],
    reading: DecodeContext,
    new_scope: NewScope,
    places: Mapping[str, str],
) -> None:
    """Add the nodes of a document to an empty graph. Raises CircuitError.

    `new_scope` makes the scopes in it, and `places` has the places of nodes in a program by their text.
    """
    _fill(graph, written, (), reading, new_scope, places)


def places_in(graph: Graph) -> tuple[dict[str, str], dict[tuple[Any, ...], Origin]]:
    """The places in a program of the nodes of a circuit, by text, and of their expressions, by key."""
    places: dict[str, str] = {}
    origins: dict[tuple[Any, ...], Origin] = {}
    for node in graph.walk():
        places.setdefault(node.source, node.source)
        for expression in expressions_in(node.operator):
            if isinstance(expression, Call) and expression.origin is not None:
                origins.setdefault(expression.key, expression.origin)
    return places, origins


def _fill(
    graph: Graph,
    written: Mapping[str, Any],
    outer: Sequence[Stream],
    reading: DecodeContext,
    new_scope: NewScope,
    places: Mapping[str, str],
) -> None:
    """The same, where `outer` are the streams of the graph around this one."""
    streams: list[Stream] = []
    entered = {inner: outer[number] for number, inner in written.get("entered", ())}

    def scope(inside: Mapping[str, Any]) -> Graph:
        child = new_scope(graph, inside)
        _fill(child, inside, streams, reading, new_scope, places)
        child.exports = [child.stream_class(child.nodes[number]) for number in inside["exports"]]
        return child

    reading = replace(reading, scope=scope)
    for number, entry in enumerate(written["nodes"]):
        source = entry.get("source", "")
        with graph.at(places.get(source, source)):
            if number in entered:
                streams.append(graph.enter(entered[number]))
                continue
            operator = decode(entry["operator"], reading)
            if not isinstance(operator, Operator):
                raise CircuitError(f"{type(operator).__name__} is no operator")
            inputs = [streams[i] for i in entry["inputs"]]
            streams.append(graph.add(operator, *inputs) if inputs else graph.add_source(operator))
    for stream, entry in zip(streams, written["nodes"], strict=True):
        if entry.get("strict"):
            graph.connect(stream, *(streams[i] for i in entry["strict"]))
