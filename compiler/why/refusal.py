"""Refusals: why a relation does not contain a row, as the closest partial match of each rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from dbsp.compiler.why.proof import Key, plain
from dbsp.display.displayed import Displayed
from dbsp.lazy_dataclass import dataclass

Status: TypeAlias = Literal["holds", "fails", "open"]

_MARKS: dict[Status, str] = {"holds": "+", "fails": "-", "open": "?"}


@dataclass(frozen=True, slots=True)
class LiteralStatus:
    """A literal of a rule in a partial match: it holds, fails, or is open (has an unbound
    variable).

    `key` is the row that matches an atom, or the missing row if the match determines it.
    """

    status: Status
    text: str
    detail: str = ""
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A way to satisfy as many literals of a rule as possible; the failing parts are missing."""

    parts: tuple[LiteralStatus, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rule of the relation and its best partial matches."""

    rule: str
    number: int
    place: str
    matches: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Refusal(Displayed):
    """Why no row matches `text`: an attempt for each rule, and whether the relation is an input.

    `notes` are lines about what else decides the rows: numbers, an equivalence, and the choice,
    subsumption or limit that removed a row. `causes` has the refusals of rows that are missing in
    the matches, down to the requested depth.
    """

    text: str
    is_input: bool
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...] = ()
    causes: tuple[Refusal, ...] = ()

    _described_by = "dbsp.compiler.why.why_display:refusal_document"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def missing(self) -> Iterator[Key]:
        """Yield the rows that are missing in the matches."""
        for attempt in self.attempts:
            for match in attempt.matches:
                yield from (part.key for part in match.parts if part.key and part.status == "fails")

    def lines(self) -> Iterator[str]:
        """Yield the lines of the explanation."""
        yield f"{self.text}   is missing"
        if self.is_input:
            yield "   it is not an input fact"
        for note in self.notes:
            yield f"   {note}"
        for attempt in self.attempts:
            yield f"   {attempt.place}: {attempt.rule}"
            for at, match in enumerate(attempt.matches):
                if at:
                    yield "      or"
                for part in match.parts:
                    detail = f"   {part.detail}" if part.detail else ""
                    yield f"      {_MARKS[part.status]} {part.text}{detail}"
        for cause in self.causes:
            yield ""
            yield from cause.lines()

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the explanation as JSON text."""
        return json.dumps(self._document(), indent=indent, ensure_ascii=False)

    def _document(self) -> dict[str, Any]:
        attempts = [
            {
                "rule": {"number": attempt.number, "text": attempt.rule, "place": attempt.place},
                "matches": [[_part_document(part) for part in match.parts] for match in attempt.matches],
            }
            for attempt in self.attempts
        ]
        return {
            "missing": self.text,
            "input": self.is_input,
            "notes": list(self.notes),
            "attempts": attempts,
            "causes": [cause._document() for cause in self.causes],
        }


def _part_document(part: LiteralStatus) -> dict[str, Any]:
    document: dict[str, Any] = {"status": part.status, "text": part.text, "detail": part.detail}
    if part.key is not None:
        relation, row = part.key
        document["row"] = {"relation": relation, "row": [plain(value) for value in row]}
    return document
