"""Find the newest state of a checkpoint that is intact, and the ticks of its journal since then."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from dbsp.durable.manifest import CURRENT, PARTS, PREVIOUS, VERSION, Manifest, read_manifest
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.snapshots import LoadedSnapshot, load_snapshot
from dbsp.durable.tick_journal import TickChanges, TickJournal
from dbsp.errors import CheckpointError, CheckpointWarning
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Recovered:
    """The verified content of a checkpoint."""

    manifest: Manifest
    snapshot: LoadedSnapshot | None
    ticks: list[TickChanges]
    """The ticks after the snapshot."""


def found_manifests(folder: Path) -> list[Manifest | CheckpointError]:
    """Return the current and the previous manifest, or the errors of reading them.

    Empty for a new folder. Raises CheckpointError if there is no manifest, but other files.
    """
    found: list[Manifest | CheckpointError] = []
    for file in (CURRENT, PREVIOUS):
        try:
            manifest = read_manifest(folder / file)
        except CheckpointError as error:
            if error.code == "checkpoint-version":
                raise
            found.append(error)
            continue
        if manifest is not None and manifest not in found:
            found.append(manifest)
        if manifest is None and file == CURRENT:
            found.append(unreadable(folder / file, "the file is missing"))
    if any(isinstance(manifest, Manifest) for manifest in found):
        return found
    files = [path for part in PARTS for path in (folder / part).iterdir() if not path.name.startswith(".")]
    if any(path.suffix == ".arrow" for path in files):
        raise CheckpointError(
            f"{folder} has format version 1, this version of dbsp expects {VERSION}; "
            "continue with the version of dbsp that wrote it, or start in an empty folder",
            code="checkpoint-version",
        )
    used = any(path.name != "latest" for path in files)
    if used or (folder / CURRENT).exists() or (folder / PREVIOUS).exists():
        raise next(error for error in found if isinstance(error, CheckpointError))
    return []


def read_intact(
    folder: Path,
    manifests: Sequence[Manifest | CheckpointError],
    journal: TickJournal,
    verify: bool,
    until: int | None = None,
) -> Recovered:
    """Verify and read the newest snapshot that is intact, and the ticks since then.

    Without `verify`, only the headers of large runs are verified. With `until`, that is the last
    tick (see `TickJournal.read`). Warns if it is not the newest snapshot. Raises CheckpointError if
    there is none, or if the journal is damaged.
    """
    failures: list[CheckpointError] = []
    reached = max(m.tick for m in manifests if isinstance(m, Manifest))
    for manifest in manifests:
        if isinstance(manifest, CheckpointError):
            failures.append(manifest)
            continue
        journal.id = manifest.id
        try:
            snapshot = load_snapshot(folder, manifest, verify)
            ticks = journal.read(manifest.tick, manifest.journal, until)
            if manifest.tick + len(ticks) < reached:
                raise unreadable(journal.folder, f"tick {reached} is missing")
        except CheckpointError as error:
            failures.append(error)
            continue
        if failures:
            warnings.warn(replacement(failures[0], manifest), CheckpointWarning, stacklevel=5)
        return Recovered(manifest, snapshot, ticks)
    raise failures[0]


def replacement(damage: CheckpointError, manifest: Manifest) -> str:
    """Return the text of a warning: a file is damaged, and an older snapshot replaces it."""
    kept = "the journal replaces"
    if manifest.snapshot is not None:
        kept = f"the snapshot of tick {manifest.tick} and the journal replace"
    return f"{damage.message.partition('; ')[0]}; nothing is lost, since {kept} it"
