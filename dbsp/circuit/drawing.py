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
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.pictures.circuit_picture import circuit_picture
from dbsp.circuit.pictures.dot_form import dot_text
from dbsp.circuit.pictures.picture import Measured, PictureData
from dbsp.errors import ArgumentError, DbspError, SetupError, wrong_argument

TEXT_SUFFIXES = (".dot", ".gv")
PICTURE_SUFFIXES = (".svg", ".png", ".pdf")

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
    return dot_text(picture(circuit, title=title))


def picture(circuit: object, *, title: str | None = None) -> PictureData:
    """Return the drawing of a circuit as data (see `dbsp.circuit.pictures.picture`).

    Takes the arguments and raises the errors of `to_dot`.
    """
    graph = _graph_of(circuit)
    measured = {
        node: Measured(state_rows=rows, state_bytes=size) for node, (rows, size) in _kept(circuit).items()
    }
    return circuit_picture(graph, measured).titled(title)


def _graph_of(circuit: Any) -> Graph:
    if isinstance(circuit, Graph):
        return circuit
    graph = getattr(circuit, "graph", None)  # a run
    if callable(getattr(circuit, "circuit", None)):  # a program
        graph = circuit.circuit()
    if isinstance(graph, Graph):
        return graph
    raise wrong_argument("circuit", "a circuit, a program or a run", circuit)


def _kept(circuit: Any) -> Mapping[Node, tuple[int, int]]:
    """Return the rows and bytes of every trace by node; a circuit or program has none."""
    kept = None if isinstance(circuit, Graph) else getattr(circuit, "kept", None)
    return kept() if callable(kept) else {}


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
