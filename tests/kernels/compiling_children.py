"""Kernels in a folder, and processes that use them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

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


def output(code: str, folder: Path, *arguments: str, **variables: str) -> str:
    """Return what a new process with this code prints, for the kernels in a folder."""
    # Python also compares no more than the time and the size of a source with its bytecode on disk.
    environment = {**os.environ, "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment = {name: value for name, value in environment.items() if value}
    program = f"import sys; sys.path.insert(0, sys.argv[1])\n{textwrap.dedent(code)}"
    command = [sys.executable, "-c", program, str(folder), *arguments]
    child = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


def change_amount(folder: Path, amount: int) -> None:
    """Write the kernel that others call, as an installer that keeps an early time."""
    path = folder / "called_kernel.py"
    path.write_text(CALLED.format(amount))
    os.utime(path, (0, 0))
