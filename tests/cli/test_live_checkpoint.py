"""`dbsp live --checkpoint`: a program that continues after a restart, with its edits."""

from __future__ import annotations

import contextlib
import gc
import shutil
from pathlib import Path

import pytest

from dbsp import Circuit
from dbsp.cli import program_files
from dbsp.cli.commands import ConsoleCommands
from dbsp.cli.live_start import start_in_checkpoint
from dbsp.cli.options import Compilation
from dbsp.cli.program_files import load_program
from dbsp.cli.program_reload import LiveProgram
from dbsp.compiler.program import Program
from dbsp.durable.store import Store
from dbsp.runtime.run import Run
from tests.cli.support import REACH, Command
from tests.crashes import Ended, count_operations, ends_after
from tests.profiles import sampled

pytestmark = pytest.mark.usefixtures("compiled_kernels")

LIVE = ("live", "reach.dl", "--checkpoint", "state")
MORE = ".decl loop(x: number) .output loop\nloop(x) :- edge(x, x).\n"


def test_a_restart_continues_after_the_latest_tick(folder: Path, run: Command) -> None:
    done = run(*LIVE, "-F", "facts", "--initial", stdin="+edge(3, 4)\n")
    assert done.out.endswith("commit  // tick 1\n+path(1, 4)\n+path(2, 4)\n+path(3, 4)\ncommit  // tick 2\n")
    assert done.err == ""
    (folder / "facts" / "edge.facts").write_text("not read\n")
    done = run(*LIVE, "-F", "facts", stdin="-edge(3, 4)\n? edge(x, 3)\n")
    assert done.out == "2\n-path(1, 4)\n-path(2, 4)\n-path(3, 4)\ncommit  // tick 3\n"
    assert (done.code, done.err) == (0, "state: continued at tick 2\n")


def test_rules_and_watched_queries_of_the_console_stay(folder: Path, run: Command) -> None:
    run(*LIVE, stdin=f"+edge(1, 1)\ncommit\n{MORE}watch path(x, 1)\ndrop path(x, y) :- edge(x, y).\n")
    done = run(*LIVE, stdin="rules\nwatches\n+edge(2, 2)\n")
    assert done.err == "state: continued at tick 5\n"
    assert done.out.splitlines() == [
        "1  reach.dl:6  path(x, z) :- path(x, y), edge(y, z).",
        "2  <stdin>:4   loop(x) :- edge(x, x).",
        "watch  rows  query",
        "─────  ────  ──────────",
        "1      0     path(x, 1)",
        "+loop(2)",
        "commit  // tick 6",
    ]
    done = run(*LIVE, stdin="unwatch\nwatch loop(x)\n")
    assert done.out.endswith("+watch_2(1)\n+watch_2(2)\ncommit  // tick 8\n")


def test_a_restart_updates_to_the_edited_file(folder: Path, run: Command) -> None:
    run(*LIVE, stdin=f"+edge(1, 1)\ncommit\n{MORE}")
    (folder / "reach.dl").write_text(REACH + "path(0, x) :- edge(x, _).\n")
    done = run(*LIVE, stdin="undo\nsave --force reach.dl\n")
    assert done.out == (
        "+path(0, 1)\ncommit  // tick 4\n-path(0, 1)\ncommit  // tick 5\nwrote reach.dl\ncommit  // tick 6\n"
    )
    assert done.err.splitlines()[:4] == [
        "state: continued at tick 3",
        "// kept: edge, loop",
        "// rebuilt: path",
        "// console edits stay on top of the file",
    ]
    assert (folder / "reach.dl").read_text() == REACH + MORE
    done = run(*LIVE, stdin="undo\n")
    assert done.err.splitlines() == [
        "state: continued at tick 6",
        "dbsp: error: <stdin>:1: cannot undo: no tick or update of this session is left [undo-refused]",
    ]


def test_an_edited_file_is_read_once(folder: Path, run: Command) -> None:
    run(*LIVE, stdin="+edge(1, 2)\n")
    (folder / "more.dl").write_text("path(x, x) :- edge(x, alone).\n")
    (folder / "reach.dl").write_text(REACH + '.include "more.dl"\n')
    done = run(*LIVE, "--watch", stdin="+edge(2, 3)\n")
    assert done.out == (
        "+path(1, 1)\ncommit  // tick 2\n+path(1, 3)\n+path(2, 2)\n+path(2, 3)\ncommit  // tick 3\n"
    )
    assert done.err.count("warning:") == 1


def test_the_program_of_the_checkpoint_continues_if_the_file_does_not_fit(folder: Path, run: Command) -> None:
    run(*LIVE, stdin="+edge(1, 1)\ncommit\n.decl loop(x: number) .output loop\nloop(x) :- edge(x, x).\n")
    (folder / "reach.dl").write_text(REACH + MORE)
    done = run(*LIVE, stdin="show loop\n")
    assert done.out == "1\n"
    assert done.code == 1
    assert "relation 'loop' is declared twice" in done.err
    assert run(*LIVE, stdin="drop 3\nshow loop\n").out == "-loop(1)\ncommit  // tick 4\n"


def test_included_files_are_those_of_the_stored_program(folder: Path, run: Command) -> None:
    (folder / "rules.dl").write_text("path(x, y) :- edge(x, y).\n")
    head = ".decl edge(x: number, y: number) .input edge .decl path(x: number, y: number) .output path\n"
    (folder / "reach.dl").write_text(head + '.include "rules.dl"\n')
    run(*LIVE, stdin="+edge(1, 2)\n")
    (folder / "rules.dl").write_text("path(y, x) :- edge(x, y).\n")
    done = run("live", str(folder / "reach.dl"), "--checkpoint", "state")
    assert done.out == "-path(1, 2)\n+path(2, 1)\ncommit  // tick 2\n"


