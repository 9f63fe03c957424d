"""Write a file completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dbsp.errors import InputError


@contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing; a reader sees the old content until the end, then the new.

    A temporary file in the same folder is renamed to `path`, or removed after an error. Raises
    InputError if the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                yield file
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise InputError(message, where=str(path), code="unwritable-file") from error
