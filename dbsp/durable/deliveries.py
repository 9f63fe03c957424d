"""Batches of changes for a run, which other processes write to a folder; each batch is used once.

    inbox.json                        the format of the folder, and its unique name
    staged/edges/5f0c….parquet        rows written for a batch that may not yet be published
    batches/edges/000000000007.json   a published batch of the writer `edges`: input, files, rows
    batches/edges/latest.json         the latest batch that the writer has published
    taken.json                        by writer, the latest batch that is durable in a run

A batch is published by renaming its manifest, so it is published completely or not at all. A writer
numbers its batches, and publishes the latest number again if it does not know whether that batch
was published. Every JSON file is sealed, and a batch has the checksums of its Parquet files, so
nothing that is damaged or missing goes unnoticed. `Inbox` interprets the rows. Like
`dbsp.durable.ledger`, this module imports only small modules.
"""

from __future__ import annotations

import urllib.parse
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbsp.durable.atomic_files import reports_full_disk, sync_file, sync_folder, write_atomically
from dbsp.durable.inbox_record import TakenDelivery, identify, inbox_id, taken
from dbsp.durable.sealed_files import Fingerprint, decoding, read_sealed_json, sealed_json, unreadable
from dbsp.errors import CheckpointError
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StagedDelivery:
    """Rows written for a batch: the name of the file, "" without rows, and the number of rows."""

    file: str
    rows: int
    fingerprint: Fingerprint | None = None
    """The size and checksum of the file; None if the publisher is to compute them."""


@dataclass(frozen=True, slots=True)
class DeliveredFile:
    """A Parquet file of a published batch."""

    path: Path
    rows: int
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Delivery:
    """A published batch: changes of one input, in their order."""

    writer: str
    batch: int
    input: str
    weight_column: str
    """The column of weights; "" if every row has weight 1."""
    files: tuple[DeliveredFile, ...]
    rows: int
    manifest: Path


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
        path = self._staged / f"{uuid.uuid4().hex}.parquet"
        rows = 0
        writer = None
        with reports_full_disk(path, "nothing was staged"):
            self._staged.mkdir(parents=True, exist_ok=True)
            try:
                for batch in batches:
                    if batch.num_rows:
                        writer = writer or pq.ParquetWriter(path, batch.schema)
                        writer.write_batch(batch)
                        rows += batch.num_rows
                if writer is not None:
                    writer.close()
                    if self.sync:
                        sync_file(path)
                        sync_folder(self._staged)
            except OSError:
                with suppress(OSError):
                    if writer is not None:
                        writer.close()
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                raise
        return StagedDelivery(path.name, rows, Fingerprint.of(path)) if rows else StagedDelivery("", 0)

    def publish(self, staged: Sequence[StagedDelivery], batch: int) -> bool:
        """Publish a batch; return whether it is new. Staged files that no batch uses are removed.

        Raises CheckpointError if a writer of this name has published later batches, or this batch
        with another number of rows: then there are two writers of the same name.
        """
        id_ = identify(self.folder, self.sync)
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
        if not known:
            files = [self._described(part) for part in staged if part.file]
            content = {
                "input": self.input,
                "weight": self.weight_column,
                "files": files,
                "rows": rows,
                "before": -1 if latest is None else latest.batch,
            }
            manifest = self._batches / f"{batch:012d}.json"
            with reports_full_disk(manifest, f"batch {batch} was not published"):
                self._batches.mkdir(parents=True, exist_ok=True)
                content_ = sealed_json(_place(id_, self._batches.name, batch), content)
                write_atomically(manifest, content_, self.sync)
                latest_place = _place(id_, self._batches.name, "latest")
                note = sealed_json(latest_place, {"batch": batch, "rows": rows})
                # An older note does no harm, so the batch is published even if this fails.
                with suppress(OSError):
                    write_atomically(self._batches / "latest.json", note, self.sync)
        self.collect()
        return not known

    def _described(self, part: StagedDelivery) -> dict[str, Any]:
        path = self._staged / part.file
        if not path.exists():
            raise CheckpointError(
                f"{path} was removed before it was published: two queries write as "
                f"'{self.writer}'; give each query its own writer name",
                code="writer-conflict",
            )
        fingerprint = part.fingerprint or Fingerprint.of(path)
        return {"name": part.file, "rows": part.rows, **asdict(fingerprint)}

    def discard(self, staged: Iterable[StagedDelivery]) -> None:
        """Remove the staged files of a batch that will not be published."""
        for part in staged:
            if part.file:
                (self._staged / part.file).unlink(missing_ok=True)

    def collect(self) -> None:
        """Remove the leftovers of ended processes. Call this only while no rows are staged."""
        used = {
            file.path.name for d in deliveries(self.folder) if d.writer == self.writer for file in d.files
        }
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
    """Return the published batches that are not removed, in the order of publication.

    Raises CheckpointError if one is damaged, or missing and not taken.
    """
    places = _listed(folder / "batches")
    if not places:
        return []
    id_, found = inbox_id(folder), []
    # Before the names, because a batch may be published in between.
    latest = {place.name: _latest(id_, place) for place in places}
    for place in places:
        writer = urllib.parse.unquote(place.name)
        before: dict[int, int] = {}
        for path in _listed(place):
            if not path.stem.isdigit():
                continue
            delivery = _delivery(folder, id_, place, path)
            if delivery is not None:
                found.append((delivery[0], delivery[2]))
                before[delivery[2].batch] = delivery[1]
        # After the names, because a run may take a batch in between.
        done = taken(folder).get(writer)
        for expected in (latest[place.name], *before.values()):
            if expected not in before and expected > (-1 if done is None else done.batch):
                raise unreadable(place / f"{expected:012d}.json", "the file is missing")
    # The batches of one writer stay in order even if the clock was set back.
    found.sort(key=lambda entry: (entry[1].writer, entry[1].batch))
    clock: dict[str, int] = {}
    for i, (at, delivery_) in enumerate(found):
        clock[delivery_.writer] = max(at, clock.get(delivery_.writer, at))
        found[i] = (clock[delivery_.writer], delivery_)
    return [delivery_ for _, delivery_ in sorted(found, key=lambda entry: entry[0])]


