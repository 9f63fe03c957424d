"""Circuits as JSON documents, and hashes of their content.

    {"format": "dbsp circuit", "version": 2, "form": "query", "name": "closure", "nodes": [
        {"operator": {"class": "Input", "fields": {...}}, "inputs": [], "source": "etl.py:3"},
        {"operator": {"class": "Distinct", "fields": {}}, "inputs": [0], "source": "etl.py:4"},
        ...],
     "names": {"path": [3, 0, 7]}}

`names` has the relations: the number of a node, and for a node of a nested scope those of the nodes
that hold the scope, each with the number of the scope in its node. `inputs` and `strict` (inputs
read one step late) are numbers of nodes of the same scope. An operator is written as its class and
its fields (see `dbsp.circuit.value_json`). A document is read into an empty graph; the caller
(`dbsp.operators.streams.circuit_reader`) chooses the classes of the graph and of nested scopes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.named_parts import parts_of
from dbsp.circuit.operator import Operator
from dbsp.circuit.value_json import DecodeContext, decode, encode
from dbsp.errors import CircuitError, DbspError, SchemaError, shorten, wrong_argument
from dbsp.expressions import Call, Expression
from dbsp.expressions.origin import Origin

FORMAT = "dbsp circuit"
VERSION = 2

NewScope = Callable[[Graph, Mapping[str, Any]], Graph]
"""Returns the empty scope of a document within a graph."""


# --- writing -------------------------------------------------------------------------------------


def document(graph: Graph, *, sources: bool = True) -> dict[str, Any]:
    """Return the circuit as plain JSON values; without `sources` it contains no file names.

    Raises CircuitError, with the node, for a value that cannot be written.
    """
    if graph.parent is not None:
        raise CircuitError(
            f"expected a circuit, got the nested scope '{graph.name}'; write the circuit around it",
            code="scope-misuse",
        )
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "form": form_of(graph)}
    if settings := graph.settings():
        head["settings"] = settings
    written = {**head, **_nodes(graph, sources)}
    if sources and graph.named:
        written["names"] = _names(graph)
    return written


def form_of(graph: Graph) -> str:
    """Return "query" for a circuit that can be extended, "lowered" for one that cannot."""
    return "lowered" if type(graph) is Graph else "query"


def _nodes(graph: Graph, sources: bool) -> dict[str, Any]:
    return {"name": graph.name, "nodes": [_node(node, sources) for node in graph.nodes]}


def _names(graph: Graph) -> dict[str, list[int]]:
    """Return the places of the relations in the circuit and its nested scopes."""
    places: dict[Graph, list[int]] = {graph: []}
    for node in graph.walk():
        for number, scope in enumerate(node.operator.children()):
            places[scope] = [*places[node.graph], node.id, number]
    return {
        name: [*places[stream.node.graph], stream.node.id]
        for name, stream in graph.named.items()
        if stream.node.graph in places
    }


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
    """Return a circuit of any stage as JSON text, which `dbsp.from_json` reads.

    Raises as `document`.
    """
    return json.dumps(document(graph), indent=indent)


def content_hash(graph: Graph) -> str:
    """Return the SHA-256 of the circuit without source lines, in hexadecimal.

    Equal nodes in the same order have equal hashes in every process. Raises the errors of
    `document`.
    """
    text = json.dumps(document(graph, sources=False), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# --- reading -------------------------------------------------------------------------------------


def parse(text: str) -> Mapping[str, Any]:
    """Return the document in a JSON text. Raises CircuitError if it is not one of this version."""
    if not isinstance(text, str):
        raise wrong_argument("text", "the JSON text of a circuit", text)
    try:
        written = json.loads(text)
    except json.JSONDecodeError as error:
        raise _invalid(f"expected JSON, got {shorten(text)}: {error}") from None
    except ValueError:
        raise _invalid("expected ints of at most 4300 digits, got a longer one") from None
    except RecursionError:
        raise _invalid("expected a circuit, got JSON that is nested too deeply") from None
    if not isinstance(written, dict) or written.get("format") != FORMAT:
        raise _invalid(f'expected a JSON object with "format": "{FORMAT}", as circuit.to_json() writes it')
    if written.get("version") != VERSION:
        raise _invalid(
            f"expected a circuit of version {VERSION}, got version {shorten(written.get('version'))}; "
            "write it again with this version of dbsp"
        )
    missing = [key for key in ("form", "name", "nodes") if key not in written]
    if missing:
        raise _invalid(f"the circuit is incomplete: {', '.join(map(repr, missing))} missing")
    return written


def _invalid(message: str) -> CircuitError:
    return CircuitError(message, code="invalid-circuit-file")


def fill(
    graph: Graph,
    written: Mapping[str, Any],
    reading: DecodeContext,
    new_scope: NewScope,
    places: Mapping[str, str],
) -> None:
    """Add the nodes of a document to an empty graph; `new_scope` returns the scopes in it.

    `places` maps the text of a place to the place in a program. Raises CircuitError.
    """
    try:
        _fill(graph, written, (), reading, new_scope, places)
        for name, place in written.get("names", {}).items():
            graph.named[name] = _stream_at(graph, place)
    except DbspError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise _invalid(f"the circuit '{graph.name}' cannot be read: {reason}") from error


def places_in(graph: Graph) -> tuple[dict[str, str], dict[tuple[Any, ...], Origin[Expression]]]:
    """Return the places of a circuit's nodes by text, and the origins of its expressions by key."""
    places: dict[str, str] = {}
    origins: dict[tuple[Any, ...], Origin[Expression]] = {}
    for node in graph.walk():
        places.setdefault(node.source, node.source)
        for part in parts_of(node.operator):
            if isinstance(part, Call) and part.origin is not None:
                origins.setdefault(part.key, part.origin)
    return places, origins


