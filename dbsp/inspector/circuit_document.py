"""A circuit as a document for the page: nodes, edges and scopes, by their numbers.

The number of a node in a scope begins with that of the scope: node 3 inside of node 12 is "12.3",
as in error messages (see `dbsp.circuit.node_numbers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.program_place import ProgramPlace


class CircuitDocument:
    """The document of one circuit, with its nodes by number."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers: dict[Node, str] = {}
        """The number of every node, those of nested scopes included."""
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, Any]] = []
        self._relations = {stream.node: name for name, stream in graph.named.items()}
        self._add(graph, "")
        self.nodes = {number: node for node, number in self.numbers.items()}
        """The node of every number."""

    def to_json(self) -> dict[str, Any]:
        """Return the document: the name, the nodes in the order of evaluation, and the edges."""
        return {"name": self.graph.name, "nodes": self._nodes, "edges": self._edges}

    def relation(self, node: Node) -> str | None:
        """Return the relation of the query that the stream of a node is, if it is one."""
        name: str | None = getattr(node.operator, "relation", None) or self._relations.get(node)
        return name

    def _add(self, graph: Graph, scope: str) -> None:
        prefix = f"{scope}." if scope else ""
        for node in graph.nodes:
            self.numbers[node] = f"{prefix}{node.id}"
        results: dict[Node, list[str]] = {}
        for node in graph.nodes:
            number = self.numbers[node]
            children = node.operator.children()
            self._nodes.append(self._described(node, number, scope, bool(children)))
            for child in children:
                self._add(child, number)
                self._edges += [
                    _edge(self.numbers[outer], self.numbers[inner.node], "enter")
                    for outer, inner in child.entered.items()
                ]
                inside = [self.numbers[stream.node] for stream in child.exports]
                results.setdefault(node, []).extend(inside)
            if not children:
                self._edges += self._read(node, number, results)
        self._edges += [
            _edge(self.numbers[stream.node], self.numbers[node], "strict")
            for node in graph.nodes
            for stream in node.strict
        ]

    def _read(self, node: Node, number: str, results: dict[Node, list[str]]) -> Iterator[dict[str, Any]]:
        """Yield the edges of the inputs of a node; a result of a scope comes from inside of it."""
        for stream in node.inputs:
            leaving = results.get(stream.node)
            if leaving is None:
                yield _edge(self.numbers[stream.node], number, "stream")
            else:
                yield _edge(leaving[int(getattr(node.operator, "index", 0))], number, "leave")

    def _described(self, node: Node, number: str, scope: str, encloses: bool) -> dict[str, Any]:
        return {
            "number": number,
            "scope": scope,
            "encloses": encloses,
            "operator": node.operator.name,
            "label": " ".join(node.label.split()),
            "columns": node.columns,
            "source": str(node.source),
            "rule": _rule(node),
            "relation": self.relation(node),
        }


def _edge(source: str, target: str, kind: str) -> dict[str, Any]:
    return {"from": source, "to": target, "kind": kind}


def _rule(node: Node) -> str:
    """Return the text of the program at the place of a node; "" if it is not of a program."""
    place = node.source
    return place.sources.between(place.span) if isinstance(place, ProgramPlace) else ""
