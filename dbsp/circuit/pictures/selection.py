"""Parts of a picture: what leads to a relation and what reads it, and the critical path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, TypeAlias

from dbsp.circuit.pictures.picture import PictureData, PictureEdge, PictureNode
from dbsp.diagnostics import did_you_mean
from dbsp.errors import ArgumentError, counted

PathMeasure: TypeAlias = Literal["nodes", "time"]
"""What the length of a path is: its number of nodes, or the time that a run measured for them."""


def around(
    picture: PictureData, relation: str, *, readers: bool = False, depth: int | None = None
) -> PictureData:
    """Return what leads to a relation, and with `readers` also what reads it. O(its size).

    Parameters:
        picture: the picture of a circuit or of a program.
        relation: the name of a relation.
        readers: whether to show the nodes that depend on the relation, too.
        depth: the greatest number of arrows from the relation; a node whose other inputs or readers
            are not shown has a note about them.

    Raises:
        ArgumentError: the picture has no relation of this name.
    """
    named = {node.id: {node.relation, *node.relations} - {""} for node in picture.nodes}
    start = [id for id, names in named.items() if relation in names]
    if not start:
        known = sorted(set().union(*named.values()))
        hint = did_you_mean(relation, known)
        advice = hint or (
            f"its relations are {', '.join(known)}" if known else "the circuit names no relations"
        )
        raise ArgumentError(
            f"only: expected a relation of the circuit, got {relation!r}; {advice}", code="unknown-relation"
        )
    kept = _reached(start, _neighbours(picture, upstream=True), depth)
    if readers:
        kept |= _reached(start, _neighbours(picture, upstream=False), depth)
    return _with_notes(picture, picture.restricted(kept), upstream=True, downstream=readers)


def _neighbours(picture: PictureData, *, upstream: bool) -> dict[str, list[str]]:
    """Return the sources of each node, or its targets."""
    found: dict[str, list[str]] = {}
    for edge in picture.edges:
        ends = (edge.target, edge.source) if upstream else (edge.source, edge.target)
        found.setdefault(ends[0], []).append(ends[1])
    return found


def _reached(start: Iterable[str], following: Mapping[str, Sequence[str]], depth: int | None) -> set[str]:
    reached = set(start)
    border = list(reached)
    steps = 0
    while border and (depth is None or steps < depth):
        steps += 1
        border = list(dict.fromkeys(n for id in border for n in following.get(id, ()) if n not in reached))
        reached |= set(border)
    return reached


def _with_notes(whole: PictureData, part: PictureData, *, upstream: bool, downstream: bool) -> PictureData:
    """Return the part with a note at each node whose inputs are missing, or its readers."""
    ids = {node.id for node in part.nodes}
    sources, targets = _neighbours(whole, upstream=True), _neighbours(whole, upstream=False)

    def noted(node: PictureNode) -> PictureNode:
        notes = []
        for wanted, of, what in ((upstream, sources, "input"), (downstream, targets, "reader")):
            missing = len({id for id in of.get(node.id, ()) if id not in ids})
            if wanted and missing:
                notes.append(f"{counted(missing, what)} not shown")
        return replace(node, notes=(*node.notes, *notes)) if notes else node

    return replace(part, nodes=tuple(map(noted, part.nodes)))


def critical_path(picture: PictureData, measure: PathMeasure = "nodes") -> list[str]:
    """Return the ids of the longest path along the arrows of one step, first node first.

    Delayed arrows are not part of a path, so it is the chain of nodes that wait for each other in
    one tick, or in one iteration. O(nodes + edges).
    """
    sources: dict[str, list[str]] = {node.id: [] for node in picture.nodes}
    for edge in picture.edges:
        if edge.kind != "delayed":
            sources[edge.target].append(edge.source)
    lengths = {node.id: 1.0 if measure == "nodes" else node.measured.seconds or 0.0 for node in picture.nodes}
    longest: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for id in _in_order(sources):
        best = max(sources[id], key=lambda source: longest[source], default=None)
        before[id] = best
        longest[id] = lengths[id] + (0.0 if best is None else longest[best])
    path: list[str] = []
    at = max(longest, key=lambda id: longest[id], default=None)
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]


def _in_order(sources: Mapping[str, Sequence[str]]) -> list[str]:
    """Return all ids, each after its sources; there is no cycle."""
    order: list[str] = []
    waiting = {id: len(of) for id, of in sources.items()}
    targets: dict[str, list[str]] = {}
    for id, of in sources.items():
        for source in of:
            targets.setdefault(source, []).append(id)
    ready = [id for id, count in waiting.items() if not count]
    while ready:
        id = ready.pop()
        order.append(id)
        for target in targets.get(id, ()):
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return order


def with_critical_path(picture: PictureData, measure: PathMeasure = "nodes") -> PictureData:
    """Return the picture with the longest path marked."""
    path = critical_path(picture, measure)
    on_path = set(path)
    steps = set(pairwise(path))

    def marked(edge: PictureEdge) -> PictureEdge:
        here = edge.kind != "delayed" and (edge.source, edge.target) in steps
        return replace(edge, marked=True) if here else edge

    return replace(
        picture,
        nodes=tuple(replace(node, marked=True) if node.id in on_path else node for node in picture.nodes),
        edges=tuple(map(marked, picture.edges)),
    )
