"""Several stages of a circuit in one picture, with the same colour for the same rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dbsp.circuit.graph import Graph
from dbsp.circuit.pictures.circuit_picture import circuit_picture
from dbsp.circuit.pictures.colours import coloured_by_rule
from dbsp.circuit.pictures.picture import PictureData, PictureEdge, PictureFrame, PictureNode


def side_by_side(stages: Mapping[str, Graph]) -> PictureData:
    """Return one picture of several stages of a circuit, a frame per stage, with a legend of rules.

    The ids of a stage begin with its name: node 4 of the query is `query_4`.
    """
    nodes: list[PictureNode] = []
    edges: list[PictureEdge] = []
    frames: list[PictureFrame] = []
    for name, graph in stages.items():
        picture = circuit_picture(graph, prefix=f"{name}_")
        frame = f"stage_{name}"
        operators = sum(1 for node in graph.walk() if not node.operator.children())
        frames.append(PictureFrame(frame, f"{name} circuit, {operators} operators", "stage"))
        nodes += [node if node.frame else replace(node, frame=frame) for node in picture.nodes]
        edges += picture.edges
        frames += [inner if inner.parent else replace(inner, parent=frame) for inner in picture.frames]
    title = next(iter(stages.values())).name
    return coloured_by_rule(PictureData(title, tuple(nodes), tuple(edges), tuple(frames)))
