"""The error of a file that does not hold what it should, pointing at the places in it."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.diagnostics import Diagnostic, render_all
from dbsp.errors import InputError

MAX_PROBLEMS = 10
"""Reading goes on after a problem, so that one run shows several, but not a screenful."""


class DataError(InputError):
    """A data file was refused. `diagnostics` has one entry per problem found, each with file, line and text.

    `more` says that the file was not read to its end because there were too many of them.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], *, more: bool = False) -> None:
        text = render_all(diagnostics)
        super().__init__(
            f"{text}\n... and perhaps more; only the first {len(diagnostics)} are shown" if more else text
        )
        self.diagnostics = tuple(diagnostics)
        self.more = more


def missing_file(path: str, what: str, hint: str | None = None) -> InputError:
    """The error for a file that should be there."""
    return InputError(f"there is no such {what}" + (f"; {hint}" if hint else ""), where=path)
