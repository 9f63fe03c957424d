"""A picture as data: nodes, arrows and frames, with all their text, without a layout.

A node of a picture is an operator of a circuit, a group of them, or a relation of a program. The
parts of a picture refer to each other by ids, which are stable: equal circuits have equal pictures.
`to_dict` returns a picture as values of JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, replace
from typing import Any, Literal, TypeAlias

from dbsp.lazy_dataclass import dataclass

NodeKind: TypeAlias = Literal[
    "input",
    "constant",
    "output",
    "operator",
    "delay",
    "integral",
    "trace",
    "entering",
    "leaving",
    "group",
    "relation",
]
"""What a node is. An `entering` node is the delta_0 of a scope, and a `leaving` node emits a result
of a scope."""

EdgeKind: TypeAlias = Literal["stream", "entering", "delayed", "negated", "aggregated"]
"""What an arrow is. A `delayed` stream is read one step late, and an `entering` one crosses the
frame of a scope. `negated` and `aggregated` are uses of a relation by a rule."""

FrameKind: TypeAlias = Literal["scope", "change", "stage", "stratum"]
"""What a frame is. The frame of a `change` has the terms of an incremental form."""


@dataclass(frozen=True)
class Measured:
    """What a run measured of a node; a count is None if the run did not measure it."""

    seconds: float | None = None
    rows_out: int | None = None
    steps: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None

    def plus(self, other: Measured) -> Measured:
        """The sum of the measurements of two nodes."""
        return Measured(
            _sum(self.seconds, other.seconds),
            _sum(self.rows_out, other.rows_out),
            _sum(self.steps, other.steps),
            _sum(self.state_rows, other.state_rows),
            _sum(self.state_bytes, other.state_bytes),
        )


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


@dataclass(frozen=True)
class PictureNode:
    """A node of a picture."""

    id: str
    title: str
    """What the node does, with the names of columns: `Join on shop`."""
    kind: NodeKind = "operator"
    operator: str = ""
    """The name of the operator."""
    columns: str = ""
    """The columns of the stream with their types, in the words of the program."""
    place: str = ""
    """The place in the program or in the Python file that made the node."""
    rule: str = ""
    """The place of the rule that the node is a part of; it identifies the rule."""
    text: str = ""
    """The text of the rule."""
    shows_text: bool = False
    """Whether the box shows the text of the rule, and not only its tooltip."""
    relation: str = ""
    """The relation of the program whose rows the node emits."""
    relations: tuple[str, ...] = ()
    """The relations whose rows the operators of a group emit."""
    frame: str = ""
    """The id of the frame that the node is in."""
    size: int = 1
    """The number of operators that the node stands for."""
    measured: Measured = field(default_factory=Measured)
    notes: tuple[str, ...] = ()
    """Further lines of the box."""
    fill: str = ""
    """The colour of the box, as `#rrggbb`; by default that of the kind."""
    marked: bool = False
    """Whether the node is on the critical path."""

    @property
    def tooltip(self) -> str:
        """The text of the node as it is shown for a pointer over it, in full."""
        name = self.operator or self.title
        lines = [f"{name} at {self.place}" if self.place else name]
        lines += [line for line in (self.title, self.columns, self.text, *self.notes) if line not in lines]
        return "\n".join(line for line in lines if line)


@dataclass(frozen=True)
class PictureEdge:
    """An arrow of a picture, from the node `source` to the node `target`."""

    source: str
    target: str
    kind: EdgeKind = "stream"
    label: str = ""
    width: float = 1.0
    """The width of the arrow, as a factor of the usual width."""
    marked: bool = False
    """Whether the arrow is on the critical path."""


@dataclass(frozen=True)
class PictureFrame:
    """A frame around nodes, and around other frames."""

    id: str
    title: str
    kind: FrameKind = "scope"
    parent: str = ""
    """The id of the frame around this one."""
    measured: Measured = field(default_factory=Measured)


@dataclass(frozen=True)
class LegendLine:
    """A line of a legend: a colour with its meaning, or text alone."""

    text: str
    fill: str = ""


@dataclass(frozen=True)
class PictureData:
    """A picture: its nodes, the arrows between them, and the frames around them."""

    title: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...] = ()
    frames: tuple[PictureFrame, ...] = ()
    legend: tuple[LegendLine, ...] = ()

    def node(self, id: str) -> PictureNode:
        """Return the node of an id."""
        return next(node for node in self.nodes if node.id == id)

    def inside(self, frame: str) -> Iterable[PictureNode]:
        """Return the nodes directly in a frame; "" stands for the picture itself."""
        return (node for node in self.nodes if node.frame == frame)

    def restricted(self, ids: Iterable[str]) -> PictureData:
        """Return the picture of some nodes only, the arrows between them, and their frames."""
        kept = set(ids)
        nodes = tuple(node for node in self.nodes if node.id in kept)
        edges = tuple(edge for edge in self.edges if edge.source in kept and edge.target in kept)
        parents = {frame.id: frame.parent for frame in self.frames}
        used = set()
        for node in nodes:
            frame = node.frame
            while frame and frame not in used:
                used.add(frame)
                frame = parents[frame]
        frames = tuple(frame for frame in self.frames if frame.id in used)
        return replace(self, nodes=nodes, edges=edges, frames=frames)

    def titled(self, title: str | None) -> PictureData:
        """Return the picture with another title; None keeps the title."""
        return self if title is None else replace(self, title=title)

    def to_dict(self) -> dict[str, Any]:
        """Return the picture as values of JSON; nodes have their `tooltip` too."""
        data: Mapping[str, Any] = asdict(self)
        nodes = [
            fields | {"tooltip": node.tooltip} for fields, node in zip(data["nodes"], self.nodes, strict=True)
        ]
        return {**data, "nodes": nodes}
