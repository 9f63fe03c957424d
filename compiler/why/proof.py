"""Why a row is there: a proof tree."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Key: TypeAlias = tuple[str, tuple[Any, ...]]
"""A relation and a row of it."""

PremiseKind: TypeAlias = Literal["row", "absent", "constraint", "aggregate"]


@dataclass(frozen=True, slots=True)
class Premise:
    """One thing that a step rests on: a row, that there is no row, a constraint or the value of an aggregate.

    `key` is there for rows; `witnesses` are some of the `solutions` that an aggregate ranges over.
    """

    kind: PremiseKind
    text: str
    key: Key | None = None
    solutions: int = 0
    witnesses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A row and what it follows from. `rule` and `place` are None for a row at which the proof ends.

    `leaf` says why it ends there: the row was put in, or its relation is taken as a whole.

    `height` is that of the smallest proof: 0 for what was put in, else one more than the highest of the
    rows among the premises. `premises` is None where the proof was not followed further.
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
"""How deep proofs are drawn if nothing else is said."""


class Proof:
    """A proof of one row, of the smallest height there is. Equal parts are there once.

    `steps` has a step for each row of the proof; the premises of a step are rows of smaller height, so no
    row supports itself. `str(proof)` draws it, `DEPTH` rows deep.
    """

    def __init__(self, goal: Key, steps: Mapping[Key, ProofStep]) -> None:
        self.goal = goal
        self.steps = steps

    @property
    def height(self) -> int:
        """The number of rules on the longest way from the row to what was put in."""
        return self.steps[self.goal].height

    @property
    def complete(self) -> bool:
        """Whether every row of the proof was followed to what was put in."""
        return all(step.premises is not None for step in self.steps.values())

    def __str__(self) -> str:
        return "\n".join(self.lines(DEPTH))

    def __repr__(self) -> str:
        return f"<proof of {self.steps[self.goal].text}: height {self.height}, {len(self.steps)} rows>"

    def lines(self, depth: int | None = None) -> Iterator[str]:
        """The drawing, line by line; parts deeper than `depth` are left out, which the line above says.

        A row that stands in several places is drawn out where it stands first. A chain of n rows takes
        O(n^2) characters, as each is drawn to the right of the one above.
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
                yield f"{place.lead}{step.text}   as above"
            elif cut:
                yield f"{place.lead}{step.text}   ... and what it follows from (height {step.height})"
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
        """The proof as JSON text: `steps`, of which the first is the row asked for.

        Rows among the premises of a step are numbers of steps, so what is shared is there once and no depth
        of nesting is too much. Steps that were not followed have `"premises": null`.
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
        """The proof as a drawing in the DOT language: what was put in at the top, the row at the bottom."""
        import graphviz

        dot = graphviz.Digraph("proof", node_attr={"shape": "box", "fontname": "Helvetica,Arial,sans-serif"})
        numbers = {key: f"n{number}" for number, key in enumerate(self.steps)}
        leaves = 0
        for step in self.steps.values():
            label = step.text if step.rule is None else f"{step.text}\n{step.place}: {step.rule}"
            style = {"style": "filled", "fillcolor": "#dcefdc"} if step.rule is None else {}
            if step.premises is None:
                style, label = {"style": "dashed"}, f"{step.text}\n... {step.height} high"
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
    """A premise to be drawn: what stands before it, and before what is below it."""

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
            return [f"{premise.text}   no row fits"]
        case "aggregate":
            left = premise.solutions - len(premise.witnesses)
            more = [f"   ... and {left:,} more"] if left else []
            return [premise.text, *(f"   {witness}" for witness in premise.witnesses), *more]
        case _:
            return [premise.text]


def _premise_document(premise: Premise, numbers: Mapping[Key, int]) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": premise.kind, "text": premise.text}
    if premise.key is not None:
        document["step"] = numbers[premise.key]
    if premise.kind == "aggregate":
        document |= {"solutions": premise.solutions, "witnesses": list(premise.witnesses)}
    return document


def plain(value: Any) -> Any:
    """The value as JSON has it: a record as a list, what JSON has no word for as its text."""
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    return value if value is None or isinstance(value, int | str) else str(value)
