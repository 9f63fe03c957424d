"""Write files completely or not at all, and read JSON files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbsp.errors import CheckpointError

if TYPE_CHECKING:
    import pyarrow as pa


def write_atomically(path: Path, content: bytes | pa.Buffer, sync: bool) -> None:
    """Write a temporary file and rename it to `path`; with `sync` it survives a power loss."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)
    if sync:
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make the content of a file survive a power loss."""
    with open(path, "r+b") as file:  # Windows does not synchronize a file opened for reading only
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss, where the system supports it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # a system that does not open folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; None if there is no file. Raises CheckpointError."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {error}", code="checkpoint-unreadable") from None


def read_header(path: Path, form: str, version: int) -> dict[str, Any] | None:
    """Return the header of a folder of the format `form`; None if there is no file.

    `form` is a text such as "dbsp checkpoint". Raises CheckpointError if the header has another
    format or version.
    """
    if not path.exists():
        return None
    header = read_json(path)
    if not isinstance(header, dict) or header.get("format") != form:
        raise CheckpointError(
            f"expected the header of a {form.removeprefix('dbsp ')} in {path}, but it lacks "
            f'"format": "{form}"; choose another folder',
            code="checkpoint-unreadable",
        )
    if header["version"] != version:
        raise CheckpointError(
            f"{path} has format version {header['version']}, this version of dbsp expects {version}; "
            "continue with the version of dbsp that wrote it, or start in an empty folder",
            code="checkpoint-version",
        )
    return header
