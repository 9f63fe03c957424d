"""Write the state of a run to files, of which the manifest of a snapshot has the names.

runs/7.run       a large sorted run of a trace; a snapshot writes only new ones
small/40.runs    the small sorted runs of all traces at that tick
interned/8.values  values of the interner; adjacent files are merged geometrically
memory/40.json   the state of steps and tables outside of traces, at that tick
memory/40.result the result of that tick
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbsp.data.interner import Interner
from dbsp.durable.array_frames import frames, read_frames
from dbsp.durable.atomic_files import reports_full_disk, write_atomically
from dbsp.durable.manifest import Manifest, SnapshotFiles
from dbsp.durable.result_frames import read_result, written_result
from dbsp.durable.sealed_files import decoding, read_sealed, seal, unreadable
from dbsp.durable.step_memory import read_batch, read_memories, recall, signature, written_memories
from dbsp.durable.typed_values import PickleRefusedError, pickle_refused
from dbsp.durable.value_arrays import merged_from, restore_arrays, value_arrays
from dbsp.errors import CheckpointError, CircuitError
from dbsp.kernels.arrays import Codes
from dbsp.runtime.rebuilt_steps import with_interner
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.state.sorted_run import SortedRun

_LARGE = 4096
"""Sorted runs of at least this many rows have their own files; snapshots rewrite the others."""

Frames = tuple[Any, list[Codes]]


@contextlib.contextmanager
def reading_values(path: Path, folder: Path) -> Iterator[None]:
    """Report values of a wrong form, and pickled values that the caller does not allow."""
    try:
        with decoding(path):
            yield
    except PickleRefusedError:
        raise pickle_refused(folder) from None


@dataclass(frozen=True)
class LoadedSnapshot:
    """The verified content of the files of a snapshot."""

    manifest: Manifest
    files: SnapshotFiles
    content: dict[str, Frames]


def load_snapshot(folder: Path, manifest: Manifest) -> LoadedSnapshot | None:
    """Read and verify all files of a snapshot; None if the manifest has none.

    Raises CheckpointError.
    """
    files = manifest.snapshot
    if files is None:
        return None
    content = {
        name: read_frames(read_sealed(folder / name, f"{manifest.id}/{name}", digest))
        for name, digest in files.digests.items()
    }
    return LoadedSnapshot(manifest, files, content)


@dataclass(frozen=True)
class WrittenSnapshot:
    """The files of a snapshot, the new ones among them, and the runs in files of their own."""

    files: SnapshotFiles
    new: list[Path]
    runs: dict[int, tuple[SortedRun, str]]
    generation: int
    """The generation of the interner."""

    def remove(self) -> None:
        """Remove the new files, as when the manifest cannot be written."""
        for path in self.new:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


class Snapshots:
    """Writes the snapshots of one run to a folder, each with the files of the one before it."""

    def __init__(self, folder: Path, sync: bool, allow_pickle: bool) -> None:
        self.folder = folder
        self.sync = sync
        self.allow_pickle = allow_pickle
        self._runs: dict[int, tuple[SortedRun, str]] = {}
        """By `id` of a sorted run, the run, which so stays alive, and its file."""
        self._files: SnapshotFiles | None = None
        self._generation = 0
        """The generation of the interner whose values are in these files."""

    def adopt(self, written: WrittenSnapshot) -> None:
        """Build the next snapshot on this one, whose manifest is written."""
        self._runs, self._files = written.runs, written.files
        self._generation = written.generation

    # --- writing ----------------------------------------------------------------------------------

    def write(self, run: Run, id_: str, result: TickResult | None) -> WrittenSnapshot:
        """Write the state of a run and the result of its latest tick, except for written parts.

        Raises CheckpointError; the new files are then removed.
        """
        before = self._files
        digests: dict[str, str] = {}
        written = WrittenSnapshot(_NOTHING, [], {}, 0)
        next_file = 0 if before is None else before.next_file

        def write(name: str, head: Any, arrays: Sequence[Codes]) -> str:
            path = self.folder / name
            file = seal(f"{id_}/{name}", frames(head, arrays))
            written.new.append(path)
            with reports_full_disk(path):
                write_atomically(path, file.parts, self.sync)
            digests[name] = file.digest
            return name

        try:
            small: list[Codes] = []
            traces = []
            for trace in run.scope.traces:
                names: list[str | int] = []
                for kept in trace.runs:
                    if kept.size < _LARGE:
                        names.append(len(small) // 2)
                        small += (kept.rows, kept.weights)
                        continue
                    known = self._runs.get(id(kept))
                    if known is None or before is None:
                        name = write(f"runs/{next_file}.run", trace.width, [kept.rows, kept.weights])
                        next_file += 1
                    else:
                        name = known[1]
                        digests[name] = before.digests[name]
                    written.runs[id(kept)] = (kept, name)
                    names.append(name)
                traces.append(names)
            interned: list[str] = []
            ends: list[int] = []
            if before is not None:
                interned, ends = list(before.interned), list(before.ends)
            if run.interner.generation != self._generation:
                interned, ends = [], []  # the files have values that were freed
            end = run.interner.end
            start = merged_from(ends, end)
            if end > start:
                del interned[len(ends) :]
                # A value that is refused here was in no tick that is committed.
                piece = value_arrays(run.interner, start, end, self.allow_pickle)
                interned.append(write(f"interned/{next_file}.values", *piece))
                ends.append(end)
                next_file += 1
            digests |= {name: before.digests[name] for name in interned if before and name not in digests}
            tick = run.tick
            files = SnapshotFiles(
                signature=signature(run.graph),
                circuit=_written_circuit(run),
                traces=traces,
                small=write(f"small/{tick}.runs", None, small),
                memory=write(f"memory/{tick}.json", *written_memories(run.scope, self.allow_pickle)),
                result=write(f"memory/{tick}.result", *written_result(result)),
                interned=interned,
                ends=ends,
                next_file=next_file,
                digests=digests,
            )
        except BaseException:
            written.remove()
            raise
        return WrittenSnapshot(files, written.new, written.runs, run.interner.generation)

    # --- reading ----------------------------------------------------------------------------------

    def restore(self, run: Run, loaded: LoadedSnapshot) -> TickResult | None:
        """Bring a run without ticks to a snapshot; return the result of its tick.

        Raises CheckpointError.
        """
        files, content = loaded.files, loaded.content
        if files.signature != signature(run.graph):
            raise CheckpointError(
                f"{self.folder} was written by a circuit with other operators; start the same stage of "
                "the query with the same version of dbsp, or choose another folder",
                code="checkpoint-other-program",
            )
        # Steps have interned their constants; they are made again for the values of the files.
        interner = Interner() if run.interner.end else run.interner
        for name, end in zip(files.interned, files.ends, strict=True):
            with reading_values(self.folder / name, self.folder):
                restore_arrays(interner, *content[name], self.allow_pickle)
            if interner.end != end:
                raise unreadable(self.folder / name, "it has another number of values than the manifest")
        if interner is not run.interner:
            run.adopt(with_interner(run.scope, interner))
        scope = run.scope
        head, arrays = content[files.memory]
        with reading_values(self.folder / files.memory, self.folder):
            steps, tables = read_memories(head, arrays, self.allow_pickle)
            recall(scope, steps, tables)  # first: the traces depend on it
        small = content[files.small][1]
        if len(files.traces) != len(scope.traces):
            raise unreadable(self.folder, "its snapshot has another number of traces than the circuit")
        for trace, places in zip(scope.traces, files.traces, strict=True):
            runs = []
            for place in places:
                with decoding(self.folder / (place if isinstance(place, str) else files.small)):
                    flat, weights = (
                        content[place][1] if isinstance(place, str) else small[2 * place : 2 * place + 2]
                    )
                    batch = read_batch(flat, weights, trace.width)
                runs.append((batch.rows, batch.weights))
            trace.restore(runs)
            for kept, place in zip(trace.runs, places, strict=True):
                if isinstance(place, str):
                    self._runs[id(kept)] = (kept, place)
        scope.state.first_tick = False
        run.tick = loaded.manifest.tick
        self._files = files
        with decoding(self.folder / files.result):
            return read_result(*content[files.result], run)


_NONE = ("small/0", "memory/0", "memory/0.result")
_NOTHING = SnapshotFiles("", None, [], *_NONE, [], [], 0, dict.fromkeys(_NONE, ""))


def _written_circuit(run: Run) -> str | None:
    try:
        return run.graph.to_json()
    except CircuitError:  # it has functions without a name; the same program builds it again
        return None
