"""Write the state of a run to files, of which the manifest of a snapshot has the names.

runs/7.run       a large sorted run of a trace, to be mapped; a snapshot writes only new ones
small/40.runs    the small sorted runs of all traces at that tick
interned/8.values  values of the interner; adjacent files are merged geometrically
memory/40.json   the state of steps outside of traces and the small tables, at that tick
tables/8.table   changed entries of a large table (see `dbsp.durable.table_pieces`)
memory/40.result the result of that tick
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.data.interner import Interner
from dbsp.durable.array_frames import frames, read_frames
from dbsp.durable.atomic_files import reports_full_disk, write_atomically
from dbsp.durable.background import rest
from dbsp.durable.captured_state import CapturedState, JournalPlace
from dbsp.durable.manifest import Manifest, SnapshotFiles
from dbsp.durable.result_frames import read_result
from dbsp.durable.run_files import adopt_run_file, is_run_file, mapped, open_run, write_run_file
from dbsp.durable.sealed_files import decoding, read_sealed, seal, unreadable
from dbsp.durable.step_memory import ADVICE, read_batch, read_memories, recall, signature, written_memories
from dbsp.durable.table_pieces import CapturedTable, Piece, appended, restored
from dbsp.durable.typed_values import (
    PickleRefusedError,
    UnsupportedValueError,
    pickle_refused,
    value_refused,
)
from dbsp.durable.value_arrays import merged_from, restore_arrays, value_arrays
from dbsp.errors import CheckpointError, CircuitError, expect_present
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run import Run
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.tick_result import TickResult
from dbsp.state.run_file import RunFile
from dbsp.state.sorted_run import SortedRun
from dbsp.state.state_table import StateTable

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
    runs: dict[str, RunFile | SortedRun]
    """The large runs: files to map, or runs of an earlier format that were read."""


def load_snapshot(folder: Path, manifest: Manifest, verify: bool = True) -> LoadedSnapshot | None:
    """Read and verify all files of a snapshot; None if the manifest has none.

    Without `verify`, only the headers of the run files are verified. Raises CheckpointError.
    """
    files = manifest.snapshot
    if files is None:
        return None
    content: dict[str, Frames] = {}
    runs: dict[str, RunFile | SortedRun] = {}
    for name, digest in files.digests.items():
        if is_run_file(name):
            runs[name] = open_run(folder, manifest.id, name, digest, verify)
        else:
            content[name] = read_frames(read_sealed(folder / name, f"{manifest.id}/{name}", digest))
    return LoadedSnapshot(manifest, files, content, runs)


@dataclass(frozen=True)
class WrittenSnapshot:
    """The files of a snapshot, the new ones among them, and the runs in files of their own."""

    files: SnapshotFiles
    new: list[Path]
    runs: list[tuple[SortedRun, RunFile]]
    tables: list[tuple[StateTable[Any, Any], list[Piece]]]
    """The tables and their pieces; a small table has none."""
    adopted: list[tuple[SortedRun, RunFile, Path]]
    """Runs whose files were renamed into this snapshot: the file before, and the new path."""
    generation: int = 0
    """The generation of the interner."""

    def remove(self) -> None:
        """Remove the new files, as when the manifest cannot be written."""
        for run, before, path in self.adopted:
            with contextlib.suppress(OSError):
                os.replace(path, before.path)
            run.file = before
        for path in self.new:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


@dataclass(frozen=True)
class DescribedCircuit:
    """A circuit, and what a manifest has of it: a hash, and the circuit as JSON if that exists."""

    graph: Graph
    signature: str
    json: str | None


class Snapshots:
    """Writes the snapshots of one run to a folder, each with the files of the one before it."""

    def __init__(self, folder: Path, sync: bool, allow_pickle: bool) -> None:
        self.folder = folder
        self.sync = sync
        self.allow_pickle = allow_pickle
        self._files: SnapshotFiles | None = None
        self._described: DescribedCircuit | None = None
        self.generation = 0
        """The generation of the interner whose values the files have."""

    def describe(self, graph: Graph) -> DescribedCircuit:
        """Return what a manifest has of a circuit; O(nodes) at the first call for a circuit."""
        if self._described is None or self._described.graph is not graph:
            self._described = DescribedCircuit(graph, signature(graph), written_circuit(graph))
        return self._described

    def adopt(self, written: WrittenSnapshot) -> None:
        """Build the next snapshot on this one, whose manifest is written."""
        for run, file in written.runs:
            run.saved = file
        for table, pieces in written.tables:
            table.captured(pieces)
        self._files = written.files
        self.generation = written.generation

    def differs(self, run: RunBase) -> bool:
        """Return whether a run at the tick of the latest snapshot was compacted since then."""
        files = self._files
        if files is not None and run.interner.generation != self.generation:
            return True
        written = [] if files is None else [len(names) for names in files.traces]
        return files is not None and written != [len(trace.runs) for trace in run.scope.traces]

    # --- writing ----------------------------------------------------------------------------------

    def capture(self, run: RunBase, result: TickResult | None, journal: JournalPlace) -> CapturedState:
        """Capture the state of a run between ticks; `write` writes it later."""
        return CapturedState.of(run, result, journal, () if self._files is None else self._files.digests)

    def write(self, state: CapturedState, id_: str) -> WrittenSnapshot:
        """Write a state, except for the parts that the latest snapshot has.

        Safe in another thread than that of the ticks. Raises CheckpointError; the new files are
        then removed.
        """
        before = self._files
        digests: dict[str, str] = {}
        written = WrittenSnapshot(_NOTHING, [], [], [], [])
        next_file = 0 if before is None else before.next_file

        def write(name: str, head: Any, arrays: Sequence[Codes]) -> str:
            rest()
            path = self.folder / name
            file = seal(f"{id_}/{name}", frames(head, arrays))
            written.new.append(path)
            with reports_full_disk(path):
                write_atomically(path, file.parts, self.sync)
            digests[name] = file.digest
            return name

        def write_piece(piece: Frames) -> str:
            nonlocal next_file
            next_file += 1
            return write(f"tables/{next_file - 1}.table", *piece)

        try:
            small: list[Codes] = []
            traces = []
            for runs in state.traces:
                rest()
                names: list[str | int] = []
                for kept in runs:
                    if kept.size < _LARGE:
                        names.append(len(small) // 2)
                        small += (kept.rows, kept.weights)
                        continue
                    file = self._saved(kept)
                    if file is None:
                        file = self._write_run(kept, id_, f"runs/{next_file}.run", written)
                        next_file += 1
                    name = f"runs/{file.path.name}"
                    digests[name] = file.digest
                    written.runs.append((kept, file))
                    names.append(name)
                traces.append(names)
            interned: list[str] = []
            ends: list[int] = []
            if before is not None:
                interned, ends = list(before.interned), list(before.ends)
            if state.interner.generation != self.generation:
                interned, ends = [], []  # these files have values that were freed
            end = state.journal.used
            start = merged_from(ends, end)
            del interned[len(ends) :]
            digests |= {name: self._digest(name) for name in interned}
            if end > start:
                # A value that is refused here was in no tick that is committed.
                lost = state.journal.lost
                piece = value_arrays(state.interner, start, end, self.allow_pickle, lost)
                interned.append(write(f"interned/{next_file}.values", *piece))
                ends.append(end)
                next_file += 1
            stem = str(state.tick)
            if before is not None and before.small.startswith((f"small/{stem}.", f"small/{stem}-")):
                stem, next_file = f"{stem}-{next_file}", next_file + 1  # the same tick, compacted
            small_tables = [{} if table.large else table.entries for table in state.tables]
            memories = written_memories(state.memories, small_tables, self.allow_pickle)
            tables: list[list[Piece]] = []
            for table in state.tables:
                pieces = self._appended(table, id_, write_piece) if table.large else []
                digests |= {name: self._digest(name) for name, _ in pieces if name not in digests}
                tables.append(pieces)
                written.tables.append((table.table, pieces))
            described = self.describe(state.graph)
            files = SnapshotFiles(
                signature=described.signature,
                circuit=described.json,
                traces=traces,
                small=write(f"small/{stem}.runs", None, small),
                memory=write(f"memory/{stem}.json", *memories),
                result=write(f"memory/{stem}.result", *state.result),
                interned=interned,
                ends=ends,
                next_file=next_file,
                digests=digests,
                tables=tables if any(tables) else [],
                plans=state.plans,
            )
        except BaseException:
            written.remove()
            raise
        return replace(written, files=files, generation=state.interner.generation)

    def _digest(self, name: str) -> str:
        """Return the checksum of a file of the latest snapshot."""
        return expect_present(self._files, "the files of the snapshot that has a piece").digests[name]

    def _appended(self, table: CapturedTable, id_: str, write: Callable[[Frames], str]) -> list[Piece]:
        """Write the changed entries of a large table; return its pieces."""

        def read(name: str) -> Frames:
            try:
                return read_frames(read_sealed(self.folder / name, f"{id_}/{name}", self._digest(name)))
            except CheckpointError:
                table.table.saved = None  # the next snapshot writes the whole table
                raise

        try:
            return appended(table, read, write, self.allow_pickle)
        except UnsupportedValueError as error:
            raise value_refused(error, "a table of the circuit", ADVICE) from None

    def _saved(self, run: SortedRun) -> RunFile | None:
        """Return the file of the previous snapshot that has this run."""
        file = run.saved
        if file is None or self._files is None:
            return None
        # The digest is of this folder and its content: the run may have been in another one.
        return file if self._files.digests.get(f"runs/{file.path.name}") == file.digest else None

    def _write_run(self, run: SortedRun, id_: str, name: str, written: WrittenSnapshot) -> RunFile:
        path, spilled = self.folder / name, run.file
        with reports_full_disk(path):
            own = spilled is not None and not spilled.digest and self.folder in spilled.path.parents
            # It is gone if a snapshot has failed that took it, and could not give it back.
            if spilled is None or not own or not spilled.path.exists():
                written.new.append(path)
                return write_run_file(path, f"{id_}/{name}", run, self.sync)
            # The memory budget has written it into this folder.
            written.adopted.append((run, spilled, path))
            run.file = adopt_run_file(spilled, path, f"{id_}/{name}", self.sync)
            return run.file

    # --- reading ----------------------------------------------------------------------------------

    def restore_values(self, interner: Interner, loaded: LoadedSnapshot) -> None:
        """Add the values of a snapshot to an empty interner. Raises CheckpointError."""
        files = loaded.files
        for name, end in zip(files.interned, files.ends, strict=True):
            with reading_values(self.folder / name, self.folder):
                restore_arrays(interner, *loaded.content[name], self.allow_pickle)
            if interner.end != end:
                raise unreadable(self.folder / name, "it has another number of values than the manifest")

    def restore(self, run: Run, loaded: LoadedSnapshot) -> TickResult | None:
        """Bring a run without ticks to a snapshot; return the result of its tick.

        The interner of the run has the values of the snapshot. Raises CheckpointError.
        """
        files, content = loaded.files, loaded.content
        known = self.describe(run.graph).signature
        if files.signature != known and files.signature != signature(run.graph, whole=True):
            raise CheckpointError(
                f"{self.folder} was written by a circuit with other operators; start the same stage of "
                "the query with the same version of dbsp, or choose another folder",
                code="checkpoint-other-program",
            )
        self.generation = run.interner.generation
        scope = run.scope
        head, arrays = content[files.memory]
        with reading_values(self.folder / files.memory, self.folder):
            steps, tables = read_memories(head, arrays, self.allow_pickle)
            if files.tables:
                tables = [
                    [*restored((content[name] for name, _ in pieces), self.allow_pickle).items()]
                    if pieces
                    else entries
                    for pieces, entries in zip(files.tables, tables, strict=True)
                ]
            recall(scope, steps, tables)  # first: the traces depend on it
            for table, pieces in zip(scope.tables, files.tables or [[]] * len(tables), strict=True):
                table.captured(pieces)
        small = content[files.small][1]
        if len(files.traces) != len(scope.traces):
            raise unreadable(self.folder, "its snapshot has another number of traces than the circuit")
        for trace, places in zip(scope.traces, files.traces, strict=True):
            runs = []
            for place in places:
                with decoding(self.folder / (place if isinstance(place, str) else files.small)):
                    if isinstance(place, str):
                        runs.append(_expect_width(mapped(loaded.runs[place]), trace.width))
                    else:
                        batch = read_batch(small[2 * place], small[2 * place + 1], trace.width)
                        runs.append(SortedRun(batch.rows, batch.weights))
            trace.restore(runs)
        scope.state.first_tick = False
        run.tick, run.stored_plans = loaded.manifest.tick, files.plans
        self._files = files
        with decoding(self.folder / files.result):
            return read_result(*content[files.result], run)


def _expect_width(run: SortedRun, width: int) -> SortedRun:
    if run.width != width:
        raise ValueError(f"expected a run of {width} columns, got {run.width}")
    return run


_NONE = ("small/0", "memory/0", "memory/0.result")
_NOTHING = SnapshotFiles("", None, [], *_NONE, [], [], 0, dict.fromkeys(_NONE, ""))


def written_circuit(graph: Graph) -> str | None:
    """Return a circuit as JSON, or None if it has no such form."""
    try:
        return graph.to_json()
    except CircuitError:  # it has functions without a name; the same program builds it again
        return None
