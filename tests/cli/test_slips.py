"""Slips at the command line, in change scripts and in questions, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Command

pytestmark = pytest.mark.usefixtures("compiled_kernels")

PEOPLE = """.decl person(name: symbol, age: number)
.input person
.decl adult(name: symbol)
.output adult
adult(n) :- person(n, a), a >= 18.
"""


@pytest.fixture
def people(folder: Path) -> Path:
    (folder / "people.dl").write_text(PEOPLE)
    (folder / "people").mkdir()
    (folder / "people" / "person.facts").write_text("alice\t30\nbob\t7\n")
    return folder


@pytest.mark.parametrize("name", ["reach.dl", "missing.dl"])
def test_a_program_without_a_command(folder: Path, run: Command, name: str) -> None:
    done = run(name, "-F", "facts")
    shown = " ".join(done.err.replace("│", " ").split())
    assert (done.code, done.out) == (2, "")
    assert f"expected a command, got the program '{name}'; write: dbsp run {name} -F facts" in shown


def test_a_misspelt_command(folder: Path, run: Command) -> None:
    done = run("rnu", "reach.dl")
    assert (done.code, "Did you mean 'run'?" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("comit", "expected a change or commit, got 'comit'", "did you mean 'commit'?"),
        ("commmit;", "expected a change or commit, got 'commmit;'", "did you mean 'commit'?"),
        ("COMMIT", "expected a change or commit, got 'COMMIT'", "write commit"),
        ("insert edge(5, 6)", "expected a change or commit", "write +edge(5, 6)"),
        ("DELETE FROM edge(5, 6)", "expected a change or commit", "write -edge(5, 6)"),
        ("edge(5, 6)", "expected a change or commit", "write + or - before 'edge'"),
    ],
)
def test_a_slip_in_a_change_script(folder: Path, run: Command, line: str, message: str, hint: str) -> None:
    done = run("live", "reach.dl", stdin=f"+edge(1, 2)\n{line}\n")
    assert done.code == 1
    assert f"<stdin>:2:1: error: {message} [invalid-line]\n    {line}\n" in done.err
    assert f"    hint: {hint}\n" in done.err


@pytest.mark.parametrize(
    ("goal", "message", "hint"),
    [
        ("adult('alice')", "expected a text in double quotes, got 'alice'", 'write "alice"'),
        ('adult("alice)', "this string is never closed", "add the missing '\"'"),
        ('adult("alice"', "the question is incomplete: it ends here", "the '(' in 'adult(\"alice\"'"),
        ("not adult(x)", "expected '!', got 'not'", "write !adult(...)"),
        ("?- adult(x)", "expected an atom or a condition, got '?-'", None),
    ],
)
def test_a_slip_in_a_question(people: Path, run: Command, goal: str, message: str, hint: str | None) -> None:
    done = run("why", "people.dl", goal, "-F", "people")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("error: ") == 1
    assert f"error: {message}" in done.err
    assert hint is None or f"hint: {hint}" in done.err


NOTE = 'note: alice is a variable, which stands for any value; write "alice" for the text\n'


def test_forgotten_quotes_in_a_goal(people: Path, run: Command) -> None:
    done = run("why", "people.dl", "adult(alice)", "-F", "people")
    assert (done.code, done.err) == (0, NOTE)
    assert done.out.startswith('adult("alice")\n')
    assert run("why", "people.dl", 'adult("alice")', "-F", "people").err == ""
    assert run("why", "people.dl", "adult(bob)", "-F", "people").err == ""  # bob is a minor
    assert NOTE in run("why", "people.dl", "--not", "person(alice, 7)", "-F", "people").err
