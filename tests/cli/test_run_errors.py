"""`dbsp run`: errors of programs, facts, change scripts and ticks."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dbsp import Circuit, DbspError, col
from dbsp.cli import main
from dbsp.cli.program_files import apply_tick
from dbsp.io.change_script import ChangeScriptReader, parse_change_script
from dbsp.runtime.bulk_transaction import BulkTicks
from tests.cli.support import DIVIDE, REACH, Command

pytestmark = pytest.mark.usefixtures("compiled_kernels")


def test_errors_of_the_program(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH.replace("edge(y, z)", "egde(y, z)"))
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("reach.dl:6:")
    assert "did you mean 'edge'" in done.err
    assert "Traceback" not in done.err
    assert not (folder / "out").exists()


def test_warnings_are_beside_the_errors_of_the_program(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + "path(x, x) :- edge(x, z).\npath(x, q) :- edge(x, _).\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert done.code == 1
    assert "warning: variable 'z' is used only once" in done.err
    assert "error: unbound variable 'q'" in done.err
    quiet = run("run", "reach.dl", "-F", "facts", "-D", "out", "-w")
    assert (quiet.code, "warning" in quiet.err) == (1, False)
    assert "error: unbound variable 'q'" in quiet.err


@pytest.mark.parametrize("command", ["run", "live", "graph", "explain"])
def test_a_missing_program(folder: Path, run: Command, command: str) -> None:
    done = run(command, "none.dl")
    assert done.code == 1
    assert "cannot read none.dl: No such file or directory" in done.err


def test_a_line_of_column_names_shows_the_declared_types(folder: Path, run: Command) -> None:
    (folder / "typed.dl").write_text(
        ".type Age <: unsigned\n.decl person(name: symbol, age: Age, size: float)\n.input person\n"
    )
    (folder / "facts" / "person.facts").write_text("name\tage\tsize\nann\t7\t1.5\n")
    done = run("run", "typed.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out) == (1, "")
    assert (
        "facts/person.facts:1:1: error: expected a row of relation 'person' (name: symbol, age: Age, "
        "size: float), got column names [wrong-type]"
    ) in done.err
    assert "hint: add headers=true to .input person" in done.err


def test_errors_of_all_fact_files_are_shown(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + ".decl more(x: number)\n.input more\n")
    (folder / "facts" / "edge.facts").write_text("1\t2\n1\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert (done.code, done.out) == (1, "")
    assert (
        "facts/edge.facts:2:1: error: relation 'edge' has 2 columns (x, y), got 1 [wrong-arity]" in done.err
    )
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


def test_an_invalid_change_script_is_an_error_before_the_first_tick(folder: Path, run: Command) -> None:
    (folder / "changes.txt").write_text("+edge(3, 4)\ncommit\n+path(1, 1)\n+edge(1)\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt")
    assert (done.code, done.out) == (1, "")
    assert "changes.txt:3:2: error: relation 'path' is computed by rules" in done.err
    assert (
        "changes.txt:4:2: error: relation 'edge' has 2 columns (x: number, y: number), got 1 [wrong-arity]"
        in done.err
    )
    assert not (folder / "out").exists()


def test_a_failing_tick_names_its_lines_and_changes_nothing(folder: Path, run: Command) -> None:
    (folder / "divide.dl").write_text(DIVIDE)
    (folder / "facts" / "pair.facts").write_text("6\t3\n")
    (folder / "changes.txt").write_text(
        "+pair(8, 2)\ncommit\n+pair(9, 3)\n+pair(1, 0)\ncommit\n+pair(4, 4)\n"
    )
    done = run("run", "divide.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt")
    assert done.code == 1
    assert done.err == (
        "divide.dl:5:10: error: division by zero: x / y with x = 1, y = 0 [division-by-zero]\n"
        "    ratio(x, x / y) :- pair(x, y).\n"
        "             ^^^^^\n"
        "    note: the tick was rolled back\n"
        "    note: tick 3 is at changes.txt:3-5\n"
    )
    assert (folder / "out" / "ratio.csv").read_text() == "6\t2\n8\t4\n"
    assert (folder / "out" / "deltas.txt").read_text() == "+ratio(8, 4)\ncommit  // tick 2\n"


def test_an_unbounded_recursion_stops_with_an_error(folder: Path, run: Command) -> None:
    (folder / "up.dl").write_text(
        ".decl n(x: number)\n.input n\n.decl up(x: number)\n.output up\nup(x) :- n(x).\nup(x + 1) :- up(x).\n"
    )
    (folder / "facts" / "n.facts").write_text("1\n")
    done = run("run", "up.dl", "-F", "facts", "--max-iterations", "50")
    assert done.code == 1
    assert "has not converged after 50 iterations" in done.err
    assert "raise the limit with --max-iterations N; the tick was rolled back [iteration" in done.err


def test_a_goal_that_names_an_unknown_relation(folder: Path, run: Command) -> None:
    done = run("why", "reach.dl", "-F", "facts", "pth(1, 2)")
    assert done.code == 1
    assert "unknown relation 'pth'; did you mean 'path'? [unknown-relation]" in done.err
    assert "hint: the relations are edge, path" in done.err


def test_a_goal_for_the_other_form_of_the_command(folder: Path, run: Command) -> None:
    done = run("why", "reach.dl", "-F", "facts", "path(1, 2)", "--not")
    message = "a row matches path(1, 2); remove --not to print its proof [row-is-present]"
    assert (done.code, done.err) == (1, f"dbsp: error: {message}\n")
    done = run("why", "reach.dl", "-F", "facts", "path(3, 1)")
    message = "no row matches path(3, 1); use --not to print why [no-matching-row]"
    assert (done.code, done.err) == (1, f"dbsp: error: {message}\n")


def test_a_goal_that_more_rows_match(folder: Path, run: Command) -> None:
    assert run("why", "reach.dl", "-F", "facts", "path(_, _)", "--rows", "2").out.endswith(
        "\n\nmore rows match\n"
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run link", "cannot read link: it is a link to nowhere, which does not exist [file-not-found]"),
        ("run reach.dl -F link", "the folder link does not exist [file-not-found]"),
        (
            "run reach.dl -F . -D -",
            "edge.facts: there is no such fact file (for relation 'edge'); it is a link",
        ),
        ("live reach.dl --checkpoint link", "cannot use the folder link: it is a link to nowhere, which"),
        ("db init reach.dl", "cannot write reach.dl/log.sqlite: it is a file [checkpoint-write]"),
        ("db init link", "cannot write link/log.sqlite: it is a link to nowhere, which does not exist"),
        ("db log link", "link has no database; it is a link to nowhere, which does not exist [checkpoint-"),
    ],
)
def test_links_to_nothing(folder: Path, run: Command, command: str, message: str) -> None:
    (folder / "link").symlink_to("nowhere")
    (folder / "edge.facts").symlink_to("nowhere")
    done = run(*command.split())
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert not (folder / "nowhere").exists()


def test_results_that_cannot_be_written(folder: Path, run: Command) -> None:
    (folder / "out").write_text("a file, not a folder")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out")
    assert done.code == 1
    assert re.search(r"out/path.csv: cannot be written: (File exists|Not a directory)", done.err)


def test_an_invalid_regular_expression_is_a_warning_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.dl"
    program.write_text('.decl p, r(s: symbol)\n.output r\np("[a"). p("a").\nr(s) :- p(s), match(s, "a").')
    with pytest.raises(SystemExit, match="0"):
        main(["run", str(program), "-D", "-"])
    shown = capsys.readouterr().err
    assert shown.startswith(
        "dbsp: warning: '[a' is not a regular expression, so match and !match are both false"
    )
    assert shown.count("\n") == 1


def test_a_file_of_deltas_that_cannot_be_written(folder: Path, run: Command) -> None:
    (folder / "out" / "deltas.txt").mkdir(parents=True)
    (folder / "changes.txt").write_text("+edge(3, 4)\n")
    done = run("run", "reach.dl", "-F", "facts", "-D", "out", "--deltas", "changes.txt")
    assert done.code == 1
    assert "out/deltas.txt: cannot be written: Is a directory [output-not-writable]" in done.err


def test_a_file_that_the_system_refuses(folder: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied", "reach.dl")

    monkeypatch.setattr("dbsp.cli.program_files.load_program", refuse)
    done = run("check", "reach.dl")
    message = "reach.dl: cannot be read or written: Permission denied [unreadable-file]"
    assert (done.code, done.err) == (1, f"dbsp: error: {message}\n")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--jobs", "x", "expected a number of threads or 'auto', got 'x' [invalid-option]"),
        (
            "--max-unpacked",
            "much",
            "expected an amount of memory such as 8G, 500M or 90%, got 'much' [invalid-option]",
        ),
        (
            "--max-memory",
            "0G",
            "expected an amount of memory such as 8G, 500M or 90%, got '0G' [invalid-option]",
        ),
        (
            "--memory-limit",
            "some",
            "expected an amount of memory such as 8G, 500M or 90%, got 'some' [invalid-option]",
        ),
    ],
)
def test_an_invalid_value_of_an_option(
    folder: Path, run: Command, option: str, value: str, message: str
) -> None:
    done = run("run", "reach.dl", "-F", "facts", option, value)
    assert (done.code, done.out) == (2, "")
    assert message in " ".join(done.err.replace("│", " ").split())


def test_an_error_without_a_place_in_the_program_names_the_lines_of_the_tick() -> None:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int, kind="set").map(y=1 // col("x")))
    run = circuit.start()
    reader = ChangeScriptReader({"a": run.inputs["a"]})
    (tick,) = parse_change_script(["+a(1)", "+a(0)"], reader)
    with pytest.raises(DbspError) as caught:
        apply_tick(run, tick, "changes.txt")
    assert re.fullmatch(
        r"changes\.txt:1-2: tick 1 was not applied and changed nothing: Map at test_run_errors\.py:\d+: "
        r'division by zero: 1 // col\("x"\) with x = 0 \[division-by-zero\]',
        str(caught.value),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "--dot"], "expected --json or --dot, got both [invalid-option]"),
        (["--dot", "--not"], "expected --dot or --not, got both; --dot draws proofs only [invalid-option]"),
    ],
)
def test_options_that_exclude_each_other(
    folder: Path, run: Command, options: list[str], message: str
) -> None:
    done = run("why", "reach.dl", "path(1, 2)", "-F", "facts", *options)
    assert done.code == 2
    assert message in " ".join(done.err.replace("│", " ").split())


def test_a_memory_limit_changes_no_result(folder: Path, run: Command) -> None:
    (folder / "facts" / "edge.facts").write_text("".join(f"{x}\t{x + 1}\n" for x in range(200)))
    (folder / "changes.txt").write_text("-edge(99, 100)\ncommit\n+edge(99, 100)\ncommit\n")
    free, limited = folder / "free", folder / "limited"
    for output, options in ((free, ()), (limited, ("--memory-limit", "1K"))):
        command = ("run", "reach.dl", "-F", "facts", "-D", str(output), "--deltas", "changes.txt", *options)
        assert run(*command).code == 0
    for path in free.iterdir():
        assert path.read_bytes() == (limited / path.name).read_bytes()
    assert len((free / "path.csv").read_text().splitlines()) == 200 * 201 // 2


def test_tables_are_loaded_in_parts_within_a_memory_limit(folder: Path, run: Command) -> None:
    rows = "".join(f"{x},{x % 1000}\n" for x in range(300_000))
    (folder / "many.csv").write_text(f"x,y\n{rows}")
    (folder / "few.csv").write_text("y\n7\n8\n")
    (folder / "sums.dl").write_text(
        """
        .decl many(x: number, y: number) .input many(IO=csv, filename="many.csv")
        .decl few(y: number) .input few(IO=csv, filename="few.csv")
        .decl sums(y: number, n: number, s: number) .output sums
        sums(y, n, s) :- few(y), n = count : { many(_, y) }, s = sum x : { many(x, y) }.
        .decl all(n: number) .output all
        all(n) :- n = count : { many(_, _) }.
        """
    )
    parts: list[int] = []
    step = BulkTicks.apply_part

    def counted_step(*arguments: Any) -> None:
        parts.append(1)
        step(*arguments)

    with patch.object(BulkTicks, "apply_part", counted_step):
        done = run("run", "sums.dl", "-F", ".", "-D", "out", "--memory-limit", "1M")
    assert (done.code, done.err) == (0, "")
    assert len(parts) >= 3
    assert (folder / "out" / "all.csv").read_text() == "300000\n"
    assert (folder / "out" / "sums.csv").read_text() == "7\t300\t44852100\n8\t300\t44852400\n"
    (folder / "many.csv").write_text(f"x,y\n{rows}x,1\n")
    limited = run("run", "sums.dl", "-F", ".", "-D", "bad", "--memory-limit", "1M")
    free = run("run", "sums.dl", "-F", ".", "-D", "bad")
    assert (limited.code, limited.out, limited.err) == (free.code, free.out, free.err)
    assert "many.csv" in free.err
    assert free.code == 1


def test_the_limit_of_compressed_files(folder: Path, run: Command) -> None:
    (folder / "facts" / "edge.facts").write_bytes(gzip.compress(b"1\t2\n" * 1000))
    options = ("run", "reach.dl", "-F", "facts", "-D", "out")
    done = run(*options, "--max-unpacked", "3k")
    assert done.code == 1
    assert "edge.facts: expected at most 3,072 bytes after decompression, got more from" in done.err
    assert run(*options, "--max-unpacked", "4k").code == 0
    assert run(*options).code == 0
