"""A picture of a run as a tree of text: each operator above those that it reads, with its counts.

A chain of operators is one column, and only a node with several sources branches:

    Output total                       3 rows     12 µs
    Join on shop                       3 rows     40 µs
    ├─ Arrange by shop, euro           3 rows      9 µs  3 stored
    │  Input sold                      3 rows     11 µs
    └─ Arrange by shop, region         2 rows      9 µs  2 stored
       Input shop                      2 rows     10 µs

A node with several readers has its counts at the first. A delayed stream is not followed: its
source is a node of the iteration or the tick before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dbsp.circuit.pictures.picture import Measured, PictureData, PictureFrame, PictureNode
from dbsp.display.amounts import duration, memory
from dbsp.errors import counted

_WIDEST = 72
"""The most characters of a tree that the columns of counts are aligned with."""


class PlanLine(NamedTuple):
    """One line of the tree, and what was measured of its node; None if it is shown above."""

    text: str
    measured: Measured | None
    place: str


def plan_tree(picture: PictureData) -> list[str]:
    """Return the lines of the tree of a picture with measurements. O(nodes + edges)."""
    lines = list(_Plan(picture).lines())
    width = min(_WIDEST, max((len(line.text) for line in lines), default=0))
    counts = [_counts(line.measured) for line in lines]
    widths = [max(map(len, column), default=0) for column in zip(*counts, strict=True)]
    found = []
    for line, cells in zip(lines, counts, strict=True):
        aligned = (cell.rjust(size) for cell, size in zip(cells, widths, strict=True))
        place = f"  {line.place}" if line.place else ""
        found.append(f"{line.text:<{width}}  {'  '.join(aligned)}{place}".rstrip())
    return found


def _counts(measured: Measured | None) -> tuple[str, str, str, str]:
    if measured is None:
        return "", "", "", ""
    rows, steps, seconds = measured.rows_out, measured.steps, measured.seconds
    stored = ""
    if measured.state_rows is not None and measured.state_bytes is not None:
        stored = f"{measured.state_rows:,} stored, {memory(measured.state_bytes)}"
    return (
        "" if rows is None else counted(rows, "row"),
        "" if seconds is None else duration(seconds),
        "" if steps is None else counted(steps, "step"),
        stored,
    )


class _Plan:
    """The walk over a picture, from the nodes that nothing reads."""

    def __init__(self, picture: PictureData) -> None:
        self._picture = picture
        self._nodes = {node.id: node for node in picture.nodes}
        self._frames = {frame.id: frame for frame in picture.frames}
        self._sources: dict[str, list[str]] = {}
        self._shown: set[str] = set()
        for edge in picture.edges:
            if edge.kind != "delayed":
                self._sources.setdefault(edge.target, []).append(edge.source)

    def lines(self) -> Iterator[PlanLine]:
        read = {source for sources in self._sources.values() for source in sources}
        for node in self._picture.nodes:
            if node.id not in read and node.id not in self._shown:
                yield from self._from(node)

    def _from(self, root: PictureNode) -> Iterator[PlanLine]:
        # A stack and not recursion: a program may have chains of thousands of operators.
        waiting = [(root, "", "", "")]
        while waiting:
            node, first, rest, frame = waiting.pop()
            if node.frame != frame:
                for entered in self._entered(node.frame, frame):
                    yield PlanLine(f"{first}[{entered.title}]", entered.measured, "")
                    first = rest
            if node.id in self._shown:
                yield PlanLine(f"{first}{node.title} (above)", None, node.place)
                continue
            self._shown.add(node.id)
            yield PlanLine(first + node.title, node.measured, node.place)
            sources = [self._nodes[id] for id in dict.fromkeys(self._sources.get(node.id, ()))]
            if len(sources) == 1:
                waiting.append((sources[0], rest, rest, node.frame))
                continue
            for number, source in reversed(list(enumerate(sources))):
                last = number == len(sources) - 1
                branch = ("└─ ", "   ") if last else ("├─ ", "│  ")
                waiting.append((source, rest + branch[0], rest + branch[1], node.frame))

    def _entered(self, frame: str, outside: str) -> list[PictureFrame]:
        """Return the frames of scopes between a node and its reader, outermost first."""
        around = set(self._around(outside))
        return [self._frames[id] for id in reversed(self._around(frame)) if id not in around]

    def _around(self, frame: str) -> list[str]:
        found = []
        while frame:
            found.append(frame)
            frame = self._frames[frame].parent
        return found
