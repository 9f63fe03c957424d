"""A folder of changes that other processes write and a run takes, each batch exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from dbsp.data.frames import integer_weights
from dbsp.durable.deliveries import Deliveries, Delivery, deliveries
from dbsp.durable.inbox_record import TakenDelivery, identify, take, taken, taken_tick
from dbsp.durable.parquet_files import read_parquet
from dbsp.errors import CheckpointError, DbspError, SchemaError
from dbsp.runtime.input_changes import TableChange

if TYPE_CHECKING:
    from dbsp.runtime.run import Run
    from dbsp.runtime.tick_result import TickResult


class Inbox:
    """A folder to which other processes write batches of changes, and from which a run takes them.

    A Spark stream (`df.writeStream.format("dbsp")`) or `put` writes the batches. A batch is one
    tick. With a checkpoint, a batch is applied exactly once, at whatever point any of the processes
    ends, and its files are removed when its tick is durable.

    >>> import tempfile, dbsp
    >>> circuit = dbsp.Circuit("double")
    >>> circuit.output("twice", circuit.input("x", v=int).map(v=dbsp.col("v") * 2))
    >>> run, inbox = circuit.start(), Inbox(tempfile.mkdtemp())
    >>> inbox.put("x", pa.table({"v": [1, 2]}), batch=0), inbox.put("x", pa.table({"v": [1, 2]}), batch=0)
    (True, False)
    >>> inbox.drain(run, lambda result: print(result["twice"].to_dict()))
    {(2,): 1, (4,): 1}
    1
    """

    def __init__(self, folder: str | Path, *, sync: bool = True) -> None:
        """Open the inbox in a folder; create it if it does not exist."""
        self.folder = Path(folder)
        self.sync = sync
        self.id = identify(self.folder, sync)
        self._seen: WeakKeyDictionary[Run, dict[str, TakenDelivery]] = WeakKeyDictionary()
        """The batches that runs without a checkpoint have taken."""

    def __repr__(self) -> str:
        return f"Inbox('{self.folder}')"

    def put(
        self, input: str, table: pa.Table, batch: int, *, writer: str | None = None, weight_column: str = ""
    ) -> bool:
        """Publish a batch of changes of an input; return whether the batch is new.

        `batch` counts up; after a crash the writer publishes its latest batch again. The default
        name of the writer is that of the input. Raises as `Deliveries.publish`.
        """
        side = Deliveries(self.folder, writer or input, input, weight_column=weight_column, sync=self.sync)
        return side.publish([side.stage(table.to_batches())], batch)

    def waiting(self, run: Run) -> list[Delivery]:
        """Return the published batches that a run has not taken, in the order of publication."""
        before = self._positions(run)
        return [
            delivery
            for delivery in deliveries(self.folder)
            if (last := before.get(delivery.writer)) is None or delivery.batch > last.batch
        ]

    def drain(self, run: Run, then: Callable[[TickResult], object] | None = None) -> int:
        """Take every waiting batch, each as one tick; return the number of ticks.

        `then` is called with the result of each tick, before the next one. Empty batches are taken
        without a tick. Raises as `Run.step` if a batch does not fit; this batch and the later ones
        then stay in the inbox. Raises CheckpointError if another run has taken batches that this
        run has not.
        """
        positions = self._positions(run)
        ticks = 0
        try:
            for delivery in self.waiting(run):
                now = positions | {delivery.writer: TakenDelivery(delivery.batch, delivery.rows)}
                result = None
                if delivery.rows:
                    label = {"inbox": self.id, "batches": {n: [t.batch, t.rows] for n, t in now.items()}}
                    change = _change(delivery, run)
                    try:
                        result = run.step({delivery.input: change}, label=label)
                    except DbspError as error:
                        error.where = ", ".join(filter(None, (_place(delivery), error.where)))
                        raise
                    ticks += 1
                positions = now
                if run.log is None:
                    self._seen[run] = positions
                if result is not None and then is not None:
                    then(result)
        finally:
            self._settle(run, positions)
        return ticks

    def _positions(self, run: Run) -> dict[str, TakenDelivery]:
        """Return by writer the latest batch that the run has taken."""
        if run.log is None:
            return self._seen.get(run, {})
        if taken_tick(self.folder) > run.tick:
            raise CheckpointError(
                f"another run took batches of {self.folder} up to its tick {taken_tick(self.folder)}; this "
                f"run is at tick {run.tick}; use the checkpoint of the other run, or another inbox",
                code="checkpoint-other-program",
            )
        positions = taken(self.folder)
        label: Any = run.log.label
        # The process may have ended after the tick and before it recorded the batches in the inbox.
        if isinstance(label, dict) and label.get("inbox") == self.id:
            for name, latest in label["batches"].items():
                here = positions.get(name)
                if here is None or here.batch < latest[0]:
                    positions[name] = TakenDelivery(*latest)
        return positions

    def _settle(self, run: Run, positions: dict[str, TakenDelivery]) -> None:
        """Record and remove durable batches; without a checkpoint a later run needs all batches."""
        if run.log is None or not positions:
            return
        if positions != taken(self.folder):
            take(self.folder, positions, run.tick, self.sync)
        for delivery in deliveries(self.folder):
            last = positions.get(delivery.writer)
            if last is not None and delivery.batch <= last.batch:
                delivery.manifest.unlink(missing_ok=True)
                for file in delivery.files:
                    file.path.unlink(missing_ok=True)


def _place(delivery: Delivery) -> str:
    return f"batch {delivery.batch} of writer '{delivery.writer}'"


def _change(delivery: Delivery, run: Run) -> TableChange:
    """Return the rows of a batch in order: the last change of a row or key wins."""
    where = f"{_place(delivery)}, relation '{delivery.input}'"
    parts = []
    for file in delivery.files:
        try:
            parts.append(read_parquet(file.path, file.fingerprint.read(file.path), file.rows))
        except CheckpointError as error:
            error.where = where
            raise
    try:
        table = pa.concat_tables(parts)
    except pa.ArrowInvalid as error:
        raise SchemaError(str(error), where=where, code="schema-mismatch") from None
    run.input(delivery.input)  # raises for an unknown one
    schema, weight = run.inputs[delivery.input], delivery.weight_column
    expected = [*schema.names, *([weight] if weight else [])]
    if sorted(table.column_names) != sorted(expected):
        raise SchemaError(
            f"expected the columns {', '.join(expected)}, got {', '.join(table.column_names)}",
            where=where,
            code="schema-mismatch",
        )
    weights = np.ones(table.num_rows, np.int64)
    if weight:
        try:
            weights = integer_weights(table, weight)
        except DbspError as error:
            error.where = where
            raise
    return TableChange(table.select(list(schema.names)), weights)
