"""What a pipeline stores besides the state of its run: its identity, its sources and its sinks.

    pipeline.json                  the record, below `checkpointLocation/dbsp`
    left-out-NAME-TICK.tables      the rows of a sink that the pipeline runs without

The record of a sink has enough to notice every tick that the sink missed: because the pipeline ran
without it, or because its data was removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from dbsp.durable.sealed_files import decoding, unreadable
from dbsp.errors import CheckpointError, SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.checked_files import CheckedFile, RecordFile

RECORD = "pipeline.json"
RECORD_FORM = "dbsp pipeline"


@dataclass
class KnownRows:
    """The rows that a left-out sink holds if `tick` is the latest of these ticks that it has."""

    tick: int
    file: str
    """The name of a file of rows with weights; "" for a view, which is replaced anyway."""
    digest: str = ""
    """The checksum of the file."""


@dataclass
class SinkRecord:
    """A sink that the pipeline has had, also if the pipeline runs without it now."""

    output: str
    target: str
    """The kind of the target, and the name of a table."""
    encoding: str
    schema: Any
    """The Spark schema of its tables, as JSON."""
    since: int
    """The tick whose view is its first delta; 0 if it has all deltas of the run."""
    delivered: int = 0
    """A tick that has arrived. The target may have later ones, but none may be lost."""
    left_out: list[KnownRows] = field(default_factory=list)
    """The rows it holds, by ascending tick, if the pipeline runs without it or ran without it
    and has not delivered the missing ticks yet."""
    back_at: int = -1
    """The tick at which a left-out sink came back; -1 before that."""


class PipelineRecord:
    """The record of a pipeline in a folder; `save` writes it atomically."""

    def __init__(
        self,
        folder: Path | None,
        sources: Mapping[str, Any],
        sync: bool,
        checkpoint: str = "",
        applied: bool = False,
        file: RecordFile | None = None,
    ) -> None:
        """Read the record, or begin one. A folder of None stores nothing, unless there is a `file`.

        `checkpoint` is the unique name of the run's checkpoint. `applied` means that the run has
        applied a micro-batch, so that there must be a record. Raises CheckpointError if the record
        is damaged or missing, SchemaError if the sources differ from its sources.
        """
        self.folder = folder
        self.sync = sync
        self.id = str(uuid.uuid4())
        self.query: str | None = None
        self.sources = dict(sources)
        self.sinks: dict[str, SinkRecord] = {}
        self._file = file
        if folder is not None:
            self._file = CheckedFile(folder / RECORD, RECORD_FORM, checkpoint)
        if self._file is None:
            return
        known = self._file.read()
        if known is not None:
            with decoding(self._file.path):
                self._read(known)
            self._compare(sources)
        elif applied:
            raise unreadable(self._file.path, "the file is missing")

    def _read(self, known: dict[str, Any]) -> None:
        self.id, self.query, self.sources = known["id"], known["query"], known["sources"]
        for name, sink in known["sinks"].items():
            left_out = [KnownRows(**rows) for rows in sink["left_out"]]
            self.sinks[name] = SinkRecord(**{**sink, "left_out": left_out})

    def _compare(self, sources: Mapping[str, Any]) -> None:
        for name in {**self.sources, **sources}:
            before, now = self.sources.get(name), sources.get(name)
            if before != now:
                raise SchemaError(
                    f"expected the source of the checkpoint, {before or 'none'}, got {now or 'none'};"
                    " restore the source, or choose another checkpointLocation",
                    where=f"source '{name}' of the checkpoint {self._place}",
                    code="checkpoint-other-program",
                )

    def save(self) -> None:
        """Write the record."""
        if self._file is not None:
            content = {
                "id": self.id,
                "query": self.query,
                "sources": self.sources,
                "sinks": {name: asdict(sink) for name, sink in self.sinks.items()},
            }
            self._file.write(content, self.sync)

    @property
    def _place(self) -> Path | None:
        return None if self._file is None else self._file.path.parent

    def check_query(self, query: str) -> None:
        """Note the id of Spark's query. Raises CheckpointError if the state is of another one."""
        if self.query is None:
            self.query = query
            self.save()
        elif self.query != query:
            raise CheckpointError(
                f"expected Spark's checkpoint of query {self.query}, which the state in"
                f" {self._place} belongs to, got that of query {query}",
                code="checkpoint-other-query",
            )
