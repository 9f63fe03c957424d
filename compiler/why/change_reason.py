"""Reasons of changes: the input changes of a tick that inserted or retracted a row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from dbsp.compiler.why.proof import DEPTH, Key, Proof, plain
from dbsp.compiler.why.refusal import Refusal
from dbsp.display.displayed import Displayed
from dbsp.errors import counted
from dbsp.lazy_dataclass import dataclass

RowChange: TypeAlias = Literal["inserted", "retracted", "unchanged", "missing"]
"""What a tick did with a row; `missing`: it was absent before, and is absent after."""

ChangedKind: TypeAlias = Literal["row", "absent", "constraint", "aggregate", "kept"]

Effect: TypeAlias = Literal["gained", "lost", "unchanged"]


@dataclass(frozen=True, slots=True)
class ChangedPremise:
    """A premise of a derivation, and what the tick did with it.

    `change` is "gained" if the premise holds after the tick only, "lost" if it held before only.
    `key` is the row of an atom. `causes` are the changed rows that explain the change: the row
    itself; for an absence the rows that were retracted, or one that was inserted; for an aggregate
    the changed rows of its group, whose value was `before` and is `after`. The rows beyond the
    first `LIMIT` causes are counted in `more`. A premise of the kind "kept" is the row that a
    choice or a subsumption keeps, or kept, instead of the explained row. An aggregate may have
    another value and be "unchanged", if the rule holds with both values.
    """

    kind: ChangedKind
    text: str
    change: Effect
    key: Key | None = None
    causes: tuple[Key, ...] = ()
    more: int = 0
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedDerivation:
    """An application of a rule that derives the row after the tick, or did so before.

    For a retracted row, exactly one of the lost premises has causes; it also ended `others` more
    derivations by this rule. `number` is None for an equivalence and for a row that was kept.
    """

    rule: str
    number: int | None
    place: str
    premises: tuple[ChangedPremise, ...]
    others: int = 0


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """A row that the tick inserted or retracted, and why.

    An inserted row is an input fact or has one derivation, in which a premise was gained. A
    retracted row was an input fact, or had derivations that were all lost; `derivations` then has
    one for each premise that ended some. `leaf` says why the explanation ends at this row; it is
    "input fact" for a change of an input. `derivations` is None if the depth limit was reached.
    `unexplained` is the number of lost derivations that are not among them; `circular` more used
    the row itself, so they were part of no proof of it.
    """

    key: Key
    text: str
    change: Literal["inserted", "retracted"]
    height: int
    leaf: str | None
    derivations: tuple[ChangedDerivation, ...] | None
    notes: tuple[str, ...] = ()
    unexplained: int = 0
    circular: int = 0

    @property
    def is_input_change(self) -> bool:
        """Whether the tick inserted or retracted the row as an input fact."""
        return self.leaf == INPUT_FACT


INPUT_FACT = "input fact"
LIMIT = 1_000
"""The maximum number of causes of one premise, and of lost derivations of one row."""

SHOWN = 5
"""The maximum number of causes of a premise, and of derivations of a row, in a drawing."""


class ChangeReason(Displayed):
    """Why a row was inserted or retracted in a tick, or why it was not.

    `steps` has a step for each changed row of the explanation, each of them once, beginning with
    the row itself. `str(reason)` draws them as a tree, `DEPTH` rows deep.

    Attributes:
        goal: the relation and the row.
        text: the row as in a program.
        tick: the number of the tick.
        change: "inserted", "retracted", "unchanged" (present before and after) or "missing".
        steps: the changed rows that explain the change; empty if the row did not change.
        proof: a proof of the row if it is unchanged.
        refusal: why the row is missing after the tick, if it is.
    """

    def __init__(
        self,
        goal: Key,
        text: str,
        tick: int,
        change: RowChange,
        steps: Mapping[Key, ChangeStep],
        proof: Proof | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        self.goal = goal
        self.text = text
        self.tick = tick
        self.change = change
        self.steps = steps
        self.proof = proof
        self.refusal = refusal

    @property
    def changes(self) -> dict[str, dict[tuple[Any, ...], int]]:
        """The input changes that the explanation cites: by input, rows with weight 1 or -1.

        They have the form of the changes of a tick, so `run.step` accepts them.
        """
        found: dict[str, dict[tuple[Any, ...], int]] = {}
        for step in self.steps.values():
            if step.is_input_change:
                relation, row = step.key
                found.setdefault(relation, {})[row] = 1 if step.change == "inserted" else -1
        return found

    @property
    def complete(self) -> bool:
        """Whether every changed row is explained, down to input changes."""
        return all(
            step.derivations is not None
            and not step.unexplained
            and not any(premise.more for each in step.derivations for premise in each.premises)
            for step in self.steps.values()
        )

    _described_by = "dbsp.compiler.why.change_display:change_document"

    def __str__(self) -> str:
        return "\n".join(self.lines(DEPTH))

    def __repr__(self) -> str:
        cited = sum(map(len, self.changes.values()))
        by = f", by {counted(cited, 'input change')}" if self.steps else ""
        return f"<{self.text}: {self.headline}{by}>"

    @property
    def headline(self) -> str:
        """What the tick did with the row, in a few words."""
        if self.change in ("inserted", "retracted"):
            return f"{self.change} in tick {self.tick}"
        where = "present" if self.change == "unchanged" else "missing"
        return f"not changed in tick {self.tick}: {where} before and after"

    def lines(self, depth: int | None = None) -> Iterator[str]:
        """Yield the lines of the drawing. Parts deeper than `depth` are omitted, with a remark."""
        if self.steps:
            yield from Drawing(self, depth).lines()
            return
        yield f"{self.text}   {self.headline}"
        if self.proof is not None:
            yield ""
            yield from self.proof.lines(depth)
        if self.refusal is not None:
            yield ""
            yield from self.refusal.lines()

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the reason as JSON text.

        The object has `tick`, `relation`, `row`, `text`, `change`, `changes` (the cited input
        changes), `steps`, `proof` and `refusal`. The first step is the row itself. A premise lists
        the numbers of the steps that explain it in `causes`, so shared parts are written once.
        """
        numbers = {key: number for number, key in enumerate(self.steps)}
        document = {
            "tick": self.tick,
            **_row_document(self.goal, self.text),
            "change": self.change,
            "changes": [
                {**_row_document(step.key, step.text), "weight": 1 if step.change == "inserted" else -1}
                for step in self.steps.values()
                if step.is_input_change
            ],
            "steps": [_step_document(step, numbers) for step in self.steps.values()],
            "proof": None if self.proof is None else json.loads(self.proof.to_json()),
            "refusal": None if self.refusal is None else json.loads(self.refusal.to_json()),
        }
        return json.dumps(document, indent=indent, ensure_ascii=False)


