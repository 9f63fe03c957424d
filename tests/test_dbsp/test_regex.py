"""Regular expressions of ECMAScript, read for Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp.cli import main
from dbsp.expressions import call, col
from dbsp.expressions.regex import RegexError, RegexWarning, compiled
from dbsp.interner import Interner

MATCHING = [
    ("", "", "a"),
    ("a|b*", "bb", "ab"),
    ("fo{2,}?b.*", "fooobar", "fobar"),
    ("[[:alpha:]_][[:alnum:]_]*", "x_1", "1x"),
    ("[^[:digit:]]", "x", "4"),
    (r"[\d-]+", "1-2", "a"),
    (r"[a\D]+", "xyz", "1"),
    (r"[^a\D]+", "12", "a1"),
    (r"[\]\\^-]+", r"]\^-", "["),
    ("[^]", "\n", ""),
    ("(?:[])|x", "x", ""),
    (r"(a)(?:b)\1", "aba", "ab1"),
    (r"\x41\u0042\cJ\t\0", "AB\n\t\0", "AB"),
    (r"\.\$\/", ".$/", "a$/"),
    (r"^a\b.*$", "a b", "ab"),
    ("(?=a).(?!c).", "ab", "ac"),
    (r"[\x41-\x43]+", "ABC", "D"),
    (r"[\b]", "\b", "b"),
    ("[[.a.][=b=]]+", "ab", "c"),
    (r"\w+\s\S", "a1 é", "é x"),
    (".", "é", "\u2028"),
]


@pytest.mark.parametrize(("pattern", "matched", "unmatched"), MATCHING)
def test_what_matches(pattern: str, matched: str, unmatched: str) -> None:
    assert compiled(pattern).fullmatch(matched)
    assert not compiled(pattern).fullmatch(unmatched)


REFUSED = {
    "a{x}": "a '{' does not begin a number of repetitions",
    "a{2,1}": "'{2,1}' has its numbers in the wrong order",
    "a{1000000}": "'{1000000}' repeats too often",
    "*a": "there is nothing for '*' to repeat",
    "a**": "there is nothing for '*' to repeat",
    "a++": "there is nothing for '+' to repeat",
    "(a": "a '(' is never closed",
    "a)": "a ')' is without its '('",
    "[a": "a '[' is never closed",
    "[[:letter:]]": "'[:' begins no class of characters",
    "[z-a]": "'z-a' is no range of characters",
    r"[\d-z]": "'0-9-z' is no range of characters",
    "(?i)a": "a group begins with '(?:', '(?=' or '(?!'",
    "(?<=a)b": "a group begins with '(?:', '(?=' or '(?!'",
    "a\\": "a '\\' is the last character",
    r"\A": r"there is no escape '\A'",
    r"\2(a)": "invalid group reference 2 at position 4",
}


@pytest.mark.parametrize(("pattern", "why"), REFUSED.items())
def test_what_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(RegexError) as refused:
        compiled(pattern)
    assert str(refused.value) == why


@given(st.text("ab.*+?()[]{}|^$\\-1,:=!d", max_size=12), st.text("ab1\n-", max_size=6))
def test_any_text_is_either_read_or_refused(pattern: str, text: str) -> None:
    try:
        compiled(pattern).fullmatch(text)
    except RegexError as error:
        assert str(error)


@given(st.text("ab.|()?", max_size=8), st.text("ab", max_size=6))
def test_the_common_part_means_what_it_means_in_python(pattern: str, text: str) -> None:
    try:
        theirs = re.compile(pattern)
        ours = compiled(pattern)
    except (re.error, RegexError):
        return
    assert bool(ours.fullmatch(text)) == bool(theirs.fullmatch(text))


def test_a_pattern_of_a_row_that_is_none_neither_matches_nor_fails_to() -> None:
    schema = dbsp.Schema.of(text=str, pattern=str)
    interner = Interner()
    rows = schema.encode_rows([("a", "a"), ("a", "b"), ("a", "[a")], interner)
    with pytest.warns(RegexWarning, match=r"'\[a' is no regular expression.*: a '\[' is never closed"):
        found = call("ecmascript_match", col("text"), col("pattern")).bind(schema).mask(rows, interner)
    assert found.tolist() == [True, False, False]
    with pytest.warns(RegexWarning):
        found = call("ecmascript_mismatch", col("text"), col("pattern")).bind(schema).mask(rows, interner)
    assert found.tolist() == [False, True, False]


def test_the_command_line_says_it_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "p.dl"
    program.write_text('.decl p, r(s: symbol)\n.output r\np("[a"). p("a").\nr(s) :- p(s), match(s, "a").')
    with pytest.raises(SystemExit, match="0"):
        main(["run", str(program), "-D", "-"])
    shown = capsys.readouterr().err
    assert shown.startswith("dbsp: warning: '[a' is no regular expression, so nothing matches it")
    assert shown.count("\n") == 1
