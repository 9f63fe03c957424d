"""Regular expressions of ECMAScript, read for Python."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp.data.interner import Interner
from dbsp.errors import EvaluationError
from dbsp.expressions import bind, call, col
from dbsp.expressions.regex import RegexError, RegexWarning, compiled

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
def test_matching_texts(pattern: str, matched: str, unmatched: str) -> None:
    assert compiled(pattern).fullmatch(matched)
    assert not compiled(pattern).fullmatch(unmatched)


REFUSED = {
    "a{x}": "a '{' does not start a number of repetitions",
    "a{2,1}": "'{2,1}' has its numbers in the wrong order",
    "a{1000000}": "'{1000000}' repeats too often",
    "*a": "'*' has nothing to repeat",
    "a**": "'*' has nothing to repeat",
    "a++": "'+' has nothing to repeat",
    "(a": "a '(' is never closed",
    "a)": "a ')' has no '('",
    "[a": "a '[' is never closed",
    "[[:letter:]]": "'[:' does not start a class of characters",
    "[z-a]": "'z-a' is not a range of characters",
    r"[\d-z]": "'0-9-z' is not a range of characters",
    "(?i)a": "expected a group that starts with '(', '(?:', '(?=' or '(?!'",
    "(?<=a)b": "expected a group that starts with '(', '(?:', '(?=' or '(?!'",
    "a\\": "a '\\' is the last character",
    r"\A": r"unknown escape '\A'",
    r"\2(a)": "invalid group reference 2 at position 4",
}


@pytest.mark.parametrize(("pattern", "why"), REFUSED.items())
def test_invalid_patterns_are_refused(pattern: str, why: str) -> None:
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
def test_the_common_syntax_means_the_same_in_python(pattern: str, text: str) -> None:
    try:
        theirs = re.compile(pattern)
        ours = compiled(pattern)
    except (re.error, RegexError):
        return
    assert bool(ours.fullmatch(text)) == bool(theirs.fullmatch(text))


@given(st.text("ab.*+?()[]{}|^$\\\\-1,:dDsSwWbB", max_size=12), st.text("ab1\n- é\ud800", max_size=6))
def test_both_engines_match_the_same_texts(pattern: str, text: str) -> None:
    try:
        both = compiled(pattern)
    except RegexError:
        return
    if both.linear is not None and text.isprintable():
        assert (both.linear.fullmatch(text) is not None) == (both.plain.fullmatch(text) is not None)


@pytest.mark.parametrize(("pattern", "matched", "unmatched"), MATCHING)
def test_re2_takes_all_but_look_ahead_and_back_references(pattern: str, matched: str, unmatched: str) -> None:
    linear = compiled(pattern).linear
    assert (linear is None) == ("(?=" in pattern or "\\1" in pattern)
    if linear is not None:
        assert linear.fullmatch(matched) and not linear.fullmatch(unmatched)


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "((a?){3}|a+)+b", "a*a*a*a*a*a*b", "(a|ab|b)*c", "(?:a{0,9}){0,9}(a+)+b"]
)
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """By trying one way after the other these would take longer than anybody waits."""
    assert not compiled(pattern).fullmatch("a" * 5_000)
    assert compiled(pattern).fullmatch("a" * 60 + pattern[-1])


@pytest.mark.parametrize("pattern", [r"(a)(a*)*\1b", "(?=(a|b)*c)a*", "(a+)+b(?!c)"])
def test_backtracking_is_bounded(pattern: str) -> None:
    assert compiled(pattern).may_be_endless
    with pytest.raises(EvaluationError, match=r"with a text of 5,000 characters may not terminate"):
        compiled(pattern).fullmatch("a" * 5_000)


def test_look_ahead_without_repeated_repetitions_is_matched() -> None:
    both = compiled("(?=.*a)(?=.*b)(?!.*c).*")
    assert not both.may_be_endless and both.linear is None
    assert both.fullmatch("x" * 4_000 + "ab") and not both.fullmatch("x" * 4_000 + "abc")
    with pytest.raises(EvaluationError, match="may not terminate"):
        both.fullmatch("x" * 100_000)


def test_lone_surrogates_are_characters() -> None:
    assert compiled("a*a*a*a*.").fullmatch("aaaaaa\ud800")
    assert not compiled("a*a*a*a*.").fullmatch("aaaaaa\ud800a")


def test_a_tick_with_an_endless_match_changes_nothing() -> None:
    text = ".decl p(r: symbol, s: symbol) .input p .decl m(s: symbol) .output m m(s) :- p(r, s), match(r, s)."
    run = dbsp.compile(text).start({"p": [("(a+)+b", "a" * 100), ("(a+)+", "a" * 100)]})
    assert run.view("m").rows() == [("a" * 100,)]
    with pytest.raises(EvaluationError, match=r"matching '\(a\+\)\+b\(\?=c\)' with a text of 99 characters"):
        run.step({"p": [("(a+)+b(?=c)", "a" * 99), ("b", "b")]})
    assert run.tick == 1 and run.view("m").rows() == [("a" * 100,)]


def test_a_pattern_of_a_row_that_is_none_neither_matches_nor_fails_to() -> None:
    schema = dbsp.Schema.of(text=str, pattern=str)
    interner = Interner()
    rows = schema.encode_rows([("a", "a"), ("a", "b"), ("a", "[a")], interner)
    with pytest.warns(
        RegexWarning,
        match=r"'\[a' is not a regular expression, so match and !match are both false: a '\['",
    ):
        found = bind(call("ecmascript_match", col("text"), col("pattern")), schema).mask(rows, interner)
    assert found.tolist() == [True, False, False]
    with pytest.warns(RegexWarning):
        found = bind(call("ecmascript_mismatch", col("text"), col("pattern")), schema).mask(rows, interner)
    assert found.tolist() == [False, True, False]