def _row_document(key: Key, text: str) -> dict[str, Any]:
    return {"relation": key[0], "row": [plain(value) for value in key[1]], "text": text}


def _step_document(step: ChangeStep, numbers: Mapping[Key, int]) -> dict[str, Any]:
    derivations = step.derivations
    return {
        **_row_document(step.key, step.text),
        "change": step.change,
        "height": step.height,
        "leaf": step.leaf,
        "notes": list(step.notes),
        "unexplained": step.unexplained,
        "circular": step.circular,
        "derivations": None
        if derivations is None
        else [
            {
                "rule": {"number": each.number, "text": each.rule, "place": each.place},
                "others": each.others,
                "premises": [_premise_document(premise, numbers) for premise in each.premises],
            }
            for each in derivations
        ],
    }


def _premise_document(premise: ChangedPremise, numbers: Mapping[Key, int]) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": premise.kind, "text": premise.text, "change": premise.change}
    if premise.key is not None:
        document["row"] = [plain(value) for value in premise.key[1]]
        document["relation"] = premise.key[0]
    if premise.change != "unchanged":
        document["causes"] = [numbers[key] for key in premise.causes]
        document["more"] = premise.more
    if premise.kind == "aggregate":
        document |= {"before": premise.before, "after": premise.after}
    return document


