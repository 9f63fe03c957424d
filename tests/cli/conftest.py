"""Fixtures of the command line tests: a folder with a program, and a runner of commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbsp.cli import main
from dbsp.kernels.jit import entries
from dbsp.kernels.kernel_cache import fill_cache
from dbsp.kernels.thread_count import set_threads
from tests.cli.support import REACH, Command, Result


@pytest.fixture
def compiled_kernels() -> None:
    """Compile the kernels first, so that commands do not announce the compilation on stderr."""
    fill_cache(entries(), lambda name: None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and facts; the current directory of the commands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(REACH)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("2\t3\n1\t2\n")
    return tmp_path


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Return `run("run", "reach.dl", ..., stdin="...")`, which runs a command in this process."""

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

    yield command
    set_threads(None)  # the option --jobs is for the rest of a process
