"""Proof trees: why a relation contains a row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from dbsp.display.displayed import Displayed
from dbsp.lazy_dataclass import dataclass

Key: TypeAlias = tuple[str, tuple[Any, ...]]
"""The name of a relation and one of its rows."""

PremiseKind: TypeAlias = Literal["row", "absent", "constraint", "aggregate", "removed"]


@dataclass(frozen=True, slots=True)
class Premise:
    """A premise of a step: a row, the absence of rows, a constraint or the value of an aggregate.

    `key` is set for rows; `witnesses` are some of the `solutions` that an aggregate ranges over. A
    premise of the kind "removed" lists `witnesses` of the rows that a choice, a subsumption or a
    limit removed while it kept this row.
    """

    kind: PremiseKind
    text: str
    key: Key | None = None
    solutions: int = 0
    witnesses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A row and its premises. `rule` and `place` are None for a row at which the proof ends.

    `leaf` says why the proof ends: the row is an input fact, its relation is opaque (see
    `dbsp.compiler.why.opaque_relations`), or its premises were removed later. `number` is None for
    a row that follows from other rows of an equivalence.

    `height` is the height of the smallest proof: 0 for an input fact, else one more than the
    highest row among the premises. `premises` is None if the depth limit was reached.
    """

    key: Key
    text: str
    height: int
    rule: str | None
    number: int | None
    place: str | None
    premises: tuple[Premise, ...] | None
    leaf: str | None = None


DEPTH = 12
"""The default depth of a drawing."""


class Proof(Displayed):
    """A proof of one row with the smallest possible height. Equal parts are stored once.

    `steps` has a step for each row of the proof. The premises of a step are rows of smaller height,
    so no row supports itself. `str(proof)` draws the proof, `DEPTH` rows deep.
    """

    def __init__(self, goal: Key, steps: Mapping[Key, ProofStep]) -> None:
        self.goal = goal
        self.steps = steps

    @property
    def height(self) -> int:
        """The number of rules on the longest path from the row to an input fact."""
        return self.steps[self.goal].height

    @property
    def complete(self) -> bool:
        """Whether the proof reaches input facts everywhere, without hitting the depth limit."""
        return all(step.premises is not None for step in self.steps.values())

    def __str__(self) -> str:
        return "\n".join(self.lines(DEPTH))

    _described_by = "dbsp.compiler.why.why_display:proof_document"

    def __repr__(self) -> str:
        return f"<proof of {self.steps[self.goal].text}: height {self.height}, {len(self.steps)} rows>"

    def lines(self, depth: int | None = None) -> Iterator[str]:
        """Yield the lines of the drawing. Parts deeper than `depth` are omitted, with a remark.

        A row that occurs several times is expanded at its first occurrence. A chain of n rows takes
        O(n^2) characters, because each row is drawn to the right of the one above.
        """
        drawn: set[Key] = set()
        waiting: list[_Place] = [_Place(self._row(self.goal), "", "", 0)]
        while waiting:
            place = waiting.pop()
            step = None if place.premise.key is None else self.steps[place.premise.key]
            if step is None:
                yield from _leaf(place)
                continue
            cut = step.premises is None or (depth is not None and place.level >= depth)
            if step.rule is None:
                yield f"{place.lead}{step.text}   {step.leaf}"
            elif step.key in drawn:
                yield f"{place.lead}{step.text}   proved above"
            elif cut:
                yield f"{place.lead}{step.text}   ... proof of height {step.height} not shown"
            else:
                drawn.add(step.key)
                yield f"{place.lead}{step.text}"
                premises = step.premises or ()
                bar = "│" if premises else " "
                yield f"{place.indent}{bar}  {step.place}: {step.rule}"
                below = [
                    _Place(
                        premise,
                        place.indent + ("└─ " if last else "├─ "),
                        place.indent + ("   " if last else "│  "),
                        place.level + 1,
                    )
                    for premise, last in _with_last(premises)
                ]
                waiting.extend(reversed(below))

    def _row(self, key: Key) -> Premise:
        return Premise("row", self.steps[key].text, key)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the proof as JSON text: an object with `steps`, the first one for the proved row.

        A premise that is a row holds the number of its step. So shared parts are written once, and
        deep proofs need no nesting. Steps at the depth limit have `"premises": null`.
        """
        numbers = {key: number for number, key in enumerate(self.steps)}
        steps = [
            {
                "relation": step.key[0],
                "row": [plain(value) for value in step.key[1]],
                "text": step.text,
                "height": step.height,
                "leaf": step.leaf,
                "rule": None
                if step.rule is None
                else {"number": step.number, "text": step.rule, "place": step.place},
                "premises": None
                if step.premises is None
                else [_premise_document(premise, numbers) for premise in step.premises],
            }
            for step in self.steps.values()
        ]
        return json.dumps({"steps": steps}, indent=indent, ensure_ascii=False)

    def to_dot(self) -> str:
        """Return a drawing in the DOT language: input facts at the top, the proved row at the
        bottom."""
        import graphviz

        dot = graphviz.Digraph("proof", node_attr={"shape": "box", "fontname": "Helvetica,Arial,sans-serif"})
        numbers = {key: f"n{number}" for number, key in enumerate(self.steps)}
        leaves = 0
        for step in self.steps.values():
            label = step.text if step.rule is None else f"{step.text}\n{step.place}: {step.rule}"
            style = {"style": "filled", "fillcolor": "#dcefdc"} if step.rule is None else {}
            if step.premises is None:
                style, label = {"style": "dashed"}, f"{step.text}\n... height {step.height}"
            dot.node(numbers[step.key], graphviz.escape(label), **style)
            for premise in step.premises or ():
                source = numbers.get(premise.key) if premise.key is not None else None
                if source is None:
                    source, leaves = f"l{leaves}", leaves + 1
                    dot.node(source, graphviz.escape("\n".join(_premise_lines(premise))), shape="plain")
                dot.edge(source, numbers[step.key])
        text: str = dot.source
        return text


@dataclass(frozen=True, slots=True)
class _Place:
    """A premise to draw: `lead` precedes its first line, `indent` the lines below it."""

    premise: Premise
    lead: str
    indent: str
    level: int


def _with_last(premises: Sequence[Premise]) -> Iterator[tuple[Premise, bool]]:
    for at, premise in enumerate(premises):
        yield premise, at == len(premises) - 1


def _leaf(place: _Place) -> Iterator[str]:
    first, *others = _premise_lines(place.premise)
    yield place.lead + first
    for line in others:
        yield f"{place.indent}{line}"


def _premise_lines(premise: Premise) -> list[str]:
    match premise.kind:
        case "absent":
            return [f"{premise.text}   no row matches"]
        case "aggregate" | "removed":
            left = premise.solutions - len(premise.witnesses)
            more = [f"   ... and {left:,} more"] if left and premise.witnesses else []
            return [premise.text, *(f"   {witness}" for witness in premise.witnesses), *more]
        case _:
            return [premise.text]


def _premise_document(premise: Premise, numbers: Mapping[Key, int]) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": premise.kind, "text": premise.text}
    if premise.key is not None:
        document["step"] = numbers[premise.key]
    if premise.kind in ("aggregate", "removed"):
        document |= {"solutions": premise.solutions, "witnesses": list(premise.witnesses)}
    return document


def plain(value: Any) -> Any:
    """Return a JSON value: a list for a record, text for a value without a JSON form."""
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    return value if value is None or isinstance(value, int | str) else str(value)
