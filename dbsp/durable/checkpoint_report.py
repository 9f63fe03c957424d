"""Verify and describe the folder of a checkpoint, with its history, without opening it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dbsp.durable.array_frames import read_frames
from dbsp.durable.history import kept_manifests
from dbsp.durable.history_window import HistoryWindow
from dbsp.durable.manifest import VERSION, Manifest
from dbsp.durable.moments import shown_time
from dbsp.durable.report_facts import Fact, Watch, attempted, bytes_text, rows_text
from dbsp.durable.run_files import is_run_file, open_run
from dbsp.durable.sealed_files import read_sealed
from dbsp.durable.snapshots import load_snapshot
from dbsp.durable.tick_journal import TickJournal
from dbsp.durable.value_arrays import count_values
from dbsp.errors import CheckpointError, counted


def verify_checkpoint(folder: Path, watch: Watch) -> Iterator[CheckpointError]:
    """Verify every file that a manifest names, and every tick of the journal."""
    manifests, damaged = kept_manifests(folder)
    for each in damaged:
        yield each.error
    if not manifests:
        return
    files: dict[tuple[str, str], None] = {}  # snapshots share files
    for manifest in reversed(manifests):
        files |= dict.fromkeys(_digests(manifest).items())
    for place, (name, digest) in enumerate(files, 1):
        watch(f"file {place:,} of {len(files):,}")
        yield from attempted(partial(_verify_file, folder, manifests[0].id, name, digest))
    yield from attempted(partial(_read_journal, folder, manifests[0], watch))


def _verify_file(folder: Path, id_: str, name: str, digest: str) -> None:
    if is_run_file(name):
        open_run(folder, id_, name, digest, verify=True)
    else:
        read_frames(read_sealed(folder / name, f"{id_}/{name}", digest))


def _journal(folder: Path, manifest: Manifest) -> TickJournal:
    journal = TickJournal(folder, sync=False)
    journal.id = manifest.id
    return journal


def _read_journal(folder: Path, oldest: Manifest, watch: Watch) -> None:
    for changes in _journal(folder, oldest).ticks(oldest.tick, oldest.journal):
        watch(f"tick {changes.tick:,}")


def describe_checkpoint(folder: Path) -> Iterator[Fact]:
    """Yield the facts of a checkpoint. Raises CheckpointError if it is damaged."""
    manifests, damaged = kept_manifests(folder)
    if damaged:
        raise damaged[-1].error
    current = manifests[-1]
    journal = _journal(folder, current)
    tick, time, label, values = current.tick, current.time, current.label, _stored_values(folder, current)
    changes: dict[str, int] = {}
    for ticks in journal.ticks(current.tick, current.journal):
        if ticks.updated_to is not None:  # an update that has not taken place, or not yet
            break
        tick, time, label = ticks.tick, ticks.time, ticks.head["label"]
        values += len(ticks.head["values"]["values"])
        values += sum(len(part.read()[0]["values"]["values"]) for part in ticks.parts)
        for name, rows in ticks.changed_rows().items():
            changes[name] = changes.get(name, 0) + rows
    yield Fact("format version", str(VERSION), VERSION)
    yield Fact("program", current.name, current.name)
    yield Fact("identity", current.query, current.query)
    yield Fact("tick", f"{tick:,}", tick)
    yield Fact("time", shown_time(time), time)
    yield Fact("label", json.dumps(label), label)
    for manifest in manifests[:-3:-1]:
        which = "snapshot" if manifest is current else "previous snapshot"
        yield from _describe_snapshot(folder, manifest, which)
    yield from _describe_history(folder, manifests, tick)
    yield from _describe_state(folder, current)
    size = sum(path.stat().st_size for _, path in journal.files())
    after = f"ticks {current.tick + 1:,} to {tick:,}" if tick > current.tick else "no ticks"
    kept = tick - manifests[0].tick
    whole = f", {counted(kept, 'tick')} in all" if kept > tick - current.tick else ""
    value: dict[str, Any] = {"ticks_after_snapshot": tick - current.tick, "ticks": kept, "bytes": size}
    yield Fact("journal", f"{after} after the snapshot{whole}, {bytes_text(size)}", value)
    for name, rows in changes.items():
        yield Fact(f"  changes of {name}", rows_text(rows), rows)
    yield Fact("interned values", f"{values:,}", values)
    yield Fact("pickled values", "allowed" if current.pickle else "none", current.pickle)


def _digests(manifest: Manifest) -> dict[str, str]:
    return {} if manifest.snapshot is None else manifest.snapshot.digests


def _stored_values(folder: Path, manifest: Manifest) -> int:
    """Return the number of interned values in a snapshot."""
    loaded = load_snapshot(folder, manifest, verify=False)
    if loaded is None:
        return 0
    return sum(count_values(*loaded.content[name]) for name in loaded.files.interned)


def _sizes(folder: Path, names: Collection[str]) -> int:
    return sum((folder / name).stat().st_size for name in names)


def _describe_snapshot(folder: Path, manifest: Manifest, which: str) -> Iterator[Fact]:
    loaded = load_snapshot(folder, manifest, verify=False)
    if loaded is None:
        return
    rows = sum(len(weights) for weights in loaded.content[loaded.files.small][1][1::2])
    rows += sum(run.size for run in loaded.runs.values())
    files, size = len(loaded.files.digests), _sizes(folder, loaded.files.digests)
    value = {"tick": manifest.tick, "time": manifest.time, "rows": rows, "files": files, "bytes": size}
    text = f"tick {manifest.tick:,}: {rows_text(rows)}, {files} files, {bytes_text(size)}"
    yield Fact(which, text, value)


def _describe_history(folder: Path, manifests: list[Manifest], latest: int) -> Iterator[Fact]:
    keep, first = manifests[-1].keep, manifests[0]
    value = {"keep": keep, "first_tick": first.tick, "first_time": first.time, "last_tick": latest}
    kept = ""
    if keep and HistoryWindow.of(keep):
        kept = f"; keeps {counted(keep, 'tick') if isinstance(keep, int) else keep}"
    yield Fact("history", f"ticks {first.tick:,} to {latest:,} since {shown_time(first.time)}{kept}", value)
    shared = {name for manifest in manifests[-2:] for name in _digests(manifest)}
    for manifest in manifests[-3::-1]:
        own = _digests(manifest).keys() - shared
        shared |= own
        size = _sizes(folder, own)
        text = f"{shown_time(manifest.time)}, {counted(len(own), 'file')} of its own, {bytes_text(size)}"
        value = {"tick": manifest.tick, "time": manifest.time, "files": len(own), "bytes": size}
        yield Fact(f"  snapshot of tick {manifest.tick:,}", text, value)


def _describe_state(folder: Path, manifest: Manifest) -> Iterator[Fact]:
    files = manifest.snapshot
    if files is None:
        return
    runs, large = sum(map(len, files.traces)), _runs(manifest)
    size = _sizes(folder, large)
    text = f"{len(files.traces)} with {counted(runs, 'sorted run')}"
    if large:
        text += f", {len(large)} of them in files of their own, {bytes_text(size)}"
    value = {"traces": len(files.traces), "runs": runs, "run_files": len(large), "run_bytes": size}
    yield Fact("traces", text, value)


def _runs(manifest: Manifest) -> list[str]:
    files = manifest.snapshot
    traces = [] if files is None else files.traces
    return sorted({name for names in traces for name in names if isinstance(name, str)})
