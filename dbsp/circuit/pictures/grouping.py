"""Pictures with groups of operators as single nodes: a rule, a relation or a scope each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from dbsp.circuit.pictures.picture import (
    Measured,
    PictureData,
    PictureEdge,
    PictureFrame,
    PictureNode,
)
from dbsp.errors import counted

Collapse: TypeAlias = Literal["rules", "strata", "scopes"]
"""What becomes one node: the operators of each rule, of each stratum (a recursive scope, or all
operators that lead to one relation), or of each scope."""

Key: TypeAlias = tuple[str, ...]


def collapsed(picture: PictureData, by: Collapse) -> PictureData:
    """Return the picture with each group of operators as one node. O(its size).

    A group of one operator stays this operator. Inputs, outputs and constants stay as they are.
    """
    frames = {frame.id: frame for frame in picture.frames}
    keys = {"rules": _by_rule, "strata": _by_stratum, "scopes": _by_scope}[by](picture, frames)
    members: dict[Key, list[PictureNode]] = {}
    for node in picture.nodes:
        members.setdefault(keys[node.id], []).append(node)
    nodes: list[PictureNode] = []
    group_of: dict[str, str] = {}
    for key, group in members.items():
        made = group[0] if len(group) == 1 else _group(key, group, frames)
        nodes.append(made)
        group_of |= {node.id: made.id for node in group}
    edges: dict[tuple[str, str, str], PictureEdge] = {}
    for edge in picture.edges:
        source, target = group_of[edge.source], group_of[edge.target]
        if source == target and edge.kind != "delayed":
            continue
        known = edges.get((source, target, edge.kind))
        label = edge.label if source == edge.source and target == edge.target else ""
        moved = replace(edge, source=source, target=target, label=label)
        if known is not None:
            moved = replace(moved, width=max(known.width, moved.width), marked=known.marked or moved.marked)
        edges[source, target, edge.kind] = moved
    whole = replace(picture, nodes=tuple(nodes), edges=tuple(edges.values()))
    return whole.restricted(node.id for node in nodes)


def _group(key: Key, group: Sequence[PictureNode], frames: dict[str, PictureFrame]) -> PictureNode:
    """Return the node that stands for a group of two or more."""
    last = group[-1]
    measured = Measured()
    for node in group:
        measured = measured.plus(node.measured)
    named = list(dict.fromkeys(node.relation for node in group if node.relation))
    size = sum(node.size for node in group)
    kind, name = key[:2]
    frame = last.frame
    title, text = name, last.text if kind == "rule" else ""
    if kind == "scope":
        inner = frames[name]
        title, frame = inner.title, inner.parent
        if inner.measured.seconds is not None:  # the time of a scope includes that of its nodes
            measured = replace(measured, seconds=inner.measured.seconds)
    elif kind == "rule":
        title = last.text or ", ".join(named) or name
        frame = _scope_of(last.frame, frames)
    return PictureNode(
        f"{last.id}_group",
        title,
        "group",
        columns=last.columns if kind == "rule" or len(named) == 1 else "",
        place=last.place if kind == "rule" else "",
        rule=last.rule if kind == "rule" else "",
        text=text,
        relation=named[0] if len(named) == 1 else "",
        relations=tuple(named),
        frame=frame,
        size=size,
        measured=measured,
        notes=(counted(size, "operator"),),
        marked=any(node.marked for node in group),
    )


def _scope_of(frame: str, frames: dict[str, PictureFrame]) -> str:
    """Return the innermost frame that is not the frame of a change."""
    while frame and frames[frame].kind == "change":
        frame = frames[frame].parent
    return frame


def _outermost(frame: str, frames: dict[str, PictureFrame]) -> str:
    """Return the outermost scope around a frame; "" if there is none."""
    found = ""
    while frame:
        if frames[frame].kind == "scope":
            found = frame
        frame = frames[frame].parent
    return found


def _alone(node: PictureNode) -> bool:
    return node.kind in ("input", "output", "constant")


def _by_rule(picture: PictureData, frames: dict[str, PictureFrame]) -> dict[str, Key]:
    return {
        node.id: ("node", node.id)
        if _alone(node) or not node.rule
        else ("rule", node.rule, _scope_of(node.frame, frames))
        for node in picture.nodes
    }


def _by_scope(picture: PictureData, frames: dict[str, PictureFrame]) -> dict[str, Key]:
    scopes = {node.id: _outermost(node.frame, frames) for node in picture.nodes}
    leaving = {node.id for node in picture.nodes if node.kind == "leaving" and not scopes[node.id]}
    for edge in picture.edges:
        if edge.target in leaving:  # it emits a result of the scope
            scopes[edge.target] = scopes[edge.source]
    return {id: ("scope", scope) if scope else ("node", id) for id, scope in scopes.items()}


def _by_stratum(picture: PictureData, frames: dict[str, PictureFrame]) -> dict[str, Key]:
    """Group a scope, or the operators between the relations that they read and one relation."""
    keys = _by_scope(picture, frames)
    leads_to = _relations_after(picture, lambda id: keys[id][0] == "node")
    for node in picture.nodes:
        if keys[node.id][0] == "node" and not _alone(node):
            names = leads_to[node.id]
            if len(names) == 1:
                keys[node.id] = ("relation", names[0])
            elif names:
                keys[node.id] = ("relation", f"shared by {', '.join(names)}")
    return keys


def _relations_after(picture: PictureData, within: Callable[[str], bool]) -> dict[str, tuple[str, ...]]:
    """Return the first relations that each node leads to, itself included.

    A node that leads into a scope belongs to the relations of the scope.
    """
    targets: dict[str, list[str]] = {node.id: [] for node in picture.nodes}
    for edge in picture.edges:
        if edge.kind != "delayed":
            targets[edge.source].append(edge.target)
    of_node = {node.id: node for node in picture.nodes}
    found: dict[str, tuple[str, ...]] = {}
    for start in targets:
        waiting = [start]
        while waiting:
            id = waiting[-1]
            if id in found:
                waiting.pop()
                continue
            if of_node[id].relation and within(id):
                found[id] = (of_node[id].relation,)
                continue
            open_targets = [target for target in targets[id] if target not in found]
            if open_targets:
                waiting.extend(open_targets)
                continue
            names = sorted({name for target in targets[id] for name in found[target]})
            found[id] = (of_node[id].relation,) if of_node[id].relation else tuple(names)
    return found
