"""Compaction of a run: merge its sorted runs, and free the interned values that no state refers to.

The values are freed by a new interner with the values in use, under the same ids. The run continues
with new steps of the same circuit over the same traces and tables. Results and views that were
returned before keep the old interner, and with it its values.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.exposed_ids import exposes_ids
from dbsp.circuit.step_roles import RememberingStep
from dbsp.data.interner import Interner
from dbsp.data.live_values import LiveValues, PartTypes
from dbsp.data.zset import ZSet
from dbsp.display.displayed import Displayed
from dbsp.errors import counted
from dbsp.runtime.memory import give_back
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.rebuilt_steps import take_apart, with_interner
from dbsp.runtime.run_inspection import Inspection
from dbsp.runtime.scope import Scope
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.ticks import Ticks

if TYPE_CHECKING:
    from dbsp.display.document import Document

MANY_VALUES = 65_536
"""Fewer new values than this are not worth a search for those that can be freed."""

_WORTHWHILE = 4
"""Values are freed automatically if they are at least one in this many."""

_VALUE_BYTES = 120
"""About the memory that the interner needs for a value besides the object."""


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


class Compaction(Ticks, Inspection):
    """The part of a run that returns memory."""

    _replacement: Scope | None = None
    """The scope to which the run is switching."""
    _searched = (0, 0, 0)
    """The next id and the numbers of values and rows after the latest search for values to free."""

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
            for trace in self._scope.traces:
                trace.compact()
            values, value_bytes = self._free_values(0.0)
            if self.budget is not None:
                self.budget.end_tick(len(self.interner))
        finally:
            self.settle()
        give_back()
        freed = size - self.state_bytes + value_bytes
        if self.log is not None:
            self.log.snapshot()
        return Compacted(values, rows - self.state_rows, freed, self._values_kept_because())

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
                self._free_values(1 / _WORTHWHILE)
                return
            self._work = OpenWork("compact", sys._getframe())
            try:
                self._free_values(1 / _WORTHWHILE)
            finally:
                self.settle()

    def _free_values(self, worthwhile: float) -> tuple[int, int]:
        """Free the interned values that nothing refers to; return their number and their bytes.

        They stay if they are less than the fraction `worthwhile` of all values. O(rows + values).
        """
        freed = size = 0
        if not self._values_kept_because():
            old = self.interner
            live = self._live_values()
            dead = int(len(old) - live.marks.sum())
            if dead and dead >= worthwhile * len(old):
                size = sum(map(sys.getsizeof, old.decode_many(old.ids[~live.marks])))
                # From here on the switch is decided: if it is interrupted, `settle` completes it.
                self._replacement = with_interner(self._scope, old.some(live.marks))
                self._replace_scope()
                freed = len(old) - len(self.interner)
        self._searched = self.interner.end, len(self.interner), self._scope.rows
        return freed, size + freed * _VALUE_BYTES

    def settle(self) -> None:
        self._replace_scope()
        super().settle()

    def _replace_scope(self) -> None:
        if self._replacement is not None:
            self.adopt(self._replacement)
            self._replacement = None

    def _values_kept_because(self) -> str:
        if self.shares_interner:
            return "no values were freed, because the run shares its interner"
        if self.graph_exposes_ids:
            return "no values were freed, because the circuit stores numbers of values, which ord returns"
        return ""

    @property
    def graph_exposes_ids(self) -> bool:
        """Whether rows of the circuit have ids of values as numbers."""
        return exposes_ids(self.graph)

    def _live_values(self) -> LiveValues:
        """Return marks on the values to which the state, staged changes or the log refer."""
        scope, parts = self._scope, PartTypes()
        for each in scope.scopes():
            for node in each.graph.nodes:
                parts.add(node.schema.types)
        traces = scope.traces
        parts.unknown = any(trace.types is None for trace in traces)
        live = LiveValues(self.interner, parts)
        for trace in traces:
            for run in (*trace.runs, *trace.current):
                live.add_rows(run.rows, trace.types)
        for table in scope.tables:
            live.add_table(table)
        for each in scope.scopes():
            for step in each.steps:
                if isinstance(step, RememberingStep):
                    live.add_any(step.memory())
        for handle in self._handles.values():
            for rows, _, _ in handle.staged:
                live.add_rows(rows, handle.schema.types)
        live.add_any(list(self._prepared))
        result = self._logged_result()
        for delta in () if result is None else result.values():
            live.add_rows(delta.stored.rows, delta.schema.types)
        live.add_parts()
        return live

    def _logged_result(self) -> TickResult | None:
        """Return the result that the log keeps, if its values are those of this run."""
        result = None if self.log is None else self.log.result
        if result is None or any(delta.interner is not self.interner for delta in result.values()):
            return None
        return result

    def adopt(self, scope: Scope) -> None:
        """Continue with a scope of the same circuit that has another interner; can be repeated."""
        interner = scope.interner
        if self.log is not None and (result := self._logged_result()) is not None:
            deltas = {name: _moved(delta, interner) for name, delta in result.items()}
            self.log.result = TickResult(
                deltas, result.number, result.seconds, result.absent, result.present, tuple(self.input_ports)
            )
        self._nothing = {name: _moved(nothing, interner) for name, nothing in self._nothing.items()}
        for handle in self._handles.values():
            handle.interner = interner
        old = self._scope
        self.install(self.graph, scope)
        self.interner = interner
        if old is not scope:
            take_apart(old)


def _moved(zset: ZSet, interner: Interner) -> ZSet:
    return ZSet.wrap(zset.schema, interner, zset.batch)
