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


def report(error: DbspError) -> None:
    """An error on stderr. One that points at places in files says itself where it is from."""
    pointing = getattr(error, "diagnostics", None)
    text = in_option_names(error)
    remark(text if pointing else f"dbsp: error: {text}")


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


def in_option_names(error: DbspError) -> str:
    """Return the text of an error that names options as the command line does.

    >>> in_option_names(dbsp.IterationLimitError("raise the limit with max_iterations=N"))
    'raise the limit with --max-iterations N [iteration-limit]'
    """
    text = str(error)
    return text.replace("max_iterations=", "--max-iterations ") if error.code == "iteration-limit" else text


def announce_kernels() -> None:
    """Say that the first tick will take long if the compiled kernels are not on this machine yet."""
    from dbsp.cli.warmup_command import kernels_compiled

    if not kernels_compiled():
        remark(
            "dbsp: compiling the kernels for this machine, which happens once and may take a minute "
            "('dbsp warmup' does it ahead)"
        )
