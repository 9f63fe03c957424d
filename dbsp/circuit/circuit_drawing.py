"""CircuitDrawing: what the method `draw` of circuits, programs and runs returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit.graph import Graph
from dbsp.circuit.pictures.circuit_picture import circuit_picture
from dbsp.circuit.pictures.colours import Profile, coloured_by_profile
from dbsp.circuit.pictures.dot_form import dot_text
from dbsp.circuit.pictures.graphviz_layout import json_text, render, save
from dbsp.circuit.pictures.grouping import Collapse, collapsed
from dbsp.circuit.pictures.mermaid_form import mermaid_text
from dbsp.circuit.pictures.picture import PictureData
from dbsp.circuit.pictures.selection import PathMeasure, around, with_critical_path
from dbsp.circuit.pictures.side_by_side import side_by_side
from dbsp.circuit.stage import Stage, StageName
from dbsp.display.displayed import Displayed
from dbsp.errors import ArgumentError, choice, counted, shorten, wrong_argument
from dbsp.lazy_dataclass import dataclass

Stages: TypeAlias = Stage | StageName | Sequence[Stage | StageName]
"""One stage of a circuit, or several that are drawn side by side."""


@methods_end_at_caller
@dataclass(frozen=True)
class CircuitDrawing(Displayed):
    """A drawing of a circuit; a notebook shows it as a picture.

    Examples:
        >>> circuit = Circuit("copy")
        >>> circuit.output("out", circuit.input("a", x=int))
        >>> circuit.draw()
        <drawing of 'copy': 2 nodes>
    """

    picture: PictureData
    """The nodes, arrows and frames of the drawing."""

    def to_dot(self) -> str:
        """Return the drawing in the DOT language.

        Examples:
            >>> print(Circuit("empty").draw().to_dot().splitlines()[0])
            digraph circuit {
        """
        return dot_text(self.picture)

    def to_mermaid(self) -> str:
        """Return the drawing in the Mermaid language.

        Examples:
            >>> print(Circuit("empty").draw().to_mermaid(), end="")
            flowchart TB
        """
        return mermaid_text(self.picture)

    def to_svg(self) -> str:
        """Return the drawing in SVG.

        Raises:
            SetupError: Graphviz is not installed.
            DbspError: Graphviz fails.

        Examples:
            >>> "<svg" in Circuit("empty").draw().to_svg()
            True
        """
        return render(dot_text(self.picture), "svg").decode()

    def to_json(self) -> str:
        """Return the nodes, arrows, frames and legend of the drawing as JSON.

        Examples:
            >>> import json
            >>> json.loads(Circuit("empty").draw().to_json())["title"]
            'empty'
        """
        return json_text(self.picture)

    def write(self, path: str | Path) -> None:
        """Write the drawing into a file, in the format of the suffix of its name.

        Parameters:
            path: a file name that ends in `.svg`, `.png`, `.pdf`, `.dot`, `.gv`, `.mmd`, `.mermaid`
                or `.json`.

        Raises:
            ArgumentError: the suffix is another one.
            SetupError: Graphviz is not installed; only `.svg`, `.png` and `.pdf` need it.
            DbspError: Graphviz fails, or the file cannot be written.

        Examples:
            >>> import os, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Circuit("empty").draw().write(os.path.join(folder, "empty.mmd"))
            ...     os.listdir(folder)
            ['empty.mmd']
        """
        save(self.picture, path)

    _described_by = "dbsp.circuit.graph_display:drawing_document"

    def __repr__(self) -> str:
        return f"<drawing of {self.picture.title!r}: {counted(len(self.picture.nodes), 'node')}>"


def stages_of(stage: Stages) -> list[Stage]:
    """Return the stages to draw. Raises ArgumentError if one is unknown or there is none."""
    if isinstance(stage, str):
        return [choice("stage", Stage, stage)]
    if not isinstance(stage, Sequence) or not stage:
        raise wrong_argument("stage", "the name of a stage, or a list of names", stage)
    return list(dict.fromkeys(choice("stage", Stage, name) for name in stage))


def picture_of_stages(graphs: Mapping[Stage, Graph]) -> PictureData:
    """Return the picture of one stage, or of several side by side."""
    if len(graphs) == 1:
        return circuit_picture(next(iter(graphs.values())))
    return side_by_side({str(stage): graph for stage, graph in graphs.items()})


def drawing_of(
    picture: PictureData,
    path: str | Path | None = None,
    *,
    only: str | None = None,
    readers: bool = False,
    depth: int | None = None,
    collapse: Collapse | None = None,
    critical: PathMeasure | None = None,
    profile: Profile | None = None,
    title: str | None = None,
) -> CircuitDrawing:
    """Return the drawing of a picture after its selection, grouping and colouring.

    With a `path`, also write it there. Raises ArgumentError for a wrong option.
    """
    _expect_one_of("collapse", collapse, get_args(Collapse))
    _expect_one_of("critical", critical, get_args(PathMeasure))
    _expect_one_of("profile", profile, get_args(Profile))
    if depth is not None and (type(depth) is not int or depth < 0):
        raise wrong_argument("depth", "a number of arrows, 0 or more", depth)
    if only is None and (readers or depth is not None):
        option = "readers" if readers else "depth"
        raise ArgumentError(f"{option}= selects nodes around a relation; give the relation as only=")
    if critical is not None:
        picture = with_critical_path(picture, critical)
    if collapse is not None:  # before the selection: a depth counts the arrows that are drawn
        picture = collapsed(picture, collapse)
    if only is not None:
        if not isinstance(only, str):
            raise wrong_argument("only", "the name of a relation", only)
        picture = around(picture, only, readers=readers, depth=depth)
    if profile is not None:  # last, as the colours of groups compare their sums
        picture = coloured_by_profile(picture, profile)
    drawing = CircuitDrawing(picture.titled(title))
    if path is not None:
        drawing.write(path)
    return drawing


def _expect_one_of(name: str, value: Any, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        words = ", ".join(map(repr, known))
        raise ArgumentError(f"{name}= expects one of {words}, got {shorten(value)}")
