"""Verify and describe a durable folder without opening it: a checkpoint, a delta log or an inbox.

Nothing is locked or written, so this also works while a run uses the folder.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dbsp.durable.array_frames import read_frames
from dbsp.durable.deliveries import DeliveredFile, deliveries
from dbsp.durable.inbox_record import inbox_id, taken, taken_tick
from dbsp.durable.ledger import Entry, Ledger
from dbsp.durable.manifest import CURRENT, PREVIOUS, VERSION, Manifest, read_manifest
from dbsp.durable.parquet_files import read_parquet
from dbsp.durable.run_files import is_run_file, open_run
from dbsp.durable.sealed_files import read_sealed, unreadable
from dbsp.durable.snapshots import load_snapshot
from dbsp.durable.tick_journal import TickJournal
from dbsp.errors import CheckpointError, counted, shorten

_TRIES = 3


@dataclass(frozen=True)
class Verification:
    """The kind of a folder, the number of its files, and a text for each problem."""

    kind: str
    files: int
    problems: list[str]


def verify_folder(folder: Path) -> Verification:
    """Verify every file of a folder. Raises CheckpointError if it is of none of the three kinds."""
    kind = _kind(folder)
    for _ in range(_TRIES):
        before = _state(folder)
        found: list[str] = []
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for error in _VERIFY[kind](folder):
                if error.message not in found:
                    found.append(error.message)
        found += sorted({str(warning.message) for warning in warned})
        if not found or _state(folder) == before:
            break  # else a run has changed the folder in between
    files = sum(path.is_file() for path in folder.rglob("*"))
    return Verification(kind, files, found)


def describe_folder(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what a folder has, as names and texts. Raises CheckpointError if it is damaged."""
    kind = _kind(folder)
    yield "kind", kind
    yield from _DESCRIBE[kind](folder)


def _kind(folder: Path) -> str:
    for kind, names in _MARKS.items():
        if any((folder / name).exists() for name in names):
            return kind
    raise CheckpointError(
        f"expected a checkpoint, a delta log or an inbox in {folder}, got "
        f"{'other files' if folder.exists() else 'no folder'}",
        code="checkpoint-unreadable",
    )


def _state(folder: Path) -> list[tuple[str, int]]:
    """The names of all files, and when they were changed."""
    found = []
    for path in folder.rglob("*"):
        try:
            found.append((str(path), path.stat().st_mtime_ns))
        except OSError:
            found.append((str(path), 0))
    return sorted(found)


def _attempted(action: Callable[[], object]) -> Iterator[CheckpointError]:
    try:
        action()
    except CheckpointError as error:
        yield error


# --- checkpoints ----------------------------------------------------------------------------------


def _manifests(folder: Path) -> tuple[list[Manifest], list[CheckpointError]]:
    manifests: list[Manifest] = []
    errors: list[CheckpointError] = []
    for file in (CURRENT, PREVIOUS):
        try:
            manifest = read_manifest(folder / file)
        except CheckpointError as error:
            errors.append(error)
            continue
        if manifest is not None:
            manifests.append(manifest)
        elif file == CURRENT:
            errors.append(unreadable(folder / file, "the file is missing"))
    return manifests, errors


def _verify_checkpoint(folder: Path) -> Iterator[CheckpointError]:
    manifests, errors = _manifests(folder)
    yield from errors
    for manifest in manifests:
        files = {} if manifest.snapshot is None else manifest.snapshot.digests
        for name, digest in files.items():
            yield from _attempted(partial(_verify_file, folder, manifest.id, name, digest))
    if manifests:
        oldest = manifests[-1]
        journal = TickJournal(folder, sync=False)
        journal.id = oldest.id
        yield from _attempted(lambda: journal.read(oldest.tick, oldest.journal))


def _verify_file(folder: Path, id_: str, name: str, digest: str) -> None:
    if is_run_file(name):
        open_run(folder, id_, name, digest, verify=True)
    else:
        read_frames(read_sealed(folder / name, f"{id_}/{name}", digest))


