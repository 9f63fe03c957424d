"""`dbsp run`: facts, results, change scripts and options."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from dbsp.cli import console
from tests.cli.support import PATHS, REACH, Command, process

pytestmark = pytest.mark.usefixtures("compiled_kernels")


def test_run_reads_facts_and_writes_results(folder: Path, run: Command) -> None:
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (folder / "out" / "path.csv").read_text() == PATHS
    assert [path.name for path in (folder / "out").iterdir()] == ["path.csv"]


def test_run_uses_the_current_directory_by_default(folder: Path, run: Command) -> None:
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
    assert "file 'out.dl' not found" in run("explain", "m.dl").err


def test_run_on_shards(folder: Path, run: Command) -> None:
    (folder / "changes.txt").write_text("+edge(3, 4)\ncommit\n-edge(1, 2)\n")
    results = []
    for shards in ([], ["--shards", "2"]):
        done = run("run", "reach.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt", *shards)
        assert (done.code, done.out, done.err) == (0, "", "")
        results.append([(folder / "out" / name).read_text() for name in ("path.csv", "deltas.txt")])
    assert results[0] == results[1]
    wrong = run("run", "reach.dl", "-F", "facts", "--shards", "0")
    assert wrong.code == 2
    assert "--shards" in wrong.err


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


def test_run_prints_deltas_after_the_results(folder: Path, run: Command) -> None:
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
        "changes.txt:1-4: warning: 2 deleted rows were not in 'edge'\n"
        "changes.txt:1-4: warning: 1 inserted row was already in 'edge'\n"
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
    assert "reach.dl:2:1: error: unknown value IO=tape in .input [invalid-directive]\n" in done.err
    (folder / "reach.dl").write_text(REACH.replace(".output path", ".output path(filname=x)"))
    done = run("run", "reach.dl", "-F", "facts")
    assert done.code == 0
    assert (
        "reach.dl:4:1: warning: unknown parameter 'filname' of .output is ignored [no-effect]\n" in done.err
    )
    assert "hint: did you mean 'filename'?" in done.err


def test_facts_and_results_of_every_kind(folder: Path, run: Command) -> None:
    """One program writes and the next one reads JSON, SQLite, quoted and compressed files."""
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
        "dbsp: error: cannot read relation 'edge' from standard input, which carries the changes"
        " [stdin-in-use]\n"
    )
    (folder / "reach.dl").write_text(program + ".decl more(x: number)\n.input more(IO=json)\n")
    assert run("run", "reach.dl").err == (
        "dbsp: error: cannot read both relations 'edge' and 'more' from standard input;"
        " read one of them from a file [stdin-in-use]\n"
    )


def test_options_of_souffle(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + ".decl lone(x: number)\nlone(x) :- edge(x, y).\n")
    done = run("run", "reach.dl", "-Ffacts", "-Dout", "-j4", "--no-preprocessor")
    assert (done.code, "'y' is used only once" in done.err) == (0, True)
    done = run("run", "-w", "-j", "auto", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.err) == (0, "")
    jobs = " ".join(run("run", "reach.dl", "-j", "0").err.replace("│", "").split())
    assert "expected a number of threads or 'auto', got '0' [invalid-option]" in jobs
    done = run("run", "reach.dl", "-c")
    assert done.code == 2
    text = " ".join(done.err.replace("│", "").split())
    assert "Soufflé's option -c is not supported: dbsp does not compile programs to C++" in text
    assert "[invalid-option]" in text
    assert "Soufflé's option --generate is" in run("run", "reach.dl", "--generate=x.cpp").err
    assert run("run", "reach.dl", "--nonsense").code == 2
    assert run("graph", "reach.dl", "-w", "-o", "reach.dot").code == 0


def test_graph_shows_the_pair_of_a_spark_pipeline(folder: Path, run: Command) -> None:
    for stage in ("query", "physical"):
        pair = ("--source", "edge=operations", "--sink", "path", "--stage", stage)
        done = run("graph", "reach.dl", *pair)
        assert done.code == 0
        assert "SparkSource edge [operations]" in done.out
        assert "SparkSink path [weight]" in done.out
    assert "has no input 'egde'; did you mean 'edge'?" in run("graph", "reach.dl", "--source", "egde").err
    done = run("graph", "reach.dl", "--sink", "path=weights")
    assert "unknown encoding 'weights'" in done.err


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
    assert "r.csv: warning: 1 text value contains a delimiter, a line break," in done.err
    (folder / "t.dl").write_text('.type P = [s: symbol]\n.decl r(p: P)\n.output r\nr(["a, b"]).\nr(["c"]).\n')
    assert "r.csv: warning: 1 text value" in run("run", "t.dl", "-D", "out").err


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


def test_long_loads_show_no_progress_without_a_terminal(
    folder: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "SLOW_BYTES", 1)
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out, done.err) == (0, "", "")


CONFINED = """\
.decl edge(x: number, y: number)
.input edge(filename="{source}")
.output edge(filename="{target}")
"""


@pytest.mark.parametrize(
    ("source", "target", "outside"),
    [
        ("edge.facts", "out.csv", None),
        ("../secret.facts", "out.csv", "work/../secret.facts: .input edge"),
        ("link.facts", "out.csv", "work/link.facts: .input edge"),
        ("edge.facts", "../out.csv", "work/../out.csv: .output edge"),
    ],
)
def test_a_program_uses_only_files_of_the_given_folders(
    folder: Path, run: Command, source: str, target: str, outside: str | None
) -> None:
    work = folder / "work"
    work.mkdir()
    (work / "edge.facts").write_text("1\t2\n")
    (folder / "secret.facts").write_text("3\t4\n")
    (work / "link.facts").symlink_to(folder / "secret.facts")
    (folder / "p.dl").write_text(CONFINED.format(source=source, target=target))
    arguments = ["run", "p.dl", "-F", "work", "-D", "work"]
    done = run(*arguments, "--folder", "work")
    if outside is None:
        assert (done.code, done.err) == (0, "")
        assert (work / "out.csv").read_text() == "1\t2\n"
        return
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"dbsp: error: {outside} uses a file outside the folders of --folder; allow its folder by another "
        "--folder [outside-folders]\n"
    )
    assert not (folder / "out.csv").exists()
    assert run(*arguments, "--folder", "work", "--folder", ".").code == 0
    assert run(*arguments).code == 0


def test_includes_stay_in_the_given_folders(folder: Path, run: Command) -> None:
    (folder / "rules").mkdir()
    (folder / "secret.dl").write_text("the-secret(content)")
    (folder / "rules" / "p.dl").write_text('#include "../secret.dl"\n')
    done = run("run", "rules/p.dl", "--folder", "rules")
    assert done.code == 1
    assert "the-secret" not in done.err
    assert (
        "file '../secret.dl' is outside the folders that this program may use [outside-folders]" in done.err
    )


def test_a_small_and_a_large_file_of_one_relation(run: Command, folder: Path) -> None:
    (folder / "reach.dl").write_text(
        ".decl a(x: number, s: symbol)\n"
        '.input a(filename="small.facts")\n.input a(filename="large.facts")\n'
        ".decl b(x: number, s: symbol)\n.output b\n.printsize a\nb(x, s) :- a(x, s), x < 3.\n"
    )
    (folder / "small.facts").write_text("1\tone\n2\ttwo\n")
    (folder / "large.facts").write_text("".join(f"{i}\tmany\n" for i in range(2, 9_000)))
    done = run("run", "reach.dl", "-D", "-", "-F", ".")
    assert "1\tone\n2\tmany\n2\ttwo\n" in done.out
    assert "9000" in done.out.replace(",", "")
