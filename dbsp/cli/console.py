"""What a person sees on stderr: errors, remarks, progress. Results go to stdout and nothing else does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from dbsp.errors import DbspError

SLOW_BYTES = 8 * 2**20
"""Loads of fewer bytes are over before a progress bar could be read."""


OPTIONS = {"max_iterations=": "--max-iterations "}
"""The options that messages name as arguments of Python, and their names on the command line."""


def report(error: DbspError) -> None:
    """Print an error on stderr. One with diagnostics names its file itself.

    Messages name an option as Python does; here it gets its name on the command line.
    """
    text = str(error)
    if getattr(error, "diagnostics", None):
        remark(text)
        return
    for argument, option in OPTIONS.items():
        text = text.replace(argument, option)
    remark(f"dbsp: error: {text}")


def remark(text: str) -> None:
    """A line on stderr, behind everything already printed."""
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
    """In place of `warnings.showwarning`: the place in Python says nothing to who runs a program."""
    remark(f"dbsp: warning: {message}")


@contextmanager
def loading(total_bytes: int) -> Iterator[Callable[[Path | None, str], None]]:
    """A progress bar over the files of a long load, on a terminal only.

    Yields a function to call with each file when it has been read, or with None for what comes
    after the files; the text says what is being done next.
    """
    if total_bytes < SLOW_BYTES or not sys.stderr.isatty():
        yield lambda path, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading facts", total=total_bytes)

        def advance(path: Path | None, text: str) -> None:
            if path is None:
                # How long a tick will take is not known beforehand: a bar that only moves.
                progress.update(task, total=None, description=text)
            else:
                progress.update(task, advance=path.stat().st_size, description=text)

        yield advance


def announce_kernels() -> None:
    """Say that the first tick will take long if the compiled kernels are not on this machine yet."""
    from dbsp.cli.warmup_command import kernels_compiled

    if not kernels_compiled():
        remark(
            "dbsp: compiling the kernels for this machine, which happens once and may take a minute "
            "('dbsp warmup' does it ahead)"
        )
