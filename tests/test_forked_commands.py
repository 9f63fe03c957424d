"""Commands in forks: what a command in a new process has, and where its outputs and its end go."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked_commands import ForkedCommands
from tests.quick_start import PYTHON, Session, examples


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with ForkedCommands() as commands:
        yield commands.folder


def ran(folder: Path, tmp_path: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(folder / words[0]), *words[1:]]
    environment = {**os.environ, "COLUMNS": "40"}
    return subprocess.run(command, cwd=tmp_path, input=text, capture_output=True, text=True, env=environment)


def test_a_command_has_its_own_arguments_directory_and_outputs(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.dl").write_text(".decl r(x: number) .input r .output r")
    (tmp_path / "r.facts").write_text("7\n")
    done = ran(folder, tmp_path, "dbsp", "run", "a.dl")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "r.csv").read_text() == "7\n"
    done = ran(folder, tmp_path, "dbsp", "check", "b.dl")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("dbsp: error: cannot read b.dl: No such file or directory")
    assert ran(folder, tmp_path, "dbsp", "no-such-command").returncode == 2


def test_code_has_a_module_of_its_own(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("number = 5\n")
    code = """if 1:
        import os, sys, beside, __main__
        __main__.x = beside.number
        print(x, __name__, sys.argv, os.environ["COLUMNS"], sys.stdin.read())
    """
    done = ran(folder, tmp_path, PYTHON, "-c", code, "a b", text="given")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "5 __main__ ['-c', 'a b'] 40 given\n"
    done = ran(folder, tmp_path, PYTHON, "-c", "import __main__; print(hasattr(__main__, 'x'))")
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})", 128 + signal.SIGTERM),
    ],
)
def test_the_end_of_a_command(folder: Path, tmp_path: Path, code: str, expected: int) -> None:
    done = ran(folder, tmp_path, PYTHON, "-c", "import atexit; atexit.register(print, 'end'); " + code)
    assert done.returncode == expected
    assert done.stdout == ("end\n" if expected < 128 else "")
    assert ("ZeroDivisionError" in done.stderr) == (code == "1 / 0")


def test_a_command_without_its_server(tmp_path: Path) -> None:
    with ForkedCommands() as commands:
        commands._server.kill()
        commands._server.wait()
        done = ran(commands.folder, tmp_path, "dbsp", "--version")
    assert done.returncode == 1
    assert "Connection refused" in done.stderr


def test_a_page_uses_the_commands(folder: Path, tmp_path: Path) -> None:
    page = "```sh\ncommand -v dbsp\n```\n```python\nimport os, sys\nprint(os.getppid(), sys.argv[0])\n```\n"
    with Session(tmp_path, commands=folder) as session:
        where, parent = (session.run(example).printed for example in examples(page))
    assert where == f"{folder / 'dbsp'}\n"
    assert parent.split()[1] == "-c" and int(parent.split()[0]) != os.getpid()
