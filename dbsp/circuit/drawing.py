"""Drawing a circuit: operators as boxes, streams as arrows, nested scopes as frames around what is
inside.

A dashed arrow is read one step late (it ends at a delay, so a cycle passes through it). An arrow
into a frame is the entering of a stream by delta_0; an arrow out of it is the sum over the scope's
iterations. DOT needs nothing but Python. Pictures are laid out by Graphviz: by the `dot` program if
there is one, else by the copy that comes with the package `pygraphviz`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from dbsp.circuit.graph import Graph, Node
from dbsp.errors import DbspError

TEXT_SUFFIXES = (".dot", ".gv")
PICTURE_SUFFIXES = (".svg", ".png", ".pdf")

_FILL = {
    "Input": "#dcefdc",
    "Constant": "#dcefdc",
    "Output": "#d9e8f6",
    "SparkSource": "#dcefdc",
    "SparkSink": "#d9e8f6",
    "Delay": "#fbf0cf",
    "Delta0": "#f1f1f1",
}
_FONT = "Helvetica,Arial,sans-serif"
_WIDTH = 60

# The layout runs in a process of its own: it is C code, and what it says on stderr (about fonts, say) is
# of interest only when it fails.
_LAYOUT = """
import sys
import pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))
"""


def to_dot(graph: Graph, *, title: str | None = None) -> str:
    """The circuit in the DOT language. Deterministic: equal circuits give equal text. O(nodes +
    edges).

    Boxes show the operator, the columns of its stream, and the user's line that made it.
    """
    import graphviz

    dot = graphviz.Digraph(
        "circuit",
        graph_attr={
            "fontname": _FONT,
            "fontsize": "11",
            "label": _escape(graph.name if title is None else title),
            "labelloc": "t",
            "rankdir": "TB",
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
    _draw(graph, dot, dot, "n")
    source: str = dot.source
    return source


def _draw(graph: Graph, place: Any, top: Any, prefix: str) -> dict[Node, str]:
    """Put the nodes of `graph` into `place` and its edges into `top`; return the nodes' names."""
    names: dict[Node, str] = {}
    # For the node of a scope: what its results are called, in the order they leave.
    results: dict[Node, list[str]] = {}
    for node in graph.nodes:
        name = f"{prefix}{node.id}"
        names[node] = name
        scopes = node.operator.children()
        for number, child in enumerate(scopes):
            with place.subgraph(name=f"cluster_{name}_{number}") as frame:
                frame.attr(label=_escape(node.label), style="rounded,dashed", labeljust="l", color="#555555")
                inside = _draw(child, frame, top, f"{name}_")
            for outer, inner in child.entered.items():
                top.edge(names[outer], inside[inner.node], arrowhead="vee")
            results.setdefault(node, []).extend(inside[stream.node] for stream in child.exports)
        if not scopes:
            place.node(name, _label(node), **_look(node))
            for stream in node.inputs:
                leaving = results.get(stream.node)
                top.edge(leaving[_index(node)] if leaving else names[stream.node], name)
    for node in graph.nodes:
        for stream in node.strict:
            top.edge(names[stream.node], names[node], style="dashed", constraint="false")
    return names


def _index(node: Node) -> int:
    """Which result of a scope a node takes out."""
    return int(getattr(node.operator, "index", 0))


def _label(node: Node) -> str:
    lines = [node.label]
    if node.schema.arity:
        lines.append(node.columns)
    if node.source:
        lines.append(node.source)
    return "\\n".join(_escape(_shorten(line)) for line in lines)


def _look(node: Node) -> dict[str, str]:
    kind = node.operator.name
    look = {"tooltip": _escape(f"{node.describe()}: {node.columns}")}
    if kind in _FILL:
        look["fillcolor"] = _FILL[kind]
    if kind == "Arrange":  # a trace: the one thing that is kept
        look |= {"shape": "cylinder", "style": "filled", "fillcolor": "#eee6f5"}
    return look


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _escape(text: str) -> str:
    """Text as DOT shows it: a backslash is a backslash, and `<...>` is no markup."""
    import graphviz

    escaped: str = graphviz.escape(text)
    return escaped


def render(dot: str, format: str = "svg") -> bytes:
    """Lay out DOT text as a picture: `svg`, `png` or `pdf`.

    Raises DbspError when there is no Graphviz on the machine, saying how to get it, or when it
    fails.
    """
    program = shutil.which("dot")
    command = [program, f"-T{format}"] if program else [sys.executable, "-c", _LAYOUT, format]
    if program is None:
        try:
            import pygraphviz  # noqa: F401  (only to see whether it is there and loads)
        except ImportError:
            raise DbspError(
                "no Graphviz was found to lay out a picture: install it with 'pip install pygraphviz', "
                "'apt install graphviz' or 'brew install graphviz'. DOT output works without it"
            ) from None
    done = subprocess.run(command, input=dot.encode(), capture_output=True, check=False)
    if done.returncode != 0 or not done.stdout:
        message = done.stderr.decode(errors="replace").strip()
        last = message.splitlines()[-1] if message else f"exit code {done.returncode}"
        raise DbspError(f"Graphviz could not lay out the circuit as {format}: {last}")
    return done.stdout


def to_svg(graph: Graph, *, title: str | None = None) -> str:
    """The circuit as a picture in SVG. Errors as `render`."""
    return render(to_dot(graph, title=title), "svg").decode()


def write(graph: Graph, path: str | Path, *, title: str | None = None) -> None:
    """Draw into a file; its suffix says how: `.dot` or `.gv` for DOT, `.svg`, `.png` or `.pdf` for
    a picture.

    Raises DbspError for another suffix, a file that cannot be written, and as `render`.
    """
    save(to_dot(graph, title=title), path)


def save(dot: str, path: str | Path) -> None:
    """Write DOT text or its picture into a file, by the file's suffix. Errors as `write`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in TEXT_SUFFIXES + PICTURE_SUFFIXES:
        known = ", ".join(TEXT_SUFFIXES + PICTURE_SUFFIXES)
        raise DbspError(f"the name of a drawing ends in one of {known}", where=str(path))
    data = dot.encode() if suffix in TEXT_SUFFIXES else render(dot, suffix[1:])
    try:
        path.write_bytes(data)
    except OSError as error:
        raise DbspError(f"cannot be written: {error.strerror}", where=str(path)) from error
