"""Drawings of circuits: operators as boxes, streams as arrows, nested scopes as frames.

A dashed arrow is read one step late: it ends at a delay, so a cycle passes through it. An arrow
into a frame is a stream that enters a scope by delta_0; an arrow out of it is the sum over the
iterations of the scope. DOT text needs Python only. Graphviz lays out pictures: the `dot` program
if there is one, else the copy in the package `pygraphviz`.

`dbsp.draw` is this module.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph, Node
from dbsp.display.amounts import memory, row_count
from dbsp.errors import ArgumentError, DbspError, SetupError, wrong_argument

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
Kept: TypeAlias = Mapping[Node, tuple[int, int]]
_FONT = "Helvetica,Arial,sans-serif"
_WIDTH = 60

# The layout runs in a separate process: it is C code, and its messages on stderr, such as warnings
# about fonts, matter only if it fails.
_LAYOUT = """
import sys
import pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))
"""


@ends_at_caller
def to_dot(circuit: object, *, title: str | None = None) -> str:
    """Return a drawing of a circuit in the DOT language. O(nodes + edges).

    Boxes show the operator, the columns of its stream, and the source line that built it; for a run
    also the rows and the memory of its traces. Equal circuits have equal drawings.

    Parameters:
        circuit: a circuit, a compiled program (its query circuit is drawn) or a run.
        title: the heading; the name of the circuit if None.

    Raises:
        ArgumentError: `circuit` is something else.

    Examples:
        >>> circuit = Circuit("copy")
        >>> circuit.output("out", circuit.input("a", x=int))
        >>> print(dbsp.draw.to_dot(circuit).splitlines()[0])
        digraph circuit {
    """
    import graphviz

    graph = _graph_of(circuit)
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
    _draw(graph, dot, dot, "n", _kept(circuit))
    source: str = dot.source
    return source


def _graph_of(circuit: Any) -> Graph:
    if isinstance(circuit, Graph):
        return circuit
    graph = getattr(circuit, "graph", None)  # a run
    if callable(getattr(circuit, "circuit", None)):  # a program
        graph = circuit.circuit()
    if isinstance(graph, Graph):
        return graph
    raise wrong_argument("circuit", "a circuit, a program or a run", circuit)


def _kept(circuit: Any) -> Kept:
    """Return the rows and bytes of every trace by node; a circuit or program has none."""
    kept = None if isinstance(circuit, Graph) else getattr(circuit, "kept", None)
    return kept() if callable(kept) else {}


def _draw(graph: Graph, place: Any, top: Any, prefix: str, kept: Kept) -> dict[Node, str]:
    """Add the nodes of `graph` to `place` and its edges to `top`; return the names of the nodes.

    `kept` are the rows and bytes of traces, by node.
    """
    names: dict[Node, str] = {}
    # By the node of a scope, the names of its results in order.
    results: dict[Node, list[str]] = {}
    for node in graph.nodes:
        name = f"{prefix}{node.id}"
        names[node] = name
        scopes = node.operator.children()
        for number, child in enumerate(scopes):
            with place.subgraph(name=f"cluster_{name}_{number}") as frame:
                frame.attr(label=_escape(node.label), style="rounded,dashed", labeljust="l", color="#555555")
                inside = _draw(child, frame, top, f"{name}_", kept)
            for outer, inner in child.entered.items():
                top.edge(names[outer], inside[inner.node], arrowhead="vee")
            results.setdefault(node, []).extend(inside[stream.node] for stream in child.exports)
        if not scopes:
            place.node(name, _label(node, kept.get(node)), **_look(node))
            for stream in node.inputs:
                leaving = results.get(stream.node)
                top.edge(leaving[_index(node)] if leaving else names[stream.node], name)
    for node in graph.nodes:
        for stream in node.strict:
            top.edge(names[stream.node], names[node], style="dashed", constraint="false")
    return names


def _index(node: Node) -> int:
    """Return which result of a scope a node reads."""
    return int(getattr(node.operator, "index", 0))


def _label(node: Node, kept: tuple[int, int] | None) -> str:
    lines = [node.label]
    if node.schema.arity:
        lines.append(node.columns)
    if node.source:
        lines.append(node.source)
    if kept is not None:
        lines.append(f"{row_count(kept[0])}, {memory(kept[1])}")
    return "\\n".join(_escape(_shorten(line)) for line in lines)


def _look(node: Node) -> dict[str, str]:
    kind = node.operator.name
    look = {"tooltip": _escape(f"{node.describe()}: {node.columns}")}
    if kind in _FILL:
        look["fillcolor"] = _FILL[kind]
    if kind == "Arrange":  # it stores a trace
        look |= {"shape": "cylinder", "style": "filled", "fillcolor": "#eee6f5"}
    return look


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _escape(text: str) -> str:
    """Return text that DOT shows unchanged: without escapes, and without `<...>` as markup."""
    import graphviz

    escaped: str = graphviz.escape(text)
    return escaped


def render(dot: str, format: str = "svg") -> bytes:
    """Lay out DOT text as a picture: `svg`, `png` or `pdf`.

    Raises SetupError if Graphviz is not installed, and DbspError if it fails.
    """
    program = shutil.which("dot")
    command = [program, f"-T{format}"] if program else [sys.executable, "-c", _LAYOUT, format]
    if program is None:
        try:
            import pygraphviz  # noqa: F401  (only a test whether it loads)
        except ImportError:
            raise SetupError(
                "a picture needs Graphviz, which is not installed: run 'pip install dbsp-circuits[draw]', "
                "'apt install graphviz' or 'brew install graphviz'. DOT output works without it"
            ) from None
    done = subprocess.run(command, input=dot.encode(), capture_output=True, check=False)
    if done.returncode != 0 or not done.stdout:
        message = done.stderr.decode(errors="replace").strip()
        last = message.splitlines()[-1] if message else f"exit code {done.returncode}"
        raise DbspError(
            f"Graphviz could not lay out the circuit as {format}: {last}. Write DOT instead, to a file "
            "that ends in .dot",
            code="drawing-failed",
        )
    return done.stdout


@ends_at_caller
def to_svg(circuit: object, *, title: str | None = None) -> str:
    """Return a drawing of a circuit in SVG.

    Parameters:
        circuit: a circuit, a compiled program (its query circuit is drawn) or a run.
        title: the heading; the name of the circuit if None.

    Raises:
        ArgumentError: `circuit` is something else.
        SetupError: Graphviz is not installed.
        DbspError: Graphviz fails.

    Examples:
        >>> program = dbsp.compile(".decl e(x: number) .input e .output e")
        >>> "<svg" in dbsp.draw.to_svg(program)
        True
    """
    return render(to_dot(circuit, title=title), "svg").decode()


@ends_at_caller
def write(circuit: object, path: str | Path, *, title: str | None = None) -> None:
    """Draw a circuit into a file, in the format of the suffix of its name.

    Parameters:
        circuit: a circuit, a compiled program (its query circuit is drawn) or a run.
        path: a file name that ends in `.dot` or `.gv` for DOT, or in `.svg`, `.png` or `.pdf`.
        title: the heading; the name of the circuit if None.

    Raises:
        ArgumentError: `circuit` is something else, or the suffix is another one.
        SetupError: Graphviz is not installed; `.dot` and `.gv` do not need it.
        DbspError: Graphviz fails, or the file cannot be written.

    Examples:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dbsp.draw.write(Circuit("empty"), os.path.join(folder, "empty.svg"))
        ...     os.listdir(folder)
        ['empty.svg']
    """
    save(to_dot(circuit, title=title), path)


def save(dot: str, path: str | Path) -> None:
    """Write DOT text or its picture into a file; raises the errors of `write`."""
    if not isinstance(path, str | PathLike):
        raise wrong_argument("path", "the name of a file", path)
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in TEXT_SUFFIXES + PICTURE_SUFFIXES:
        known = ", ".join(TEXT_SUFFIXES + PICTURE_SUFFIXES)
        raise ArgumentError(
            f"expected a file name that ends in one of {known}, got {path.name!r}", where=str(path)
        )
    data = dot.encode() if suffix in TEXT_SUFFIXES else render(dot, suffix[1:])
    try:
        path.write_bytes(data)
    except OSError as error:
        raise DbspError(
            f"the file cannot be written: {error.strerror}", where=str(path), code="unwritable-file"
        ) from error