def premise_remark(premise: ChangedPremise) -> str:
    """Return what the tick did with a premise, in a few words."""
    effect = premise.change
    if premise.kind == "constraint":
        return {"gained": "became true", "lost": "became false", "unchanged": ""}[effect]
    if premise.kind == "aggregate" and premise.before != premise.after:
        # The text of the premise has the value of the state with the derivation.
        if effect == "lost" or not premise.text.startswith(f"{premise.after} = "):
            return "has no value now" if premise.after is None else f"is {premise.after} now"
        return "had no value" if premise.before is None else f"was {premise.before}"
    if effect == "unchanged":
        return "unchanged"
    if premise.kind == "absent":
        return "became true" if effect == "gained" else "became false"
    return "inserted" if effect == "gained" else "retracted"


class Drawing:
    """The drawing of the steps: a row is expanded where it occurs first."""

    def __init__(self, reason: ChangeReason, depth: int | None) -> None:
        self.reason = reason
        self.depth = depth
        self.drawn: set[Key] = set()

    def lines(self) -> Iterator[str]:
        # A stack instead of a recursion, since chains may be deep.
        waiting: list[_Place] = [_Place("", "", self.reason.steps[self.reason.goal], 0)]
        while waiting:
            place = waiting.pop()
            (first, *rule), children = self.expanded(place.part, place.level)
            yield place.lead + first
            bar = "│" if children else " "
            yield from (f"{place.indent}{bar}  {text}" for text in rule)
            for at in reversed(range(len(children))):
                last = at == len(children) - 1
                part, level = children[at]
                lead = place.indent + ("└─ " if last else "├─ ")
                waiting.append(_Place(lead, place.indent + ("   " if last else "│  "), part, level))

    def expanded(self, part: Part, level: int) -> Expanded:
        """Return the lines of a part, and the parts below it with their levels."""
        match part:
            case str():
                return [part], []
            case ChangeStep():
                return self._step(part, level)
            case ChangedDerivation():
                others = f"   and {counted(part.others, 'similar derivation')}" if part.others else ""
                return [f"{part.place}: {part.rule}{others}"], [(each, level) for each in part.premises]
            case ChangedPremise():
                return self._premise(part, level)

    def _step(self, step: ChangeStep, level: int) -> Expanded:
        what = self.reason.headline if not level else step.change
        text = f"{step.text}   {f'{step.leaf}, ' if step.leaf else ''}{what}"
        derivations = step.derivations
        if step.key in self.drawn and derivations:
            return [f"{text}, explained above"], []
        self.drawn.add(step.key)
        if derivations is None or (derivations and self.depth is not None and level >= self.depth):
            return [f"{text}   ... explanation not shown"], []
        below: list[tuple[Part, int]] = [(note, level) for note in step.notes]
        if step.change == "inserted":
            below += [(premise, level) for each in derivations for premise in each.premises]
            return [text, *(f"{each.place}: {each.rule}" for each in derivations)], below
        below += [(each, level) for each in derivations[:SHOWN]]
        hidden = sum(1 + each.others for each in derivations[SHOWN:]) + step.unexplained
        if hidden:
            below.append((f"... and {hidden:,} more lost derivations", level))
        if step.circular:
            below.append((f"{counted(step.circular, 'more derivation')} used the row itself", level))
        return [text], below

    def _premise(self, premise: ChangedPremise, level: int) -> Expanded:
        steps = [self.reason.steps[key] for key in premise.causes]
        if premise.kind in ("row", "kept") and steps:
            return self._step(steps[0], level + 1)
        remark = premise_remark(premise)
        text = f"{premise.text}   {remark}" if remark else premise.text
        below: list[tuple[Part, int]] = [(step, level + 1) for step in steps[:SHOWN]]
        hidden = max(0, len(steps) - SHOWN) + premise.more
        if hidden:
            below.append((f"... and {hidden:,} more changed rows", level))
        return [text], below


Part: TypeAlias = str | ChangeStep | ChangedDerivation | ChangedPremise
Expanded: TypeAlias = tuple[list[str], list[tuple[Part, int]]]


@dataclass(frozen=True, slots=True)
class _Place:
    """A part to draw: `lead` precedes its first line, `indent` the lines below it."""

    lead: str
    indent: str
    part: Part
    level: int
