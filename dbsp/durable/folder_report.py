"""Verify and describe a durable folder without opening it: a checkpoint, a delta log or an inbox.

Nothing is locked or written, so this also works while a run uses the folder.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dbsp.durable.checkpoint_report import describe_checkpoint, verify_checkpoint
from dbsp.durable.commit_record import COMMITS
from dbsp.durable.deliveries import DeliveredFile, deliveries
from dbsp.durable.folder_state import folder_state, undisturbed
from dbsp.durable.inbox_record import inbox_id, taken, taken_tick
from dbsp.durable.ledger import Entry, Ledger
from dbsp.durable.manifest import CURRENT, PREVIOUS
from dbsp.durable.parquet_files import read_parquet
from dbsp.durable.report_facts import Fact, Watch, attempted, bytes_text, rows_text
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.shards_header import HEADER
from dbsp.durable.shards_report import describe_shards, verify_shards
from dbsp.errors import CheckpointError, shorten
from dbsp.lazy_dataclass import dataclass

_TRIES = 3


@dataclass(frozen=True)
class Verification:
    """The kind of a folder, the number of its files, and a text for each problem."""

    kind: str
    files: int
    problems: list[str]


def verify_folder(folder: Path, watch: Watch | None = None) -> Verification:
    """Verify every file of a folder. Raises CheckpointError if it is of none of these kinds."""
    kind = _kind(folder)
    for _ in range(_TRIES):
        before = folder_state(folder)
        found: list[str] = []
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for error in _VERIFY[kind](folder, watch or _no_watch):
                if error.message not in found:
                    found.append(error.message)
        found += sorted({str(warning.message) for warning in warned})
        if not found or folder_state(folder) == before:
            break  # else a run has changed the folder in between
    files = sum(path.is_file() for path in folder.rglob("*"))
    return Verification(kind, files, found)


def describe_folder(folder: Path) -> list[Fact]:
    """Return what a folder has. Raises CheckpointError if it is damaged."""
    kind = _kind(folder)
    return [Fact("kind", kind, kind), *undisturbed(folder, lambda: list(_DESCRIBE[kind](folder)))]


def _kind(folder: Path) -> str:
    for kind, names in _MARKS.items():
        if any((folder / name).exists() for name in names):
            return kind
    raise CheckpointError(
        f"expected a checkpoint, a delta log or an inbox in {folder}, got "
        f"{'other files' if folder.exists() else 'no folder'}",
        code="checkpoint-unreadable",
    )


# --- delta logs -----------------------------------------------------------------------------------


def _verify_log(folder: Path, watch: Watch) -> Iterator[CheckpointError]:
    ledger = Ledger(folder)
    for part in ("ticks", "views"):
        try:
            ticks = ledger.ticks(part)
        except CheckpointError as error:
            yield error
            continue
        for tick in ticks:
            try:
                entry = ledger.entry(tick, part)
            except CheckpointError as error:
                yield error
                continue
            for name, path in entry.files.items():
                yield from attempted(partial(_verify_output, entry, name, path))


def _verify_output(entry: Entry, output: str, path: Path) -> None:
    read_parquet(path, entry.read(output), entry.rows[output])


def _describe_log(folder: Path) -> Iterator[Fact]:
    ledger = Ledger(folder)
    header, ticks = ledger.header(), ledger.ticks()
    if header is None:
        raise unreadable(folder / "log.json", "the file is missing")
    yield Fact("format version", str(header["version"]), header["version"])
    yield Fact("tick", f"{ticks[-1]:,}" if ticks else "none", ticks[-1] if ticks else None)
    if ticks:
        label, views = ledger.entry(ticks[-1]).label, len(ledger.ticks("views"))
        yield Fact("label", json.dumps(label), label)
        yield Fact("recorded ticks", f"{len(ticks):,}", len(ticks))
        yield Fact("stored views", f"{views:,}", views)
    entries = [ledger.entry(tick) for tick in ticks]
    for name, output in header["outputs"].items():
        rows = sum(entry.rows.get(name, 0) for entry in entries)
        size = sum(entry.fingerprints[name].size for entry in entries if name in entry.fingerprints)
        columns = ", ".join(f"{column}: {type_}" for column, type_ in output["columns"])
        text = f"{rows_text(rows)} of deltas, {bytes_text(size)}"
        yield Fact(f"  {name}({columns})", text, {"rows": rows, "bytes": size})


# --- inboxes --------------------------------------------------------------------------------------


def _verify_inbox(folder: Path, watch: Watch) -> Iterator[CheckpointError]:
    yield from attempted(lambda: taken(folder))
    try:
        found = deliveries(folder)
    except CheckpointError as error:
        yield error
        return
    for delivery in found:
        for file in delivery.files:
            yield from attempted(partial(_verify_delivered, file))


def _verify_delivered(file: DeliveredFile) -> None:
    read_parquet(file.path, file.fingerprint.read(file.path), file.rows)


def _describe_inbox(folder: Path) -> Iterator[Fact]:
    if not (folder / "inbox.json").exists():
        raise unreadable(folder / "inbox.json", "the file is missing")
    yield Fact("identity", inbox_id(folder), inbox_id(folder))
    yield Fact("taken up to tick", f"{taken_tick(folder):,}", taken_tick(folder))
    done = taken(folder)
    found = deliveries(folder)
    for writer in sorted({*done, *(delivery.writer for delivery in found)}):
        last = done[writer].batch if writer in done else -1
        waiting = [d for d in found if d.writer == writer and d.batch > last]
        rows = sum(delivery.rows for delivery in waiting)
        before = f"taken up to batch {last}" if last >= 0 else "nothing taken"
        batches = f"{len(waiting)} {'batch' if len(waiting) == 1 else 'batches'}"
        text = f"{before}; {batches} waiting, {rows_text(rows)}"
        value = {"last_batch": None if last < 0 else last, "waiting": len(waiting), "rows": rows}
        yield Fact(f"  writer {shorten(writer)}", text, value)


def _no_watch(text: str) -> None:
    """Report progress to nobody."""


_MARKS = {
    "checkpoint of a sharded run": (HEADER, COMMITS),
    "checkpoint": (CURRENT, PREVIOUS, "journal"),
    "delta log": ("log.json", "latest.json", "ticks"),
    "inbox": ("inbox.json", "taken.json", "batches"),
}
"""The kinds of folders, and files that only they have."""
_VERIFY = {
    "checkpoint of a sharded run": verify_shards,
    "checkpoint": verify_checkpoint,
    "delta log": _verify_log,
    "inbox": _verify_inbox,
}
_DESCRIBE = {
    "checkpoint of a sharded run": describe_shards,
    "checkpoint": describe_checkpoint,
    "delta log": _describe_log,
    "inbox": _describe_inbox,
}
