"""`dbsp live` reading from a pipe and from a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dbsp
from dbsp.cli.conversation import Conversation, print_deltas
from dbsp.cli.program_reload import LiveProgram
from tests.cli.support import DIVIDE, PATHS, REACH, Command, read_answer, read_until

pytestmark = pytest.mark.usefixtures("compiled_kernels")


def test_live_prints_deltas_at_each_commit(folder: Path, run: Command) -> None:
    done = run("live", "reach.dl", stdin="+edge(1, 2)\n# a remark\n+edge(2, 3)\ncommit\n-edge(1, 2)\n")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "+path(1, 2)\n+path(1, 3)\n+path(2, 3)\ncommit  // tick 1\n"
        "-path(1, 2)\n-path(1, 3)\ncommit  // tick 2\n"
    )


def test_live_starts_from_facts(folder: Path, run: Command) -> None:
    done = run("live", "reach.dl", "-F", "facts", stdin="-edge(2, 3)\n")
    assert done.out == "-path(1, 3)\n-path(2, 3)\ncommit  // tick 2\n"
    done = run("live", "reach.dl", "-F", "facts", "--initial")
    assert done.out == "+path(1, 2)\n+path(1, 3)\n+path(2, 3)\ncommit  // tick 1\n"


def test_live_shows_results(folder: Path, run: Command) -> None:
    done = run(
        "live", "reach.dl", "-F", "facts", stdin="show path\nshow\nshow paht\nhelp\nquit\n+edge(5, 6)\n"
    )
    assert done.out.startswith(PATHS + PATHS + '+edge(1, "text")')
    assert (
        done.err == "dbsp: error: <stdin>:3: unknown output 'paht'; did you mean 'path'? [unknown-output]\n"
    )
    assert done.code == 1


def test_an_invalid_line_rejects_its_tick_only(folder: Path, run: Command) -> None:
    done = run(
        "live", "reach.dl", stdin="+edge(1, 2)\n+edge(1)\ncommit\n+egde(1, 2)\ncommit\n+edge(3, 4)\ncommit\n"
    )
    assert done.code == 1
    assert done.out == "+path(3, 4)\ncommit  // tick 1\n"
    assert "<stdin>:2:2: error: relation 'edge' has 2 columns" in done.err
    assert (
        "<stdin>:1-3: the tick was not applied and changed nothing: 1 line is invalid [invalid-line]"
        in done.err
    )
    assert "<stdin>:4:2: error: unknown relation 'egde'" in done.err
    assert "<stdin>:4-5: the tick was not applied" in done.err


def test_a_failing_tick_in_live_changes_nothing(folder: Path, run: Command) -> None:
    (folder / "divide.dl").write_text(DIVIDE)
    done = run("live", "divide.dl", stdin="+pair(6, 3)\n+pair(1, 0)\ncommit\n+pair(8, 2)\ncommit\nshow\n")
    assert done.code == 1
    assert "note: tick 1 is at <stdin>:1-3\n" in done.err
    assert done.out == "+ratio(8, 4)\ncommit  // tick 1\n8\t4\n"


def test_live_answers_a_pipe_at_once(folder: Path) -> None:
    command = [sys.executable, "-m", "dbsp", "live", "reach.dl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        for x in range(3):
            peer.stdin.write(f"+edge({x}, {x + 1})\ncommit\n".encode())
            peer.stdin.flush()
            assert f"+path({x}, {x + 1})\n" in read_until(peer.stdout.fileno(), f"commit  // tick {x + 1}\n")
        peer.stdin.close()
        assert peer.wait(30) == 0


def test_live_shows_a_prompt_on_a_terminal(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dbsp", "live", "reach.dl"]
    # This end of the terminal does not answer requests for the cursor position.
    environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", "XDG_STATE_HOME": str(folder)}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as peer:
        os.close(theirs)
        try:
            assert "'help' lists the commands" in read_until(ours, "dbsp>")
            os.write(ours, b"+edge(1, 2)\r")
            read_answer(ours, "1 pending")
            # At a prompt, an invalid line does not reject the tick.
            os.write(ours, b"+edge(1, two)\r")
            read_answer(ours, "expected a number or a text in quotes")
            os.write(ours, b"commit\r")
            answer = read_answer(ours, " ms")
            assert "+path(1, 2)\n" in answer
            assert re.search(r"commit  // tick 1, [0-9.]+ ms", answer)
            os.write(ours, b"quit\r")
            assert peer.wait(60) == 0
        finally:
            peer.kill()  # otherwise the end of the block waits for the process
            os.close(ours)


def test_live_continues_after_bytes_that_are_not_text(folder: Path) -> None:
    (folder / "name.dl").write_text(".decl name(s: symbol)\n.input name\n.output name\n")
    script = b'+name("\xff")\n+name("a")\ncommit\n+name("\\ud800")\ncommit\n+name("b")\ncommit\n'
    done = subprocess.run(
        [sys.executable, "-m", "dbsp", "live", "name.dl"], input=script, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == b'+name("b")\ncommit  // tick 1\n'
    assert b"<stdin>:1:8: error: expected UTF-8 text [invalid-encoding]" in done.stderr
    assert b"<stdin>:4:8: error: \\ud800 is only half of a surrogate pair" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_byte_order_mark_at_the_beginning_of_a_pipe(folder: Path, run: Command) -> None:
    done = run("live", "reach.dl", stdin="\ufeff+edge(1, 2)\ncommit\nshow path\n")
    assert (done.code, done.err) == (0, "")
    assert done.out == "+path(1, 2)\ncommit  // tick 1\n1\t2\n"
    later = run("live", "reach.dl", stdin="+edge(1, 2)\ncommit\n\ufeff+edge(2, 3)\n")
    assert (later.code, later.out) == (1, "+path(1, 2)\ncommit  // tick 1\n")
    assert "<stdin>:3:1: error: " in later.err


MORE = REACH + ".decl loop(x: number) .output loop loop(x) :- path(x, x).\n"


def test_live_continues_with_another_program(folder: Path, run: Command) -> None:
    (folder / "more.dl").write_text(MORE)
    lines = "+edge(1, 1)\nupdate more.dl\ncommit\nupdate more.dl\n+edge(2, 2)\nupdate nothing.dl\ncommit\n"
    done = run("live", "reach.dl", stdin=lines + "update reach.dl\n+edge(3, 3)\n")
    assert done.out == (
        "+path(1, 1)\ncommit  // tick 1\n+loop(1)\ncommit  // tick 2\n"
        "+path(2, 2)\n+loop(2)\ncommit  // tick 3\ncommit  // tick 4\n+path(3, 3)\ncommit  // tick 5\n"
    )
    pending = "dbsp: error: <stdin>:{}: changes are pending; write commit first [changes-pending]"
    assert done.err.splitlines() == [
        pending.format(2),
        "// kept: edge, path",
        "// added: loop",
        pending.format(6),
        "// kept: edge, path",
        "// dropped: loop",
    ]
    assert done.code == 1


def test_rules_queries_and_undo_from_a_pipe(folder: Path, run: Command) -> None:
    lines = """\
