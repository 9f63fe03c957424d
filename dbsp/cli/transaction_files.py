"""Reads transactions from files, standard input or an argument: EDN, or JSON lines."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dbsp.cli.database_access import STDIN, is_text
from dbsp.cli.db_options import TextFormat
from dbsp.cli.standard_input import stdin_lines
from dbsp.edn import Form, read_json_lines, read_stream
from dbsp.errors import InputError
from dbsp.io.problems import missing_file, unreadable

_GZIP = b"\x1f\x8b"


@contextmanager
def source_lines(argument: str, name: str) -> Iterator[tuple[Iterable[str], str]]:
    """Yield the lines of an argument that is EDN, a file or `-`, and its name in errors.

    Bytes that are not UTF-8 become half surrogate pairs, which the readers of EDN refuse with their
    place.
    """
    if is_text(argument):
        yield io.StringIO(argument), name
    elif argument == "-":
        yield stdin_lines(), STDIN
    else:
        with open_text(Path(argument)) as lines:
            yield lines, argument


@contextmanager
def open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open a text file, which may be compressed by gzip."""
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise missing_file(str(path), "file") from None
    except OSError as error:
        raise unreadable(str(path), error) from error
    with file:
        compressed = file.peek(2)[:2] == _GZIP
        content = gzip.GzipFile(fileobj=file) if compressed else file
        with io.TextIOWrapper(content, "utf-8-sig", errors="surrogateescape") as text:
            try:
                yield text
            except (gzip.BadGzipFile, EOFError) as error:
                raise InputError(
                    f"cannot be decompressed: {error}", where=str(path), code="unreadable-file"
                ) from None


def read_transactions(lines: Iterable[str], file: str, format_: TextFormat) -> Iterator[Form]:
    """Yield the forms of a text, each as soon as its last line is read."""
    if format_ is TextFormat.JSONL:
        return read_json_lines(lines, file)
    return read_stream(lines, file)
