"""Repeat the ticks of the journal of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema
from dbsp.durable.code_ranges import check_codes
from dbsp.durable.journal_values import JournalValues
from dbsp.durable.sealed_files import decoding
from dbsp.durable.step_memory import read_batch
from dbsp.durable.tick_journal import TickChanges
from dbsp.errors import CheckpointError, counted
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.runtime.ports import InputPort
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult


class Replay:
    """Applies successive ticks of a journal to a run at the tick before them."""

    def __init__(self, run: Run, values: JournalValues) -> None:
        """`values` are those of the journal; it adds to the values of the run."""
        self.run = run
        """The run that repeats the ticks."""
        self._values = values

    def apply(self, changes: TickChanges) -> TickResult:
        """Apply the next tick, and return its result. Raises CheckpointError."""
        path = changes.path
        if not changes.parts:
            return self.run.step_staged(self._staged(path, changes.head, changes.arrays))
        with self.run.transaction() as transaction:
            for part in changes.parts:
                transaction.step_staged(self._staged(path, *part.read()))
            self._staged(path, changes.head, ())  # the values of the tick
        return transaction.result

    def _staged(self, path: Path, head: dict[str, Any], arrays: Sequence[Codes]) -> dict[str, Batch]:
        """Return the changes of a record, after adding its new values."""
        self._values.add(path, head)
        with decoding(path):
            return self._changes(path, head, arrays)

    def _changes(self, path: Path, head: dict[str, Any], arrays: Sequence[Codes]) -> dict[str, Batch]:
        staged = {}
        for (name, width), rows, weights in zip(head["inputs"], arrays[::2], arrays[1::2], strict=True):
            port = self.run.input_ports.get(name)
            if port is None or width != port.columns.arity:
                raise CheckpointError(
                    f"{path} has changes of an input '{name}' with {counted(width, 'column')}, which "
                    "this circuit does not have; start the circuit that wrote the checkpoint, or choose "
                    "another folder",
                    code="checkpoint-other-program",
                )
            batch = read_batch(rows, weights, width)
            staged[name] = self._translated(batch, port)
        return staged

    def _translated(self, batch: Batch, port: InputPort) -> Batch:
        """Check the codes of a batch, and replace the ids of the journal by those of the run."""
        rows, schema = batch.rows, port.columns
        removed = batch.weights < 0
        if port.kind != "key" or not removed.any():
            rows = self._recoded(rows, schema)
        else:  # of a row that is removed by its key, the other columns have no meaning
            rows = rows.copy()
            rows[~removed] = self._recoded(rows[~removed], schema)
            columns = np.ix_(removed, np.array(port.key))
            rows[columns] = self._recoded(rows[columns], schema.select(port.key))
        if self._values.written is self.run.interner:
            return batch
        return Batch(*consolidate(rows, batch.weights))

    def _recoded(self, rows: Codes, schema: Schema) -> Codes:
        check_codes(rows, schema, self._values.written)
        return recode_rows(rows, schema, self._values.written, schema, self.run.interner)
