"""The command line as a process: `dbsp warmup`, help, exit codes, pipes and signals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dbsp
from dbsp.errors import expect_present
from dbsp.kernels.code_files import cache_folder, is_cached
from dbsp.kernels.jit import entries
from dbsp.kernels.kernel_cache import fill_cache, missing_kernels
from dbsp.kernels.run_merge import subtract_runs
from tests.cli.support import PATHS, Command, process, read_until

pytestmark = pytest.mark.usefixtures("compiled_kernels")


def test_warmup_compiles_what_is_missing(run: Command) -> None:
    fill_cache(entries(), lambda name: None)
    before = is_cached(subtract_runs)
    for path in expect_present(cache_folder(), "a folder").glob("run_merge.subtract_runs.*.code"):
        path.unlink()
    assert (before, is_cached(subtract_runs)) == (True, False)
    done = run("warmup")
    assert done.code == 0
    assert "dbsp: compiling the kernel subtract_runs for this machine; this happens once" in done.err
    assert re.fullmatch(r"compiled 1 kernel: .*; \d+\.\d s\n", done.out)
    assert missing_kernels(entries()) == []
    done = run("warmup")
    assert done.err == ""
    assert re.fullmatch(r"all kernels were in the cache: .*; \d+\.\d s\n", done.out)


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
    for option in (
        "-M",
        "-I",
        "-w",
        "--strategy",
        "--recursion",
        "-z",
        "-m",
        "--functors",
        "--word-size",
        "--legacy",
    ):
        assert f" {option} " in shown


def test_an_old_program_runs_with_legacy(run: Command, folder: Path) -> None:
    (folder / "old.dl").write_text(
        '.type Var\n.decl raw(x: symbol)\nraw("a").\n.decl v(x: Var)\n.output v\nv(x) :- raw(x).\n'
    )
    refused = run("run", "old.dl", "-D", "-")
    assert refused.code == 1
    assert "write as(x, Var), or run an old Soufflé program with --legacy" in refused.err
    done = run("run", "old.dl", "-D", "-", "--legacy")
    assert (done.code, done.err) == (0, "")
    assert "\na\n" in done.out


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
        "column 'x' of relation 'r' expects a whole number of 32 bits (-2^31 to 2^31-1), "
        "got '2147483648' [value-out-of-range]"
    )
    assert f"r.facts:2:1: error: {expected}\n    2147483648\t4294967296\n    ^^^^^^^^^^\n" in done.err
    assert "r.facts:2:12: error: column 'u' of relation 'r' expects an unsigned number of 32 bits" in done.err
    done = run(
        "live", "sum.dl", "--word-size", "32", stdin="+r(-2147483649, 1)\n+r(0, 4294967295)\n+r(0, -1)\n"
    )
    assert "<stdin>:1:4: error: column 'x' of relation 'r' expects a whole number of 32 bits" in done.err
    assert "<stdin>:3:7: error: column 'u' of relation 'r' expects an unsigned number of 32 bits" in done.err


def test_a_proof_can_use_functors(run: Command, folder: Path) -> None:
    program = ".functor twice(x: number): number\n.decl r(x: number)\n.output r\nr(@twice(21)).\n"
    (folder / "twice.dl").write_text(program)
    (folder / "functions.py").write_text("def twice(x):\n    return 2 * x\n")
    done = run("why", "twice.dl", "r(x)", "--functors", "functions.py")
    assert done.code == 0, done.err
    assert done.out.startswith("r(42)\n")


def test_why_tick_explains_the_last_tick_of_the_changes(run: Command, folder: Path) -> None:
    (folder / "reach.dl").write_text(
        ".decl edge(x: number, y: number) .input edge\n.decl path(x: number, y: number) .output path\n"
        "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"
    )
    (folder / "edge.facts").write_text("1\t2\n")
    (folder / "day.delta").write_text("+edge(2, 3)\ncommit\n+edge(3, 4)\n-edge(1, 2)\n")
    command = ("why", "reach.dl", "--deltas", "day.delta", "--tick")
    done = run(*command, "path(2, 4)")
    assert done.code == 0, done.err
    assert done.out == (
        "path(2, 4)   inserted in tick 3\n│  reach.dl:4: path(x, z) :- path(x, y), edge(y, z).\n"
        "├─ path(2, 3)   unchanged\n└─ edge(3, 4)   input fact, inserted\n"
    )
    lost = json.loads(run(*command, "--json", "path(1, 3)").out)
    assert lost["change"] == "retracted" and [each["text"] for each in lost["changes"]] == ["edge(1, 2)"]
    missing = json.loads(run(*command, "--json", "path(9, 9)").out)
    assert missing["change"] == "missing" and missing["refusal"]["missing"] == "path(9, 9)"
    for other in ("--not", "--dot"):
        refused = run(*command, other, "path(2, 4)")
        assert refused.code == 2 and f"expected --tick or {other}, got both" in refused.err


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
def test_an_invalid_command_line(folder: Path, run: Command, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage" in done.err


def test_exit_codes_of_a_process(folder: Path) -> None:
    done = process("run", "reach.dl", "-F", "facts", "-D", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert PATHS in done.stdout
    assert process("run", "none.dl").returncode == 1
    assert process("run").returncode == 2


def test_a_closed_pipe_behind_standard_output_is_not_an_error(folder: Path) -> None:
    (folder / "facts" / "edge.facts").write_text("".join(f"{x}\t{x + 1}\n" for x in range(400)))
    command = f"{sys.executable} -m dbsp run reach.dl -F facts -D - | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "---------------\n"
    assert [line for line in done.stderr.splitlines() if not line.startswith("dbsp: compiling ")] == []


def test_a_full_disk_behind_standard_output(folder: Path) -> None:
    command = f"{sys.executable} -m dbsp run reach.dl -F facts -D - > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    message = "cannot write to standard output: No space left on device [output-not-writable]"
    assert (done.returncode, done.stderr) == (1, f"dbsp: error: {message}\n")


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("run reach.dl -F facts -D out >&-", 0, ""),
        ("run reach.dl -F facts -D - >&-", 1, "cannot write to standard output: Bad file descriptor"),
        ("graph reach.dl >&-", 1, "cannot write to standard output: Bad file descriptor"),
        ("live reach.dl <&-", 0, ""),
        ("check none.dl 2>&-", 1, ""),
    ],
)
def test_a_standard_stream_that_the_caller_closed(folder: Path, command: str, code: int, error: str) -> None:
    line = f"{sys.executable} -m dbsp {command}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    expected = f"dbsp: error: {error} [output-not-writable]\n" if error else ""
    assert (done.returncode, done.stderr, done.stdout) == (code, expected, "")


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
