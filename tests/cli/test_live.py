"""The prompt of `dbsp live`: single commands, prompt_toolkit, and a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import dbsp
from dbsp.cli.commands import HELP, ConsoleCommands
from dbsp.cli.completion import LiveCompleter, LiveLexer
from dbsp.cli.console import QuitConsole
from dbsp.cli.prompt import converse
from dbsp.cli.prompt_session import stored_history
from dbsp.runtime.run import Run
from dbsp.runtime.scope import Scope
from tests.cli.support import read_answer, read_until

PROGRAM = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
.decl inner(x: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
inner(x) :- path(_, x), path(x, _).
.decl lonely(n: number)
.output lonely
lonely(n) :- n = count : { inner(_) }, n < 2.
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "reach.dl").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def commands(folder: Path) -> ConsoleCommands:
    program = dbsp.compile("reach.dl")
    return ConsoleCommands(program, program.start({"edge": [("a", "b"), ("b", "c")]}), timed=False)


Say: TypeAlias = Callable[..., str]


@pytest.fixture
def say(commands: ConsoleCommands, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run some lines and return the output."""

    def speak(*lines: str) -> str:
        for line in lines:
            commands.handle(line)
        return capsys.readouterr().out

    return speak


def views(commands: ConsoleCommands) -> dict[str, dict[object, int]]:
    return {name: commands.run.view(name).to_dict() for name in commands.run.outputs}


def test_changes_are_pending_until_the_commit(commands: ConsoleCommands, say: Say) -> None:
    assert (
        say('+edge("c", "d")', '-edge("a", "b")', '+edge("x", "y")', '-edge("x", "y")', "# a remark", "")
        == ""
    )
    assert say("pending") == '+edge("c", "d")\n-edge("a", "b")\n-edge("x", "y")\n'
    assert say("commit").splitlines() == [
        '-path("a", "b")',
        '-path("a", "c")',
        '+path("b", "d")',
        '+path("c", "d")',
        "commit  // tick 2",
    ]
    assert say("pending") == "no changes are pending\n"
    assert say('+edge("d", "e")', "rollback", "commit") == "discarded 1 change\ncommit  // tick 3\n"


def test_a_tick_with_many_changes_shows_the_first_ones(say: Say) -> None:
    lines = say(*(f'+edge("n{i}", "m{i}")' for i in range(45)), "commit").splitlines()
    assert len(lines) == 42
    assert lines[-2:] == ["// and 5 more changes", "commit  // tick 2"]


def test_queries(say: Say) -> None:
    assert say('? path("a", X), X != "b"') == 'X\n───\n"c"\n(1 row)\n'
    assert say('query path(x, y), n = count : { inner(_) }, y = "c"').splitlines()[2:] == [
        '"a"  "c"  1',
        '"b"  "c"  1',
        "(2 rows)",
    ]
    assert say('? path("a", "c")', '? path("c", _)', '? inner("b")') == "yes\nno\nyes\n"
    assert say("show inner") == 'x\n───\n"b"\n(1 row)\n'
    assert say("show path 2").splitlines()[-1] == "(3 rows, 2 shown)"
    assert say("show path all").splitlines()[-1] == "(3 rows)"
    assert say("show lonely") == "n\n─\n1\n(1 row)\n"
    assert "\nlonely\n" in say("show")


def test_commands_that_show_the_state(folder: Path, say: Say) -> None:
    lines = say("rels").splitlines()
    assert [re.sub(" +", " ", line) for line in lines[2:]] == [
        "edge (x: symbol, y: symbol) input 2",
        "path (x: symbol, y: symbol) output 3",
        "inner (x: symbol) derived",
        "lonely (n: number) output 1",
    ]
    assert "rule 2 at" in say("explain 2") and "rule 1 at" not in say("explain 2")
    assert "rule 1 at" in say("explain path") and "rule 2 at" in say("explain path")
    assert say("explain").startswith("inputs")
    assert say("stats").startswith("1 tick, ")
    assert say("graph").startswith("digraph circuit {")
    assert say("graph circuit.svg") == "wrote circuit.svg\n"
    assert (folder / "circuit.svg").read_text().startswith("<?xml")
    assert all(usage in say("help") for usage, _ in HELP)
    assert say("help why").count("\n") == 3


