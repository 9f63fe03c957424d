"""Small JSON files whose damage is noticed: a format, a version and a checksum of the content."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from dbsp.durable.atomic_files import read_header, write_atomically
from dbsp.errors import CheckpointError

_VERSION = 1


def write_checked(path: Path, form: str, content: Any, sync: bool) -> None:
    """Write a JSON value atomically. `form` is a text such as "dbsp pipeline"."""
    document = {"format": form, "version": _VERSION, "checksum": _checksum(content), "content": content}
    write_atomically(path, json.dumps(document, indent=1).encode(), sync)


def read_checked(path: Path, form: str) -> Any:
    """Return the value of a file of `write_checked`; None if there is no file.

    Raises CheckpointError if the file is damaged or has another format.
    """
    document = read_header(path, form, _VERSION)
    if document is None:
        return None
    if "content" not in document or document.get("checksum") != _checksum(document["content"]):
        raise CheckpointError(
            f"{path} is damaged: its checksum does not match its content; restore it from a copy, or choose"
            " another checkpointLocation",
            code="checkpoint-unreadable",
        )
    return document["content"]


def _checksum(content: Any) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"
