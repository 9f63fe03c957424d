"""Compaction of a run: merge its sorted runs, and free the values that no state refers to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.display.displayed import Displayed
from dbsp.errors import counted
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.memory import give_back
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.run_inspection import Inspection
from dbsp.runtime.value_freeing import ValueFreeing
from dbsp.state.shared_codes import share_codes

if TYPE_CHECKING:
    from dbsp.display.document import Document

MANY_VALUES = 65_536
"""Fewer new values than this are not worth a search for those that can be freed."""

_WORTHWHILE = 4
"""Values are freed automatically if they are at least one in this many."""


@dataclass(frozen=True)
class Compacted(Displayed):
    """The result of `Run.compact`."""

    values: int = 0
    """The number of interned values that were freed."""
    rows: int = 0
    """The number of rows that merging removed: retracted rows and their retractions."""
    bytes: int = 0
    """About the number of bytes of these values and rows."""
    kept_because: str = ""
    """Why values are not freed, if the run cannot free any."""

    def _display(self) -> Document:
        from dbsp.display.document import Document, code_of

        return Document((), (code_of(str(self), 100),))

    def __str__(self) -> str:
        freed = f"{counted(self.values, 'value')} and {counted(self.rows, 'row')} freed, {self.bytes:,} bytes"
        return f"{freed}; {self.kept_because}" if self.kept_because else freed


class Compaction(ValueFreeing, Inspection):
    """The part of a run that returns memory."""

    @ends_at_caller
    def compact(self) -> Compacted:
        """Merge every trace into one sorted run, and free interned values that nothing refers to.

        Merging removes retracted rows. Strings, tuples and other interned values are freed unless
        the state of the run, a staged change or the latest result needs them; results and views
        that the caller still has keep theirs. Values are not freed if the run shares its interner,
        or if the circuit stores numbers of values, which `ord` returns. Also releases the deltas of
        the latest tick inside the circuit, and returns freed memory to the system. With a
        checkpoint, the compacted state is written as a snapshot. All or nothing. O(n) for n kept
        rows and values.

        Returns:
            The numbers of values, rows and bytes that were freed.

        Raises:
            CircuitError: the call comes from a function of the circuit, or another thread uses the
                run; or a step has state that cannot be copied.
            CheckpointError: the snapshot cannot be written; the run is compacted all the same.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("sales", circuit.input("sale", item=str, kind="set"))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [("apple",), ("pear",)]})
            >>> _ = run.step({"sale": {("pear",): -1}})
            >>> _ = run.step()
            >>> done = run.compact()
            >>> done.values, done.rows, run.state_rows
            (1, 2, 1)
        """
        self._notify()
        rows, size = self.state_rows, self.state_bytes
        work = OpenWork("compact", sys._getframe())
        self.begin(work)
        try:
            self._scope.forget()
            scopes = [self._scope, *(() if self._live is None else self._live.scopes)]
            for trace in [trace for scope in scopes for trace in scope.traces]:
                trace.compact()
            if self.budget is None:
                share_codes(self._scope.traces)
            values, value_bytes = self.free_values(0.0)
            if self.budget is not None:
                self.budget.end_tick(len(self.interner))
        finally:
            self.settle()
        give_back()
        freed = size - self.state_bytes + value_bytes
        if self.log is not None:
            self.log.snapshot()
        return Compacted(values, rows - self.state_rows, freed, self.values_kept_because())

    def free_many_values(self) -> None:
        if self._bulk is not None:
            return  # it has rows that the scope does not show
        interner = self.interner
        end, kept, rows = self._searched
        new = interner.end - max(end, interner.places.base)
        grown = new > max(MANY_VALUES, kept, len(interner.places.kept))
        if grown or (len(interner) > MANY_VALUES and self._scope.rows < rows // 2):
            work = self._work
            if work is not None:  # such as a tick that begins
                self.free_values(1 / _WORTHWHILE)
                return
            self._work = OpenWork("compact", sys._getframe())
            try:
                self.free_values(1 / _WORTHWHILE)
            finally:
                self.settle()
