"""Batches of changes for a run, which other processes write to a folder; each batch is used once.

    inbox.json                        the format of the folder, and its unique name
    staged/edges/5f0c….parquet        rows written for a batch that may not yet be published
    batches/edges/000000000007.json   a published batch of the writer `edges`: input, files, rows
    taken.json                        by writer, the latest batch that is durable in a run

A batch is published by renaming its manifest, so it is published completely or not at all. A writer
numbers its batches, and publishes the latest number again if it does not know whether that batch
was published. `Inbox` interprets the rows. Like `dbsp.durable.ledger`, this module imports only
small modules.
"""

from __future__ import annotations

import json
import os
import urllib.parse
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dbsp.durable.atomic_files import read_json, sync_file, sync_folder, write_atomically
from dbsp.errors import CheckpointError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "dbsp inbox"
VERSION = 1


@dataclass(frozen=True, slots=True)
class StagedDelivery:
    """Rows written for a batch: the name of the file, "" without rows, and the number of rows."""

    file: str
    rows: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A published batch: changes of one input, in their order."""

    writer: str
    batch: int
    input: str
    weight_column: str
    """The column of weights; "" if every row has weight 1."""
    files: tuple[Path, ...]
    rows: int
    manifest: Path


@dataclass(frozen=True, slots=True)
class TakenDelivery:
    """The latest batch of a writer that is durable in a run, and its number of rows."""

    batch: int
    rows: int


class Deliveries:
    """The part of an inbox that one writer uses."""

    def __init__(
        self, folder: str | Path, writer: str, input: str, *, weight_column: str = "", sync: bool = True
    ) -> None:
        """Write changes of `input`. Each writer of an inbox is one process with its own name."""
        self.folder = Path(folder)
        self.writer = writer
        self.input = input
        self.weight_column = weight_column
        self.sync = sync
        self._staged = self.folder / "staged" / _file(writer)
        self._batches = self.folder / "batches" / _file(writer)

    def stage(self, batches: Iterable[pa.RecordBatch]) -> StagedDelivery:
        """Write rows to a new file, which `publish` may publish later."""
        import pyarrow.parquet as pq

        identify(self.folder, self.sync)
        self._staged.mkdir(parents=True, exist_ok=True)
        path = self._staged / f"{uuid.uuid4().hex}.parquet"
        rows = 0
        writer = None
        try:
            for batch in batches:
                if batch.num_rows:
                    writer = writer or pq.ParquetWriter(path, batch.schema)
                    writer.write_batch(batch)
                    rows += batch.num_rows
        finally:
            if writer is not None:
                writer.close()
        if writer is not None and self.sync:
            sync_file(path)
            sync_folder(self._staged)
        return StagedDelivery(path.name if rows else "", rows)

    def publish(self, staged: Sequence[StagedDelivery], batch: int) -> bool:
        """Publish a batch; return whether it is new. Staged files that no batch uses are removed.

        Raises CheckpointError if a writer of this name has published later batches, or this batch
        with another number of rows: then there are two writers of the same name.
        """
        identify(self.folder, self.sync)
        self._batches.mkdir(parents=True, exist_ok=True)
        rows = sum(part.rows for part in staged)
        latest = self.latest()
        known = latest is not None and batch <= latest.batch
        if latest is not None and known and latest != TakenDelivery(batch, rows):
            raise CheckpointError(
                f"{self.folder} already has batch {latest.batch} ({latest.rows} rows) of writer "
                f"'{self.writer}', so batch {batch} ({rows} rows) belongs to another query; give that query "
                "another writer name",
                code="writer-conflict",
            )
        files = [part.file for part in staged if part.file]
        if not known:
            for name in files:
                if not (self._staged / name).exists():
                    raise CheckpointError(
                        f"{self._staged / name} was removed before it was published: two queries write as "
                        f"'{self.writer}'; give each query its own writer name",
                        code="writer-conflict",
                    )
            manifest = {"input": self.input, "weight": self.weight_column, "files": files, "rows": rows}
            write_atomically(self._batches / f"{batch:012d}.json", json.dumps(manifest).encode(), self.sync)
        self.collect()
        return not known

    def discard(self, staged: Iterable[StagedDelivery]) -> None:
        """Remove the staged files of a batch that will not be published."""
        for part in staged:
            if part.file:
                (self._staged / part.file).unlink(missing_ok=True)

    def collect(self) -> None:
        """Remove the leftovers of ended processes. Call this only while no rows are staged."""
        used = {path.name for d in deliveries(self.folder) if d.writer == self.writer for path in d.files}
        for left in _listed(self._staged):
            if left.name not in used:
                left.unlink(missing_ok=True)
        for left in _listed(self._batches):
            if left.name.startswith("."):
                left.unlink(missing_ok=True)

    def latest(self) -> TakenDelivery | None:
        """Return the latest published batch, taken by a run or not."""
        published = [
            TakenDelivery(d.batch, d.rows) for d in deliveries(self.folder) if d.writer == self.writer
        ]
        removed = taken(self.folder).get(self.writer)
        return max(
            [*published, *([removed] if removed else [])], key=lambda delivery: delivery.batch, default=None
        )


def deliveries(folder: Path) -> list[Delivery]:
    """Return the published batches that are not removed, in the order of publication."""
    found = []
    for place in _listed(folder / "batches"):
        for path in _listed(place):
            if not path.stem.isdigit():
                continue
            try:
                manifest, at = json.loads(path.read_bytes()), path.stat().st_mtime_ns
            except FileNotFoundError:
                continue  # a run has taken the batch in the meantime
            except (OSError, ValueError) as error:
                raise CheckpointError(f"cannot read {path}: {error}", code="checkpoint-unreadable") from None
            files = tuple(folder / "staged" / place.name / name for name in manifest["files"])
            writer = urllib.parse.unquote(place.name)
            delivery = Delivery(
                writer, int(path.stem), manifest["input"], manifest["weight"], files, manifest["rows"], path
            )
            found.append((at, delivery))
    # The batches of one writer stay in order even if the clock was set back.
    found.sort(key=lambda entry: (entry[1].writer, entry[1].batch))
    clock: dict[str, int] = {}
    for i, (at, delivery) in enumerate(found):
        clock[delivery.writer] = max(at, clock.get(delivery.writer, at))
        found[i] = (clock[delivery.writer], delivery)
    return [delivery for _, delivery in sorted(found, key=lambda entry: entry[0])]


def taken(folder: Path) -> dict[str, TakenDelivery]:
    """Return by writer the latest batch that is durable in a run."""
    record = read_json(folder / "taken.json")
    return (
        {} if record is None else {name: TakenDelivery(*latest) for name, latest in record["batches"].items()}
    )


def taken_tick(folder: Path) -> int:
    """Return the tick of the run that wrote the record of taken batches; 0 without a record."""
    record = read_json(folder / "taken.json")
    return 0 if record is None else int(record["tick"])


def take(folder: Path, batches: Mapping[str, TakenDelivery], tick: int, sync: bool) -> None:
    """Record the batches that are durable in a run; after this they may be removed."""
    record = {
        "tick": tick,
        "batches": {name: [latest.batch, latest.rows] for name, latest in batches.items()},
    }
    write_atomically(folder / "taken.json", json.dumps(record).encode(), sync)


def identify(folder: Path, sync: bool) -> str:
    """Return the unique name of an inbox; create the inbox if the folder is not one."""
    path = folder / "inbox.json"
    header = read_json(path)
    if header is None:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".inbox.{uuid.uuid4().hex}"
        new_header = {"format": FORMAT, "version": VERSION, "id": uuid.uuid4().hex}
        write_atomically(draft, json.dumps(new_header).encode(), sync)
        # Unlike a rename, a link fails if another process was faster, which may also have removed
        # the draft.
        with suppress(FileExistsError, FileNotFoundError):
            os.link(draft, path)
        for left in folder.glob(".inbox.*"):
            left.unlink(missing_ok=True)
        header = read_json(path)
    if not isinstance(header, dict) or header.get("format") != FORMAT or header["version"] != VERSION:
        raise CheckpointError(
            f'expected an inbox of version {VERSION} in {path}, but it lacks "format": "{FORMAT}"; '
            "choose another folder",
            code="checkpoint-unreadable",
        )
    return str(header["id"])


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _file(name: str) -> str:
    quoted = urllib.parse.quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
