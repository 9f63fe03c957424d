"""Machine code of kernels on disk, and the announcement of a compilation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbsp.kernels import kernel_cache
from dbsp.kernels.kernel_cache import shown_progress


def test_a_compilation_is_announced_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DBSP_QUIET", raising=False)
    monkeypatch.setattr(kernel_cache, "_cores", lambda: 2)
    with shown_progress(7) as done:
        done("consolidate")
    line = "dbsp: compiling 7 kernels for this machine on 2 cores; this happens once"
    assert capsys.readouterr().err == f"{line} ('dbsp warmup' does it in advance)\n"


def test_a_quiet_process_announces_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DBSP_QUIET", "1")
    with shown_progress(7) as done:
        done("consolidate")
    assert capsys.readouterr().err == ""


CALLED = """
from dbsp.kernels.jit import kernel

@kernel
def amount() -> int:
    return {}
"""

CALLING = """
from called_kernel import amount
from dbsp.kernels.jit import kernel

@kernel
def doubled() -> int:
    return 2 * amount()
"""

USE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from calling_kernel import doubled
from dbsp.kernels.compiled import compiled, is_cached
before = is_cached(doubled)
if "refused" in sys.argv:
    def refused(path, missing_ok=False):
        raise PermissionError(13, "read only")
    Path.unlink = refused
print(before, compiled(doubled)())
"""


def test_machine_code_is_as_new_as_the_kernels_that_it_calls(tmp_path: Path) -> None:
    def used(*options: str) -> str:
        command = [sys.executable, "-c", USE, str(tmp_path), *options]
        child = subprocess.run(command, capture_output=True, text=True, check=True)
        return child.stdout.strip()

    def changed(amount: int, seconds: int) -> None:
        path = tmp_path / "called_kernel.py"
        path.write_text(CALLED.format(amount))
        later = os.stat(path).st_mtime + seconds
        os.utime(path, (later, later))

    changed(1, -10)
    (tmp_path / "calling_kernel.py").write_text(CALLING)
    os.utime(tmp_path / "calling_kernel.py", (0, 0))
    assert [used(), used()] == ["False 2", "True 2"]
    changed(5, 0)
    assert [used("refused"), used(), used()] == ["False 10", "False 10", "True 10"]