+edge(1, 2) +edge(2, 3)
commit
watch path(1, x), x > 2
path(x, x) :-
  edge(x, _).
rules path
? path(x, 3), x < 2
drop path(x, x) :- edge(x, _)
undo
-edge(1, 2) +edge(3, 4)
undo
commit
undo
watches
unwatch 1
save new.dl
load reach.dl
load facts.txt
save out
path(x, y) :-
  egde(x, y).
path(x, y) :-

help
+edge(5, 6)
path(y, x) :- edge(x, y)
"""
    done = run("live", "reach.dl", stdin=lines)
    assert done.out.splitlines()[:34] == [
        "+path(1, 2)",
        "+path(1, 3)",
        "+path(2, 3)",
        "commit  // tick 1",
        "+watch_1(3)",
        "commit  // tick 2",
        "+path(1, 1)",
        "+path(2, 2)",
        "commit  // tick 3",
        "1  reach.dl:5  path(x, y) :- edge(x, y).",
        "2  reach.dl:6  path(x, z) :- path(x, y), edge(y, z).",
        "3  <stdin>:4   path(x, x) :- edge(x, _).",
        "1",
        "-path(1, 1)",
        "-path(2, 2)",
        "commit  // tick 4",
        "+path(1, 1)",
        "+path(2, 2)",
        "commit  // tick 5",
        "-path(1, 1)",
        "-path(1, 2)",
        "-path(1, 3)",
        "+path(2, 4)",
        "+path(3, 3)",
        "+path(3, 4)",
        "-watch_1(3)",
        "commit  // tick 6",
        "+path(1, 1)",
        "+path(1, 2)",
        "+path(1, 3)",
        "-path(2, 4)",
        "-path(3, 3)",
        "-path(3, 4)",
        "+watch_1(3)",
    ]
    assert done.out.splitlines()[34:45] == [
        "commit  // tick 7",
        "watch  rows  query",
        "─────  ────  ─────────────────",
        "1      1     path(1, x), x > 2",
        "commit  // tick 8",
        "wrote new.dl",
        "-path(1, 1)",
        "-path(2, 2)",
        "commit  // tick 9",
        '+edge(1, "text")         insert a row; a line may have several changes',
        '-edge(1, "text")         delete a row',
    ]
    assert done.out.endswith("\n+path(5, 6)\ncommit  // tick 10\n")
    assert (folder / "new.dl").read_text() == REACH + "path(x, x) :-\n  edge(x, _).\n"
    abandoned = (
        "before it is complete, and the program is unchanged; a rule ends with '.', and every bracket "
        "must be closed [incomplete-rule]"
    )
    at_terminals = "prompt of a terminal [invalid-command]"
    assert done.err.splitlines() == [
        "// watch 1: path(1, x), x > 2",
        *["// kept: edge", "// changed: watch_1", "// rebuilt: path"] * 3,
        "// undone: tick 4: dropped path(x, x) :- edge(x, _).",
        "dbsp: error: <stdin>:11: changes are pending; write commit first [changes-pending]",
        "// undone: tick 6: -edge(1, 2), +edge(3, 4)",
        "// no longer watched: 1",
        "// kept: edge",
        "// rebuilt: path",
        "// console edits of reach.dl are gone; 'undo' restores them",
        "dbsp: error: <stdin>:18: expected a file NAME.dl after load, got 'facts.txt'; change scripts and "
        f"facts are loaded at the {at_terminals}",
        "dbsp: error: <stdin>:19: expected a file NAME.dl after save, got 'out'; results are saved at the "
        f"{at_terminals}",
        "<stdin>:21:3: error: undefined relation 'egde' [unknown-relation]",
        "      egde(x, y).",
        "      ^^^^",
        "    hint: did you mean 'edge'?",
        f"dbsp: error: <stdin>:23: an empty line ends the rule that begins with 'path(x, y) :-' {abandoned}",
        "dbsp: error: <stdin>:26: the end of the input ends the rule that begins with "
        f"'path(y, x) :- edge(x, y)' {abandoned}",
    ]
    assert done.code == 1


def test_a_command_of_the_prompt_rejects_its_tick_in_a_script(folder: Path, run: Command) -> None:
    lines = ["+edge(1, 2)", "rollback", "commit", "why path(1, 2)", "+edge(2, 2)", "commit"]
    lines += ["+edge(3, 4)", "commit", "query path(x, y)"]
    done = run("live", "reach.dl", stdin="\n".join(lines))
    terminal = "is a command for the prompt of a terminal"
    rejected = "the tick was not applied and changed nothing: 1 line is invalid [invalid-line]"
    assert done.err.splitlines() == [
        f"dbsp: error: <stdin>:2: 'rollback' {terminal} [invalid-command]",
        f"dbsp: error: <stdin>:1-3: {rejected}",
        f"dbsp: error: <stdin>:4: 'why' {terminal}; 'dbsp why' proves rows of a program with its facts, or "
        "of a checkpoint [invalid-command]",
        f"dbsp: error: <stdin>:4-6: {rejected}",
    ]
    assert done.out == "+path(3, 4)\ncommit  // tick 1\n3\t4\n"
    assert done.code == 1


def test_a_program_with_an_error_does_not_replace_the_running_one(folder: Path, run: Command) -> None:
    (folder / "wrong.dl").write_text(REACH + "path(x) :- edge(x, _).\n")
    done = run("live", "reach.dl", stdin="update wrong.dl\n+edge(1, 1)\n")
    assert done.out == "+path(1, 1)\ncommit  // tick 1\n"
    assert "wrong.dl:7:1: error:" in done.err
    assert done.code == 1


def test_a_watched_program_is_updated_when_a_file_of_it_changes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rules.dl").write_text("path(x, y) :- edge(x, y).\n")
    head = ".decl edge(x: number, y: number) .input edge .decl path(x: number, y: number) .output path\n"
    (folder / "main.dl").write_text(head + '#include "rules.dl"\n')
    program = dbsp.compile("main.dl")
    run = program.start()

    def lines() -> Iterator[str]:
        yield "+edge(1, 2)\n"
        (folder / "rules.dl").write_text("path(y, x) :- edge(x, y).\n")
        yield "commit\n"  # of the program that the tick began with
        yield "\n"
        (folder / "rules.dl").write_text("path(y, x) :- .\n")
        yield "+edge(3, 4)\n"
        yield "commit\n"

    source = LiveProgram(program, run, watched=True)
    talk = Conversation(program, run, lambda tick: print_deltas(talk.program, tick, timed=False), source)
    talk.follow(lines())
    shown = capsys.readouterr()
    assert shown.out == (
        "+path(1, 2)\ncommit  // tick 1\n-path(1, 2)\n+path(2, 1)\ncommit  // tick 2\n"
        "+path(4, 3)\ncommit  // tick 3\n"
    )
    assert shown.err.count("rules.dl:1") == 1  # an error is reported once
    assert LiveProgram(program, run).changed() is False
