"""The recorded deltas of a run's outputs: read deltas since a tick, or the view as of a tick."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.data.arrow_types import without_zones
from dbsp.data.frames import decode_arrow_column, in_chunks
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema, suggestion
from dbsp.data.type_inference import as_type
from dbsp.data.zset import ZSet
from dbsp.durable.history_window import HistoryWindow, clock
from dbsp.durable.ledger import Ledger
from dbsp.durable.parquet_files import read_parquet
from dbsp.durable.sealed_files import decoding
from dbsp.errors import CheckpointError, InputError, SchemaError, expect_present

if TYPE_CHECKING:
    from dbsp.runtime.run import Run

_CHECK_EVERY = 8
"""After so many ticks, those that can be removed are counted; fewer are not worth the effort."""

_TICK_ROWS = 1_000
"""A tick that is not removed costs as much as so many rows of a view, since it has files."""

_KEEP_FROM = 100_000
"""The most rows of deltas that are summed to read a view; beyond that the view is stored."""


class DeltaLog:
    """A folder that holds the deltas of a run's outputs as Parquet files, one file set per tick.

    `append` is all or nothing, and a stored tick is not written twice, so a caller that does not
    know whether a tick is stored may append it again. The view as of tick t is the sum of the
    deltas up to t.

    >>> import tempfile, dbsp
    >>> circuit = dbsp.Circuit("double")
    >>> circuit.output("twice", circuit.input("x", v=int).map(v=dbsp.col("v") * 2))
    >>> run, log = circuit.start(), DeltaLog(tempfile.mkdtemp())
    >>> for change in ({(1,): 1}, {(2,): 1}, {(1,): -1}):
    ...     result = run.step({"x": change})
    ...     _ = log.append(run.tick, result)
    >>> list(log.deltas("twice", after=1))
    [(2, ZSet({(4,): 1}, v: int)), (3, ZSet({(2,): -1}, v: int))]
    >>> log.view("twice", as_of=2).rows()
    [(2,), (4,)]
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        types: Mapping[str, pa.Schema] | None = None,
        weight_column: str = "weight",
        sync: bool = True,
        retain: int | str | None = None,
    ) -> None:
        """Open the log in a folder; the first tick creates the folder.

        With `retain`, a number of ticks or a duration such as "7 days", `append` removes ticks that
        are older now and then. It keeps at least those, and at most a few more than one and a half
        times as many. A reader of a removed tick gets a CheckpointError that names the first tick
        that remains. Every process that appends should give it.

        `types` has by output the Arrow types of columns that differ from the default types; Arrow
        infers the type of a column of objects that is not named there. Without `sync` a tick
        survives the end of the process, but perhaps not a power loss. Raises ArgumentError for
        another `retain`.
        """
        self._retain = None if retain is None else HistoryWindow.of(retain, "retain", 1)
        self.ledger = Ledger(folder, sync=sync)
        self.folder = self.ledger.folder
        self._types = dict(types or {})
        self._weight = weight_column

    def __repr__(self) -> str:
        return f"DeltaLog('{self.folder}')"

    # --- reading ----------------------------------------------------------------------------------

    @property
    def outputs(self) -> dict[str, Schema]:
        """The recorded outputs and their columns; empty before the first tick."""
        header = self.ledger.header()
        if header is None:
            return {}
        with decoding(self.folder / "log.json"):
            return {name: _schema(output["columns"]) for name, output in header["outputs"].items()}

    def ticks(self) -> list[int]:
        """Return the recorded ticks that remain, ascending, ticks without changes included."""
        return self.ledger.ticks()

    @property
    def last(self) -> int:
        """The latest recorded tick; 0 if there is none."""
        return max(self.ledger.ticks(), default=0)

    def label(self, tick: int) -> Any:
        """Return the label of a recorded tick. Raises CheckpointError if it is not recorded."""
        return self.ledger.entry(tick).label

    def deltas(self, output: str, after: int = 0, until: int | None = None) -> Iterator[tuple[int, ZSet]]:
        """Yield (tick, delta) of an output for every recorded tick t with after < t <= until.

        Raises InputError for an unknown output, CheckpointError for damaged files, and if one of
        these ticks was removed (see `retain`); the error names the first tick that remains.
        """
        schema, interner = self._schema_of(output), Interner()
        ticks = (t for t in self.ledger.ticks_after(after) if until is None or t <= until)
        return ((tick, self._read("ticks", tick, output, schema, interner)) for tick in ticks)

    def view(self, output: str, as_of: int | None = None) -> ZSet:
        """Return the rows of an output after a tick, by default the latest.

        Between two recorded ticks this is the view of the earlier one; before the first it is
        empty. O(n log n) for the n rows of the view and of the deltas since the latest stored view.
        Raises as `deltas`; the view after the last removed tick can be read.
        """
        schema, interner = self._schema_of(output), Interner()
        if as_of is not None:
            self.ledger.expect_kept(as_of + 1)
        bases = [t for t in self.ledger.ticks("views") if as_of is None or t <= as_of]
        parts = [self._read("views", bases[-1], output, schema, interner)] if bases else []
        after = bases[-1] if bases else 0
        parts += [
            self._read("ticks", tick, output, schema, interner)
            for tick in self.ledger.ticks()
            if tick > after and (as_of is None or tick <= as_of)
        ]
        # Summed as a balanced tree, so that each row is merged O(log n) times.
        while len(parts) > 1:
            parts = [sum(parts[i : i + 2], ZSet.empty(schema, interner)) for i in range(0, len(parts), 2)]
        return parts[0] if parts else ZSet.empty(schema, interner)

    def _schema_of(self, output: str) -> Schema:
        known = self.outputs
        if output not in known:
            outputs = f"the outputs are {', '.join(known)}" if known else "no tick is recorded yet"
            raise InputError(
                f"{self.folder}: unknown output '{output}'{suggestion(output, known) or f'; {outputs}'}",
                code="unknown-output",
            )
        return known[output]

    def _read(self, part: str, tick: int, output: str, schema: Schema, interner: Interner) -> ZSet:
        entry = self.ledger.entry(tick, part)
        path = entry.files.get(output)
        if path is None:
            return ZSet.empty(schema, interner)
        table = read_parquet(path, entry.read(output), entry.rows[output])
        with decoding(path):
            if table.column_names[:-1] != list(schema.names):
                raise ValueError(f"expected the columns {', '.join(schema.names)}")
        if not schema.arity:  # an Arrow table without columns has no rows
            weights = table.column(0).to_pylist()
            return ZSet.from_rows([()] * len(weights), weights, schema, interner)
        table = without_zones(table, schema)
        return ZSet.from_arrow(table, table.column_names[-1], schema, interner)

    # --- writing ----------------------------------------------------------------------------------

    def append(self, tick: int, deltas: Mapping[str, ZSet], label: Any = None) -> bool:
        """Record the deltas of a tick; return whether the tick is new.

        `deltas` maps every recorded output to its delta; the first tick determines the outputs.
        `label` is a JSON value. The tick is durable when this returns; a process that ends before
        that has recorded nothing. Ticks count from 1 without a gap.

        Raises CheckpointError if a tick before this one is missing (`catch_up` records it), or if
        the recorded tick differs from this one in its label or its numbers of rows; SchemaError if
        an output has other columns than before, or values that Arrow does not support.
        """
        with self.ledger.writing():
            self._prepare(deltas)
            if tick < self.ledger.first():
                return False
            if self.ledger.has(tick):
                self._same(tick, deltas, label)
                return False
            if tick != 1 and not self.ledger.has(tick - 1):
                raise CheckpointError(
                    f"{self.folder} ends with tick {self.last}, so tick {tick} would leave a gap; "
                    "record the missing ticks with log.catch_up(run)",
                    code="missing-tick",
                )
            self._publish(tick, deltas, label)
        return True

    def catch_up(self, run: Run) -> bool:
        """Bring the log to the latest tick of a run; record all missing ticks as one change.

        Use this for the facts of a program, which are its first tick, and for a run that continues
        from its checkpoint after the process ended between a tick and its record. Return whether a
        tick was missing. Raises CheckpointError if the log is ahead of the run, and as `append`.
        """
        last = self.last
        label = None if run.log is None else run.log.label
        result = None if run.log is None else run.log.result
        if last > run.tick:
            raise CheckpointError(
                f"{self.folder} has ticks up to {last}, but the run is at tick {run.tick}: "
                "it is the log of another run; choose another folder",
                code="checkpoint-other-program",
            )
        if last == run.tick:
            return False
        if result is not None and last == run.tick - 1:
            return self.append(run.tick, self._recorded(result), label)
        views = self._recorded({name: run.view(name) for name in run.outputs})
        deltas = {name: view - self.view(name) for name, view in views.items()} if last else views
        with self.ledger.writing():
            self._prepare(deltas)
            self._publish(run.tick, deltas, label)
        return True

    def _recorded(self, deltas: Mapping[str, ZSet]) -> Mapping[str, ZSet]:
        known = self.outputs
        return {name: delta for name, delta in deltas.items() if name in known} if known else deltas

    def _prepare(self, deltas: Mapping[str, ZSet]) -> None:
        """Check that the deltas are of the log's outputs; the first tick determines the outputs."""
        known = self.outputs
        if not self.ledger.ticks():
            for name, delta in deltas.items():
                if self._weight in delta.schema.names:
                    raise SchemaError(
                        f"output '{name}' has a column '{self._weight}'; choose another weight_column",
                        code="duplicate-column",
                    )
            outputs = {name: self._output_header(name, delta.schema) for name, delta in deltas.items()}
            self.ledger.write_header({"weight": self._weight, "outputs": outputs})
            return
        missing = [name for name in known if name not in deltas]
        unknown = [name for name in deltas if name not in known]
        if missing or unknown:
            problem = f"missing: '{missing[0]}'" if missing else f"unknown: '{unknown[0]}'"
            raise SchemaError(
                f"{self.folder}: expected the deltas of {', '.join(known)}; {problem}",
                code="schema-mismatch",
            )
        for name, delta in deltas.items():
            if known[name] != delta.schema:
                raise SchemaError(
                    f"output '{name}' was recorded with the columns ({known[name].describe()}), got "
                    f"({delta.schema.describe()})",
                    code="schema-mismatch",
                )

    def _output_header(self, output: str, schema: Schema) -> dict[str, Any]:
        columns = [[name, type_.written] for name, type_ in zip(schema.names, schema.types, strict=True)]
        fields = []
        given = self._types.get(output)
        for name, type_ in zip(schema.names, schema.types, strict=True):
            arrow = _arrow_type(given, name)
            if arrow is None and type_.kind != "object":
                arrow = decode_arrow_column(np.empty(0, np.int64), type_, Interner(), name).type
            fields.append(pa.field(name, pa.null() if arrow is None else arrow))
        return {"columns": columns, "arrow": pa.schema(fields).serialize().to_pybytes().hex()}

    def _same(self, tick: int, deltas: Mapping[str, ZSet], label: Any) -> None:
        entry = self.ledger.entry(tick)
        rows = {name: len(delta) for name, delta in deltas.items() if delta}
        if entry.label != label or entry.rows != rows:
            raise CheckpointError(
                f"{self.folder} has tick {tick} with label {entry.label!r} and rows {dict(entry.rows)}, got "
                f"label {label!r} and rows {rows}: it is the log of another run; choose another folder",
                code="checkpoint-other-program",
            )

    def _publish(self, tick: int, deltas: Mapping[str, ZSet], label: Any) -> None:
        changed = {name: delta for name, delta in deltas.items() if delta}
        rows = {name: len(delta) for name, delta in changed.items()}
        last = tick - 1 if self.ledger.has(tick - 1) else self.last
        kept = self.ledger.ticks("views")
        before = 0 if not last or last in kept[-1:] else self.ledger.entry(last).pending
        pending = before + sum(rows.values())
        self.ledger.publish(tick, label, rows, pending, self._writer(changed))
        base = sum(self.ledger.entry(kept[-1], "views").rows.values()) if kept else 0
        if pending >= max(_KEEP_FROM, 2 * base):  # stored views then cost a constant factor
            self._publish_view(tick, label)
        self._shorten(tick)

    def _publish_view(self, tick: int, label: Any = None) -> None:
        """Store the views after a tick."""
        views = {name: view for name in self.outputs if (view := self.view(name, tick))}
        rows = {name: len(view) for name, view in views.items()}
        self.ledger.publish(tick, label, rows, 0, self._writer(views), "views")

    def _writer(self, zsets: Mapping[str, ZSet]) -> Callable[[str, Path], None]:
        """Return a function that writes one of the Z-sets to a file."""
        header = expect_present(self.ledger.header(), "the header of a ledger that is published to")
        types = {
            n: pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(t["arrow"])))
            for n, t in header["outputs"].items()
        }

        def write(name: str, path: Path) -> None:
            pq.write_table(_table(name, zsets[name], types[name], header["weight"]), path)

        return write

    def _shorten(self, tick: int) -> None:
        """Remove old ticks, if there are many compared with those to retain and with the view."""
        if self._retain is None or tick % _CHECK_EVERY:
            return
        ticks = self.ledger.ticks()
        kept = self._retained(ticks, self._retain)
        old = ticks[: len(ticks) - kept]
        if len(old) < max(_CHECK_EVERY, kept // 2):
            return
        end = old[-1]
        views = self.ledger.ticks("views")
        if end not in views:
            base = max((view for view in views if view <= end), default=0)
            size = sum(self.ledger.entry(base, "views").rows.values()) if base else 0
            if _TICK_ROWS * len(old) < size:
                return  # to write the view would take longer than the ticks are worth
            self._publish_view(end)
        self.ledger.remove_before(end + 1)

    def _retained(self, ticks: list[int], window: HistoryWindow) -> int:
        """Return how many of the latest ticks are to be retained."""
        if not window.seconds:
            return min(len(ticks), window.ticks)
        begin = clock() - window.seconds
        at = bisect_left(ticks, begin, key=lambda tick: self.ledger.entry(tick).time or 0.0)
        return max(1, len(ticks) - at)


def _schema(columns: list[list[str]]) -> Schema:
    return Schema(tuple(name for name, _ in columns), tuple(as_type(text) for _, text in columns))


def _arrow_type(given: pa.Schema | None, name: str) -> pa.DataType | None:
    at = -1 if given is None else given.get_field_index(name)
    return None if given is None or at < 0 else given.field(at).type


def _table(output: str, delta: ZSet, types: pa.Schema, weight: str) -> pa.Table:
    """Return the rows of a delta with the Arrow types of the log, and a last column of weights."""
    return in_chunks(len(delta), lambda part: _part(output, delta, part, types, weight))


def _part(output: str, delta: ZSet, part: slice, types: pa.Schema, weight: str) -> pa.Table:
    rows, weights = delta.batch.rows[part], delta.batch.weights[part]
    columns = []
    for j, (name, type_) in enumerate(zip(delta.schema.names, delta.schema.types, strict=True)):
        codes, arrow = rows[:, j], types.field(j).type
        given = None if pa.types.is_null(arrow) else arrow
        try:
            column = decode_arrow_column(codes, type_, delta.interner, name, given)
            column = column if given is None else column.cast(given)
        except SchemaError as error:
            raise SchemaError(error.message, where=f"output '{output}'", code=error.code) from None
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            where = f"output '{output}', column '{name}'"
            raise SchemaError(str(error), where=where, code="unsupported-value") from None
        columns.append(column)
    return pa.table([*columns, pa.array(weights)], [*delta.schema.names, weight])