def _fill(
    graph: Graph,
    written: Mapping[str, Any],
    outer: Sequence[Stream],
    reading: DecodeContext,
    new_scope: NewScope,
    places: Mapping[str, str],
) -> Sequence[Stream]:
    """Add the nodes of a scope and return their streams; `outer` are those of the outer graph."""
    streams: list[Stream] = []
    entered = {inner: _numbered(outer, number) for number, inner in written.get("entered", ())}
    if len(set(map(id, entered.values()))) < len(entered):
        raise _invalid(f"a stream enters the scope '{graph.name}' twice")

    def scope(inside: Mapping[str, Any]) -> Graph:
        child = new_scope(graph, inside)
        inner = _fill(child, inside, streams, reading, new_scope, places)
        child.exports = [_numbered(inner, number) for number in inside["exports"]]
        return child

    reading = replace(reading, scope=scope)
    for number, entry in enumerate(written["nodes"]):
        source = entry.get("source", "")
        with graph.at(places.get(source, source)):
            if number in entered:
                streams.append(graph.enter(entered[number]))
                continue
            with _reading(f"node {number} of '{graph.name}'"):
                operator = decode(entry["operator"], reading)
                if not isinstance(operator, Operator):
                    raise _invalid(f"expected an operator, got a value of type {type(operator).__name__}")
                streams.append(_added(graph, operator, [_numbered(streams, i) for i in entry["inputs"]]))
    for number, (stream, entry) in enumerate(zip(streams, written["nodes"], strict=True)):
        if entry.get("strict"):
            with _reading(f"node {number} of '{graph.name}', {stream.node.describe()}"):
                graph.connect(stream, *(_numbered(streams, i) for i in entry["strict"]))
    return streams


def _stream_at(graph: Graph, place: Sequence[int]) -> Stream:
    """Return the stream of a node at a place that `_names` has written."""
    node = graph.nodes[place[0]]
    for number, inside in zip(place[1::2], place[2::2], strict=True):
        node = node.operator.children()[number].nodes[inside]
    return node.graph.stream_class(node)


def _added(graph: Graph, operator: Operator, inputs: Sequence[Stream]) -> Stream:
    return graph.add(operator, *inputs) if inputs else graph.add_source(operator)


@contextmanager
def _reading(node: str) -> Iterator[None]:
    """Raise CircuitError with the node if it cannot be read, or cannot read its inputs."""
    try:
        yield
    except CircuitError as error:
        _name_node(error, node)
        raise
    except SchemaError as error:
        invalid = CircuitError(error.message, where=error.where, code="invalid-circuit-file")
        _name_node(invalid, node)
        raise invalid from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"it cannot be read: {type(error).__name__}: {error}"
        raise CircuitError(reason, where=node, code="invalid-circuit-file") from error


def _name_node(error: CircuitError, node: str) -> None:
    """Name the node in an error, unless it names a node of a scope inside."""
    if error.where is None:
        error.where = node
    elif not error.where.startswith("node "):
        error.where = f"{node}, {error.where}"


def _numbered(streams: Sequence[Stream], number: Any) -> Stream:
    """Return the stream of a node by its number."""
    if type(number) is not int or not 0 <= number < len(streams):
        raise _invalid(
            f"expected the number of a node that is read before, below {len(streams)}, got {shorten(number)}"
        )
    return streams[number]
