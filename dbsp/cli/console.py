"""The messages on stderr: errors, remarks, progress. Stdout carries results only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from dbsp.errors import DbspError

SLOW_BYTES = 8 * 2**20
"""Smaller loads show no progress bar: they finish too soon."""


class QuitConsole(Exception):
    """The user leaves a prompt."""


def report(error: DbspError) -> None:
    """Print an error, or each error of a group, on stderr.

    An error with a diagnostic already starts with its file and line.
    """
    for single in getattr(error, "errors", (error,)):
        text = in_option_names(single)
        placed = single.diagnostic or getattr(single, "diagnostics", None)
        remark(text if placed else f"dbsp: error: {text}")


def open_missing_streams() -> None:
    """Replace standard streams that the caller closed, which Python represents by None.

    Standard input is then empty, standard error discards, and writing to standard output raises
    OSError, so that a command that prints results fails and any other command succeeds.
    """
    streams = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
    for number, (name, mode, flags) in enumerate(streams):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def remark(text: str) -> None:
    """Print a line on stderr, after flushing stdout."""
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning on stderr; replaces `warnings.showwarning`.

    Leaves out the place in Python code, which means nothing to users of the command line.
    """
    remark(f"dbsp: warning: {message}")


@contextmanager
def loading(total_bytes: int) -> Iterator[Callable[[int | None, str], None]]:
    """Show a progress bar during a long load; only on a terminal.

    Yields a function `advance(size, text)`: call it with each number of bytes after reading them,
    and with None for a step that reads no files. `text` describes the current step.
    """
    if total_bytes < SLOW_BYTES or not sys.stderr.isatty():
        yield lambda size, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading facts", total=total_bytes)

        def advance(size: int | None, text: str) -> None:
            if size is None:
                # The duration of a tick is unknown, so the bar only pulses.
                progress.update(task, total=None, description=text)
            else:
                progress.update(task, total=total_bytes, advance=size, description=text)

        yield advance


@contextmanager
def slow_work(description: str) -> Iterator[Callable[[str], None]]:
    """Show the progress of work that takes more than a second; only on a terminal.

    Yields a function that takes the current step as text, and may be called often.
    """
    shown_at, shown = time.monotonic() + 0.8, False

    def show(step: str) -> None:
        nonlocal shown_at, shown
        now = time.monotonic()
        if now - shown_at > 0.2 and sys.stderr.isatty():
            print(f"\r\x1b[K{description}: {step}", end="", file=sys.stderr, flush=True)
            shown_at, shown = now, True

    try:
        yield show
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


_NO_SHARDS = "commands open runs without shards only; open it in Python with shards="
_COMMAND_WORDS: Mapping[str, Sequence[tuple[str, str]]] = {
    "iteration-limit": [("max_iterations=", "--max-iterations ")],
    "unpacked-too-large": [("max_unpacked=", "--max-unpacked ")],
    "checkpoint-pickle": [
        ("open it with Store(folder, allow_pickle=True)", "open it with --allow-pickle"),
        ("allow_pickle=True", "--allow-pickle"),
    ],
    "checkpoint-other-program": [
        (
            "start the same query, start this one with update=True, or choose another folder",
            "give the program of the checkpoint, or continue with this one: "
            "dbsp live PROGRAM --checkpoint FOLDER",
        ),
        ("start the same query, ", "give the program of the checkpoint, "),
        ("start the run with shards=", _NO_SHARDS),
    ],
    "outside-history": [("Store(folder, keep=...)", "dbsp live --checkpoint FOLDER --keep N|TIME")],
}
"""By the code of an error: texts about Python, and what users of the command line write."""


def in_option_names(error: DbspError) -> str:
    """Return the text of an error that names options as the command line does.

    >>> in_option_names(dbsp.IterationLimitError("raise the limit with max_iterations=N"))
    'raise the limit with --max-iterations N [iteration-limit]'
    """
    text = str(error)
    for python, command in _COMMAND_WORDS.get(error.code or "", ()):
        text = text.replace(python, command)
    return text
