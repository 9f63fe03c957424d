"""A state image: the whole state of a run at one tick, in a folder that is written once.

An image has the files of a snapshot (`dbsp.durable.snapshots`) and a manifest, and no journal.
Nothing in it changes afterwards, so several processes may read it at once, from any copy of the
folder. Large runs are mapped, not read.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import ShardLink
from dbsp.data.interner import Interner
from dbsp.durable.captured_state import JournalPlace
from dbsp.durable.manifest import CURRENT, PARTS, Manifest, read_manifest
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.snapshots import Snapshots, load_snapshot
from dbsp.runtime.run import Run


def write_image(run: Run, folder: Path, sync: bool = False) -> None:
    """Write the state of a run to an empty folder; with `sync` it survives a power loss. O(state).

    Raises CheckpointError if the folder cannot be written, or if a value has no typed encoding.
    """
    for part in PARTS:
        (folder / part).mkdir(parents=True, exist_ok=True)
    end = run.interner.end
    place = JournalPlace(None, "", 0, 0.0, None, end, end, ())
    id_ = uuid.uuid4().hex
    snapshots = Snapshots(folder, sync, allow_pickle=False)
    written = snapshots.write(snapshots.capture(run, None, place), id_)
    name = run.graph.name
    Manifest(id_, name, name, False, run.tick, snapshot=written.files, interned=end).write(folder, sync)


def read_image(
    folder: Path,
    graph: Graph,
    interner: Interner,
    link: ShardLink | None = None,
    memory_limit: int | None = None,
) -> Run:
    """Return a run of the circuit with the state of an image. O(small files), not O(state).

    Raises CheckpointError if the image is damaged, or of another circuit.
    """
    manifest = read_manifest(folder / CURRENT)
    loaded = None if manifest is None else load_snapshot(folder, manifest, verify=False)
    if loaded is None:
        raise unreadable(folder / CURRENT, "the file is missing")
    snapshots = Snapshots(folder, sync=False, allow_pickle=False)
    snapshots.restore_values(interner, loaded)
    run = Run(graph, interner=interner, memory_limit=memory_limit, link=link)
    snapshots.restore(run, loaded)
    return run
