"""The mistakes of newcomers: one message each, at its place, with what to write instead.

Every case of `mistakes.txt` is a program, the text that its messages mark, and the messages:

    === name of the case
    r(x) :- e(x, _), not e(_, x).
    [not] expected '!', got 'not'
        write !e(...)

A case begins with the declarations of `DECLARED`, unless its name ends with `(alone)`.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import dbsp
from dbsp.compiler.datalog.text.lexer import SIGNS
from dbsp.diagnostics import Diagnostic
from dbsp.errors import CompileError
from tests.compiler.support import parsed_items

DECLARED = """.decl e(x: number, y: number) .input e
.decl r(x: number) .output r
.decl s(x: symbol) .input s
.decl q(x: symbol) .output q
"""
CASES = re.split(r"^=== ", Path(__file__).with_name("mistakes.txt").read_text(), flags=re.MULTILINE)[1:]
PROGRAMS = sorted((Path(__file__).parents[3] / "programs").glob("*.dl"))


@dataclass(frozen=True)
class Case:
    """One case of the file."""

    name: str
    program: str
    messages: str

    @classmethod
    def of(cls, text: str) -> Case:
        name, _, rest = text.partition("\n")
        first = re.search(r"^\[.*\] ", rest, re.MULTILINE)
        assert first is not None, name
        start = "" if name.endswith("(alone)") else DECLARED
        return cls(name, start + rest[: first.start() - 1], rest[first.start() :])


def shown(found: Diagnostic) -> str:
    """A message as the file writes it."""
    line = found.line_text or ""
    end = found.span.end_column - 1 if found.span.end_line == found.span.line else len(line)
    warning = "warning: " if found.severity == "warning" else ""
    hint = "" if found.hint is None else f"    {found.hint}\n"
    return f"[{line[found.span.column - 1 : end]}] {warning}{found.message}\n{hint}"


@pytest.mark.parametrize("case", [Case.of(text) for text in CASES], ids=lambda case: case.name)
def test_messages(case: Case) -> None:
    with pytest.raises(CompileError) as refused:
        dbsp.compile(case.program)
    assert "".join(map(shown, refused.value.diagnostics)) == case.messages


def test_there_are_many() -> None:
    assert len(CASES) >= 200


def test_all_mistakes_of_a_program_are_reported_at_once() -> None:
    with pytest.raises(CompileError) as refused:
        dbsp.compile(
            DECLARED + "r(x) <- e(x, y) and x == y\n"
            "# why\n"
            "r(n) :- n = count(y), e(_, y);\n"
            "r(x) :- e(x, _), not e(_, x), s('a').\n"
        )
    assert [(found.span.line, found.message) for found in refused.value.diagnostics] == [
        (5, "expected ':-', got '<-'"),
        (5, "expected ',', got 'and'"),
        (5, "expected '=', got '=='"),
        (5, "expected '.', got the end of the line"),
        (6, "expected '//' before a comment, got '#'"),
        (7, "expected 'count : { ... }', got 'count(y)'"),
        (7, "expected '.', got ';'"),
        (8, "expected '!', got 'not'"),
        (8, "expected a text in double quotes, got 'a'"),
    ]


def test_a_sign_of_a_valid_program_is_not_a_mistake() -> None:
    text = DECLARED + (
        "r(x) :- e(x, y), x<-1, y>-x, x=-y, x--1=y, y%-x=1.\n"
        "r(?x) :- e(?x, ?), ?-1 = 2.\n"
        "r(and) :- e(and, or), or=is, is=or, not=if, if=not.\n"
        "r(x) :- e(x, _), !e(x, x); e(_, x), (x<1; x>2).\n"
        "r(a) <= r(b) :- a < b.\n"
    )
    assert len(parsed_items(text)) == 13


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_damaged_program_has_an_error_or_compiles(path: Path) -> None:
    """Words and signs lost, doubled or exchanged: the parser ends, with places in the text."""
    generator = random.Random(path.stem)
    words = re.findall(r"\s+|\w+|[^\w\s]", path.read_text())
    for _ in range(6):
        damaged = list(words)
        for _ in range(generator.randint(1, 3)):
            place = generator.randrange(len(damaged))
            damaged[place : place + generator.randint(0, 2)] = [
                generator.choice([*SIGNS, "not", "'", "x", ""])
            ]
        try:
            parsed_items("".join(damaged))
        except CompileError as error:
            assert error.diagnostics
            for found in error.diagnostics:
                assert found.span.line <= "".join(damaged).count("\n") + 1
                assert found.code
