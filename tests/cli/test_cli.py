"""The command line, as a user and as a script meet it."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

import dbsp
from dbsp.cli import console, main
from dbsp.cli.warmup_command import kernels_compiled
from dbsp.compiler.datalog.compiler_passes import COMPILER

REACH = """\
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
PATHS = "1\t2\n1\t3\n2\t3\n"


@pytest.fixture(autouse=True)
def compiled_kernels() -> None:
    """Commands say on stderr that kernels are being compiled; here they have been, by this."""
    dbsp.compile(REACH).start({"edge": [(1, 2)]})
    assert kernels_compiled()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and facts, and the place the commands run in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(REACH)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("2\t3\n1\t2\n")
    return tmp_path


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


Command: TypeAlias = Callable[..., Result]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`run("run", "reach.dl", ..., stdin="...")`: a command in this process, and what it printed."""

    def command(*arguments: str, stdin: str = "") -> Result:
        read, write = os.pipe()
        os.write(write, stdin.encode())
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            monkeypatch.setattr(sys, "stdin", lines)
            try:
                main(arguments)
                code = 0
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 0
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return command


def process(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "dbsp", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


# --- run ---------------------------------------------------------------------------------------------


def test_run_reads_facts_and_writes_results(folder: Path, run: Command) -> None:
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (folder / "out" / "path.csv").read_text() == PATHS
    assert [path.name for path in (folder / "out").iterdir()] == ["path.csv"]


def test_run_uses_the_present_folder_if_not_told_otherwise(folder: Path, run: Command) -> None:
    (folder / "facts" / "edge.facts").rename(folder / "edge.facts")
    assert run("run", "reach.dl").code == 0
    assert (folder / "path.csv").read_text() == PATHS


def test_macros_and_folders_of_included_files(folder: Path, run: Command) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "out.dl").write_text(".decl out(x: number, s: symbol)\n.output out\n")
    program = '#include "out.dl"\n#ifdef ON\nout(N, S).\nout(A, T).\n#endif\n.decl n(x: number)\n.input n\n'
    (folder / "m.dl").write_text(program)
    (folder / "n.facts").touch()
    given = ["-I", "lib", "-M", 'ON N=2 S="a b" T="x y"', "--macro", "A=3"]
    done = run("run", "m.dl", *given, "-D", "-")
    assert (done.code, done.err) == (0, "")
    assert "2\ta b\n3\tx y\n" in done.out
    assert run("explain", "m.dl", *given).code == run("graph", "m.dl", *given).code == 0
    assert run("check", "m.dl", *given, "--ticks", "2").code == 0
    assert "out(2" in run("live", "m.dl", "--initial", *given).out
    assert "there is no file 'out.dl'" in run("explain", "m.dl").err


def test_run_prints_results(folder: Path, run: Command) -> None:
    done = run("run", "reach.dl", "-F", "facts", "-D", "-")
    assert done.out == f"---------------\npath\nx\ty\n===============\n{PATHS}===============\n"
    assert (done.code, done.err) == (0, "")
    assert not list(folder.glob("*.csv"))


def test_run_applies_a_change_script_and_writes_deltas(folder: Path, run: Command) -> None:
    (folder / "changes.txt").write_text("+edge(3, 4)\ncommit\n-edge(1, 2)\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (folder / "out" / "deltas.txt").read_text() == (
        "+path(1, 4)\n+path(2, 4)\n+path(3, 4)\ncommit  // tick 2\n"
        "-path(1, 2)\n-path(1, 3)\n-path(1, 4)\ncommit  // tick 3\n"
    )
    assert (folder / "out" / "path.csv").read_text() == "2\t3\n2\t4\n3\t4\n"


def test_run_prints_deltas_behind_the_results(folder: Path, run: Command) -> None:
    (folder / "changes.txt").write_text("-edge(1, 2)\ncommit\ncommit\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "-", "--deltas", "changes.txt", "--time")
    assert done.code == 0
    results, deltas = done.out.split("===============\n-path", 1)
    assert results.endswith(PATHS)
    pattern = r"\(1, 2\)\n-path\(1, 3\)\ncommit  // tick 2, [0-9.]+ ms\ncommit  // tick 3, [0-9.]+ ms\n"
    assert re.fullmatch(pattern, deltas)


def test_deltas_of_one_program_are_changes_of_another(folder: Path, run: Command) -> None:
    (folder / "count.dl").write_text(
        ".decl path(x: number, y: number)\n.input path\n"
        ".decl n(x: number, c: number)\n.output n\nn(x, c) :- path(x, _), c = count : { path(x, _) }.\n"
    )
    first = run("live", "reach.dl", stdin="+edge(1, 2)\n+edge(2, 3)\ncommit\n-edge(2, 3)\ncommit\n")
    second = run("live", "count.dl", stdin=first.out)
    assert second.err == ""
    assert (
        second.out
        == "+n(1, 2)\n+n(2, 1)\ncommit  // tick 1\n+n(1, 1)\n-n(1, 2)\n-n(2, 1)\ncommit  // tick 2\n"
    )


def test_changes_without_effect_are_reported(folder: Path, run: Command) -> None:
    (folder / "changes.txt").write_text("-edge(8, 8)\n-edge(9, 9)\n+edge(1, 2)\ncommit\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt")
    assert done.code == 0
    assert done.err == (
        "changes.txt:1-4: warning: 2 deleted rows were not in 'edge' anyway\n"
        "changes.txt:1-4: warning: 1 inserted row was in 'edge' already\n"
    )


def test_printsize_goes_to_stdout(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH.replace(".output path", ".printsize path"))
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out) == (0, "path\t3\n")
    assert not (folder / "out" / "path.csv").exists()
    assert run("run", "reach.dl", "-F", "facts", "-D", "-").out == "path\t3\n"


def test_directive_parameters(folder: Path, run: Command) -> None:
    program = REACH.replace(".input edge", '.input edge(IO=file, filename="e.txt", delimiter=",")')
    program = program.replace(".output path", '.output path(filename="p.txt", delimiter=";", headers=true)')
    (folder / "reach.dl").write_text(program)
    (folder / "facts" / "e.txt").write_text("1,2\n")
    assert run("run", "reach.dl", "-F", "facts", "-D", "out").err == ""
    assert (folder / "out" / "p.txt").read_text() == "x;y\n1;2\n"
    assert run("run", "reach.dl", "-F", "facts", "-D", "-").out.startswith("---------------\npath\nx;y\n===")
    (folder / "reach.dl").write_text(REACH.replace(".input edge", ".input edge(IO=tape, filname=x)"))
    done = run("run", "reach.dl", "-F", "facts")
    assert done.code == 1
    assert "reach.dl:2:1: error: IO=tape is not known for .input\n" in done.err
    (folder / "reach.dl").write_text(REACH.replace(".output path", ".output path(filname=x)"))
    done = run("run", "reach.dl", "-F", "facts")
    assert done.code == 0
    assert "reach.dl:4:1: warning: the parameter 'filname' of .output means nothing\n" in done.err
    assert "hint: did you mean 'filename'?" in done.err


def test_facts_and_results_of_every_kind(folder: Path, run: Command) -> None:
    """One program writes, the next one reads: through JSON, SQLite, quoted and packed files."""
    ways = {
        "j": "IO=jsonfile",
        "s": "IO=sqlite, filename=both",
        "t": "IO=sqlite, filename=both",
        "q": "rfc4180=true, headers=true",
        "z": "compress=true, filename=packed",
    }
    columns = "(n: number, t: symbol)"
    facts = r'(1, "a\t\"b\"").'
    for name, way in ways.items():
        facts_of_one = facts if name != "z" else '(1, "a").'
        writer = f".decl {name}{columns}\n.output {name}({way})\n{name}{facts_of_one}\n"
        (folder / "w.dl").write_text(writer)
        assert run("run", "w.dl", "-D", "x").err == ""
    read = {**ways, "q": ways["q"] + ', filename="q.csv"', "z": "filename=packed"}
    program = "".join(f".decl {name}{columns}\n.input {name}({way})\n" for name, way in read.items())
    program += ".decl all(r: symbol, n: number, t: symbol)\n.output all(IO=stdout)\n"
    program += "".join(f'all("{name}", n, t) :- {name}(n, t).\n' for name in ways)
    (folder / "r.dl").write_text(program)
    done = run("run", "r.dl", "-F", "x")
    assert done.err == ""
    assert sorted(done.out.split("\n")[3:-2]) == [
        'j\t1\ta\t"b"',
        'q\t1\ta\t"b"',
        's\t1\ta\t"b"',
        't\t1\ta\t"b"',
        "z\t1\ta",
    ]


def test_standard_input_is_read_once(folder: Path, run: Command) -> None:
    program = REACH.replace(".input edge", ".input edge(IO=stdin)")
    (folder / "reach.dl").write_text(program)
    done = process("run", "reach.dl", "-D", "-", stdin="7\t8\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n7\t8\n" in done.stdout
    done = run("live", "reach.dl", "-F", "facts")
    assert done.err == (
        "dbsp: error: relation 'edge' cannot be read from standard input, where the changes come from\n"
    )
    (folder / "reach.dl").write_text(program + ".decl more(x: number)\n.input more(IO=json)\n")
    assert run("run", "reach.dl").err == (
        "dbsp: error: relations 'edge' and 'more' are both read from standard input, which can be read once\n"
    )


def test_options_of_souffle(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + ".decl lone(x: number)\nlone(x) :- edge(x, y).\n")
    done = run("run", "reach.dl", "-Ffacts", "-Dout", "-j4", "--no-preprocessor")
    assert (done.code, "'y' is used only once" in done.err) == (0, True)
    done = run("run", "-w", "-j", "auto", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.err) == (0, "")
    assert "a number of threads, or auto" in run("run", "reach.dl", "-j", "0").err
    done = run("run", "reach.dl", "-c")
    assert done.code == 2
    text = " ".join(done.err.replace("│", "").split())
    assert "Soufflé's option -c is not known here: programs are not compiled to C++" in text
    assert "Soufflé's option --generate is" in run("run", "reach.dl", "--generate=x.cpp").err
    assert run("run", "reach.dl", "--nonsense").code == 2
    assert run("graph", "reach.dl", "-w", "-o", "reach.dot").code == 0


def test_check_only_compiles(folder: Path, run: Command) -> None:
    done = run("check", "reach.dl")
    assert (done.code, done.out, done.err) == (0, "", "")
    (folder / "reach.dl").write_text(REACH + "path(x, x).\n")
    done = run("check", "reach.dl")
    assert done.code == 1
    assert done.err.startswith("reach.dl:7:6: error: variable 'x' in a fact")


def test_texts_that_cannot_be_read_back_are_reported(folder: Path, run: Command) -> None:
    (folder / "t.dl").write_text('.decl r(s: symbol)\n.output r\nr("a\\tb").\n')
    done = run("run", "t.dl", "-D", "out")
    assert done.code == 0
    assert "r.csv: warning: 1 of the texts contain the delimiter or a line break" in done.err
    (folder / "t.dl").write_text('.type P = [s: symbol]\n.decl r(p: P)\n.output r\nr(["a, b"]).\nr(["c"]).\n')
    assert "r.csv: warning: 1 of the texts" in run("run", "t.dl", "-D", "out").err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_loads_show_progress_on_a_terminal(
    folder: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert run("run", "reach.dl", "-F", "facts", "-D", "out").code == 0
    assert terminal.getvalue() == ""
    monkeypatch.setattr(console, "SLOW_BYTES", 1)
    assert run("run", "reach.dl", "-F", "facts", "-D", "out").code == 0
    assert "computing the first tick" in terminal.getvalue()


def test_long_loads_are_quiet_elsewhere(folder: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "SLOW_BYTES", 1)
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out, done.err) == (0, "", "")


# --- run: what can be wrong --------------------------------------------------------------------------


def test_errors_of_the_program(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH.replace("edge(y, z)", "egde(y, z)"))
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("reach.dl:6:")
    assert "did you mean 'edge'" in done.err
    assert "Traceback" not in done.err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("command", ["run", "live", "graph", "explain"])
def test_a_missing_program(folder: Path, run: Command, command: str) -> None:
    done = run(command, "none.dl")
    assert done.code == 1
    assert "cannot read none.dl: No such file or directory" in done.err


def test_errors_of_fact_files_are_all_shown(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + ".decl more(x: number)\n.input more\n")
    (folder / "facts" / "edge.facts").write_text("1\t2\n1\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out) == (1, "")
    assert "facts/edge.facts:2:1: error: relation 'edge' has 2 columns (x, y), this line has 1" in done.err
    assert "facts/more.facts: there is no such fact file (for relation 'more')" in done.err
    assert not (folder / "out").exists()


def test_unsigned_columns_refuse_negative_numbers(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(
        ".decl r(x: unsigned)\n.input r\n.decl s(x: unsigned)\n.output s\ns(x) :- r(x).\n"
    )
    (folder / "facts" / "r.facts").write_text("-1\n")
    assert (
        "column 'x' of relation 'r' expects an unsigned number" in run("run", "reach.dl", "-F", "facts").err
    )
    done = run("live", "reach.dl", stdin="+r(-1)\n")
    assert (done.code, done.out) == (1, "")
    assert "<stdin>:1:4: error: column 'x' of relation 'r' expects an unsigned number" in done.err


def test_a_wrong_change_script_is_refused_before_anything_happens(folder: Path, run: Command) -> None:
    (folder / "changes.txt").write_text("+edge(3, 4)\ncommit\n+path(1, 1)\n+edge(1)\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt")
    assert (done.code, done.out) == (1, "")
    assert "changes.txt:3:2: error: relation 'path' is computed by rules" in done.err
    assert (
        "changes.txt:4:2: error: relation 'edge' has 2 columns (x: int, y: int), this line gives 1"
        in done.err
    )
    assert not (folder / "out").exists()


DIVIDE = """\
.decl pair(x: number, y: number)
.input pair
.decl ratio(x: number, q: number)
.output ratio
ratio(x, x / y) :- pair(x, y).
"""


def test_a_failing_tick_names_its_lines_and_changes_nothing(folder: Path, run: Command) -> None:
    (folder / "divide.dl").write_text(DIVIDE)
    (folder / "facts" / "pair.facts").write_text("6\t3\n")
    (folder / "changes.txt").write_text(
        "+pair(8, 2)\ncommit\n+pair(9, 3)\n+pair(1, 0)\ncommit\n+pair(4, 4)\n"
    )
    done = run("run", "divide.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt")
    assert done.code == 1
    assert done.err.startswith(
        "dbsp: error: changes.txt:3-5: tick 3 was not applied and nothing has changed: "
    )
    assert "divi" in done.err
    assert (folder / "out" / "ratio.csv").read_text() == "6\t2\n8\t4\n"
    assert (folder / "out" / "deltas.txt").read_text() == "+ratio(8, 4)\ncommit  // tick 2\n"


def test_an_unbounded_recursion_is_given_up(folder: Path, run: Command) -> None:
    (folder / "up.dl").write_text(
        ".decl n(x: number)\n.input n\n.decl up(x: number)\n.output up\nup(x) :- n(x).\nup(x + 1) :- up(x).\n"
    )
    (folder / "facts" / "n.facts").write_text("1\n")
    done = run("run", "up.dl", "-F", "facts", "--max-iterations", "50")
    assert done.code == 1
    assert "has not converged after 50 iterations" in done.err


def test_results_that_cannot_be_written(folder: Path, run: Command) -> None:
    (folder / "out").write_text("a file, not a folder")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert done.code == 1
    assert re.search(r"out/path.csv: cannot be written: (File exists|Not a directory)", done.err)


# --- live --------------------------------------------------------------------------------------------


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


def test_live_shows_what_there_is(folder: Path, run: Command) -> None:
    done = run(
        "live", "reach.dl", "-F", "facts", stdin="show path\nshow\nshow paht\nhelp\nquit\n+edge(5, 6)\n"
    )
    assert done.out.startswith(PATHS + PATHS + '+edge(1, "text")')
    assert done.err == "dbsp: error: there is no output 'paht'; did you mean 'path'?\n"
    assert done.code == 1


def test_a_wrong_line_spoils_its_tick_only(folder: Path, run: Command) -> None:
    done = run(
        "live", "reach.dl", stdin="+edge(1, 2)\n+edge(1)\ncommit\n+egde(1, 2)\ncommit\n+edge(3, 4)\ncommit\n"
    )
    assert done.code == 1
    assert done.out == "+path(3, 4)\ncommit  // tick 1\n"
    assert "<stdin>:2:2: error: relation 'edge' has 2 columns" in done.err
    assert (
        "<stdin>:1-3: the tick was not applied and nothing has changed: 1 of its lines is wrong" in done.err
    )
    assert "<stdin>:4:2: error: unknown relation 'egde'" in done.err
    assert "<stdin>:4-5: the tick was not applied" in done.err


def test_a_failing_tick_in_live_changes_nothing(folder: Path, run: Command) -> None:
    (folder / "divide.dl").write_text(DIVIDE)
    done = run("live", "divide.dl", stdin="+pair(6, 3)\n+pair(1, 0)\ncommit\n+pair(8, 2)\ncommit\nshow\n")
    assert done.code == 1
    assert "<stdin>:1-3: tick 1 was not applied and nothing has changed" in done.err
    assert done.out == "+ratio(8, 4)\ncommit  // tick 1\n8\t4\n"


def read_until(stream: int, text: str, seconds: float = 60.0) -> str:
    """What a file descriptor gives until `text` has come."""
    found, end = b"", time.monotonic() + seconds
    while text.encode() not in found:
        ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{text!r} did not come within {seconds} s, only {found!r}"
        piece = os.read(stream, 65536)
        assert piece, f"the end came before {text!r}: {found!r}"
        found += piece
    return found.decode().replace("\r\n", "\n")


def read_answer(stream: int, text: str) -> str:
    """What comes until `text` and the prompt behind it; what a person types before that may be lost."""
    found = read_until(stream, text)
    prompted = "dbsp>" in found[found.rindex(text) :]
    return found if prompted else found + read_until(stream, "dbsp>")


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


def test_live_talks_with_a_person(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dbsp", "live", "reach.dl"]
    # No answer to "where is the cursor" will come from here.
    environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", "XDG_STATE_HOME": str(folder)}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as peer:
        os.close(theirs)
        try:
            assert "'help' says what to type" in read_until(ours, "dbsp>")
            os.write(ours, b"+edge(1, 2)\r")
            read_answer(ours, "1 pending")
            # A mistake costs a person the line, not the tick.
            os.write(ours, b"+edge(1, two)\r")
            read_answer(ours, "expected a number or a text in quotes")
            os.write(ours, b"commit\r")
            answer = read_answer(ours, " ms")
            assert "+path(1, 2)\n" in answer
            assert re.search(r"commit  // tick 1, [0-9.]+ ms", answer)
            os.write(ours, b"quit\r")
            assert peer.wait(60) == 0
        finally:
            peer.kill()  # else leaving the block would wait for it
            os.close(ours)


# --- the others --------------------------------------------------------------------------------------


def test_graph(folder: Path, run: Command) -> None:
    done = run("graph", "reach.dl")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("digraph circuit {")
    assert "Fixpoint path" in done.out
    assert "reach.dl:6" in done.out
    assert run("graph", "reach.dl", "-o", "reach.svg").code == 0
    assert "<svg" in (folder / "reach.svg").read_text()
    incremental = run("graph", "reach.dl", "--stage", "incremental")
    assert "Arrange" in incremental.out
    done = run("graph", "reach.dl", "-o", "reach.txt")
    assert (done.code, done.err) == (
        1,
        "dbsp: error: reach.txt: the name of a drawing ends in one of .dot, .gv, .svg, .png, .pdf\n",
    )


def test_explain(folder: Path, run: Command) -> None:
    done = run("explain", "reach.dl")
    assert (done.code, done.err) == (0, "")
    assert "path(x, z) :- path(x, y), edge(y, z)." in done.out


def test_explain_after_a_pass(folder: Path, run: Command) -> None:
    done = run("explain", "reach.dl", "--after", "stratify")
    assert (done.code, done.err) == (0, "")
    assert "// stratum 1, recursive\npath(x, y) :- edge(x, y).\n" in done.out
    assert "scope path\n    0  Delay path" in run("explain", "reach.dl", "--after", "build").out
    assert "Arrange by" in run("explain", "reach.dl", "--after", "prune", "-F", "facts").out
    unknown = run("explain", "reach.dl", "--after", "fuze")
    assert unknown.code == 2
    for word in ("there is no pass 'fuze'", "did you mean 'fuse'?", "preprocess", "incrementalise"):
        assert word in " ".join(unknown.err.replace("│", " ").split())


def test_explain_lists_the_passes(run: Command) -> None:
    done = run("explain", "--passes")
    assert (done.code, done.err) == (0, "")
    lines = [line.split()[0] for line in done.out.splitlines() if line.startswith("   ")]
    assert lines == [one.name for one in COMPILER]


def test_explain_with_facts_tells_what_was_met(folder: Path, run: Command) -> None:
    (folder / "triangles.dl").write_text(
        ".decl edge(x: number, y: number)\n.input edge\n.decl t(x: number, y: number, z: number)\n.output t\n"
        "t(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).\n"
    )
    (folder / "facts" / "edge.facts").write_text("1\t2\n2\t3\n1\t3\n3\t4\n2\t4\n")
    done = run("explain", "triangles.dl", "-F", "facts", "--strategy", "wcoj")
    assert (done.code, done.err) == (0, "")
    assert "a multi-way join, as was asked for" in done.out
    assert re.search(r"change of edge\(\w, \w\): 5 rows, \w: 2 of \S+ expected\n", done.out)
    assert re.search(r"edge by \(x, y\) .*; 5 rows, 120 bytes\n", done.out)
    missing = run("explain", "triangles.dl", "-F", "nowhere")
    assert missing.code == 1
    assert "edge.facts" in missing.err


@pytest.mark.parametrize("command", [["run", "-F", "facts", "-D", "-"], ["live", "-F", "facts", "--initial"]])
def test_every_strategy_gives_the_same_results(
    folder: Path, run: Command, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    name, *options = command
    results = [
        run(name, "reach.dl", *options, "--strategy", strategy) for strategy in ("auto", "binary", "wcoj")
    ]
    assert {(done.code, done.out) for done in results} == {(0, results[0].out)}
    assert "1\t3" in results[0].out or "path(1, 3)" in results[0].out


def test_the_strategy_shows_in_the_circuit(folder: Path, run: Command) -> None:
    assert "MultiwayJoin" not in run("graph", "reach.dl").out
    assert "MultiwayJoin" in run("graph", "reach.dl", "--strategy", "wcoj").out
    assert run("check", "reach.dl", "--ticks", "5", "--strategy", "wcoj").code == 0
    assert run("run", "reach.dl", "--strategy", "fast").code == 2


@pytest.mark.slow
def test_warmup_uses_every_kernel_that_others_may_call(run: Command) -> None:
    import dbsp.kernels

    done = run("warmup")
    assert done.code == 0
    exported = {name: getattr(dbsp.kernels, name) for name in dbsp.kernels.__all__}
    kernels = {name: member for name, member in exported.items() if hasattr(member, "py_func")}
    assert len(kernels) > 10
    for name, kernel in kernels.items():
        assert kernel.signatures, f"dbsp warmup does not use {name}"
        assert name in done.out
    assert re.search(r"(compiled \d+ kernels|all had been compiled before); \d+\.\d s\n$", done.out)


def test_first_use_says_that_kernels_are_compiled(folder: Path, tmp_path: Path) -> None:
    program = "from dbsp.cli.console import announce_kernels; announce_kernels()"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "compiling the kernels for this machine, which happens once" in done.stderr
    assert "'dbsp warmup' does it ahead" in done.stderr


def test_version(run: Command) -> None:
    assert run("--version").out == f"dbsp {dbsp.__version__}\n"


@pytest.mark.parametrize("command", ["run", "live", "graph", "explain", "warmup"])
def test_help_has_examples(run: Command, command: str) -> None:
    done = run(command, "--help")
    assert done.code == 0
    assert "Example" in done.out
    assert f"dbsp {command}" in done.out


@pytest.mark.parametrize("command", ["run", "live", "check", "graph", "explain", "why"])
def test_all_commands_compile_programs_with_the_same_options(run: Command, command: str) -> None:
    shown = run(command, "--help").out
    for option in ("-M", "-I", "-w", "--strategy", "--recursion", "-z", "-m", "--functors", "--word-size"):
        assert f" {option} " in shown


def test_words_of_32_bits(run: Command, folder: Path) -> None:
    (folder / "sum.dl").write_text(
        ".decl r(x: number, u: unsigned)\n.input r\n.decl s(x: number)\n.output s\ns(x + 1) :- r(x, _).\n"
    )
    (folder / "r.facts").write_text("2147483647\t4294967295\n")
    assert run("run", "sum.dl", "-D", "-", "--word-size", "32").out.split("\n")[4] == "-2147483648"
    assert run("run", "sum.dl", "-D", "-").out.split("\n")[4] == "2147483648"
    assert run("run", "sum.dl", "--word-size", "16").code == 2
    (folder / "r.facts").write_text("1\t1\n2147483648\t4294967296\n")
    done = run("run", "sum.dl", "--word-size", "32")
    assert done.code == 1
    expected = (
        "column 'x' of relation 'r' expects a whole number of 32 bits (-2^31 to 2^31-1), got '2147483648'"
    )
    assert f"r.facts:2:1: error: {expected}\n    2147483648\t4294967296\n    ^^^^^^^^^^\n" in done.err
    assert "r.facts:2:12: error: column 'u' of relation 'r' expects an unsigned number of 32 bits" in done.err
    done = run(
        "live", "sum.dl", "--word-size", "32", stdin="+r(-2147483649, 1)\n+r(0, 4294967295)\n+r(0, -1)\n"
    )
    assert "<stdin>:1:4: error: column 'x' of relation 'r' expects a whole number of 32 bits" in done.err
    assert "<stdin>:3:7: error: column 'u' of relation 'r' expects an unsigned number of 32 bits" in done.err


def test_a_proof_may_go_by_functors(run: Command, folder: Path) -> None:
    program = ".functor twice(x: number): number\n.decl r(x: number)\n.output r\nr(@twice(21)).\n"
    (folder / "twice.dl").write_text(program)
    (folder / "functions.py").write_text("def twice(x):\n    return 2 * x\n")
    done = run("why", "twice.dl", "r(x)", "--functors", "functions.py")
    assert done.code == 0, done.err
    assert done.out.startswith("r(42)\n")


def test_help_names_commands_and_exit_codes(run: Command) -> None:
    done = run("--help")
    for word in ("run", "live", "graph", "explain", "warmup", "Exit codes"):
        assert word in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["run"],
        ["run", "reach.dl", "--none"],
        ["run", "reach.dl", "--max-iterations", "0"],
        ["graph", "reach.dl", "--stage", "x"],
    ],
)
def test_a_wrong_command_line(folder: Path, run: Command, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage" in done.err


def test_as_a_process(folder: Path) -> None:
    done = process("run", "reach.dl", "-F", "facts", "-D", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert PATHS in done.stdout
    assert process("run", "none.dl").returncode == 1
    assert process("run").returncode == 2


def test_whoever_reads_may_stop_reading(folder: Path) -> None:
    (folder / "facts" / "edge.facts").write_text("".join(f"{x}\t{x + 1}\n" for x in range(400)))
    command = f"{sys.executable} -m dbsp run reach.dl -F facts -D - | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "---------------\n"
    assert done.stderr == ""


def test_a_full_disk_behind_standard_output(folder: Path) -> None:
    command = f"{sys.executable} -m dbsp run reach.dl -F facts -D - > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "dbsp: error: cannot go on: No space left on device\n")


def test_an_interrupted_command(folder: Path) -> None:
    command = [sys.executable, "-m", "dbsp", "live", "reach.dl"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        assert peer.stderr is not None
        peer.stdin.write(b"commit\n")
        peer.stdin.flush()
        read_until(peer.stdout.fileno(), "commit  // tick 1\n")
        peer.send_signal(signal.SIGINT)
        assert peer.wait(30) == 130
        assert b"Traceback" not in peer.stderr.read()


def test_relations_on_demand(folder: Path, run: Command) -> None:
    (folder / "near.dl").write_text(
        REACH.replace(".output path", "")
        + ".decl near(x: number)\n.output near\nnear(y) :- path(x, y), edge(_, x)."
    )
    for names in ("*", "path"):
        assert "path: only rows whose x is asked for" in run("explain", "near.dl", "-m", names).out
    assert "\n3\n" in run("run", "near.dl", "-F", "facts", "-D", "-", "--magic-transform", "*").out
    unknown = run("explain", "near.dl", "-m", "paths")
    assert (unknown.code, "did you mean 'path'?" in unknown.err) == (1, True)


def test_rewritings_can_be_left_out(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + ".decl unused(x: number)\nunused(x) :- path(x, y), y = 2.\n")
    dead = "rewritten by drop_dead\n  unused is left out: no output depends on it\n"
    assert dead in run("explain", "reach.dl").out
    assert dead in run("explain", "reach.dl", "-z", "inline_once,propagate_constants").out
    assert "rewritten" not in run("explain", "reach.dl", "-z", "drop_dead, propagate_constants").out
    done = run("run", "reach.dl", "-F", "facts", "-D", "-", "--disable-transformers", "all")
    assert PATHS in done.out
    refused = run("explain", "reach.dl", "-z", "inline")
    assert refused.code == 2
    assert "no rewriting is called inline; there are propagate_constants," in " ".join(refused.err.split())


def test_live_goes_on_after_bytes_that_are_no_text(folder: Path) -> None:
    (folder / "name.dl").write_text(".decl name(s: symbol)\n.input name\n.output name\n")
    script = b'+name("\xff")\n+name("a")\ncommit\n+name("\\ud800")\ncommit\n+name("b")\ncommit\n'
    done = subprocess.run(
        [sys.executable, "-m", "dbsp", "live", "name.dl"], input=script, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == b'+name("b")\ncommit  // tick 1\n'
    assert b"<stdin>:1:8: error: this is not UTF-8 text" in done.stderr
    assert b"<stdin>:4:8: error: \\ud800 is half of a character" in done.stderr
    assert b"Traceback" not in done.stderr
