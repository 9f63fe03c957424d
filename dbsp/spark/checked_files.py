"""Small JSON files of a Spark pipeline, sealed with a format, a version, a place and a checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbsp.durable.atomic_files import write_atomically
from dbsp.durable.sealed_files import read_header, sealed_json
from dbsp.errors import CheckpointError

_VERSION = 2


def write_checked(path: Path, form: str, content: Any, sync: bool) -> None:
    """Write a JSON value atomically. `form` is a text such as "dbsp pipeline"."""
    document = {"format": form, "version": _VERSION, "content": content}
    write_atomically(path, sealed_json(path.name, document, indent=1), sync)


def read_checked(path: Path, form: str) -> Any:
    """Return the value of a file of `write_checked`; None if there is no file.

    Raises CheckpointError if the file is damaged or has another format.
    """
    document = read_header(path, form, _VERSION, path.name)
    if document is None:
        return None
    if "content" not in document:
        raise CheckpointError(
            f"{path} is damaged: it has no content; restore it from a copy, or choose another"
            " checkpointLocation",
            code="checkpoint-unreadable",
        )
    return document["content"]
