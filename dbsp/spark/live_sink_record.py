"""What the checkpoint of a live sink stores, and whether a later start fits it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dbsp.datomic import Database
from dbsp.datomic.entity_ranges import TX0
from dbsp.durable.lock import FolderOwner
from dbsp.durable.sealed_files import decoding
from dbsp.errors import CheckpointError, SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.checked_files import CheckedFile
from dbsp.spark.targets import Target


@dataclass
class LiveSinkRecord:
    """The identity of a sink, and what has arrived."""

    query: str
    """The query and its arguments."""
    target: str
    """The kind of the target."""
    encoding: str
    schema: Any
    """The Spark schema of its tables, as JSON."""
    since: int
    """The transaction whose result is the first delta."""
    id: str = ""
    opened: bool = False
    """Whether the target was opened before."""
    reached: int = 0
    """A transaction up to which all changes had arrived at the last close; at first `since`."""
    instant: str = ""
    """The time of that transaction, which tells databases from one another."""
    delivered: int = 0
    """The latest tick that had arrived when the sink was closed."""


class LiveSinkCheckpoint:
    """The record of a sink in a folder, which one sink uses at a time. No folder: in memory."""

    def __init__(self, folder: Path | None, now: LiveSinkRecord, sync: bool) -> None:
        """Read the record, or begin one.

        Raises CheckpointError if the folder is in use, damaged or of another query, SchemaError if
        the columns of the sink have changed.
        """
        self.record = now
        self._sync = sync
        self._folder = folder
        self._owner: FolderOwner | None = None
        now.id = str(uuid.uuid4())
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._owner = FolderOwner(folder)
        try:
            content = self._file(folder).read()
            if content is None:
                self.save()  # its id is the owner of the target
            else:
                with decoding(self._file(folder).path):
                    known = LiveSinkRecord(**content)
                _compare(folder, known, now)
                self.record = known
        except BaseException:
            self.release()
            raise

    @staticmethod
    def _file(folder: Path) -> CheckedFile:
        return CheckedFile(folder / "live-sink.json", "dbsp live sink")

    @property
    def ledger(self) -> CheckedFile | None:
        """The file of the latest tick of a function."""
        folder = self._folder
        return (
            None
            if folder is None
            else CheckedFile(folder / "ledger.json", "dbsp sink ledger", self.record.id)
        )

    def save(self) -> None:
        """Write the record."""
        if self._folder is not None:
            self._file(self._folder).write(asdict(self.record), self._sync)

    def release(self) -> None:
        """Let another sink use the folder."""
        if self._owner is not None:
            self._owner.release()
            self._owner = None

    def check_database(self, database: Database, target: Target) -> None:
        """Raise CheckpointError unless the database and the target have what the sink had."""
        record = self.record
        most = max(record.reached, target.latest)
        if most > database.basis_t:
            raise CheckpointError(
                f"the sink has transaction {most}, but the database ends at {database.basis_t}: it is older"
                " than the sink, or another one; restore the newer database, or choose another checkpoint and"
                " target",
                code="sink-incomplete",
            )
        if record.instant and instant_of(database, record.reached) != record.instant:
            raise CheckpointError(
                f"the database has another transaction {record.reached} than the sink: it is another one,"
                " or an old copy with new transactions; choose another checkpoint and target",
                code="checkpoint-other-query",
            )
        if target.latest < record.delivered:
            raise CheckpointError(
                f"{target.describe()} lacks tick {record.delivered}, which it had: its data was removed;"
                " restore the data, or choose another checkpoint and target",
                code="sink-incomplete",
            )


def _compare(folder: Path, known: LiveSinkRecord, now: LiveSinkRecord) -> None:
    for what, before, after in (
        ("query", known.query, now.query),
        ("target", known.target, now.target),
        ("encoding", known.encoding, now.encoding),
    ):
        if before != after:
            raise CheckpointError(
                f"expected the {what} of the checkpoint {folder}, {before}, got {after}; restore the {what},"
                " or choose another checkpoint and target",
                code="checkpoint-other-program",
            )
    if known.schema != now.schema:
        columns = ", ".join(f"{field['name']} {field['type']}" for field in known.schema["fields"])
        raise SchemaError(
            f"expected the columns of the checkpoint {folder}, ({columns}); restore them with schema=..., or"
            " choose another checkpoint and target",
            code="schema-mismatch",
        )


def instant_of(database: Database, t: int) -> str:
    """Return the time of a transaction as text; "" before the first one."""
    datoms = database.datoms(":eavt", TX0 + t, ":db/txInstant") if t else []
    return str(datoms[0].v.isoformat()) if datoms else ""


def query_text(value: Any) -> str:
    """Return the text of a query and its arguments, which is the same in every process."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{query_text(k)}: {query_text(v)}" for k, v in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(query_text, value)) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(query_text, value))) + "}"
    return repr(value)
