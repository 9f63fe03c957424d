"""The ticks of a run: staging changes, stepping the circuit, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from dbsp.circuit.graph import Graph
from dbsp.data.batch import Batch
from dbsp.data.int_range import IntRange
from dbsp.data.plain_codes import ANY_INT
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, DbspError, InputError, ValueOutOfRangeError, shorten
from dbsp.kernels.arrays import Codes
from dbsp.runtime.input_changes import InputChange, encode_change, net_change
from dbsp.runtime.input_handle import InputHandle
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.run_log import RunLog
from dbsp.runtime.scope import Scope
from dbsp.runtime.tick_result import TickResult

Changes: TypeAlias = Mapping[str, InputChange]


_MANY = 1_000
"""After a tick of more changes than this, the deltas it made inside the circuit are released at
once."""


class Ticks(RunBase):
    """The part of a run that applies changes."""

    def __init__(self, graph: Graph) -> None:
        self._handles: dict[str, InputHandle] = {}
        super().__init__(graph)
        self._handles = {name: InputHandle(port, self.interner) for name, port in self.input_ports.items()}
        self._nothing = {
            name: ZSet.wrap(port.columns, self.interner, Batch.empty(port.columns.arity))
            for name, port in self.output_ports.items()
        }
        self._stepping = False
        self.ranges: Mapping[str, Mapping[str, IntRange]] = {}
        """By input, the columns that take fewer ints than there are of 64 bits, and which."""
        self.log: RunLog | None = None
        """Where ticks are made durable, if anywhere (see `dbsp.durable`)."""

    def install(self, graph: Graph, scope: Scope) -> None:
        super().install(graph, scope)
        for name, handle in self._handles.items():
            handle.port = self.input_ports[name]

    @property
    def stepping(self) -> bool:
        """Whether a tick is being computed: an exception raised now, by a signal say, undoes it."""
        return self._stepping

    def input(self, name: str) -> InputHandle:
        """The handle by which changes of one input are staged for the next step."""
        self.input_port(name)
        return self._handles[name]

    def step(self, changes: Changes | None = None, *, label: Any = None) -> TickResult:
        """Apply the changes, and those staged before, as one tick.

        `changes` maps input names to {row: weight}, an iterable of rows (weight 1 each), a ZSet or
        an Arrow table. Raises InputError (unknown relation, a row that does not fit),
        WeightOverflowError, EvaluationError, UserFunctionError, InvariantError, IterationLimitError
        or MemoryLimitError; then nothing has changed and the staged changes are dropped. (Callbacks
        of `inspect` run after the commit; the UserFunctionError of such a callback says so.)

        With a checkpoint the tick is durable when this returns, with its `label`, a JSON value by
        which a caller knows it again (`run.log.label`); raises CheckpointError if it cannot be
        written.
        """
        if self._stepping:
            raise CircuitError("step was called from inside a step, by a function of the circuit")
        return self._tick(lambda: self._put(self.prepare(changes)), label)

    def step_staged(self, staged: Mapping[str, Batch]) -> TickResult:
        """One tick of batches that were staged once, as the journal of a checkpoint has them."""

        return self._tick(lambda: self._put(staged), None)

    def prepare(self, changes: Changes | None = None) -> dict[str, Batch]:
        """The changes and the staged ones, by input, for `step_staged`. Errors as `step`."""
        pieces = {n: taken for n, handle in self._handles.items() if (taken := handle.take())}
        if changes is not None:
            if not isinstance(changes, Mapping):
                raise InputError(
                    "the changes of a step are a mapping from inputs to changes of each,"
                    f" not {shorten(changes)} ({type(changes).__name__})"
                )
            for name, change in changes.items():
                try:
                    piece = encode_change(change, self.input_port(name), self.interner)
                except ValueOutOfRangeError as error:
                    self._name_ranges(name, error)
                    raise
                pieces.setdefault(name, []).append(piece)
        staged = {}
        for name, parts in pieces.items():
            batch = net_change(parts, self.input_ports[name])
            if batch is not None:
                self._check_ranges(name, batch.rows)
                staged[name] = batch
        return staged

    def _name_ranges(self, name: str, error: ValueOutOfRangeError) -> None:
        """Replace the range of all ints in a message by the range of the column."""
        for column, range_ in self.ranges.get(name, {}).items():
            place = f"column {column!r}: expected "
            error.message = error.message.replace(f"{place}{ANY_INT}", f"{place}{range_.expected}")

    def _check_ranges(self, name: str, codes: Codes) -> None:
        """Raises ValueOutOfRangeError for a value that its column does not take."""
        for column, range_ in self.ranges.get(name, {}).items():
            values = codes[:, self.input_ports[name].columns.index(column)]
            outside = (values < range_.low) | (values > range_.high)
            if outside.any():
                error = range_.refusal(int(values[np.argmax(outside)]))
                error.where = f"relation '{name}', column '{column}'"
                raise error

    def _put(self, staged: Mapping[str, Batch]) -> int:
        """Put each input's part of the changes into its port; returns the number of rows."""
        for name, batch in staged.items():
            self.input_ports[name].staged = batch
        return sum(map(len, staged.values()))

    def _tick(self, stage: Callable[[], int], label: Any) -> TickResult:
        started = time.perf_counter()
        self._stepping = True
        rows = 0
        log = self.log
        try:
            if log is not None:
                log.begin(self)
            rows = stage()
            self.scope.run()
            if log is not None:
                log.record(self.tick + 1, self._staged(), self, label)
            self._stepping = False  # here and not below: who interrupts only while it is set is undone
        except BaseException:
            self._stepping = False
            self.scope.rollback()
            raise
        finally:
            self._stepping = False
            for port in self.input_ports.values():
                port.staged = None
        self.scope.commit()
        self.tick += 1
        deltas = {
            name: self._nothing[name]
            if port.out is None
            else ZSet.wrap(port.columns, self.interner, port.out)
            for name, port in self.output_ports.items()
        }
        absent = {name: port.absent for name, port in self.input_ports.items() if port.absent}
        present = {name: port.present for name, port in self.input_ports.items() if port.present}
        if rows > _MANY:
            self.scope.forget()
        result = TickResult(deltas, self.tick, time.perf_counter() - started, absent, present)
        if log is not None:
            log.committed(result, label)
        if self.scope.listeners:
            self._notify()
        return result

    def _staged(self) -> dict[str, Batch]:
        """The batches of this tick by input."""
        ports = self.input_ports
        return {name: port.staged for name, port in ports.items() if port.staged is not None}

    def _notify(self) -> None:
        """Notify every listener of the committed tick, also when one of them fails."""
        failures = []
        self._stepping = True
        try:
            for listener in self.scope.listeners:
                try:
                    listener.notify()
                except DbspError as error:
                    failures.append(error)
        finally:
            self._stepping = False
        if failures:
            raise failures[0]
