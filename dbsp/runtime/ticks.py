"""The ticks of a run: step the circuit with the changes of its inputs, all or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import ShardLink
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.zset import ZSet
from dbsp.deferred_signals import interrupt_behind
from dbsp.errors import DbspError, MemoryLimitError, counted, expect_present, wrong_argument
from dbsp.runtime.bulk_progress import BulkProgress
from dbsp.runtime.latest_tick import KEPT_CHANGES, LatestTick, no_tick_yet, not_kept, tick_of_update, up_to
from dbsp.runtime.memory import give_back, memory_message, reused_memory
from dbsp.runtime.open_tick import OpenTick
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.run_log import RunLog
from dbsp.runtime.scope import Scope
from dbsp.runtime.staged_inputs import Changes, StagedInputs
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.unknown_names import unknown_input
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from dbsp.runtime.subscription_hub import SubscriptionHub  # most runs have no subscriptions

MANY = 1_000
"""In a tick of more changes than this, the deltas inside the circuit are released."""

LARGE = 10_000
"""After a tick of more changes than this, freed memory returns to the system."""


class Ticks(StagedInputs):
    """The part of a run that applies changes."""

    def __init__(
        self,
        graph: Graph,
        interner: Interner | None = None,
        traces: ExternalTraces | None = None,
        budget: MemoryBudget | None = None,
        link: ShardLink | None = None,
    ) -> None:
        super().__init__(graph, interner, traces, budget, link)
        self._unnotified = False
        """Whether listeners have not been notified of the latest tick."""
        self.kept_changes = KEPT_CHANGES
        """The largest number of changed rows of a tick that the run keeps for `changed`."""
        self._latest: LatestTick | None = None
        self.latest_update: tuple[int, Mapping[str, str]] | None = None
        """The tick of the latest update to another program, and what happened to each relation."""
        self._live: SubscriptionHub | None = None
        """The subscriptions of the run, if there have been any."""
        self.log: RunLog | None = None
        """The checkpoint that makes ticks durable, if there is one (see `dbsp.durable`)."""

    def install(self, graph: Graph, scope: Scope) -> None:
        super().install(graph, scope)
        self._nothing = {
            name: ZSet.wrap(port.columns, scope.interner, Batch.empty(port.columns.arity))
            for name, port in self.output_ports.items()
        }

    @ends_at_caller
    def step(self, changes: Changes | None = None, *, label: Any = None) -> TickResult:
        """Apply the changes, and the changes staged before, as one tick.

        The tick is all or nothing: when `step` raises, nothing has changed, and the changes staged
        before remain staged (`InputHandle.clear` drops them). There are two exceptions. Callbacks
        of `inspect` run after the commit; their UserFunctionError says that the tick stays. An
        interrupt such as Ctrl-C may arrive after the commit; `run.tick` counts the tick then. With
        a checkpoint the tick is durable when `step` returns.

        Parameters:
            changes: for each input a mapping from rows to weights, a collection of rows (weight 1
                each), a ZSet, or a table: a data frame, any object with `__arrow_c_stream__` or
                `__arrow_c_array__`, a two-dimensional or structured NumPy array, a mapping from
                names to columns, or an iterator over tables. The columns of a table match by name;
                a column `weight` that the input lacks has the weights.
            label: a JSON value that the checkpoint stores with the tick; `run.log.label` is the
                label of the latest durable tick.

        Returns:
            The delta of every output.

        Raises:
            InputError: an input does not exist, or a row does not fit its schema.
            EvaluationError: an expression has no value for a row, as for a division by zero.
            WeightOverflowError: a weight is outside the 64-bit range.
            ValueOutOfRangeError: an int is outside the range of its column.
            UserFunctionError: a function of the circuit raised an exception.
            InvariantError: a validator of the circuit found invalid data.
            IterationLimitError: a fixpoint takes too many iterations.
            MemoryLimitError: the tick needs more memory than allowed.
            CircuitError: the call comes from a function of the circuit, or another thread uses the
                run.
            CheckpointError: the tick cannot be written to the checkpoint.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> run.step({"sale": [(7,), (3,)]})["big"].to_dict()
            {(7,): 1}
            >>> run.step({"sale": {(7,): -1, (8,): 2}})["big"].to_dict()
            {(7,): -1, (8,): 2}
        """
        return self._tick(changes, None, label)

    @ends_at_caller
    def step_staged(self, staged: Mapping[str, Batch], label: Any = None) -> TickResult:
        """Apply encoded batches as one tick, as the journal of a checkpoint stores them.

        Parameters:
            staged: for each input a batch of codes, as `prepare` returns it.
            label: a JSON value to store with the tick in the checkpoint of the run, if it has one.

        Returns:
            The delta of every output.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> run.step_staged(run.prepare({"sale": [(7,)]}))["all"].to_dict()
            {(7,): 1}
        """
        return self._tick(None, lambda: self._expect_batches(staged), label)

    @ends_at_caller
    def preview(self, staged: Mapping[str, Batch]) -> TickResult:
        """Return what `step_staged` would return, and change nothing.

        The tick is computed and rolled back: no view changes, no callback is notified, and nothing
        is written to a checkpoint. The cost is that of the tick.

        Parameters:
            staged: for each input a batch of codes, as `prepare` returns it.

        Returns:
            The delta of every output.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> run.preview(run.prepare({"sale": [(7,)]}))["big"].to_dict(), run.view("big").rows()
            ({(7,): 1}, [])
        """
        return self.previewed("preview", lambda: self._expect_batches(staged))

    def _expect_batches(self, staged: Mapping[str, Batch]) -> Mapping[str, Batch]:
        """Return encoded batches. Raise an error unless each of them fits its input."""
        expected = "batches by input, as run.prepare(changes) returns them"
        if not isinstance(staged, Mapping):
            raise wrong_argument("staged", expected, staged)
        for name, batch in staged.items():
            port = self.input_ports.get(name)
            if port is None:
                raise unknown_input(name, self.input_ports, self.output_ports)
            arity = port.columns.arity
            if not isinstance(batch, Batch) or batch.arity != arity:
                batch_of = f"a batch of {counted(arity, 'column')}, as run.prepare(changes) returns it"
                raise wrong_argument(f"staged[{name!r}]", batch_of, batch)
        return staged

    def previewed(
        self, name: str, stage: Callable[[], Mapping[str, Batch]], look: Callable[[], None] = lambda: None
    ) -> TickResult:
        """Compute a tick for the method `name`, call `look`, and roll the tick back."""
        started = time.perf_counter()
        self.refuse_inside_tick(name)
        self._notify()
        work = OpenTick(self, sys._getframe(), self._ticks + 1, None)
        self.begin(work)
        try:
            self._compute(dict(stage()))
            result, _ = self._outcome(work.number)
            look()
        finally:
            self.settle()  # rolls the tick back, since it is not decided
            self._scope.forget()
        result.seconds = time.perf_counter() - started
        return result

    @ends_at_caller
    def changed(self, name: str) -> ZSet:
        """Return the net change of an input in the latest tick.

        It has no rows that were inserted although present, or retracted although absent. The run
        keeps the changes of one tick, if they have at most `kept_changes` rows. O(1).

        Parameters:
            name: the name of the input.

        Returns:
            The rows with the changes of their weights.

        Raises:
            InputError: the run has no input of this name.
            CircuitError: the run has made no tick, or does not keep the changes of the latest one.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int, kind="set"))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [(7,), (3,)]})
            >>> _ = run.step({"sale": {(7,): -1, (3,): 1}})
            >>> run.changed("sale").to_dict()
            {(7,): -1}
        """
        port = self.input_port(name)
        if not self.tick:
            raise no_tick_yet()
        found = self.latest_input(name)
        if found is None:
            found = Batch.empty(port.columns.arity)
        return ZSet.wrap(port.columns, self.interner, found)

    def changed_output(self, name: str) -> ZSet:
        """Return the delta of an output in the latest tick, with the errors of `changed`."""
        port = self.output_port(name)
        if not self.tick:
            raise no_tick_yet()
        latest = self._latest
        if latest is None or latest.outputs is None:
            raise not_kept(self.tick, latest, self.kept_changes, name)
        return ZSet.wrap(port.columns, self.interner, latest.outputs[name])

    def latest_input(self, name: str) -> Batch | None:
        """Return the net change of an input in the latest tick; None if it is empty.

        Raises CircuitError if the run does not keep it.
        """
        latest = self._latest
        if latest is not None and latest.update:
            raise tick_of_update(self.tick)
        if latest is None or latest.inputs is None:
            raise not_kept(self.tick, latest, self.kept_changes, name)
        return latest.inputs.get(name)

    # --- a tick -----------------------------------------------------------------------------------

    def _tick(
        self, changes: Changes | None, encoded: Callable[[], Mapping[str, Batch]] | None, label: Any
    ) -> TickResult:
        """Apply the given and the staged changes as one tick, or encoded batches instead."""
        started = time.perf_counter()
        self.refuse_inside_tick("step")
        if self._unnotified or self._live is not None:
            self._notify()
        work = OpenTick(self, sys._getframe(), self._ticks + 1, label)
        self.begin(work)
        log = self.log
        bulk = self._bulk  # other ticks are refused while it is open, so this is its last tick
        try:
            if self.budget is not None:
                self.budget.begin_tick()
            if log is not None and bulk is None:
                log.begin(self)
            if encoded is None:
                staged, work.taken = self.net(changes)
            else:
                staged = dict(encoded())
            rows = 0
            for batch in staged.values():
                rows += len(batch)
            live = self._live
            if live is not None:
                live.begin()
            # A log reads the changes after the tick has been computed.
            self._compute(staged if log is None else dict(staged), release=rows > MANY)
            if live is not None:
                live.step(final=True)
            work.result, work.latest = self._outcome(work.number)
            if log is not None:
                work.recording = True
                log.record(work.number, staged if bulk is None else {}, self, label)
            # Nothing before this line is final, and everything after it can be repeated.
            work.decided = True
            self.commit(work)
            staged.clear()
            if rows > MANY:
                self._scope.forget()
            self._scope.merge()
            if live is not None:
                live.close_tick(rows > MANY)
            if rows > LARGE:
                give_back()
            self.close_work(work)
        except (MemoryError, SystemError) as error:
            cause = interrupt_behind(error)
            if not isinstance(cause, MemoryError):
                self.settle()
                raise cause from None
            self._settle_without_memory(work)
        except BaseException:
            self.settle()
            raise
        result = expect_present(work.result, "the result of a committed tick")
        result.seconds = time.perf_counter() - started
        if self._unnotified or self._live is not None:
            self._notify()
        return result

    def _compute(self, staged: dict[str, Batch], release: bool = False) -> None:
        """Step the circuit with these changes.

        With `release`, each delta is released after its last reader, and `staged` is cleared.
        """
        for name, port in self.input_ports.items():
            port.staged = staged.get(name)
            port.finished = False
        if release:
            staged.clear()
            for port in self.input_ports.values():
                port.kept_rows = self.kept_changes
            with reused_memory():
                self._scope.run(release)
        else:
            self._scope.run()

    def _outcome(self, number: int) -> tuple[TickResult, LatestTick]:
        """Return the result of the tick that was computed last, and its changes."""
        if self._bulk is not None:
            return self._bulk_outcome(number, self._bulk)
        # This is once per tick: one pass over each kind of port, without calls for small deltas.
        absent: dict[str, int] = {}
        present: dict[str, int] = {}
        inputs: dict[str, Batch] = {}
        changed = 0
        released = False
        for name, port in self.input_ports.items():
            change = port.out
            if change is not None:
                inputs[name] = change
                changed += len(change)
            if port.absent:
                absent[name] = port.absent
            if port.present:
                present[name] = port.present
            if port.finished:  # a released delta has more rows than are kept
                released = True
        deltas: dict[str, ZSet] = {}
        outputs: dict[str, Batch] = {}
        emitted = 0
        for name, output in self.output_ports.items():
            change = output.out
            if change is None:
                nothing = deltas[name] = self._nothing[name]
                outputs[name] = nothing.stored
            else:
                deltas[name] = ZSet.wrap(output.columns, self.interner, change)
                outputs[name] = change
                emitted += len(change)  # its weights may not have been made
        limit = self.kept_changes
        latest = LatestTick(
            None if released or changed > limit else inputs,
            outputs if emitted <= limit else None,
        )
        return TickResult(deltas, number, 0.0, absent, present, self.input_ports), latest

    def _bulk_outcome(self, number: int, bulk: BulkProgress) -> tuple[TickResult, LatestTick]:
        """Return the result of the last tick of a transaction, which is that of all its parts."""
        deltas = {}
        for name, change in bulk.outputs(self).items():
            columns = self.output_ports[name].columns
            deltas[name] = (
                self._nothing[name] if change is None else ZSet.wrap(columns, self.interner, change)
            )
        result = TickResult(deltas, number, 0.0, bulk.absent, bulk.present, self.input_ports)
        outputs = {name: delta.stored for name, delta in deltas.items()}
        return result, LatestTick(bulk.inputs(), up_to(self.kept_changes, outputs))

    def commit(self, work: OpenTick) -> None:
        """Make a decided tick final in memory. If this is interrupted, call it again."""
        self._scope.commit()
        if self._live is not None:
            self._live.commit(work.number)
        self._ticks = work.number
        self._latest = work.latest
        for part in work.taken:
            part.handle.remove(part.pieces)
        if self.log is not None:
            self.log.committed(expect_present(work.result, "the result of a decided tick"), work.label)
        if self._bulk is not None:
            self._bulk.commit(work.result)
        for observer in self.observers:
            observer.commit_tick(work.number)
        listeners = self._scope.listeners
        self._unnotified = bool(listeners) and any(listener.notifies for listener in listeners)
        work.committed = True

    def recorded(self, number: int) -> bool:
        """Return whether the log has a tick."""
        return self.log is not None and self.log.recorded(number)

    def discard_parts(self) -> None:
        """Remove the parts of a transaction from the log. If this is interrupted, call it again."""
        if self.log is not None:
            self.log.discard_parts()

    def roll_back(self) -> None:
        """Undo the changes of an undecided tick. If this is interrupted, call it again."""
        self._scope.rollback()
        if self._live is not None:
            self._live.rollback()

    def _settle_without_memory(self, work: OpenTick) -> None:
        """Settle a tick after a failed allocation; return only if the tick is committed.

        Raises MemoryLimitError.
        """
        try:
            self.settle()
        except MemoryError:
            outcome = "completes" if work.decided else "undoes"
            raise MemoryLimitError(
                f"{memory_message()}; the run {outcome} tick {work.number} at its next use"
            ) from None
        if not work.decided:
            raise MemoryLimitError(f"{memory_message()}; the tick was rolled back") from None

    def close_work(self, work: OpenWork) -> None:
        for port in self.input_ports.values():
            port.staged = None
        super().close_work(work)

    def repair(self) -> None:
        super().repair()
        if self._live is not None:
            self._live.repair()

    @property
    def in_work(self) -> bool:
        """Whether a tick, a transaction or other work runs."""
        return self._work is not None or self._bulk is not None

    # --- callbacks --------------------------------------------------------------------------------

    def _notify(self) -> None:
        """Notify every listener and subscription of the latest tick, unless this has been done.

        An interrupt may prevent a notification; then the next tick or switch notifies first.
        """
        live = self._live
        if not self._unnotified and (live is None or not live.waiting):
            return
        work = OpenWork("step", sys._getframe())
        self.begin(work)
        failures = []
        try:
            if self._unnotified:
                for listener in list(self._scope.listeners):  # a callback may end its watch
                    try:
                        listener.notify()
                    except DbspError as error:
                        failures.append(error)
                self._unnotified = False
            if live is not None:
                failures += live.deliver()
        finally:
            self.close_work(work)
        if failures:
            raise failures[0]
