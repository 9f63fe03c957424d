"""Why a row is not there: the nearest that each rule comes to deriving it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dbsp.compiler.why.proof import Key, plain

Status: TypeAlias = Literal["holds", "fails", "open"]

_MARKS: dict[Status, str] = {"holds": "+", "fails": "-", "open": "?"}


@dataclass(frozen=True, slots=True)
class LiteralStatus:
    """A literal of a rule in a partial match: it holds, fails, or cannot be asked as a variable is open.

    `key` is the row that an atom has found, or that is missing if the match says which one.
    """

    status: Status
    text: str
    detail: str = ""
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """One way to satisfy as much of a rule as can be; the failing parts are what it lacks."""

    parts: tuple[LiteralStatus, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rule that might have derived the row, and its best partial matches."""

    rule: str
    number: int
    place: str
    matches: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no row fits `text`: an attempt of every rule of the relation, and whether it could be put in.

    `whole` says what decides together with the rules, if anything does (see the module of that name).
    `causes` has the refusals of rows that are missing in the matches, where these were followed.
    """

    text: str
    is_input: bool
    attempts: tuple[Attempt, ...]
    whole: str | None = None
    causes: tuple[Refusal, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def missing(self) -> Iterator[Key]:
        """The rows that the matches lack."""
        for attempt in self.attempts:
            for match in attempt.matches:
                yield from (part.key for part in match.parts if part.key and part.status == "fails")

    def lines(self) -> Iterator[str]:
        """The explanation, line by line."""
        yield f"{self.text}   is not there"
        if self.is_input:
            yield "   it was not put in"
        if self.whole is not None:
            yield f"   a row of this relation {self.whole}: rules alone do not decide"
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
        """The explanation as JSON text."""
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
            "whole": self.whole,
            "attempts": attempts,
            "causes": [cause._document() for cause in self.causes],
        }


def _part_document(part: LiteralStatus) -> dict[str, Any]:
    document: dict[str, Any] = {"status": part.status, "text": part.text, "detail": part.detail}
    if part.key is not None:
        relation, row = part.key
        document["row"] = {"relation": relation, "row": [plain(value) for value in row]}
    return document