def test_proofs(say: Say) -> None:
    assert say('why path("a", "c")').splitlines() == [
        'path("a", "c")',
        "│  reach.dl:7: path(x, z) :- path(x, y), edge(y, z).",
        '├─ path("a", "b")',
        "│  │  reach.dl:6: path(x, y) :- edge(x, y).",
        '│  └─ edge("a", "b")   input fact',
        '└─ edge("b", "c")   input fact',
    ]
    assert '└─ path("a", "b")   ... proof of height 1 not shown' in say(
        'why path("a", "c") --depth 1'
    ).replace("├", "└")
    assert say("why path(_, _) --rows 3").count("\n\n") == 2
    assert say('why not path("c", "a")').startswith('path("c", "a")   is missing\n')
    assert 'edge("c", "a")   is missing\n   it is not an input fact' in say(
        'why not path("c", "a") --depth 2'
    )


def test_reasons_of_changes(say: Say) -> None:
    say('+edge("c", "d")', "commit")
    assert say('why tick path("a", "d")').splitlines() == [
        'path("a", "d")   inserted in tick 2',
        "│  reach.dl:7: path(x, z) :- path(x, y), edge(y, z).",
        '├─ path("a", "c")   unchanged',
        '└─ edge("c", "d")   input fact, inserted',
    ]
    assert say("why tick path(_, _) --rows 3").count("\n\n") == 3
    assert "present before and after" in say('why tick path("a", "b") --depth 1')
    missing = 'path("d", "a")   not changed in tick 2: no row matches before and after\n\npath("d", "a")   is'
    assert say('why tick path("d", "a")').startswith(missing)


def test_saving_and_loading(
    folder: Path, commands: ConsoleCommands, say: Say, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say("save out") == "wrote 1 input and 2 results to out\n"
    assert (folder / "out" / "edge.facts").read_text() == "a\tb\nb\tc\n"
    assert (folder / "out" / "lonely.csv").read_text() == "1\n"
    before = views(commands)
    commands.handle('+edge("c", "d")')
    capsys.readouterr()
    commands.handle("save out")
    assert capsys.readouterr().err == "the saved files do not include the pending changes\n"
    commands.handle("rollback")
    (folder / "changes.txt").write_text('-edge("a", "b")\ncommit\n+edge("a", "z")\n')
    assert say("load changes.txt").count("commit  //") == 2
    assert commands.run.tick == 3
    (folder / "edge.facts").write_text("a\tb\n")
    assert '+path("a", "b")' in say("load edge.facts")
    (folder / "tables").mkdir()
    (folder / "tables" / "edge.csv").write_text("y,x\nv,u\n")
    assert '+path("u", "v")' in say("load tables/edge.csv")
    (folder / "tables" / "edge.ndjson").write_text('{"x": "u", "y": "w"}\n')
    assert '+path("u", "w")' in say("load tables/edge.ndjson")
    say('-edge("a", "z")', '-edge("u", "v")', '-edge("u", "w")', "commit")
    assert views(commands) == before


def test_forgotten_quotes_in_questions(
    commands: ConsoleCommands, say: Say, capsys: pytest.CaptureFixture[str]
) -> None:
    note = 'note: a is a variable, which stands for any value; write "a" for the text\n'
    commands.handle("? path(a, x)")
    commands.handle("why path(a, c)")
    commands.handle("why not path(a, a)")
    assert capsys.readouterr().err == note + note + note.replace("a is", "c is").replace('"a"', '"c"') + note
    commands.handle('? path("a", x)')
    commands.handle("? path(x, y)")
    assert capsys.readouterr().err == ""


def test_a_query_of_prolog(commands: ConsoleCommands, say: Say) -> None:
    assert say('?- path("a", x).') == say('?-path("a", x)') == say('? path("a", x)')
    assert say('? -1 < 0, path("a", x)') == say('? path("a", x)')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("comit", "did you mean 'commit'"),
        ("frobnicate", "unknown command 'frobnicate'; 'help' lists the commands [unknown-command]"),
        ("insert edge(1, 2)", "unknown command 'insert'; '+edge(1, 2)' inserts a row [unknown-command]"),
        ("DELETE edge(1, 2)", "unknown command 'DELETE'; '-edge(1, 2)' deletes a row [unknown-command]"),
        ("select * from edge", "unknown command 'select'; '? edge(x, y), x > 1' queries rows"),
        ("? path(x, y), x == y", "expected '=', got '=='"),
        ('edge("a", "b")', 'or \'+edge("a", "b")\' to insert a row [unknown-command]'),
        (
            'path("a", X)',
            "expected a command, got the relation 'path'; write '? path(\"a\", X)' to query rows",
        ),
        ('+path("a", "b")', "computed by rules"),
        ("+edge(1)", "(x: symbol, y: symbol), got 1 [wrong-arity]"),
        ("+egde(1)", "did you mean 'edge'"),
        ("? pth(x)", "unknown relation 'pth'; did you mean 'path'?"),
        ("? path(x, y), x = 1", "type"),
        ("? !path(x, _)", "unbound variable 'x'"),
        ("? path(x", "the question is incomplete: it ends here"),
        ("? p(x) :- path(x, y)", "expected"),
        ("?", "expected the body of a rule: ? path(1, x), x > 2 [invalid-command]"),
        ("why", "expected a row: why path(1, 3), or why not path(3, 1) [invalid-command]"),
        ('why path("c", "a")', '\'why not path("c", "a")\' prints why [no-matching-row]'),
        ('why not path("a", "b")', '\'why path("a", "b")\' prints its proof [row-is-present]'),
        ('why path("a", "b"), path(x, y)', "expected a single atom"),
        ('why path("a", "b") --depth x', "--depth expects a whole number from 1, got 'x' [invalid-option]"),
        ("show paht", "did you mean 'path'"),
        ("rels paht", "unknown relation 'paht'; did you mean 'path'? [unknown-relation]"),
        ("rels zzz", "unknown relation 'zzz'; 'rels' lists the relations [unknown-relation]"),
        ("explain paht", "got 'paht'; did you mean 'path'? [unknown-relation]"),
        ("graph circuit.xyz", "ends in one of"),
        ("load", "expected a file: load FILE [invalid-command]"),
        ("load nothing.txt", "nothing.txt"),
        ("save", "expected a folder or a program: save DIR, or save FILE.dl [invalid-command]"),
        ("commit now", "'commit' takes no argument, got 'now' [invalid-command]"),
        ("help frobnicate", "unknown command 'frobnicate'"),
    ],
)
def test_errors_change_nothing(commands: ConsoleCommands, line: str, message: str) -> None:
    commands.handle('+edge("c", "d")')
    before = views(commands), dict(commands.pending.changes), commands.run.tick
    with pytest.raises(dbsp.DbspError) as raised:
        commands.handle(line)
    if line.startswith("load "):
        assert "run commit or rollback first [changes-pending]" in str(raised.value)
        commands.handle("rollback")
        before = before[0], {}, before[2]
        with pytest.raises(dbsp.DbspError) as raised:
            commands.handle(line)
    assert message in str(raised.value)
    assert (views(commands), commands.pending.changes, commands.run.tick) == before


