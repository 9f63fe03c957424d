"""A circuit as a document for the page: operators, scopes as boxes around them, and streams.

It is the picture of the circuit (see `dbsp.circuit.pictures`), in which each frame is a box that
the page can collapse. The path of an operator is that of `Run.record`: "3", or "3/0" in the scope
of operator 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.pictures.circuit_picture import circuit_picture
from dbsp.circuit.pictures.picture import PictureData, PictureFrame, PictureNode


class CircuitDocument:
    """The document of one circuit, with the operators that its boxes stand for.

    `terms` draws each incremental form within a scope as its terms. These boxes have no path.
    """

    def __init__(self, graph: Graph, *, terms: bool = False) -> None:
        self.graph = graph
        self.ids: dict[Node, str] = {}
        """The id of the box of every operator; that of a scope is its frame."""
        self.paths: dict[str, str] = {}
        """The path of every operator by the id of its box."""
        self._collect(graph, "n", "")
        self.nodes = {id: node for node, id in self.ids.items()}
        """The operator of every id."""
        self._picture = circuit_picture(graph, terms=terms)
        self.relations = {node.id: node.relation for node in self._picture.nodes if node.relation}
        """The relation of the query whose rows an operator emits, by id."""
        for node, id in self.ids.items():
            relation = getattr(node.operator, "relation", None)
            if isinstance(relation, str):
                self.relations[id] = relation

    def _collect(self, graph: Graph, prefix: str, path: str) -> None:
        for node in graph.nodes:
            children = node.operator.children()
            id, place = f"{prefix}{node.id}", f"{path}{node.id}"
            self.ids[node] = f"{id}_scope0" if children else id
            self.paths[self.ids[node]] = place
            for child in children:
                self._collect(child, f"{id}_", f"{place}/")

    def to_json(self) -> dict[str, Any]:
        """Return the document: the title, the boxes in the order of evaluation, and the edges."""
        return {
            "name": self._picture.title,
            "nodes": list(self._boxes(self._picture)),
            "edges": [
                {"source": edge.source, "target": edge.target, "kind": edge.kind, "label": edge.label}
                for edge in self._picture.edges
            ],
        }

    def _boxes(self, picture: PictureData) -> Iterator[dict[str, Any]]:
        """Yield the boxes, each after the frame that it is in."""
        frames = {frame.id: frame for frame in picture.frames}
        shown: set[str] = set()

        def around(id: str) -> Iterator[dict[str, Any]]:
            if id and id not in shown:
                shown.add(id)
                yield from around(frames[id].parent)
                yield self._frame(frames[id])

        for node in picture.nodes:
            yield from around(node.frame)
            yield self._box(node)

    def _frame(self, frame: PictureFrame) -> dict[str, Any]:
        node = self.nodes.get(frame.id)
        return {
            "id": frame.id,
            "path": self.paths.get(frame.id, ""),
            "frame": frame.parent,
            "encloses": True,
            "title": frame.title,
            "kind": frame.kind,
            "operator": "" if node is None else node.operator.name,
            "columns": "",
            "place": "" if node is None else str(node.source),
            "text": "",
            "relation": None,
            "tooltip": frame.title,
        }

    def _box(self, node: PictureNode) -> dict[str, Any]:
        return {
            "id": node.id,
            "path": self.paths.get(node.id, ""),
            "frame": node.frame,
            "encloses": False,
            "title": node.title,
            "kind": node.kind,
            "operator": node.operator,
            "columns": node.columns,
            "place": str(node.place),
            "text": node.text,
            "relation": self.relations.get(node.id),
            "tooltip": node.tooltip,
        }
