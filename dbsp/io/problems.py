"""The error of a file that does not hold what it should, pointing at the places in it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from dbsp.diagnostics import Diagnostic, did_you_mean, render_all
from dbsp.errors import InputError

MAX_PROBLEMS = 10
"""Reading goes on after a problem, so that one run shows several, but not a screenful."""

_GZIP = b"\x1f\x8b"


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


def missing_file(path: str, kind: str, hint: str | None = None) -> InputError:
    """The error for a file that should be there."""
    return InputError(f"there is no such {kind}" + (f"; {hint}" if hint else ""), where=path)


def read_file(path: Path, kind: str) -> bytes:
    """The bytes of a file, unpacked if gzip has packed them; `kind` names it in the error.

    Raises InputError if it cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        siblings = [p.name for p in path.parent.glob(f"*{path.suffix}")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings)
        if not path.parent.is_dir():
            hint = f"the folder {path.parent} does not exist"
        raise missing_file(str(path), kind, hint) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return unpacked(data, str(path))


def unpacked(data: bytes, file: str) -> bytes:
    """The data, unpacked if gzip has packed it. Raises InputError naming the file if it is damaged."""
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot be unpacked: {error}", where=file) from None
