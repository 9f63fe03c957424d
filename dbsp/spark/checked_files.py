"""Small JSON files of a Spark pipeline, sealed with a format, a version, a place and a checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from dbsp.durable.atomic_files import write_atomically
from dbsp.durable.sealed_files import decoding, read_header, sealed_json
from dbsp.lazy_dataclass import dataclass

_VERSION = 2


class RecordFile(Protocol):
    """A file with a JSON value that a pipeline reads and replaces."""

    @property
    def path(self) -> Path:
        """Its path, for errors."""

    def write(self, content: Any, sync: bool) -> None: ...

    def read(self) -> Any: ...


@dataclass(frozen=True)
class CheckedFile:
    """A file with a JSON value."""

    path: Path
    form: str
    """Its format, such as "dbsp pipeline"."""
    owner: str = ""
    """The unique name of the checkpoint that it belongs to."""

    @property
    def place(self) -> str:
        return f"{self.owner}/{self.path.name}" if self.owner else self.path.name

    def write(self, content: Any, sync: bool) -> None:
        """Write a JSON value atomically."""
        document = {"format": self.form, "version": _VERSION, "content": content}
        write_atomically(self.path, sealed_json(self.place, document, indent=1), sync)

    def read(self) -> Any:
        """Return the value; None if there is no file.

        Raises CheckpointError if the file is damaged, of another place or has another format.
        """
        document = read_header(self.path, self.form, _VERSION, self.place)
        if document is None:
            return None
        with decoding(self.path):
            return document["content"]