def test_changes_of_a_tick_that_fails_stay_pending(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = dbsp.compile("""
        .decl pair(x: number, y: number)
        .input pair
        .decl ratio(x: number)
        .output ratio
        ratio(x / y) :- pair(x, y).
    """)
    commands = ConsoleCommands(program, program.start(), timed=False)
    commands.handle("+pair(6, 3)")
    commands.handle("+pair(1, 0)")
    with pytest.raises(dbsp.DbspError, match="the tick was rolled back"):
        commands.handle("commit")
    assert commands.run.tick == 0
    commands.handle("-pair(1, 0)")
    commands.handle("commit")
    assert "+ratio(2)\ncommit  // tick 1\n" in capsys.readouterr().out


def interrupt(at: str, commands: ConsoleCommands) -> None:
    """Commit an edge; a signal arrives before or after the tick is decided."""
    commands.handle('+edge("c", "d")')
    method = getattr(Scope, at)

    def interrupting(scope: Scope, *arguments: object) -> None:
        method(scope, *arguments)
        setattr(Scope, at, method)
        raise KeyboardInterrupt

    with patch.object(Scope, at, interrupting), pytest.raises(KeyboardInterrupt):
        commands.handle("commit")


def test_an_interrupt_before_the_commit_keeps_the_pending_changes(commands: ConsoleCommands) -> None:
    interrupt("run", commands)
    assert (commands.run.tick, len(commands.pending)) == (1, 1)
    commands.handle("commit")
    assert commands.run.tick == 2
    assert ("c", "d") in commands.run.view("path").rows()


def test_an_interrupt_after_the_commit_forgets_the_pending_changes(commands: ConsoleCommands) -> None:
    before = views(commands)
    interrupt("commit", commands)
    assert (commands.run.tick, len(commands.pending)) == (2, 0)
    assert ("c", "d") in commands.run.view("path").rows()
    commands.handle("undo")
    assert views(commands) == before


def test_an_interrupt_after_an_update_keeps_the_new_program(commands: ConsoleCommands) -> None:
    before = views(commands)
    late = patch.object(Run, "record_sizes", side_effect=KeyboardInterrupt)
    with late, pytest.raises(KeyboardInterrupt):
        commands.handle(".decl node(x: symbol) .input node .output node")
    assert "node" in commands.program.inputs
    commands.handle('+node("n")')
    commands.handle("commit")
    assert commands.run.view("node").rows() == [("n",)]
    commands.handle("undo")
    commands.handle("undo")
    assert views(commands) == before


# --- the prompt ----------------------------------------------------------------------------------


def completions(commands: ConsoleCommands, text: str) -> list[str]:
    found = LiveCompleter(commands).get_completions(Document(text), CompleteEvent(completion_requested=True))
    return [one.text for one in found]


def test_completion(folder: Path, commands: ConsoleCommands) -> None:
    assert completions(commands, "co") == ["commit "]
    assert completions(commands, "re") == ["rels ", "relations "]
    assert completions(commands, "+e") == completions(commands, "-") == ["edge("]
    assert completions(commands, '+edge("') == ['"a"', '"b"']
    assert completions(commands, '+edge("a", ') == ['"b"', '"c"']
    assert completions(commands, '? path("a", "c') == ['"c"']
    assert completions(commands, "? pa") == completions(commands, "why pa") == ["path("]
    assert completions(commands, "why n") == ["not "]
    assert completions(commands, "why not in") == ["inner("]
    assert completions(commands, "show path in") == ["inner"]
    assert completions(commands, "? inner(") == []
    assert completions(commands, '? path("a", "b"), ed') == ["edge("]
    assert completions(commands, "? lonely(") == ["1"]
    (folder / "changes.txt").touch()
    assert completions(commands, "load chan") == ["ges.txt"]
    assert completions(commands, ".out") == [".output "]
    assert completions(commands, ".output pa") == ["path"]
    assert completions(commands, "inn") == ["inner("]
    assert completions(commands, "drop pa") == completions(commands, "watch pa") == ["path("]
    assert completions(commands, "rules pa") == ["path"]
    assert completions(commands, "inner(x) :- pa") == ["path("]
    commands.handle("inner(x) :-")
    assert completions(commands, "  pa") == ["path("]
    assert completions(commands, "  un") == []


def test_colours(commands: ConsoleCommands) -> None:
    line = LiveLexer(commands).lex_document(Document('show path "a" 12 // why'))(0)
    assert [(style, text) for style, text, *_ in line if style] == [
        ("class:command", "show"),
        ("class:relation", "path"),
        ("class:text", '"a"'),
        ("class:number", "12"),
        ("class:remark", "// why"),
    ]


def test_a_rule_of_several_lines_in_a_conversation(
    commands: ConsoleCommands, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "inner(x) :-\r"
    conversation(commands, f"{rule}\rinner(x) :- \x03{rule}\x03{rule}path(_, x).\r{rule}\x04")
    shown = capsys.readouterr()
    assert "commit  // tick 2\n// kept: edge, path\n// changed: inner, lonely\n" in shown.out
    ended = "ends the rule that begins with 'inner(x) :-' before it is complete, and the program is unchanged"
    assert shown.err.count(ended) == 2
    assert f"dbsp: error: an empty line {ended}; a rule ends with '.'" in shown.err
    assert f"dbsp: error: Ctrl-C {ended}" in shown.err
    assert shown.err.endswith("the last rule was not complete, and the program is unchanged\n")


def conversation(commands: ConsoleCommands, keys: str) -> InMemoryHistory:
    history = InMemoryHistory()
    with create_pipe_input() as given:
        given.send_text(keys)
        converse(commands, input=given, output=DummyOutput(), history=history)
    return history


def test_a_conversation(commands: ConsoleCommands, capsys: pytest.CaptureFixture[str]) -> None:
    # Ctrl-C discards a line, Ctrl-D quits.
    ask = '? path("a", "d")\r'
    keys = f'+edge("c", "d")\rnonsense\x03{ask}commit\r{ask}+edge("x", "y")\r\x04'
    history = conversation(commands, keys)
    printed = capsys.readouterr()
    assert [line for line in printed.out.splitlines() if line in ("yes", "no")] == ["no", "yes"]
    assert "the pending changes were not committed" in printed.err
    assert commands.run.tick == 2
    assert list(history.get_strings())[:2] == ['+edge("c", "d")', '? path("a", "d")']


def test_errors_in_a_conversation_are_reported(
    commands: ConsoleCommands, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation(commands, "comit\r? pth(x)\rquit\r")
    shown = capsys.readouterr().err
    assert "dbsp: error: unknown command 'comit'; did you mean 'commit'? [unknown-command]" in shown
    assert (
        "<question>:1:1: error: unknown relation 'pth'; did you mean 'path'? [unknown-relation]\n"
        "    pth(x)\n    ^^^" in shown
    )


def test_an_interrupt_of_a_command_is_reported(
    commands: ConsoleCommands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(line: str) -> None:
        if line == "commit":
            raise KeyboardInterrupt
        raise QuitConsole

    monkeypatch.setattr(commands, "handle", interrupt)
    conversation(commands, "commit\rquit\r")
    assert capsys.readouterr().err.endswith("interrupted; nothing changed\n")


def test_the_history_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = stored_history("history")
    history.append_string("why not?")
    assert "why not?" in (folder / "state" / "dbsp" / "history").read_text()
    (folder / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "file"))
    assert isinstance(stored_history("history"), InMemoryHistory)


@pytest.fixture
def terminal(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A `dbsp live` on a new terminal, at its first prompt."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (12, 80))
    paging = {"PAGER": "sed s/^/page:/", "MANPAGER": ""}
    environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", **paging}
    command = [sys.executable, "-m", "dbsp", "live", "reach.dl"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as peer:
        os.close(theirs)
        try:
            assert "'help' lists the commands" in read_until(ours, "dbsp>")
            yield ours, peer
            os.write(ours, b"\x04")
            assert peer.wait(60) == 0
        finally:
            peer.kill()  # otherwise the end of the block waits for the process
            os.close(ours)


def test_on_a_terminal(terminal: tuple[int, subprocess.Popen[bytes]]) -> None:
    stream, _ = terminal
    os.write(stream, b'+edge("a", "b")\r')
    read_until(stream, "1 pending dbsp>")
    os.write(stream, b"comm\t")
    read_until(stream, "commit")
    os.write(stream, b"\r")
    assert '+path("a", "b")' in read_answer(stream, "commit  // tick 2")
    os.write(stream, b'why path("a", "b")\r')
    assert '└─ edge("a", "b")   input fact' in read_answer(stream, "input fact")
    os.write(stream, b"path(x, x) :-\r")
    read_until(stream, "  ...")
    os.write(stream, b"edge(x, _).\r")
    assert '+path("a", "a")' in read_answer(stream, "// rebuilt: ")
    os.write(stream, b"rules\r")
    assert "page:" not in read_answer(stream, "path(x, x) :- edge(x, _).")
    os.write(stream, b"help\r")
    assert "page:+edge(1" in read_answer(stream, "page:quit")


def test_an_interrupt_after_a_commit_names_the_tick(
    commands: ConsoleCommands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(line: str) -> None:
        commands.run.step()
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "handle", interrupted)
    conversation(commands, "commit\r\x04")
    assert capsys.readouterr().err.endswith("interrupted; 1 tick committed\n")


def test_the_program_is_updated_from_its_file(say: Say, commands: ConsoleCommands) -> None:
    Path("reach.dl").write_text(PROGRAM.replace("inner(x) :- path(_, x)", "inner(x) :- edge(_, x)"))
    assert say("update").splitlines() == [
        "commit  // tick 2",
        "// kept: edge, path",
        "// changed: inner, lonely",
    ]
    Path("reach.dl").write_text(PROGRAM.replace("path(x, z) :- path(x, y), edge(y, z).", ""))
    assert say("update").splitlines()[:2] == ['-path("a", "c")', "commit  // tick 3"]
    Path("other.dl").write_text(PROGRAM + ".decl node(x: symbol) .input node .output node\n")
    assert say("update other.dl").splitlines()[0] == '+path("a", "c")'
    assert say('+node("n")', "commit") == '+node("n")\ncommit  // tick 5\n'
    assert say("? node(x)").splitlines()[2] == '"n"'
    say('+node("m")')
    with pytest.raises(dbsp.InputError, match="changes are pending; run commit or rollback first"):
        say("update")


def test_why_after_an_update(say: Say) -> None:
    Path("reach.dl").write_text(PROGRAM + 'path(y, x) :- path(x, y), x = "a".\n')
    assert '+path("b", "a")' in say("update")
    assert say('why path("b", "a")').startswith('path("b", "a")\n')
    with pytest.raises(dbsp.CircuitError, match="tick 2 was an update to another program"):
        say('why tick path("b", "a")')
