"""Pictures in the Mermaid language, which GitHub and many wikis show as drawings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dbsp.circuit.pictures.dot_form import FILLS, box_lines, direction, measured_lines
from dbsp.circuit.pictures.picture import EdgeKind, NodeKind, PictureData

_SHAPES: Mapping[NodeKind, tuple[str, str]] = {
    "trace": ("[(", ")]"),
    "relation": ("([", "])"),
    "group": ("[[", "]]"),
}
_ARROWS: Mapping[EdgeKind, str] = {"delayed": "-.->", "negated": "-.-o", "aggregated": "==>"}


def mermaid_text(picture: PictureData) -> str:
    """Return a picture as a flowchart in the Mermaid language. O(its size)."""
    lines = [f"flowchart {direction(picture)}", *_parts(picture, "", "  ")]
    for edge in picture.edges:
        label = f"|{_quoted(edge.label)}|" if edge.label else ""
        lines.append(f"  {edge.source} {_ARROWS.get(edge.kind, '-->')}{label} {edge.target}")
    fills: dict[str, list[str]] = {}
    for node in picture.nodes:
        fill = node.fill or FILLS.get(node.kind, "")
        if fill:
            fills.setdefault(fill, []).append(node.id)
    lines += [f"  style {id} fill:{fill}" for fill, ids in fills.items() for id in ids]
    lines += [f"  style {node.id} stroke:#c62828,stroke-width:3px" for node in picture.nodes if node.marked]
    widths = enumerate(edge.width for edge in picture.edges)
    lines += [f"  linkStyle {n} stroke-width:{width:.1f}px" for n, width in widths if width != 1]
    if picture.legend:
        text = "<br/>".join(_escaped(line.text) for line in picture.legend)
        lines.append(f'  legend["{text}"]')
    return "\n".join([*lines, ""])


def _parts(picture: PictureData, frame: str, indent: str) -> Iterator[str]:
    """Yield the nodes and the frames within a frame."""
    for node in picture.inside(frame):
        left, right = _SHAPES.get(node.kind, ("[", "]"))
        text = "<br/>".join(map(_escaped, box_lines(node)))
        yield f'{indent}{node.id}{left}"{text}"{right}'
    for inner in picture.frames:
        if inner.parent == frame:
            title = ", ".join([inner.title, *measured_lines(inner.measured)])
            yield f"{indent}subgraph {inner.id}[{_quoted(title)}]"
            yield from _parts(picture, inner.id, f"{indent}  ")
            yield f"{indent}end"


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Return text that Mermaid shows unchanged."""
    for char, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(char, code)
    return text
