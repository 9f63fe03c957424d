"""A progress bar for reads of more than a second, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

_QUIET_SECONDS = 1.0


@contextmanager
def reading(total: int, description: str) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs. Yields a function to call with each number of bytes read."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    started = time.monotonic()
    done = 0
    update: Callable[[int], None] | None = None
    with ExitStack() as stack:

        def advance(size: int) -> None:
            nonlocal done, update
            done += size
            if update is None and time.monotonic() - started > _QUIET_SECONDS:
                update = stack.enter_context(_bar(total, description))
            if update is not None:
                update(done)

        yield advance


@contextmanager
def _bar(total: int, description: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.update(task, completed=done)
