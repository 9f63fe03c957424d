"""The identity of an inbox, and the record of the batches that a run has taken from it.

Like `dbsp.durable.ledger`, this module imports only small modules.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dbsp.durable.atomic_files import reports_full_disk, write_atomically
from dbsp.durable.sealed_files import decoding, read_header, read_sealed_json, sealed_json, unreadable
from dbsp.lazy_dataclass import dataclass

FORMAT = "dbsp inbox"
VERSION = 2


@dataclass(frozen=True, slots=True)
class TakenDelivery:
    """The latest batch of a writer that is durable in a run, and its number of rows."""

    batch: int
    rows: int


def taken(folder: Path) -> dict[str, TakenDelivery]:
    """Return by writer the latest batch that is durable in a run."""
    record = _taken(folder)
    with decoding(folder / "taken.json"):
        return {
            str(name): TakenDelivery(int(latest[0]), int(latest[1]))
            for name, latest in record["batches"].items()
        }


def taken_tick(folder: Path) -> int:
    """Return the tick of the run that wrote the record of taken batches; 0 without a record."""
    with decoding(folder / "taken.json"):
        return int(_taken(folder)["tick"])


def _taken(folder: Path) -> dict[str, Any]:
    if not (folder / "inbox.json").exists():
        return {"tick": 0, "batches": {}}
    return read_sealed_json(folder / "taken.json", "taken")


def take(folder: Path, batches: Mapping[str, TakenDelivery], tick: int, sync: bool) -> None:
    """Record the batches that are durable in a run; after this they may be removed."""
    record = {
        "id": inbox_id(folder),
        "tick": tick,
        "batches": {name: [latest.batch, latest.rows] for name, latest in batches.items()},
    }
    path = folder / "taken.json"
    with reports_full_disk(path):
        write_atomically(path, sealed_json("taken", record), sync)


def identify(folder: Path, sync: bool) -> str:
    """Return the unique name of an inbox; create the inbox if the folder is not one."""
    path, record = folder / "inbox.json", folder / "taken.json"
    if not path.exists():
        if not record.exists() and any(folder.glob("batches/*")):
            raise unreadable(path, "the file is missing")
        with reports_full_disk(path):
            folder.mkdir(parents=True, exist_ok=True)
            # In this order, so that an inbox always has a record of what was taken.
            new = {"id": uuid.uuid4().hex, "tick": 0, "batches": {}}
            _create(record, sealed_json("taken", new), sync)
            id_ = read_sealed_json(record, "taken").get("id")
            header = {"format": FORMAT, "version": VERSION, "id": id_}
            _create(path, sealed_json("inbox", header), sync)
            for left in (*folder.glob(".inbox.draft-*"), *folder.glob(".taken.draft-*")):
                left.unlink(missing_ok=True)
    return inbox_id(folder)


def _create(path: Path, content: bytes, sync: bool) -> None:
    """Write a file unless another process was faster."""
    draft = path.with_name(f".{path.stem}.draft-{uuid.uuid4().hex}")
    write_atomically(draft, content, sync)
    # Unlike a rename, a link fails if another process was faster, which may also have removed the
    # draft.
    with suppress(FileExistsError, FileNotFoundError):
        os.link(draft, path)


def inbox_id(folder: Path) -> str:
    """Return the unique name of an existing inbox. Raises CheckpointError."""
    path = folder / "inbox.json"
    header = read_header(path, FORMAT, VERSION, "inbox")
    if header is None:
        raise unreadable(path, "the file is missing")
    with decoding(path):
        known = str(header["id"])
    record = read_sealed_json(folder / "taken.json", "taken")
    if record.get("id") != known:
        raise unreadable(folder / "taken.json", "it is a file of another inbox")
    return known
