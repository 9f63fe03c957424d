"""Repeat the ticks of the journal of a checkpoint.

The rows of a tick in the journal have the ids that values had in the process that wrote it. These
are the ids of the replaying run, except after that process has freed values: a value that came back
then got a second id, while the replaying run still has the first one. From such a tick on, the
values of the journal are kept apart, and its rows are translated. The replaying run then gives new
values ids after all those of the journal, so both kinds of ids stay apart for the next replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.cells import RepeatedValueError
from dbsp.data.interner import Interner
from dbsp.data.recode import recode_rows
from dbsp.data.repeated_values import RepeatedValues
from dbsp.data.schema import Schema
from dbsp.durable.code_ranges import check_codes
from dbsp.durable.interner_file import restore_values
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.snapshots import reading_values
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

    def __init__(self, run: Run, folder: Path, allow_pickle: bool, last: int = 0) -> None:
        """`last` is the next id after the last tick, if the run writes further ticks after it."""
        self._run = run
        self._folder = folder
        self._allow_pickle = allow_pickle
        self._last = last
        self._written: Interner = run.interner
        """The values of the rows in the journal, under the ids that they have there."""

    def apply(self, changes: TickChanges) -> TickResult:
        """Apply the next tick, and return its result. Raises CheckpointError."""
        path = changes.path
        if not changes.parts:
            return self._run.step_staged(self._staged(path, changes.head, changes.arrays))
        with self._run.transaction() as transaction:
            for part in changes.parts:
                transaction.step_staged(self._staged(path, *part.read()))
            self._staged(path, changes.head, ())  # the values of the tick
        return transaction.result

    def _staged(self, path: Path, head: dict[str, Any], arrays: Sequence[Codes]) -> dict[str, Batch]:
        """Return the changes of a record, after adding its new values."""
        with reading_values(path, self._folder):
            self._add_values(path, head)
            return self._changes(path, head, arrays)

    def _add_values(self, path: Path, head: dict[str, Any]) -> None:
        piece, end, interner = head["values"], head["interned"], self._run.interner
        if self._written is interner:
            try:
                if interner.end > piece["start"]:  # a constant of the circuit has a new id
                    raise RepeatedValueError
                restore_values(interner, piece, self._allow_pickle)
            except RepeatedValueError:
                self._written = RepeatedValues.before(interner, piece["start"])
                interner.skip_to(self._last)
        if self._written is not interner:
            restore_values(self._written, piece, self._allow_pickle)
        if self._written.end > end:
            raise unreadable(path, "it does not follow the ticks before it")
        self._written.skip_to(end)

    def _changes(self, path: Path, head: dict[str, Any], arrays: Sequence[Codes]) -> dict[str, Batch]:
        staged = {}
        for (name, width), rows, weights in zip(head["inputs"], arrays[::2], arrays[1::2], strict=True):
            port = self._run.input_ports.get(name)
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
        if self._written is self._run.interner:
            return batch
        return Batch(*consolidate(rows, batch.weights))

    def _recoded(self, rows: Codes, schema: Schema) -> Codes:
        check_codes(rows, schema, self._written)
        return recode_rows(rows, schema, self._written, schema, self._run.interner)