def test_a_history_is_kept(folder: Path, run: Command) -> None:
    run(*LIVE, "--keep", "100", stdin="+edge(1, 2)\ncommit\n+edge(2, 3)\n")
    done = run("checkpoint", "as-of", "state", "reach.dl", "1")
    assert "1\t2\n" in done.out
    assert "2\t3" not in done.out


def test_a_run_of_python_continues(folder: Path, run: Command) -> None:
    started = load_program(Path("reach.dl"), Compilation()).start({"edge": [(1, 2)]}, checkpoint="state")
    assert started.log is not None
    started.log.close()
    done = run(*LIVE, stdin="+edge(2, 3)\n")
    assert done.out == "+path(1, 3)\n+path(2, 3)\ncommit  // tick 2\n"


def test_refused_folders_and_options(folder: Path, run: Command) -> None:
    assert "expected --checkpoint with --keep" in run("live", "reach.dl", "--keep", "3").err
    assert "expected --checkpoint with --allow-pickle" in run("live", "reach.dl", "--allow-pickle").err
    assert "--keep: expected a number of ticks" in run(*LIVE, "--keep", "3 apples").err
    assert not Path("state").exists()
    other = Circuit("other").start(checkpoint="state")
    assert "in use by process" in run(*LIVE).err
    assert other.log is not None
    other.log.close()
    assert "the checkpoint of another query ('other')" in run(*LIVE).err


def test_options_may_change(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + "path(LEAST, x) :- edge(x, _).\n")
    edit = ".decl same(x: number) .output same\nsame(x) :- edge(x, _), x < LEAST.\n"
    run(*LIVE, "-M", "LEAST=0", stdin=f"+edge(1, 2)\ncommit\n{edit}")
    done = run(*LIVE, "-M", "LEAST=2")
    assert done.out == ("-path(0, 1)\n-path(0, 2)\n+path(2, 1)\n+path(2, 2)\n+same(1)\ncommit  // tick 4\n")
    (folder / "reach.dl").write_text(REACH)
    done = run(*LIVE, stdin="show same\n")
    assert (done.out, done.code) == ("1\n", 1)
    assert "LEAST" in done.err  # the edit needs it


def test_a_checkpoint_of_other_inputs_keeps_its_rows(folder: Path, run: Command) -> None:
    run(*LIVE, stdin="+edge(1, 2)\n")
    (folder / "other.dl").write_text(".decl link(x: number) .input link .output link\n")
    other = ("live", "other.dl", "--checkpoint", "state")
    done = run(*other, stdin="show path\n")
    assert (done.out, done.code) == ("1\t2\n", 1)
    assert done.err.splitlines()[1] == (
        "dbsp: error: <stdin>:0: other.dl has no input 'edge', which has 1 row in the checkpoint, so the "
        "program of the checkpoint continues; write 'update' to drop these rows [update-refused]"
    )
    done = run(*other, stdin="update\n+link(3)\n")
    assert done.out == "commit  // tick 2\n+link(3)\ncommit  // tick 3\n"


def continued(checkpoint: Path) -> LiveProgram:
    store = Store(checkpoint)

    def started(program: Program) -> Run:
        return program_files.start(program, None, 1_000, checkpoint=store)

    program = load_program(Path("reach.dl"), Compilation())
    return start_in_checkpoint(program, Compilation(), store, started, watched=False, console="<stdin>")


def test_the_prompt_begins_with_the_update(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = continued(Path("state"))
    started.step({"edge": [(1, 2)]})
    end(started)
    (folder / "reach.dl").write_text(REACH + MORE.replace("x, x", "_, x"))
    source = continued(Path("state"))
    commands = ConsoleCommands(source.program, source.run, timed=False, source=source)
    commands.begin()
    commands.begin()
    assert capsys.readouterr().out == "+loop(2)\ncommit  // tick 2\n// kept: edge, path\n// added: loop\n"
    end(source)


def end(source: LiveProgram) -> None:
    """Release the folder as the end of the process does."""
    log = source.run.log
    assert isinstance(log, Store)
    log.wait()
    assert log._owner is not None
    log._owner.release()


def test_every_end_of_the_process_leaves_a_program_that_continues(folder: Path) -> None:
    started = continued(Path("state"))
    started.step({"edge": [(1, 1), (1, 2)]})
    end(started)

    def life(checkpoint: Path) -> LiveProgram:
        shutil.copytree("state", checkpoint)
        return continued(checkpoint)

    first = life(folder / "all")
    operations = count_operations(lambda: first.add(MORE, 1))
    end(first)
    outcomes = []
    for count in sampled(operations):
        source = life(folder / str(count))
        with contextlib.suppress(Ended), ends_after(count):
            source.add(MORE, 1)
        end(source)
        del source
        gc.collect()
        again = continued(folder / str(count))
        outcomes.append("loop" in again.program.relations)
        assert again.draft.edits == 3 * outcomes[-1]
        assert again.run.view("path").rows() == [(1, 1), (1, 2)]
        if not outcomes[-1]:
            again.add(MORE, 1)
        assert again.run.view("loop").rows() == [(1,)]
        end(again)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
