"""Rules, watched queries and undo in `dbsp live`: what each command prints and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dbsp
from dbsp.cli import undo_history
from dbsp.cli.commands import ConsoleCommands
from dbsp.cli.program_reload import LiveProgram
from tests.cli.support import REACH

Say = Callable[..., list[str]]

PROGRAM = REACH.replace("path(x, z)", "/* two */ path(x, z)") + ".decl far(x: number) far(x) :- path(_, x).\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(PROGRAM)
    return tmp_path


def started(text: str | None = None, **facts: list[tuple[int, ...]]) -> ConsoleCommands:
    """A console on a program of a file, or of `reach.dl`."""
    if text is not None:
        Path("p.dl").write_text(text)
    program = dbsp.compile(Path("reach.dl" if text is None else "p.dl"))
    return ConsoleCommands(program, program.start(facts), timed=False)


@pytest.fixture
def commands(folder: Path) -> ConsoleCommands:
    return started(edge=[(1, 2), (2, 3)])


def say(commands: ConsoleCommands, capsys: pytest.CaptureFixture[str], *lines: str) -> list[str]:
    """Run some lines; return the lines of their output."""
    capsys.readouterr()
    for line in lines:
        commands.handle(line)
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def tell(commands: ConsoleCommands, capsys: pytest.CaptureFixture[str]) -> Say:
    return lambda *lines: say(commands, capsys, *lines)


def refusal(commands: ConsoleCommands, *lines: str) -> str:
    """Return the error of the last line, which changes nothing."""
    for line in lines[:-1]:
        commands.handle(line)
    before = commands.run.tick, state(commands)
    with pytest.raises(dbsp.DbspError) as raised:
        commands.handle(lines[-1])
    assert (commands.run.tick, state(commands)) == before
    return str(raised.value)


def state(commands: ConsoleCommands) -> dict[str, dict[tuple[object, ...], int]]:
    run = commands.run
    return {name: run.view(name).to_dict() for name in run.outputs} | {
        f"input {name}": run.asserted(name).to_dict() for name in run.inputs
    }


def test_rules_are_added_and_dropped(tell: Say) -> None:
    assert tell(".decl loop(x: number) .output loop") == [
        "commit  // tick 2",
        "// kept: edge, path",
        "// added: loop",
    ]
    assert tell("+edge(3, 1)", "commit")[-1] == "commit  // tick 3"
    assert tell("loop(x) :- edge(x, y),", "  path(y, x).") == [
        "+loop(1)",
        "+loop(2)",
        "+loop(3)",
        "commit  // tick 4",
        "// kept: edge, path",
        "// rebuilt: loop",
    ]
    assert tell("rules") == [
        "1  reach.dl:5   path(x, y) :- edge(x, y).",
        "2  reach.dl:6   path(x, z) :- path(x, y), edge(y, z).",
        "3  reach.dl:7   far(x) :- path(_, x).",
        "4  <console>:4  loop(x) :- edge(x, y), path(y, x).",
    ]
    assert tell("rules loop") == ["4  <console>:4  loop(x) :- edge(x, y), path(y, x)."]
    assert tell("rules edge") == ["no rules"]
    assert "rule 4 at <console>:4" in tell("explain 4")[0]
    assert tell("why loop(1)")[1] == "│  <console>:4: loop(x) :- edge(x, y), path(y, x)."
    dropped = tell("drop 2")
    assert dropped[0] == "-path(1, 1)"
    assert dropped[6:10] == ["-loop(1)", "-loop(2)", "-loop(3)", "commit  // tick 5"]
    assert [line[0] for line in tell("rules")] == ["1", "2", "3"]
    assert tell("drop loop(x):-edge(x,y),path(y,x)", "drop .output loop")[-1] == "// kept: edge, loop, path"
    assert tell("rules loop") == ["no rules"]


def test_errors_of_rules_change_nothing(commands: ConsoleCommands) -> None:
    unknown = refusal(commands, "path(x, y) :-", "  egde(x, y).")
    assert unknown == (
        "<console>:2:3: error: undefined relation 'egde' [unknown-relation]\n"
        "      egde(x, y).\n      ^^^^\n    hint: did you mean 'edge'?"
    )
    assert refusal(commands, 'path(x, y) :- edge(x, y), x = "a.').startswith(
        "<console>:3:31: error: this str"
    )
    assert "<console>:4:1: error: unknown directive '.dcl'" in refusal(commands, ".dcl p(x: number)")
    assert refusal(commands, "edge(7, 8).") == (
        "expected a rule, got a row of the input 'edge'; write '+edge(7, 8)' to insert it [unknown-command]"
    )
    assert "got '.include', which only a file may contain" in refusal(commands, '.include "x.dl"')
    for line in ("path(x, y) :- edge(y, x).", "drop 1", "watch edge(x, y)", "undo", "update", "save new.dl"):
        if not commands.pending:
            commands.handle("+edge(8, 9)")
        assert "changes are pending; run commit or rollback first [changes-pending]" in refusal(
            commands, line
        )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "drop",
            "expected a rule or its number: drop 2, or drop path(x, y) :- edge(x, y). [invalid-command]",
        ),
        ("drop 9", "the program has no rule 9; 'rules' lists the rules with their numbers [rule-not-found]"),
        ("drop 0", "the program has no rule 0;"),
        (f"drop {10**30}", "the program has no rule 1000"),
        ("drop path(y, x) :- edge(y, x).", "the program has no rule path(y, x) :- edge(y, x).;"),
        ("drop path(x", "error: "),
        ("rules paht", "unknown relation 'paht'; did you mean 'path'? [unknown-relation]"),
        ("rules zzz", "unknown relation 'zzz'; 'rules' lists all rules [unknown-relation]"),
        ("watch", "expected a query: watch path(1, x), x > 2 [invalid-command]"),
        ("watch pth(1, x)", "<query>:1:1: error: unknown relation 'pth'; did you mean 'path'?"),
        ("watch path(1, x", "the question is incomplete: it ends here"),
        ("watch p(x) :- path(1, x)", "<query>:1:"),
        ("unwatch", "no query is watched; 'watch QUERY' watches one [invalid-command]"),
        ("unwatch 1", "expected the number of a watched query, got '1'; 'watches' lists them"),
        ("undo", "cannot undo: no tick or update of this session is left [undo-refused]"),
        ("undo 2", "'undo' takes no argument, got '2' [invalid-command]"),
        ("save reach.dl", "reach.dl exists; write 'save --force reach.dl' to replace it [file-exists]"),
        ("save --force out", "expected a file NAME.dl after --force [invalid-command]"),
        ("save no/such/../../reach.dl/new.dl", "cannot be written"),
        ("load nothing.dl", "cannot read nothing.dl: No such file or directory [file-not-found]"),
    ],
)
def test_errors_of_commands(commands: ConsoleCommands, line: str, message: str) -> None:
    assert message in refusal(commands, line)


def test_what_a_drop_takes_with_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "more.dl").write_text("b(x) :- a(x), x > 100.\n")
    text = """\