def _delivery(folder: Path, id_: str, place: Path, path: Path) -> tuple[int, int, Delivery] | None:
    """Return the time of a batch, the batch before it, and the batch; None if it was just taken."""
    try:
        at = path.stat().st_mtime_ns
        manifest = read_sealed_json(path, _place(id_, place.name, int(path.stem)))
    except FileNotFoundError:
        return None
    except CheckpointError:
        if path.exists():
            raise
        return None
    with decoding(path):
        files = []
        for file in manifest["files"]:
            if Path(file["name"]).name != file["name"]:
                raise ValueError(f"{file['name']!r} is not a file of the inbox")
            fingerprint = Fingerprint(int(file["size"]), str(file["digest"]))
            files.append(
                DeliveredFile(folder / "staged" / place.name / file["name"], int(file["rows"]), fingerprint)
            )
        delivery = Delivery(
            urllib.parse.unquote(place.name),
            int(path.stem),
            str(manifest["input"]),
            str(manifest["weight"]),
            tuple(files),
            int(manifest["rows"]),
            path,
        )
        return at, int(manifest["before"]), delivery


def _latest(id_: str, place: Path) -> int:
    """Return the latest batch that a writer has noted; -1 if there is none."""
    path = place / "latest.json"
    if not path.exists():
        return -1
    with decoding(path):
        return int(read_sealed_json(path, _place(id_, place.name, "latest"))["batch"])


def _place(id_: str, writer: str, batch: int | str) -> str:
    return f"{id_}/{writer}/{batch}"


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _file(name: str) -> str:
    quoted = urllib.parse.quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
