"""Record the ticks of a run in the journal: the changes of the inputs, and the new values.

A tick is recorded before it is committed in memory. The fields `recorded_...` are those of the tick
that is being recorded; `committed` makes them final. Recording that fails changes nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Set
from typing import Any

from dbsp.data.batch import Batch
from dbsp.durable.captured_state import JournalPlace
from dbsp.durable.history_window import clock
from dbsp.durable.interner_file import Refused, values_piece
from dbsp.durable.refused_values import column_of
from dbsp.durable.tick_journal import TickJournal
from dbsp.durable.typed_values import UnsupportedValueError, value_refused
from dbsp.errors import ArgumentError, shorten
from dbsp.kernels.arrays import Codes
from dbsp.runtime.run_base import RunBase

_ADVICE = (
    "use str, bytes, bool, int, float, Decimal, date, time, datetime or tuples of those, or "
    "Store(folder, allow_pickle=True); the tick was rolled back"
)
"""What to do about a value that a checkpoint does not store."""


class TickRecorder:
    """Writes the ticks of one run to its journal."""

    def __init__(self, journal: TickJournal, allow_pickle: bool) -> None:
        self._journal = journal
        self._allow_pickle = allow_pickle
        self.time = 0.0
        """The time of the latest tick; it never decreases, even if the clock does."""
        self.end = 0
        """The end of the ids of the interner that the journal has."""
        self.used = 0
        """The end of the ids that ticks have given; larger while only a replay has given some."""
        self.lost: Set[int] = frozenset()
        """The ids of values that are not stored, because their tick was rolled back."""
        self._recorded_time = 0.0
        self._recorded_end = 0
        self._recorded_lost: Set[int] = frozenset()
        self._recorded_parts = 0
        """The number of steps that were recorded of an open transaction."""
        self._before = 0
        """The next id of the interner when the tick began."""

    def begin(self, run: RunBase) -> None:
        """Note that a tick begins."""
        self._before = run.interner.end
        self._recorded_end, self._recorded_lost, self._recorded_parts = self.end, self.lost, 0

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        """Write the changes of the inputs in a tick; they are durable when this returns."""
        check_label(label)
        head, arrays = self._record(staged, run)
        if self._recorded_parts:
            head["parts"] = self._recorded_parts
        self._journal.write(tick, {"label": label, **head}, arrays)

    def record_update(
        self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any, query: str
    ) -> JournalPlace:
        """Write the tick of an update to a program, given by its identity; return its place.

        The tick counts when the manifest of the update does. It begins a new file.
        """
        head, arrays = self._record(staged, run)
        self._journal.end_file()
        self._journal.write(tick, {"label": label, "update": query, **head}, arrays)
        return JournalPlace(
            label=label,
            digest=self._journal.attempted,
            size=self._journal.written,
            time=time.monotonic(),
            tick_time=self._recorded_time,
            end=self._recorded_end,
            used=self._recorded_end,
            lost=self._recorded_lost,
        )

    def record_part(self, tick: int, staged: Mapping[str, Batch], run: RunBase) -> None:
        """Write a step of a transaction; it is durable with the record of its tick."""
        head, arrays = self._record(staged, run)
        self._journal.write_part(tick, {"part": self._recorded_parts, **head}, arrays)
        self._recorded_parts += 1

    def committed(self, tick: int) -> None:
        """Note the commit of the recorded tick."""
        self._journal.note(tick)
        self.end = self.used = self._recorded_end
        self.lost, self.time = self._recorded_lost, self._recorded_time

    def _record(self, staged: Mapping[str, Batch], run: RunBase) -> tuple[dict[str, Any], list[Codes]]:
        """Return the head and the arrays of a record: the changes, and the new values."""
        start, end, lost = self._recorded_end, run.interner.end, self._recorded_lost
        if lost:
            lost = lost & set(run.interner.ids_between(min(lost), end).tolist())
        values, refused = values_piece(run.interner, start, end, self._allow_pickle, lost)
        if refused or lost:
            self._refuse(lost, refused, staged, run)
        self._recorded_lost = lost | refused.keys()
        self._recorded_end = end
        self._recorded_time = max(self.time, clock())
        head = {
            "interned": end,
            "values": values,
            "time": self._recorded_time,
            "inputs": [[name, batch.arity] for name, batch in staged.items()],
        }
        return head, [array for batch in staged.values() for array in (batch.rows, batch.weights)]

    def _refuse(self, known: Set[int], refused: Refused, staged: Mapping[str, Batch], run: RunBase) -> None:
        """Raise CheckpointError if a row of this tick has a value that is not stored."""
        interner = run.interner
        lost = {code: UnsupportedValueError(interner.decode(code)) for code in known} | refused
        new = {code: error for code, error in lost.items() if code >= self._before}
        for errors in (new, lost):
            place = column_of(errors, staged, run) if errors else None
            if place is not None or (errors is new and new):
                raise value_refused(next(iter(errors.values())), place or "a value of the circuit", _ADVICE)


def check_label(label: Any) -> None:
    """Raise ArgumentError for a label that is not a JSON value."""
    try:
        json.dumps(label)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"label: expected a JSON value, got {shorten(label)}: {error}") from None
