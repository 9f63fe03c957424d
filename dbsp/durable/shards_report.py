"""Verify and describe the folder of a sharded run, with its shards, without opening it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dbsp.durable.checkpoint_report import verify_checkpoint
from dbsp.durable.commit_record import Commit, CommitRecord
from dbsp.durable.history import kept_manifests
from dbsp.durable.manifest import CURRENT, PREVIOUS
from dbsp.durable.report_facts import Fact, Watch, attempted, bytes_text
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.shards_header import HEADER, VERSION, ShardsHeader, read_shards_header
from dbsp.durable.tick_journal import TickJournal
from dbsp.errors import CheckpointError, counted


def verify_shards(folder: Path, watch: Watch) -> Iterator[CheckpointError]:
    """Verify the header, the commit record, and every file of each shard."""
    try:
        header, commit = _read(folder)
    except CheckpointError as error:
        yield error
        return
    for name in header.shards:
        if not commit.tick and _is_new(folder / name):
            continue
        yield from verify_checkpoint(folder / name, lambda text, name=name: watch(f"{name}, {text}"))  # type: ignore[misc]
        yield from attempted(partial(_expect_tick, folder / name, commit.tick))


def describe_shards(folder: Path) -> Iterator[Fact]:
    """Yield the facts of a sharded run. Raises CheckpointError if it is damaged."""
    header, commit = _read(folder)
    yield Fact("format version", str(VERSION), VERSION)
    yield Fact("program", header.name, header.name)
    yield Fact("identity", header.query, header.query)
    yield Fact("tick", f"{commit.tick:,}", commit.tick)
    yield Fact("shards", str(len(header.shards)), len(header.shards))
    for name in header.shards:
        part = folder / name
        last = _expect_tick(part, commit.tick)
        manifests, _ = kept_manifests(part)
        snapshot = manifests[-1].tick if manifests else 0
        size = sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
        more = f" and {counted(last - commit.tick, 'tick')} that does not count" if last > commit.tick else ""
        text = f"snapshot of tick {snapshot:,}, journal up to tick {commit.tick:,}{more}, {bytes_text(size)}"
        yield Fact(f"  {name}", text, {"snapshot": snapshot, "journal": last, "bytes": size})


def _read(folder: Path) -> tuple[ShardsHeader, Commit]:
    header = read_shards_header(folder)
    if header is None:
        raise unreadable(folder / HEADER, "the file is missing")
    return header, max(CommitRecord(folder, header.id, sync=False).read(), Commit(header.since))


def _expect_tick(folder: Path, tick: int) -> int:
    """Return the last tick of the journal of a shard.

    Raises CheckpointError unless that is this tick, or one more that does not count yet.
    """
    if not tick and _is_new(folder):
        return 0
    manifests, damaged = kept_manifests(folder)
    if not manifests:
        raise damaged[0].error
    newest = manifests[-1]
    journal = TickJournal(folder, sync=False)
    journal.id = newest.id
    journal.read(newest.tick, newest.journal, tick)
    return newest.tick + sum(1 for _ in journal.ticks(newest.tick, newest.journal))


def _is_new(folder: Path) -> bool:
    """Return whether the run ended before a shard wrote its manifest."""
    return not (folder / CURRENT).exists() and not (folder / PREVIOUS).exists()
