"""The relations of a program as a picture: which relation is derived from which, and how.

An arrow leads from a relation in the body of a rule to the relation in its head. Negations and
aggregates are marked. A frame is a recursive stratum.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.pictures.picture import (
    EdgeKind,
    NodeKind,
    PictureData,
    PictureEdge,
    PictureFrame,
    PictureNode,
)
from dbsp.compiler.datalog.meaning.checked import CheckedProgram, Relation, Rule
from dbsp.compiler.datalog.meaning.dependencies import dependencies
from dbsp.errors import counted

_KINDS: dict[str, tuple[EdgeKind, str]] = {
    "": ("stream", ""),
    "negates": ("negated", "not"),
    "aggregates over": ("aggregated", "aggregate"),
}


def relations_picture(program: CheckedProgram, title: str) -> PictureData:
    """Return the picture of the relations of a program. O(its size)."""
    # A relation may be called as a keyword of a drawing language, so ids are numbers.
    ids = {name: f"r{number}" for number, name in enumerate(program.relations)}
    strata = {name: number for number, stratum in enumerate(program.strata, 1) for name in stratum.relations}
    frames = {
        number: PictureFrame(f"stratum{number}", f"recursive stratum {number}", "stratum")
        for number, stratum in enumerate(program.strata, 1)
        if stratum.recursive
    }
    rules: dict[str, list[Rule]] = {}
    edges: dict[PictureEdge, None] = {}
    for rule in program.clauses:
        rules.setdefault(rule.head.relation, []).append(rule)
        for use in dependencies(rule):
            kind, label = _KINDS[use.how]
            edges[PictureEdge(ids[use.used], ids[use.user], kind, label)] = None
    ends = {id for edge in edges for id in (edge.source, edge.target)}
    shown = []
    for name, relation in program.relations.items():
        if ids[name] in ends or name in program.inputs or name in program.outputs:
            number = strata.get(name, 0)
            shown.append(_node(program, ids[name], relation, rules.get(name, ()), number, frames.get(number)))
    return PictureData(title, tuple(shown), tuple(edges), tuple(frames.values()))


def _node(
    program: CheckedProgram,
    id: str,
    relation: Relation,
    rules: Sequence[Rule],
    stratum: int,
    frame: PictureFrame | None,
) -> PictureNode:
    name = relation.name
    read, written = name in program.inputs, name in program.outputs or name in program.sizes
    kind: NodeKind = "input" if read else "output" if written else "relation"
    notes = []
    if rules:
        notes.append(f"{counted(len(rules), 'rule')}, stratum {stratum}")
    if read and written:
        notes.append("input and output")
    texts = (" ".join(program.sources.between(rule.span).split()) for rule in rules)
    return PictureNode(
        id,
        name,
        kind,
        f"relation {name}",
        ", ".join(f"{column.name}: {column.type_name}" for column in relation.attributes),
        str(relation.span),
        str(relation.span),
        "\n".join(dict.fromkeys(texts)),
        relation=name,
        frame=frame.id if frame else "",
        size=max(1, len(rules)),
        notes=tuple(notes),
    )