.decl a(x: number)  .input a
.decl b(x: number)  .output b
b(x) :- a(x), x = 1; a(x), x = 2.   // both
b(x) :- a(x), a(y), x = y + 2.
.plan 0: (2, 1)
#include "more.dl"
#define PART b(x) :- a(x), x
PART = 7. b(9).
.comp C { .decl c(x: number)
  c(x) :- b(x).
  c(x) :- a(x). }
.init i = C
.init j = C
.decl d(x: number) inline
d(x) :- a(x), x > 50.
.output i.c, j.c
b(x) :- d(x).
#define TWO b(x) :- a(x), x = 11. b(x) :- a(x), x = 12
TWO.
"""
    commands = started(text, a=[(1,), (2,), (3,), (7,), (51,)])
    listed = say(commands, capsys, "rules")
    assert listed == [
        "1, 2  p.dl:3     b(x) :- a(x), x = 1; a(x), x = 2.",
        "   3  p.dl:4     b(x) :- a(x), a(y), x = y + 2.",
        "   4  more.dl:1  b(x) :- a(x), x > 100.",
        "   5  p.dl:8     PART = 7.",
        "6, 8  p.dl:10    c(x) :- b(x).",
        "7, 9  p.dl:11    c(x) :- a(x).",
        "   -  p.dl:15    d(x) :- a(x), x > 50.",
        "  10  p.dl:17    b(x) :- d(x).",
        "  11  p.dl:19    TWO",
        "  12  p.dl:19    TWO.",
    ]
    for number, reason in (
        (4, "more.dl:1, since the program includes this file"),
        (11, "p.dl:19, since a macro"),
    ):
        assert f"cannot drop the rule at {reason}" in refusal(commands, f"drop {number}")
    assert say(commands, capsys, "drop 2")[:2] == ["-b(1)", "-b(2)"]
    assert say(commands, capsys, "rules i.c") == [
        "4, 6  p.dl:10  c(x) :- b(x).",
        "5, 7  p.dl:11  c(x) :- a(x).",
    ]
    say(commands, capsys, "drop 1", "drop 2", "drop 2")
    # `b` ends as an input, and its only row was a fact of the program.
    assert say(commands, capsys, "drop b(9).")[-1] == "// changed: b"
    say(commands, capsys, "drop d(x) :- a(x), x > 50", "save q.dl")
    assert (
        (folder / "q.dl").read_text()
        == """\
