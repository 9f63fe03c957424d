"""Pictures in the DOT language, which Graphviz lays out.

Every node of the drawing has the id of the node of the picture, also in SVG, and its full text as a
tooltip.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping
from typing import Any

from dbsp.circuit.pictures.picture import (
    EdgeKind,
    FrameKind,
    Measured,
    NodeKind,
    PictureData,
    PictureEdge,
    PictureFrame,
    PictureNode,
)
from dbsp.display.amounts import duration, memory, row_count

_FONT = "Helvetica,Arial,sans-serif"
_WIDTH = 46
"""The width of the lines of a box, in characters."""
_LINES = 4
"""The number of lines that one text of a box may have."""
_DOWN = 60
"""The greatest number of nodes of a picture whose arrows point down."""
_MARKED = "#c62828"
"""The colour of the critical path."""

FILLS: Mapping[NodeKind, str] = {
    "input": "#dcefdc",
    "constant": "#dcefdc",
    "output": "#d9e8f6",
    "delay": "#fbf0cf",
    "integral": "#eee6f5",
    "trace": "#eee6f5",
    "entering": "#f1f1f1",
    "leaving": "#f1f1f1",
}
"""The usual colour of each kind of node that is not white."""

_EDGES: Mapping[EdgeKind, Mapping[str, str]] = {
    "stream": {},
    "entering": {"arrowhead": "vee"},
    "delayed": {"style": "dashed", "constraint": "false"},
    "negated": {"style": "dashed", "color": "#b71c1c", "fontcolor": "#b71c1c", "arrowhead": "odot"},
    "aggregated": {"style": "bold", "color": "#5e35b1", "fontcolor": "#5e35b1"},
}
_FRAMES: Mapping[FrameKind, Mapping[str, str]] = {
    "scope": {"style": "rounded,dashed", "color": "#555555"},
    "change": {"style": "rounded,filled", "color": "#999999", "fillcolor": "#fafafa"},
    "stage": {"style": "rounded", "color": "#1565c0", "fontsize": "13"},
    "stratum": {"style": "rounded,filled", "color": "#999999", "fillcolor": "#fafafa"},
}


def dot_text(picture: PictureData) -> str:
    """Return a picture in the DOT language. O(its size)."""
    import graphviz

    dot = graphviz.Digraph(
        "circuit",
        graph_attr={
            "fontname": _FONT,
            "fontsize": "11",
            "label": _escape(picture.title),
            "labelloc": "t",
            "rankdir": direction(picture),
            "nodesep": "0.3",
            "ranksep": "0.4",
        },
        node_attr={
            "fontname": _FONT,
            "fontsize": "10",
            "shape": "box",
            "style": "rounded,filled",
            "fillcolor": "white",
        },
        edge_attr={"fontname": _FONT, "fontsize": "9", "arrowsize": "0.7"},
    )
    _fill(dot, picture, "")
    for edge in picture.edges:
        dot.edge(edge.source, edge.target, **_edge(edge))
    if picture.legend:
        dot.node("legend", _legend(picture), shape="plain", style="", fillcolor="none")
    source: str = dot.source
    return source


def direction(picture: PictureData) -> str:
    """Return in which direction the arrows point: down (TB), or to the right (LR) if it is large.

    Boxes are wide, so a rank of many boxes is much smaller as a column. Stages stay side by side.
    """
    stages = any(frame.kind == "stage" for frame in picture.frames)
    return "TB" if stages or len(picture.nodes) <= _DOWN else "LR"


def _fill(place: Any, picture: PictureData, frame: str) -> None:
    """Add the nodes of a frame, and its frames, to a graph of Graphviz; nesting is a few deep."""
    for node in picture.inside(frame):
        place.node(node.id, _label(node), **_look(node))
    for inner in picture.frames:
        if inner.parent == frame:
            with place.subgraph(name=f"cluster_{inner.id}") as part:
                title = _escape(_frame_title(inner))
                part.attr(label=title, labeljust="l", **_FRAMES[inner.kind])
                _fill(part, picture, inner.id)


def _frame_title(frame: PictureFrame) -> str:
    return ", ".join([frame.title, *measured_lines(frame.measured)])


def box_lines(node: PictureNode) -> list[str]:
    """Return the lines of the box of a node."""
    texts = [node.title]
    if node.columns and node.columns not in node.title:
        texts.append(node.columns)
    if node.shows_text:
        texts.append(node.text)
    if node.place:
        texts.append(node.place.rpartition("/")[2])
    texts += node.notes
    texts += measured_lines(node.measured)
    return [line for text in texts for line in _wrapped(text)]


def measured_lines(measured: Measured) -> list[str]:
    """Return what was measured, in words."""
    lines = []
    if measured.seconds is not None:
        rows = "" if measured.rows_out is None else f", {row_count(measured.rows_out)} out"
        lines.append(f"{duration(measured.seconds)}{rows}")
    if measured.state_rows is not None:
        lines.append(f"{row_count(measured.state_rows)}, {memory(measured.state_bytes or 0)}")
    return lines


def _wrapped(text: str) -> list[str]:
    """Return the lines of a text; the middle of a long text is left out."""
    lines = textwrap.wrap(text, _WIDTH) or [""]
    if len(lines) <= _LINES:
        return lines
    return [*lines[: _LINES - 2], "...", lines[-1]]


def _label(node: PictureNode) -> str:
    return "\\n".join(map(_escape, box_lines(node)))


def _look(node: PictureNode) -> dict[str, str]:
    tooltip = "\\n".join(map(_escape, node.tooltip.split("\n")))
    look = {"id": node.id, "tooltip": tooltip}
    fill = node.fill or FILLS.get(node.kind)
    if fill:
        look["fillcolor"] = fill
    if node.kind == "trace":  # it stores rows
        look |= {"shape": "cylinder", "style": "filled"}
    if node.kind == "group":
        look["shape"] = "box3d"
        look["style"] = "filled"
    if node.marked:
        look |= {"color": _MARKED, "penwidth": "2.5"}
    return look


def _edge(edge: PictureEdge) -> dict[str, str]:
    look = dict(_EDGES[edge.kind])
    if edge.label:
        look["label"] = _escape(edge.label)
    if edge.width != 1:
        look["penwidth"] = f"{edge.width:.2f}"
    if edge.marked:
        look |= {"color": _MARKED, "penwidth": f"{max(edge.width, 2.5):.2f}"}
    return look


def _legend(picture: PictureData) -> str:
    """Return the legend as a table, in the markup of Graphviz."""
    rows = []
    for line in picture.legend:
        text = html.escape(textwrap.shorten(line.text, 110, placeholder=" ..."))
        colour = f' bgcolor="{line.fill}" border="1"' if line.fill else ""
        rows.append(f'<tr><td{colour} width="22"></td><td align="left">{text}</td></tr>')
    return f'<<table border="0" cellspacing="2" cellpadding="2">{"".join(rows)}</table>>'


def _escape(text: str) -> str:
    """Return text that DOT shows unchanged: without escapes, and without `<...>` as markup."""
    import graphviz

    escaped: str = graphviz.escape(text)
    return escaped
