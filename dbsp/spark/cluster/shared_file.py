"""A small JSON file in the shared folder, sealed as `dbsp.spark.checked_files` seals local ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dbsp.durable.sealed_files import decoding, sealed_json, unreadable, verify_document
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.cluster.shared_folder import SharedFolder


@dataclass(frozen=True)
class SharedFile:
    """A file with a JSON value, which the driver reads and replaces."""

    folder: SharedFolder
    name: str
    form: str
    """Its format, such as "dbsp pipeline"."""
    owner: str
    """The unique name of the state that it belongs to."""

    @property
    def path(self) -> Path:
        return Path(self.folder.location) / self.name

    @property
    def _place(self) -> str:
        return f"{self.owner}/{self.name}"

    def write(self, content: Any, sync: bool = False) -> None:
        """Write a JSON value at once. Raises CheckpointError."""
        self.folder.publish(self.name, sealed_json(self._place, {"format": self.form, "content": content}))

    def read(self) -> Any:
        """Return the value; None if there is no file. Raises CheckpointError if it is damaged."""
        content = self.folder.read(self.name)
        if content is None:
            return None
        with decoding(self.path):
            document = verify_document(self.path, json.loads(content), self._place)
            if document["format"] != self.form:
                raise unreadable(self.path, f"expected the format {self.form}, got {document['format']}")
            return document["content"]