def _describe_checkpoint(folder: Path) -> Iterator[tuple[str, str]]:
    manifests, errors = _manifests(folder)
    if errors:
        raise errors[0]
    current = manifests[0]
    journal = TickJournal(folder, sync=False)
    journal.id = current.id
    ticks = journal.read(current.tick, current.journal)
    last = ticks[-1] if ticks else None
    yield "format version", str(VERSION)
    yield "program", current.name
    yield "identity", current.query
    yield "tick", f"{current.tick + len(ticks):,}"
    yield "label", json.dumps(current.label if last is None else last.head["label"])
    interned = 0
    for manifest in manifests:
        loaded = load_snapshot(folder, manifest)
        if loaded is None:
            continue
        files = loaded.files
        rows = sum(len(array) for array in loaded.content[files.small][1][1::2])
        rows += sum(run.size for run in loaded.runs.values())
        size = sum((folder / name).stat().st_size for name in files.digests)
        which = "snapshot" if manifest is current else "previous snapshot"
        yield which, f"tick {manifest.tick:,}: {_rows(rows)}, {len(files.digests)} files, {_bytes(size)}"
        if manifest is current:
            interned = files.ends[-1] if files.ends else 0
    size = sum(path.stat().st_size for _, path in journal.files())
    after = "no ticks" if not ticks else f"ticks {ticks[0].tick:,} to {ticks[-1].tick:,}"
    yield "journal", f"{after} after the snapshot, {_bytes(size)}"
    changes: dict[str, int] = {}
    for tick in ticks:
        for (name, _), weights in zip(tick.head["inputs"], tick.arrays[1::2], strict=True):
            changes[name] = changes.get(name, 0) + len(weights)
    for name, rows in changes.items():
        yield f"  changes of {name}", _rows(rows)
    yield "interned values", f"{interned if last is None else last.head['interned']:,}"
    yield "pickled values", "allowed" if current.pickle else "none"


# --- delta logs -----------------------------------------------------------------------------------


def _verify_log(folder: Path) -> Iterator[CheckpointError]:
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
                yield from _attempted(partial(_verify_output, entry, name, path))


def _verify_output(entry: Entry, output: str, path: Path) -> None:
    read_parquet(path, entry.read(output), entry.rows[output])


def _describe_log(folder: Path) -> Iterator[tuple[str, str]]:
    ledger = Ledger(folder)
    header, ticks = ledger.header(), ledger.ticks()
    if header is None:
        raise unreadable(folder / "log.json", "the file is missing")
    yield "format version", str(header["version"])
    yield "tick", f"{ticks[-1]:,}" if ticks else "none"
    if ticks:
        yield "label", json.dumps(ledger.entry(ticks[-1]).label)
        yield "recorded ticks", f"{len(ticks):,}"
        yield "stored views", f"{len(ledger.ticks('views')):,}"
    entries = [ledger.entry(tick) for tick in ticks]
    for name, output in header["outputs"].items():
        rows = sum(entry.rows.get(name, 0) for entry in entries)
        size = sum(entry.fingerprints[name].size for entry in entries if name in entry.fingerprints)
        columns = ", ".join(f"{column}: {type_}" for column, type_ in output["columns"])
        yield f"  {name}({columns})", f"{_rows(rows)} of deltas, {_bytes(size)}"


# --- inboxes --------------------------------------------------------------------------------------


def _verify_inbox(folder: Path) -> Iterator[CheckpointError]:
    yield from _attempted(lambda: taken(folder))
    try:
        found = deliveries(folder)
    except CheckpointError as error:
        yield error
        return
    for delivery in found:
        for file in delivery.files:
            yield from _attempted(partial(_verify_delivered, file))


def _verify_delivered(file: DeliveredFile) -> None:
    read_parquet(file.path, file.fingerprint.read(file.path), file.rows)


def _describe_inbox(folder: Path) -> Iterator[tuple[str, str]]:
    if not (folder / "inbox.json").exists():
        raise unreadable(folder / "inbox.json", "the file is missing")
    yield "identity", inbox_id(folder)
    yield "taken up to tick", f"{taken_tick(folder):,}"
    done = taken(folder)
    found = deliveries(folder)
    for writer in sorted({*done, *(delivery.writer for delivery in found)}):
        last = done[writer].batch if writer in done else -1
        waiting = [d for d in found if d.writer == writer and d.batch > last]
        rows = sum(delivery.rows for delivery in waiting)
        before = f"taken up to batch {last}" if last >= 0 else "nothing taken"
        batches = f"{len(waiting)} {'batch' if len(waiting) == 1 else 'batches'}"
        yield f"  writer {shorten(writer)}", f"{before}; {batches} waiting, {_rows(rows)}"


def _rows(number: int) -> str:
    return counted(number, "row") if number < 1_000 else f"{number:,} rows"


def _bytes(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 10_000:
            return f"{size:,} {unit}"
        size //= 1_000
    return f"{size:,} GB"


_MARKS = {
    "checkpoint": (CURRENT, PREVIOUS, "journal"),
    "delta log": ("log.json", "latest.json", "ticks"),
    "inbox": ("inbox.json", "taken.json", "batches"),
}
"""The kinds of folders, and files that only they have."""
_VERIFY = {"checkpoint": _verify_checkpoint, "delta log": _verify_log, "inbox": _verify_inbox}
_DESCRIBE = {"checkpoint": _describe_checkpoint, "delta log": _describe_log, "inbox": _describe_inbox}
