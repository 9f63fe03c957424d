"""Freeing of the interned values that nothing of a run refers to.

They are freed by a new interner with the values in use, under the same ids. The run continues with
new steps of the same circuit over the same traces and tables. Results and views that were returned
before keep the old interner, and with it its values.
"""

from __future__ import annotations

import sys

from dbsp.circuit.exposed_ids import exposes_ids
from dbsp.circuit.step_roles import RememberingStep
from dbsp.data.interner import Interner
from dbsp.data.live_values import LiveValues, PartTypes
from dbsp.data.zset import ZSet
from dbsp.errors import wrong_argument
from dbsp.runtime.rebuilt_steps import take_apart, with_interner
from dbsp.runtime.scope import Scope
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.ticks import Ticks

_VALUE_BYTES = 120
"""About the memory that the interner needs for a value besides the object."""


class ValueFreeing(Ticks):
    """The part of a run that frees values."""

    _replacement: Scope | None = None
    """The scope to which the run is switching."""
    _searched = (0, 0, 0)
    """The next id and the numbers of values and rows after the latest search for values to free."""

    def free_values(self, worthwhile: float) -> tuple[int, int]:
        """Free the interned values that nothing refers to; return their number and their bytes.

        They stay if they are less than the fraction `worthwhile` of all values. O(rows + values).
        """
        if not isinstance(worthwhile, int | float):
            raise wrong_argument("worthwhile", "a fraction of all values", worthwhile)
        freed = size = 0
        if not self.values_kept_because():
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

    def values_kept_because(self) -> str:
        """Return why no values can be freed; empty if they can."""
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
        parts = PartTypes()
        tops = [self._scope, *(() if self._live is None else self._live.scopes)]
        scopes = [each for top in tops for each in top.scopes()]
        for each in scopes:
            for node in each.graph.nodes:
                parts.add(node.schema.types)
        for schema in (*self.inputs.values(), *self.outputs.values()):
            parts.add(schema.types)
        traces = [trace for top in tops for trace in top.traces]
        parts.unknown = any(trace.types is None for trace in traces)
        live = LiveValues(self.interner, parts)
        for trace in traces:
            for run in (*trace.runs, *trace.current):
                for piece in run.pieces():
                    live.add_rows(piece, trace.types)
        for table in [table for top in tops for table in top.tables]:
            live.add_table(table)
        for each in scopes:
            for step in each.steps:
                if isinstance(step, RememberingStep):
                    live.add_any(step.memory())
        for handle in self._handles.values():
            for rows, _, _ in handle.staged:
                live.add_rows(rows, handle.schema.types)
        live.add_any(list(self._prepared))
        self._add_latest(live)
        result = self._logged_result()
        for delta in () if result is None else result.values():
            live.add_rows(delta.stored.rows, delta.schema.types)
        live.add_parts()
        return live

    def _add_latest(self, live: LiveValues) -> None:
        """Mark the values in the changes of the latest tick."""
        if self._latest is not None:
            for changes, schemas in (
                (self._latest.inputs, self.inputs),
                (self._latest.outputs, self.outputs),
            ):
                for name, change in (changes or {}).items():
                    live.add_rows(change.rows, schemas[name].types)

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
        for handle in self._handles.values():
            handle.interner = interner
        old = self._scope
        self.install(self.graph, scope)
        self.interner = interner
        if old is not scope:
            take_apart(old)


def _moved(zset: ZSet, interner: Interner) -> ZSet:
    return ZSet.wrap(zset.schema, interner, zset.batch)
