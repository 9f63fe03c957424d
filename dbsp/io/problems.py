"""Errors of data files, with the places of the problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dbsp.diagnostics import Diagnostic, did_you_mean, render_all
from dbsp.errors import InputError, broken_link
from dbsp.io.unpack import unpacked

MAX_PROBLEMS = 10
"""The most problems of one file that are reported; reading continues after a problem until then."""


class DataError(InputError):
    """A data file has errors. `diagnostics` has one entry per problem, with file, line and text.

    `code` is the code of the first problem; the text shows the code of each. `more` says that the
    rest of the file was not read because there were too many problems.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], *, more: bool = False) -> None:
        text = render_all(diagnostics)
        rest = f"\n... and perhaps more; only the first {len(diagnostics)} are shown" if more else ""
        super().__init__(text + rest, code=diagnostics[0].code)
        self.diagnostics = tuple(diagnostics)
        self.more = more

    def __str__(self) -> str:
        return self.message


def missing_file(path: str, kind: str, hint: str | None = None) -> InputError:
    """Return the error for a file that does not exist."""
    hint = broken_link(path) or hint
    message = f"there is no such {kind}" + (f"; {hint}" if hint else "")
    return InputError(message, where=path, code="file-not-found")


def unreadable(path: str, error: OSError) -> InputError:
    """Return the error for a file that cannot be read."""
    return InputError(f"cannot be read: {error.strerror}", where=path, code="unreadable-file")


def read_file(path: Path, kind: str) -> bytes:
    """Return the bytes of a file, decompressed if gzip compressed them; `kind` names it in errors.

    Raises InputError if it cannot be read.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        siblings = [p.name for p in path.parent.glob(f"*{path.suffix}")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings)
        if path.parent.is_file():
            hint = f"{path.parent} is a file, but expected a folder"
        elif not path.parent.is_dir():
            hint = f"the folder {path.parent} does not exist"
        raise missing_file(str(path), kind, hint) from None
    except OSError as error:
        raise unreadable(str(path), error) from error
    return unpacked(data, str(path))
