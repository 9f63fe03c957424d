"""Drawings of circuits: operators as boxes, streams as arrows, nested scopes as frames.

A dashed arrow is read one step late: it ends at a delay, so a cycle passes through it. An arrow
into a frame is a stream that enters a scope by delta_0; an arrow out of it is the sum over the
iterations of the scope. DOT and Mermaid text need Python only. Graphviz lays out pictures.

`dbsp.draw` is this module. The method `draw` of circuits, programs and runs has more options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.circuit_drawing import CircuitDrawing
from dbsp.circuit.graph import Graph
from dbsp.circuit.pictures.circuit_picture import circuit_picture
from dbsp.circuit.pictures.dot_form import dot_text
from dbsp.circuit.pictures.graphviz_layout import render, save
from dbsp.circuit.pictures.mermaid_form import mermaid_text
from dbsp.circuit.pictures.picture import Measured, PictureData
from dbsp.errors import wrong_argument

__all__ = ["picture", "render", "save", "to_dot", "to_mermaid", "to_svg", "write"]


@ends_at_caller
def to_dot(circuit: object, *, title: str | None = None) -> str:
    """Return a drawing of a circuit in the DOT language. O(nodes + edges).

    Boxes show the operator, the columns of its stream, and the rule or the source line that built
    it; for a run also the rows and the memory of its traces. Equal circuits have equal drawings.

    Parameters:
        circuit: a circuit, a compiled program (its query circuit is drawn), a run, or the result of
            a method `draw`.
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


@ends_at_caller
def to_mermaid(circuit: object, *, title: str | None = None) -> str:
    """Return a drawing of a circuit in the Mermaid language, which GitHub shows as a picture.

    Parameters:
        circuit: a circuit, a compiled program (its query circuit is drawn), a run, or the result of
            a method `draw`.
        title: the heading; the name of the circuit if None.

    Raises:
        ArgumentError: `circuit` is something else.

    Examples:
        >>> circuit = Circuit("copy")
        >>> circuit.output("out", circuit.input("a", x=int))
        >>> print(dbsp.draw.to_mermaid(circuit).splitlines()[-3])
          n0 --> n1
    """
    return mermaid_text(picture(circuit, title=title))


def picture(circuit: Any, *, title: str | None = None) -> PictureData:
    """Return the drawing of a circuit as data (see `dbsp.circuit.pictures.picture`).

    Takes the arguments and raises the errors of `to_dot`.
    """
    if isinstance(circuit, CircuitDrawing):
        return circuit.picture.titled(title)
    graph = circuit if isinstance(circuit, Graph) else getattr(circuit, "graph", None)  # of a run
    if not isinstance(circuit, Graph) and callable(getattr(circuit, "circuit", None)):  # a program
        graph = circuit.circuit()
    if not isinstance(graph, Graph):
        raise wrong_argument("circuit", "a circuit, a program or a run", circuit)
    kept = None if isinstance(circuit, Graph) else getattr(circuit, "kept", None)
    sizes = kept() if callable(kept) else {}
    measured = {node: Measured(state_rows=rows, state_bytes=size) for node, (rows, size) in sizes.items()}
    return circuit_picture(graph, measured).titled(title)


@ends_at_caller
def to_svg(circuit: object, *, title: str | None = None) -> str:
    """Return a drawing of a circuit in SVG.

    Parameters:
        circuit: a circuit, a compiled program (its query circuit is drawn), a run, or the result of
            a method `draw`.
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
    return render(dot_text(picture(circuit, title=title)), "svg").decode()


@ends_at_caller
def write(circuit: object, path: str | Path, *, title: str | None = None) -> None:
    """Draw a circuit into a file, in the format of the suffix of its name.

    Parameters:
        circuit: a circuit, a compiled program (its query circuit is drawn), a run, or the result of
            a method `draw`.
        path: a file name that ends in `.svg`, `.png` or `.pdf` for a picture, in `.dot` or `.gv`
            for DOT, in `.mmd` or `.mermaid` for Mermaid, or in `.json` for the nodes and arrows as
            data.
        title: the heading; the name of the circuit if None.

    Raises:
        ArgumentError: `circuit` is something else, or the suffix is another one.
        SetupError: Graphviz is not installed; only pictures need it.
        DbspError: Graphviz fails, or the file cannot be written.

    Examples:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dbsp.draw.write(Circuit("empty"), os.path.join(folder, "empty.svg"))
        ...     os.listdir(folder)
        ['empty.svg']
    """
    save(picture(circuit, title=title), path)
