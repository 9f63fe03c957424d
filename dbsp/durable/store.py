"""A checkpoint folder: a run continues from it after the process ended at any point.

    manifest.json      the latest snapshot, written last and atomically
    runs/7.arrow       a large sorted run of a trace; a snapshot writes only new ones
    small/40.arrow     the small sorted runs of all traces at that tick
    interned/0.arrow   values of the interner, starting with that id
    memory/40.pickle   the state of steps and tables outside of traces, at that tick
    journal/41.arrow   the changes of the inputs in a tick after the snapshot
    lock, owner        the lock of the run that writes here, and its process id

A tick is written to the journal before it becomes final in memory, so it is durable when `step`
returns. Opening a checkpoint reads the snapshot and repeats the ticks of the journal. A tick costs
the size of its changes. A snapshot costs the size of the sorted runs merged since the previous
snapshot; there is a snapshot every `snapshot_every` ticks.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from filelock import FileLock

from dbsp.data.batch import Batch
from dbsp.durable.arrow_files import (
    arrow_bytes,
    codes_of,
    read_arrow,
    read_run,
    read_small,
    run_bytes,
    small_bytes,
)
from dbsp.durable.atomic_files import read_header, write_atomically
from dbsp.durable.interner_file import restore_values, values_table
from dbsp.durable.lock import own_folder
from dbsp.durable.step_memory import memories_of, recall, signature
from dbsp.errors import ArgumentError, CheckpointError, CircuitError, counted, expect_present, shorten
from dbsp.runtime.run import Run
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.tick_result import TickResult
from dbsp.state.sorted_run import SortedRun

if TYPE_CHECKING:
    from dbsp.circuit.graph import Graph

FORMAT = "dbsp checkpoint"
VERSION = 1
_PARTS = ("runs", "small", "interned", "memory", "journal")
_LARGE = 4096
"""Sorted runs of at least this many rows have their own files; snapshots rewrite the others."""


class Store:
    """The checkpoint of one run, with a lock against a second run."""

    def __init__(self, folder: str | Path, *, snapshot_every: int = 100, sync: bool = True) -> None:
        """Open and lock a folder; create it if it does not exist.

        `snapshot_every` is in ticks. Without `sync` a checkpoint survives the end of the process,
        but perhaps not a power loss. Raises CheckpointError when another process uses the folder,
        or the folder is not a checkpoint, ArgumentError when `snapshot_every` is less than 1.
        """
        if snapshot_every < 1:
            raise ArgumentError(f"snapshot_every must be at least 1, got {snapshot_every}")
        self.folder = Path(folder)
        self.snapshot_every = snapshot_every
        self.sync = sync
        self.label: Any = None
        """The label of the latest durable tick."""
        self.result: TickResult | None = None
        """The result of the latest durable tick; None if there are no ticks after the snapshot."""
        self._run: Run | None = None
        self._query = ""
        self._lock: FileLock | None = _locked(self.folder)
        self._manifest = read_header(self.folder / "manifest.json", FORMAT, VERSION)
        self._files: dict[int, tuple[SortedRun, str]] = {}
        self._pieces: list[dict[str, Any]] = []
        """The files of interned values, with the end of their ids."""
        self._written = 0
        """The number of values of the interner that are in the snapshot or the journal."""
        self._recorded_values = 0
        """The same, with the tick that is being recorded."""
        self._next_file = 0
        self._snapshot_tick = 0

    @property
    def circuit(self) -> str | None:
        """The circuit of the snapshot as JSON; None without a snapshot or a JSON form."""
        return None if self._manifest is None else self._manifest["circuit"]

    # --- continuing a run -------------------------------------------------------------------------

    def check(self, query: str) -> None:
        """Raise CheckpointError unless the checkpoint is of this query, given by its identity."""
        if self._manifest is not None and self._manifest["query"] != query:
            self.close()
            raise CheckpointError(
                f"{self.folder} is the checkpoint of another query ('{self._manifest['name']}'); "
                "start the same query, or choose another folder",
                code="checkpoint-other-program",
            )

    def resume(self, query: Graph | str, start: Callable[[str | None], Run]) -> Run:
        """Return a run at the latest durable tick and log it (see `runtime.checkpoints`)."""
        identity = query if isinstance(query, str) else signature(query)
        self.check(identity)
        try:
            run = start(self.circuit)
        except CircuitError as error:
            self.close()
            if self.circuit is None:
                raise
            raise CheckpointError(
                f"cannot read the circuit of {self.folder}: {error.message}. Continue with"
                " the version of dbsp that wrote it, or start in an empty folder",
                code="checkpoint-version",
            ) from None
        except BaseException:
            self.close()
            raise
        self.attach(run, identity)
        return run

    def attach(self, run: Run, query: str) -> None:
        """Bring a run without ticks to the latest durable tick, and log its next ticks.

        Raises CheckpointError when the checkpoint is of another query or circuit, or damaged; the
        folder is then released.
        """
        if run.tick:
            raise CheckpointError(
                f"only a run without ticks can continue from a checkpoint, got a run at tick {run.tick}; "
                "attach the checkpoint before the first step",
                code="run-already-stepped",
            )
        self.check(query)
        self._query = query
        try:
            self._recover(run)
        except BaseException:
            self.close()
            raise
        self._run = run
        run.log = self

    def _recover(self, run: Run) -> None:
        if self._manifest is not None:
            self._restore(run, self._manifest)
        for tick, path in self._journal():
            if tick <= run.tick:
                continue  # in the snapshot; the process ended before it removed the file
            if tick != run.tick + 1:
                raise CheckpointError(
                    f"tick {run.tick + 1} is missing from the journal, which continues with {path}; "
                    "restore the folder from a copy, or start in an empty folder",
                    code="checkpoint-unreadable",
                )
            self._replay(run, path)
        self._written = len(run.interner)

    def _restore(self, run: Run, manifest: Mapping[str, Any]) -> None:
        if manifest["signature"] != signature(run.graph):
            raise CheckpointError(
                f"{self.folder} was written by a circuit with other operators; start the same stage of "
                "the query with the same version of dbsp, or choose another folder",
                code="checkpoint-other-program",
            )
        for piece in manifest["interned"]:
            restore_values(run.interner, read_arrow(self.folder / piece["file"]))
            if len(run.interner) != piece["end"]:
                raise CheckpointError(
                    f"{self.folder / piece['file']} does not match the manifest; "
                    "restore the folder from a copy, or start in an empty folder",
                    code="checkpoint-unreadable",
                )
        scope = run.scope
        with open(self.folder / manifest["memory"], "rb") as source:
            recall(scope, pickle.load(source))  # first: the traces depend on it
        small = read_small(self.folder / manifest["small"])
        for trace, files in zip(scope.traces, manifest["traces"], strict=True):
            runs = [small[file] if isinstance(file, int) else read_run(self.folder / file) for file in files]
            trace.restore([(rows.reshape(len(weights), trace.width), weights) for rows, weights in runs])
            for kept, file in zip(trace.runs, files, strict=True):
                if isinstance(file, str):
                    self._files[id(kept)] = (kept, file)
        scope.state.first_tick = False
        run.tick = self._snapshot_tick = manifest["tick"]
        self._pieces = list(manifest["interned"])
        self._next_file = manifest["next_file"]
        self.label = manifest["label"]

    def _replay(self, run: Run, path: Path) -> None:
        table = read_arrow(path)
        metadata = json.loads(table.schema.metadata[b"dbsp"])
        restore_values(run.interner, pa.ipc.open_file(table.column("rows")[0].as_buffer()).read_all())
        if len(run.interner) != metadata["interned"]:
            raise CheckpointError(
                f"{path} does not follow the ticks before it; restore the folder from a copy, or "
                "start in an empty folder",
                code="checkpoint-unreadable",
            )
        staged = {}
        names, rows, weights = (table.column(name) for name in ("input", "rows", "weights"))
        for at in range(1, table.num_rows):
            name = names[at].as_py()
            counts, codes = codes_of(weights[at]), codes_of(rows[at])
            if name not in run.inputs or len(codes) != len(counts) * run.inputs[name].arity:
                width = counted(len(codes) // len(counts), "column")
                raise CheckpointError(
                    f"{path} has changes of an input '{name}' with {width}, which this circuit does not "
                    "have; start the circuit that wrote the checkpoint, or choose another folder",
                    code="checkpoint-other-program",
                )
            staged[name] = Batch(codes.reshape(len(counts), run.inputs[name].arity), counts)
        self.result = run.step_staged(staged)
        self.label = metadata["label"]

    def _journal(self) -> Iterator[tuple[int, Path]]:
        files = [path for path in (self.folder / "journal").glob("*.arrow") if path.stem.isdigit()]
        return iter(sorted((int(path.stem), path) for path in files))

    # --- writing ----------------------------------------------------------------------------------

    def begin(self, run: RunBase) -> None:
        """Write a snapshot before a tick if it is time; the ticks before it are committed."""
        if run.tick - self._snapshot_tick >= self.snapshot_every:
            self.snapshot()

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        """Write the changes of the inputs in a tick; they are durable when this returns."""
        new = values_table(run.interner, self._written, len(run.interner))
        entries = [("", arrow_bytes(new).to_pybytes(), b"")]
        for name, batch in staged.items():
            entries.append((name, np.ascontiguousarray(batch.rows).tobytes(), batch.weights.tobytes()))
        names, rows, weights = zip(*entries, strict=True)
        try:
            metadata = json.dumps({"label": label, "interned": len(run.interner)})
        except TypeError as error:
            raise ArgumentError(f"label: expected a JSON value, got {shorten(label)}: {error}") from None
        binary = pa.large_binary()
        table = pa.table(
            {
                "input": pa.array(names, pa.string()),
                "rows": pa.array(rows, binary),
                "weights": pa.array(weights, binary),
            }
        ).replace_schema_metadata({"dbsp": metadata})
        path = self.folder / "journal" / f"{tick}.arrow"
        self._recorded_values = len(run.interner)
        try:
            write_atomically(path, arrow_bytes(table), self.sync)
        except OSError as error:
            path.unlink(missing_ok=True)  # the tick is rolled back, so it must not be read later
            raise CheckpointError(
                f"cannot write tick {tick} to {path}: {error.strerror}; the tick was rolled back",
                code="checkpoint-write",
            ) from None

    def recorded(self, tick: int) -> bool:
        """Return whether the file of a tick is in the journal: an interrupt may follow its rename."""
        return (self.folder / "journal" / f"{tick}.arrow").exists()

    def committed(self, result: TickResult, label: Any) -> None:
        """Note the commit of the recorded tick."""
        self._written = self._recorded_values
        self.result = result
        self.label = label

    def snapshot(self) -> None:
        """Write the state after the latest tick, except for the parts that are already written."""
        run = self._run
        if run is None:
            raise CheckpointError(
                "this checkpoint has no run; attach a run before the snapshot, and take no snapshot after "
                "closing",
                code="run-closed",
            )
        if run.tick == self._snapshot_tick:
            return
        files: dict[int, tuple[SortedRun, str]] = {}
        small: list[SortedRun] = []
        traces = []
        for trace in run.scope.traces:
            names: list[str | int] = []
            for kept in trace.runs:
                if kept.size < _LARGE:
                    names.append(len(small))
                    small.append(kept)
                    continue
                known = self._files.get(id(kept))
                if known is None:
                    name = f"runs/{self._next_file}.arrow"
                    self._next_file += 1
                    write_atomically(self.folder / name, run_bytes(kept.rows, kept.weights), self.sync)
                    known = (kept, name)
                files[id(kept)] = known
                names.append(known[1])
            traces.append(names)
        start, end = (self._pieces[-1]["end"] if self._pieces else 0), len(run.interner)
        pieces = list(self._pieces)
        if end > start:
            name = f"interned/{start}.arrow"
            values = values_table(run.interner, start, end)
            write_atomically(self.folder / name, arrow_bytes(values), self.sync)
            pieces.append({"file": name, "end": end})
        small_file = f"small/{run.tick}.arrow"
        write_atomically(
            self.folder / small_file, small_bytes([(r.rows, r.weights) for r in small]), self.sync
        )
        memory = f"memory/{run.tick}.pickle"
        write_atomically(self.folder / memory, pickle.dumps(memories_of(run.scope), protocol=5), self.sync)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "name": run.graph.name,
            "query": self._query,
            "signature": signature(run.graph),
            "circuit": _written_circuit(run),
            "tick": run.tick,
            "label": self.label,
            "traces": traces,
            "small": small_file,
            "interned": pieces,
            "memory": memory,
            "next_file": self._next_file,
        }
        write_atomically(self.folder / "manifest.json", json.dumps(manifest, indent=1).encode(), self.sync)
        self._manifest, self._files, self._pieces, self._snapshot_tick = manifest, files, pieces, run.tick
        self._collect(manifest)

    def _collect(self, manifest: Mapping[str, Any]) -> None:
        """Remove the files that the manifest does not name: earlier state and leftovers."""
        manifest = expect_present(self._manifest, "the manifest of the snapshot just written")
        kept = {file for files in manifest["traces"] for file in files if isinstance(file, str)}
        kept.update(piece["file"] for piece in manifest["interned"])
        kept.update((manifest["small"], manifest["memory"]))
        for part in _PARTS:
            for path in (self.folder / part).iterdir():
                settled = part != "journal" or (path.stem.isdigit() and int(path.stem) <= manifest["tick"])
                if (settled and f"{part}/{path.name}" not in kept) or path.name.startswith("."):
                    path.unlink()

    def close(self) -> None:
        """Release the folder; the run continues without being logged."""
        if self._run is not None:
            self._run.log = None
            self._run = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _written_circuit(run: Run) -> str | None:
    try:
        return run.graph.to_json()
    except CircuitError:  # it has functions without a name; the same program builds it again
        return None


def _locked(folder: Path) -> FileLock:
    try:
        for part in _PARTS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        return own_folder(folder)
    except OSError as error:
        raise CheckpointError(
            f"cannot use the folder {folder}: {error.strerror}", code="checkpoint-write"
        ) from None
