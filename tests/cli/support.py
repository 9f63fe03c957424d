"""Programs, processes and pseudo-terminals for the tests of the command line."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeAlias

REACH = """\
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
PATHS = "1\t2\n1\t3\n2\t3\n"


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


Command: TypeAlias = Callable[..., Result]


def process(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in a new process."""
    command = [sys.executable, "-m", "dbsp", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


DIVIDE = """\
.decl pair(x: number, y: number)
.input pair
.decl ratio(x: number, q: number)
.output ratio
ratio(x, x / y) :- pair(x, y).
"""


def read_until(stream: int, text: str, seconds: float = 60.0) -> str:
    """Read from a file descriptor until `text` appears; return everything read."""
    found, end = b"", time.monotonic() + seconds
    while text.encode() not in found:
        ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"expected {text!r} within {seconds} s, got {found!r}"
        piece = os.read(stream, 65536)
        assert piece, f"expected {text!r} before the end of the stream, got {found!r}"
        found += piece
    return found.decode().replace("\r\n", "\n")


def read_answer(stream: int, text: str) -> str:
    """Read until `text` and the prompt after it; input typed before the prompt may be lost."""
    found = read_until(stream, text)
    prompted = "dbsp>" in found[found.rindex(text) :]
    return found if prompted else found + read_until(stream, "dbsp>")