.decl a(x: number)  .input a
.decl b(x: number)  .output b
// both
#include "more.dl"
#define PART b(x) :- a(x), x
.comp C { .decl c(x: number)
  c(x) :- a(x). }
.init i = C
.init j = C
.decl d(x: number) inline
.output i.c, j.c
b(x) :- d(x).
#define TWO b(x) :- a(x), x = 11. b(x) :- a(x), x = 12
TWO.
"""
    )
    saved, running = dbsp.compile(Path("q.dl")).checked, commands.program.checked
    assert (saved.rules, saved.facts, saved.relations) == (running.rules, running.facts, running.relations)


def test_watched_queries(commands: ConsoleCommands, tell: Say) -> None:
    assert tell("watch path(1, X), X > 2.") == [
        "+watch_1(3)",
        "commit  // tick 2",
        "// watch 1: path(1, X), X > 2",
    ]
    assert tell("watch path(3, _), n = count : { path(_, _) } // in all") == [
        "commit  // tick 3",
        "// watch 2: path(3, _), n = count : { path(_, _) } // in all",
    ]
    assert tell("+edge(3, 4) -edge(1, 5)", "commit") == [
        "+path(1, 4)",
        "+path(2, 4)",
        "+path(3, 4)",
        "+watch_1(4)",
        "+watch_2(6)",
        "commit  // tick 4",
    ]
    assert [line.split(maxsplit=2) for line in tell("watches")[2:]] == [
        ["1", "2", "path(1, X), X > 2"],
        ["2", "1", "path(3, _), n = count : { path(_, _) } // in all"],
    ]
    assert tell("show watch_1")[2:] == ["3", "4", "(2 rows)"]
    assert tell("rules watch_1") == ["no rules"]
    tell("save out")
    assert sorted(path.name for path in Path("out").iterdir()) == ["edge.facts", "path.csv"]
    assert tell("unwatch 1") == ["commit  // tick 5", "// no longer watched: 1"]
    assert tell("-edge(3, 4)", "commit")[-2:] == ["-watch_2(6)", "commit  // tick 6"]
    assert tell("watch path(1, 2)") == ["+watch_3()", "commit  // tick 7", "// watch 3: path(1, 2)"]
    assert tell("undo")[-2:] == ["commit  // tick 8", "// undone: tick 6: -edge(3, 4)"]  # not the watches
    assert tell("unwatch")[-1] == "// no longer watched: 2, 3"
    assert tell("watches") == ["no watched queries"]
    tell(".decl watch_4(x: number) .output watch_4")
    assert tell("watch edge(x, 2)")[-1] == "// watch 5: edge(x, 2)"


def test_a_watched_query_needs_its_relations(commands: ConsoleCommands, tell: Say) -> None:
    tell("watch far(x), x > 2", "drop far(x) :- path(_, x).")
    assert refusal(commands, "drop .decl far(x: number)") == (
        "<watch 1>:1:15: error: undefined relation 'far' [unknown-relation]\n"
        "    watch_1(x) :- far(x), x > 2\n                  ^^^\n"
        "    hint: declare it first: .decl far(...)\n    note: 'unwatch 1' removes this query"
    )
    tell("unwatch 1")
    assert tell("drop .decl far(x: number)")[-1] == "// dropped: far"


def test_undo_of_ticks(commands: ConsoleCommands, tell: Say, folder: Path) -> None:
    before = state(commands)
    tell("+edge(2, 3) +edge(3, 4) -edge(9, 9)", "commit")  # the first and last change nothing
    (folder / "changes.txt").write_text(
        "-edge(1, 2)\ncommit\n+edge(5, 6)\n+edge(6, 7)\n+edge(7, 8)\n-edge(3, 4)\n"
    )
    (folder / "edge.facts").write_text("1\t1\n2\t3\n")
    tell("load changes.txt", "load edge.facts", "commit")
    assert commands.run.tick == 6
    assert tell("undo")[-2:] == ["commit  // tick 7", "// undone: tick 6: no change"]
    assert tell("undo") == ["-path(1, 1)", "commit  // tick 8", "// undone: tick 5: +edge(1, 1)"]
    undone = tell("undo")[-1]
    assert undone == "// undone: tick 4: +edge(5, 6), +edge(6, 7), +edge(7, 8), 1 more"
    tell("undo", "undo")
    assert state(commands) == before
    assert "no tick or update of this session is left" in refusal(commands, "undo")


def test_undo_of_updates(folder: Path, commands: ConsoleCommands, tell: Say) -> None:
    first, rules = state(commands), tell("rules")
    tell("path(x, x) :- edge(x, _).")
    second, more = state(commands), tell("rules")
    tell("drop 1", "drop .input edge")
    (folder / "other.dl").write_text(".decl edge(x: number, y: number) .input edge .output edge\n")
    assert tell("load other.dl")[-1] == ("// console edits of reach.dl are gone; 'undo' restores them")
    (folder / "other.dl").write_text(".decl edge(x: number, y: number) .input edge .output edge\n\n")
    assert tell("update", "undo")[-1].endswith(": the update to other.dl")
    assert tell("undo")[-1].endswith(": the update to other.dl")
    assert tell("undo")[-1].endswith(": dropped .input edge")
    assert tell("undo")[-1].endswith(": dropped path(x, y) :- edge(x, y).")
    assert (state(commands), tell("rules")) == (second, more)
    assert tell("undo")[-1] == "// undone: tick 2: added path(x, x) :- edge(x, _)."
    assert (state(commands), tell("rules")) == (first, rules)
    (folder / "reach.dl").write_text(PROGRAM + "path(0, 0) :- edge(_, _).\n")
    assert tell("update")[0] == "+path(0, 0)"
    assert tell("undo")[-1].endswith(": the update to reach.dl")
    assert (state(commands), tell("rules")) == (first, rules)


def test_a_preview_of_an_update(folder: Path, commands: ConsoleCommands, tell: Say) -> None:
    tell("path(x, x) :- edge(x, _).")
    before, rules = state(commands), tell("rules")
    (folder / "other.dl").write_text(".decl edge(x: number, y: number) .input edge .output edge\n")
    would = tell("update --preview other.dl")
    assert (state(commands), tell("rules")) == (before, rules)
    assert would[:2] == ["// kept: edge", "// dropped: path"]
    (folder / "reach.dl").write_text(PROGRAM + "path(0, 0) :- edge(_, _).\n")
    assert tell("update --preview")[-1] == "// path: 1 row more, 0 rows less"
    assert tell("update")[0] == "+path(0, 0)"


def test_undo_restores_facts_and_the_rows_of_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ".decl a(x: number) .output a\n.decl b(x: number) .input b .output b\na(1). a(2).\na(3).\n"
    commands = started(text)
    say(commands, capsys, "-a(1)", "+a(5)", "+b(1) +b(2)", "commit")
    before = state(commands)
    say(commands, capsys, "drop a(1).", "drop a(2).", "drop a(3).")
    assert commands.run.view("a").rows() == [(5,)]
    assert say(commands, capsys, "a(x) :- b(x).")[-1] == "// no longer an input: a, which had 1 row"
    assert commands.run.view("a").rows() == [(1,), (2,)]
    assert say(commands, capsys, "drop .input b", "b(x) :- x = 8.")[-1] == (
        "// no longer an input: b, which had 2 rows"
    )
    shown = say(commands, capsys, "undo")
    assert [line for line in shown if line.startswith("commit")] == [
        "commit  // tick 9",
        "commit  // tick 10",
    ]
    for _ in range(5):
        commands.handle("undo")
    assert state(commands) == before


def test_undo_is_bounded(commands: ConsoleCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_history, "MAX_STEPS", 2)
    monkeypatch.setattr(undo_history, "MAX_ROWS", 5)
    for number in range(3):
        commands.handle(f"+edge({number}, 50) +edge({number}, 51)")
        commands.handle("commit")
    commands.handle("undo")
    commands.handle("undo")
    assert refusal(commands, "undo") == (
        "cannot undo: the history has at most 2 steps and 5 changed rows [undo-refused]"
    )
    assert commands.run.asserted("edge").rows() == [(0, 50), (0, 51), (1, 2), (2, 3)]
    commands.handle("+edge(1, 60) +edge(1, 61) +edge(1, 62)")
    commands.handle("commit")
    commands.handle("+edge(1, 70) +edge(1, 71) +edge(1, 72)")
    commands.handle("commit")
    commands.handle("undo")
    assert "5 changed rows" in refusal(commands, "undo")
    commands.run.kept_changes = 2
    commands.handle("+edge(1, 80) +edge(1, 81) +edge(1, 82) +edge(1, 2)")  # the last is present
    commands.handle("commit")
    assert "cannot undo: tick 10 changed more than 2 rows" in refusal(commands, "undo")
    commands.handle("drop .input edge")
    commands.handle("edge(x, y) :- x = 1, y = 2.")
    assert "cannot undo: tick 12 was an update that dropped more than 5 rows" in refusal(commands, "undo")


def test_undo_refuses_numbers_of_rows(folder: Path) -> None:
    commands = started(
        ".decl a(x: number) .input a .decl b(n: number, x: number) .output b b(autoinc(), x) :- a(x).\n"
    )
    commands.handle("+a(1)")
    commands.handle("commit")
    message = refusal(commands, "undo")
    assert message.startswith("cannot undo tick 1: +a(1): rules with autoinc() number rows by the ticks")
    commands.handle(".decl c(x: number) .output c c(x) :- a(x).")
    before = state(commands)
    commands.handle("c(x) :- a(x), x > 1.")
    commands.handle("undo")
    assert state(commands) == before


def test_edits_stay_on_top_of_the_file(folder: Path, commands: ConsoleCommands, tell: Say) -> None:
    tell("path(x, x) :- edge(x, _).", "drop 2", "watch path(1, x)")
    (folder / "reach.dl").write_text("// longer\n\n" + PROGRAM + "path(9, 9) :- edge(_, _).\n")
    assert tell("update")[-1] == "// console edits stay on top of the file"
    assert [line.split(maxsplit=1)[1] for line in tell("rules path")] == [
        "reach.dl:7   path(x, y) :- edge(x, y).",
        "reach.dl:10  path(9, 9) :- edge(_, _).",
        "<console>:1  path(x, x) :- edge(x, _).",
    ]
    assert tell("? watch_1(x)")[2:] == ["1", "2", "(2 rows)"]
    assert tell("load reach.dl")[-1] == "// console edits of reach.dl are gone; 'undo' restores them"
    assert len(tell("rules path")) == 3
    tell("undo")
    tell("drop path(9, 9) :- edge(_, _).", "path(x, z) :- path(x, y), edge(y, z).", "update")
    assert [line.split(maxsplit=2)[1] for line in tell("rules path")] == [
        "reach.dl:7",
        "<console>:1",
        "<console>:11",  # also in the file, where it stays dropped
    ]
    tell("drop path(x, z) :- path(x, y), edge(y, z).")
    (folder / "reach.dl").write_text(PROGRAM.replace("path", "way"))
    error = refusal(commands, "update")
    assert "<console>:1:1: error: undefined relation 'path'" in error
    tell("drop path(x, x) :- edge(x, _).")
    assert "'unwatch 1' removes this query" in refusal(commands, "update")


def test_an_edit_does_not_read_files_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "more.dl").write_text("b(x) :- a(x), x > 1.\n")
    commands = started(
        '.decl a(x: number) .input a .decl b(x: number) .output b\n#include "more.dl"\n', a=[(2,)]
    )
    (folder / "more.dl").write_text("b(x + 10) :- a(x).\n")
    assert say(commands, capsys, "b(x) :- a(y), x = y + 1,", "   y > 1.")[0] == "+b(3)"
    assert say(commands, capsys, "", "b(0) :- a(_).", "rules")[-3:] == [
        "1  more.dl:1    b(x) :- a(x), x > 1.",
        "2  <console>:1  b(x) :- a(y), x = y + 1, y > 1.",
        "3  <console>:4  b(0) :- a(_).",
    ]
    assert say(commands, capsys, "update")[:2] == ["-b(2)", "+b(12)"]


def test_saving_the_program(folder: Path, commands: ConsoleCommands, tell: Say) -> None:
    tell("drop 2", "", "path(x, x) :-", "    edge(x, _).")
    assert tell("save new.dl") == ["wrote new.dl"]
    expected = PROGRAM.replace("path(x, z) :- path(x, y), edge(y, z).\n", "\n").replace(
        "two */ \n", "two */\n"
    )
    assert (folder / "new.dl").read_text() == expected + "path(x, x) :-\n    edge(x, _).\n"
    before = state(commands)
    assert tell("save --force reach.dl")[:2] == ["wrote reach.dl", "commit  // tick 4"]
    assert (folder / "reach.dl").read_text() == (folder / "new.dl").read_text()
    assert state(commands) == before
    assert tell("update")[-1] != "// console edits stay on top of the file"  # the file has them
    assert tell("undo")[-1].endswith("the update to reach.dl")
    assert tell("undo")[-1].endswith("added path(x, x) :- edge(x, _).")


def test_the_file_of_a_watched_program_can_be_saved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = dbsp.compile(Path("reach.dl"))
    run = program.start()
    source = LiveProgram(program, run, watched=True)
    commands = ConsoleCommands(program, run, timed=False, source=source)
    say(commands, capsys, "path(x, x) :- edge(x, _).", "save --force reach.dl")
    assert say(commands, capsys, "pending") == ["no changes are pending"]
    (folder / "reach.dl").write_text(PROGRAM + "\n\n")
    assert say(commands, capsys, "pending")[0].startswith("commit")


def test_a_line_is_run_after_an_error_of_the_watched_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = dbsp.compile(Path("reach.dl"))
    run = program.start({"edge": [(1, 2)]})
    source = LiveProgram(program, run, watched=True)
    commands = ConsoleCommands(program, run, timed=False, source=source)
    (folder / "reach.dl").write_text(PROGRAM + "path(x, x) :- edge(x, _)\n")
    commands.handle("watch far(x)")
    shown = capsys.readouterr()
    assert "reach.dl" in shown.err and "expected '.'" in shown.err
    assert shown.out.splitlines()[0] == "+watch_1(2)"


def test_a_relation_can_have_the_name_of_a_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = started(edge=[(1, 2)])
    say(commands, capsys, ".decl watch(x: number) .output watch")
    assert say(commands, capsys, "watch(x) :- edge(x, _).")[0] == "+watch(1)"
    assert say(commands, capsys, "watch (y) :- edge(_, y).")[0] == "+watch(2)"
    assert say(commands, capsys, "watch watch(x)")[:2] == ["+watch_1(1)", "+watch_1(2)"]
    assert say(commands, capsys, "query (x = 1; x = 7), watch(x)")[2:] == ["1", "(1 row)"]


def test_warnings_are_shown_once(commands: ConsoleCommands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.handle(".decl old(x: number) output")
    assert "<console>:1:22: warning: qualifier 'output' is deprecated" in capsys.readouterr().err
    commands.handle("path(x, y) :- edge(y, x).")
    assert capsys.readouterr().err == ""
