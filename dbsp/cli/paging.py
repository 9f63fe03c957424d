"""Long output at a terminal, page by page in the program of `$PAGER`; never in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def paged() -> Iterator[None]:
    """Show what the block prints; in a pager if it has more lines than the terminal.

    `$PAGER` names the pager, by default `less`. Output elsewhere than on a terminal is printed as
    it arrives, and so is all output if the terminal cannot move its cursor (`TERM=dumb`).
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield
        return
    text = io.StringIO()
    try:
        with redirect_stdout(text):
            yield
    finally:
        shown = text.getvalue()
        if shown.count("\n") < shutil.get_terminal_size().lines:
            sys.stdout.write(shown)
            sys.stdout.flush()
        else:
            import pydoc  # loads slowly

            pydoc.pager(shown)
