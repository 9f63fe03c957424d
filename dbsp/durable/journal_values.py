"""The values of a journal: each tick has those that got an id since the tick before it.

They have the ids that they had in the process that wrote the tick. These are the ids of a replaying
run, except after that process has freed values: a value that came back then got a second id, while
the replaying run still has the first one. From such a tick on, the values of the journal are kept
apart, and its rows are translated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbsp.data.cells import RepeatedValueError
from dbsp.data.interner import Interner
from dbsp.data.repeated_values import RepeatedValues
from dbsp.durable.interner_file import restore_values, without_known
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.snapshots import reading_values
from dbsp.durable.tick_journal import TickChanges
from dbsp.runtime.rebuilt_steps import with_interner
from dbsp.runtime.run import Run


@contextmanager
def values_before_constants(run: Run) -> Iterator[Interner]:
    """Yield an empty interner to fill with the values of files; then the run uses it.

    The steps of a run have interned their constants; these are made again after the values.
    """
    interner = Interner() if run.interner.end else run.interner
    yield interner
    if interner is not run.interner:
        run.adopt(with_interner(run.scope, interner))


class JournalValues:
    """The values of successive ticks of a journal, for a run that repeats these ticks."""

    def __init__(self, interner: Interner, folder: Path, allow_pickle: bool) -> None:
        """`interner` has the values of the state before the ticks."""
        self.interner = interner
        """The values of the run."""
        self.written: Interner = interner
        """The values of the rows in the journal, under the ids that they have there."""
        self._folder = folder
        self._allow_pickle = allow_pickle
        self._complete = False

    def add_all(self, ticks: Sequence[TickChanges]) -> None:
        """Add the values of all ticks before the first one is applied. Raises CheckpointError.

        A run that writes ticks after these needs this. The steps that repeat a tick may make values
        that the journal does not have, as those of another physical circuit do. If their ids were
        ids of the journal, the next replay would read other values in rows that are written later.
        """
        for changes in ticks:
            for part in changes.parts:
                self.add(part.path, part.read()[0])
            self.add(changes.path, changes.head)
        if ticks:
            self.interner.skip_to(ticks[-1].head["interned"])
        self._complete = True

    def add(self, path: Path, head: dict[str, Any]) -> None:
        """Add the new values of a record, unless all are known. Raises CheckpointError."""
        if self._complete:
            return
        piece, end = head["values"], head["interned"]
        with reading_values(path, self._folder):
            written = self.written
            try:
                # The snapshot may have some of them, if it was written after a replay.
                restore_values(written, without_known(written, piece, self._allow_pickle), self._allow_pickle)
            except RepeatedValueError:
                self.written = RepeatedValues.before(self.interner, piece["start"])
                restore_values(self.written, piece, self._allow_pickle)
            ids = piece.get("ids", range(piece["start"], piece["start"] + len(piece["values"])))
            if len(ids) and ids[-1] >= end:
                raise unreadable(path, "it does not follow the ticks before it")
            self.written.skip_to(end)
