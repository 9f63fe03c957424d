"""Which lines of `dbsp live` are rules, and when a rule is complete."""

from __future__ import annotations

import pytest

import dbsp
from dbsp.cli.rule_entry import EntryState, RuleEntry, begins_entry, is_rule_of, state_of_entry


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("p(x) :- q(x).", EntryState.COMPLETE),
        ("p(x) :- q(x). r(x) :- p(x).", EntryState.COMPLETE),
        ("p(1).", EntryState.COMPLETE),
        (".decl p(x: number)", EntryState.COMPLETE),
        (".decl p(x: number) p(x) :- q(x).", EntryState.COMPLETE),
        (".comp C { .decl p(x: number)\n p(x) :- q(x). }", EntryState.COMPLETE),
        (".frob p", EntryState.COMPLETE),  # the compiler reports it
        ('p(x) :- q(x), x = "a.', EntryState.COMPLETE),  # a string ends on its line
        ("p(x) :- q(x) // .", EntryState.OPEN),
        ("p(x) :- q(x) /* .", EntryState.OPEN),
        ('p(x) :- q(x), x = "."', EntryState.OPEN),
        ("p(x) :- q(x, 1.5)", EntryState.OPEN),
        ("p(x) :- n = count : { q(x)", EntryState.OPEN),
        ("p(x) :- n = count : { q(x).", EntryState.COMPLETE),  # a mistake that no line corrects
        ("p(x :- q(x).", EntryState.COMPLETE),
        (".comp C {\n p(x) :- q(x).", EntryState.OPEN),
        (".decl p(x: number) .comp C { p(x) :- q(x). }", EntryState.COMPLETE),
        ("p(x) :- q(x). r(x)", EntryState.OPEN),
        ("p(x),", EntryState.OPEN),
        ("p(x,", EntryState.OPEN),
        (".decl p(x: number,", EntryState.OPEN),
        (".decl p(x: number) p(x) :- q(x)", EntryState.OPEN),
        (".comp C {", EntryState.OPEN),
        (".type T =", EntryState.OPEN),
        ("p(x)", EntryState.ATOM),
        ("p(x), x > 2", EntryState.ATOM),
    ],
)
def test_states(text: str, state: EntryState) -> None:
    assert state_of_entry(text) is state
    assert begins_entry(text) is (state is not EntryState.ATOM)


@pytest.mark.parametrize(
    "line", ["", "+p(1)", "? p(x,", "// p(x) :-", "# .decl", "commit", "show p", "watch p(x", ".5", "p :- q"]
)
def test_other_lines_begin_no_rule(line: str) -> None:
    assert not begins_entry(line)


def test_a_relation_with_the_name_of_a_command() -> None:
    assert is_rule_of("watch", "(x) :- p(x).")
    assert is_rule_of("watch", "(x) :- p(x),")
    assert not is_rule_of("query", "(x = 1; x = 2), p(x")
    assert not is_rule_of("drop", "p(x) :- q(x).")


def test_the_lines_of_an_entry() -> None:
    entry = RuleEntry()
    assert not entry
    assert entry.feed("p(x) :-", 7) is None
    assert entry
    assert entry.feed("  q(x),  \n", 8) is None
    assert entry.feed("  r(x).\n", 9) == "p(x) :-\n  q(x),\n  r(x)."
    assert (bool(entry), entry.first_line) == (False, 7)
    assert entry.feed("s(x,", 10) is None
    with pytest.raises(dbsp.InputError, match=r"an empty line ends the rule that begins with 's\(x,'"):
        entry.feed("   ", 11)
    assert not entry
    assert entry.feed("p(x) :- q(x).", 12) == "p(x) :- q(x)."
