"""Circuits as networkx graphs, and such graphs as documents of circuits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.graph_json import form_of
from dbsp.circuit.operator import Operator
from dbsp.circuit.value_json import encode
from dbsp.errors import CircuitError, wrong_argument

if TYPE_CHECKING:
    import networkx as nx


def to_networkx(graph: Graph) -> nx.MultiDiGraph:
    """Return a circuit of any stage as a networkx graph, with the nodes of nested scopes.

    The names of nodes are "3" or, inside the scope of node 3, "3/0". Their attributes are
    `operator` (its name), `label`, `schema`, `source`, `scope` (the node of the scope, "" outside),
    `number` (the position in its scope) and `spec`, the operator as JSON text ("" if it cannot be
    written).

    Edges have `port` (the number of the input, from 0), `strict` (read one step late) and `kind`:
    "stream", or for a scope "enter" (from an outer stream to its delta_0 inside) and "leave" (from
    a result to the node of the scope). Without the strict edges the graph has no cycle.
    """
    import networkx as nx  # slow to import

    result = nx.MultiDiGraph(name=graph.name, form=form_of(graph), **graph.settings())
    _add_nodes(result, graph, "")
    return result


def _add_nodes(result: nx.MultiDiGraph, graph: Graph, scope: str) -> dict[Node, str]:
    prefix = f"{scope}/" if scope else ""
    names = {node: f"{prefix}{node.id}" for node in graph.nodes}
    for node, name in names.items():
        result.add_node(
            name,
            operator=node.operator.name,
            label=node.label,
            schema=node.columns,
            source=node.source,
            scope=scope,
            number=node.id,
            spec=_spec(node.operator),
        )
    for node, name in names.items():
        for strict, streams in ((False, node.inputs), (True, node.strict)):
            for port, stream in enumerate(streams):
                result.add_edge(names[stream.node], name, port=port, strict=strict, kind="stream")
        for child in node.operator.children():
            inside = _add_nodes(result, child, name)
            for port, (outer, inner) in enumerate(child.entered.items()):
                result.add_edge(names[outer], inside[inner.node], port=port, strict=False, kind="enter")
            for port, stream in enumerate(child.exports):
                result.add_edge(inside[stream.node], name, port=port, strict=False, kind="leave")
    return names


def _spec(operator: Operator) -> str:
    """Return the operator as JSON text without the nodes of a scope, or ""."""
    try:
        written = encode(operator, lambda scope: {"name": scope.name, "settings": scope.settings()})
    except CircuitError:
        return ""
    return json.dumps(written, sort_keys=True)


def networkx_document(graph: nx.MultiDiGraph) -> dict[str, Any]:
    """Return the document (see `dbsp.circuit.graph_json`) of a graph from `to_networkx`."""
    import networkx as nx  # slow to import

    if not isinstance(graph, nx.MultiDiGraph):
        raise wrong_argument("graph", "a networkx.MultiDiGraph", graph)

    def scope(name: str) -> dict[str, Any]:
        members = [n for n, at in graph.nodes(data="scope") if at == name]
        members.sort(key=lambda n: int(graph.nodes[n]["number"]))
        numbers = {n: i for i, n in enumerate(members)}
        written: dict[str, Any] = {"nodes": [node(n, numbers) for n in members]}
        if name:
            entering = [(at["port"], n, m) for n, m, at in graph.edges(data=True) if at["kind"] == "enter"]
            written["entered"] = [[n, numbers[m]] for _, n, m in sorted(entering) if m in numbers]
            written["exports"] = [numbers[n] for n in sources(name, "leave")]
        return written

    def sources(name: str, kind: str, strict: bool = False) -> list[str]:
        edges = graph.in_edges(name, data=True)
        found = [(at["port"], n) for n, _, at in edges if at["kind"] == kind and at["strict"] == strict]
        return [n for _, n in sorted(found)]

    def node(name: str, numbers: Mapping[str, int]) -> dict[str, Any]:
        attributes = graph.nodes[name]
        if not attributes["spec"]:
            raise CircuitError(
                f"node {name} ({attributes['label']}) holds a function that cannot be imported by its name; "
                "define it at the top level of a module",
                where=attributes["source"] or None,
                code="not-serialisable",
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

    try:
        head = {"name": graph.graph["name"], "form": graph.graph["form"]}
        settings = {name: value for name, value in graph.graph.items() if name not in head}
        return {**head, "settings": settings, **scope("")}
    except KeyError as error:
        raise CircuitError(
            f"expected a graph from circuit.to_networkx(), got one without the attribute {error}",
            code="invalid-circuit-file",
        ) from None
