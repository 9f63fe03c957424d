"""Transactions: the changes of many steps as one tick.

    state after the transaction = state after its parts, applied in their order
    delta of an output          = sum of its deltas over the parts

A part is computed when it is applied, so the memory that it needs is released before the next part.
It is final only when the last tick of the transaction is, which applies no more changes and returns
the summed deltas. In a circuit that depends on ticks, as by a delay or a watermark, the parts are
staged instead, and the last tick applies their net change.

Cost: that of the parts as ticks, and O(n log n) for summed deltas of n rows. State: the sums, and
until the end the sorted runs that were there before the transaction.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType, TracebackType
from typing import Any, NoReturn, TypeAlias

from dbsp.caller_tracebacks import ends_at_caller, methods_end_at_caller
from dbsp.data.batch import Batch
from dbsp.deferred_signals import interrupt_behind
from dbsp.errors import CircuitError, MemoryLimitError, counted
from dbsp.runtime.bulk_progress import BulkProgress
from dbsp.runtime.memory import memory_message
from dbsp.runtime.open_tick import TakenPieces
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.staged_inputs import Changes
from dbsp.runtime.table_parts import parts_of
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.ticks import MANY, Ticks

Part: TypeAlias = tuple[Mapping[str, Batch], Sequence[TakenPieces]]
"""The changes of one step of a transaction, and the staged ones among them."""

_UNDONE = (
    "the transaction was rolled back, because one of its steps raised; run its block again, and let the "
    "error of a step leave the block"
)
_CLOSED = "the transaction is not open; call its step inside the block: with run.transaction() as tx: ..."


class BulkTicks(Ticks):
    """The part of a run that applies transactions."""

    @ends_at_caller
    def transaction(self, label: Any = None) -> BulkTransaction:
        """Return a transaction: a block whose steps become one tick.

        Inside the block, the step of the transaction applies changes in order, like `Run.step`.
        When the block ends normally, its steps become one tick, with one delta per output: the sum
        of the deltas of the steps. Callbacks of `inspect` are notified once. When an exception
        leaves the block, or a step raises, the run is as it was before the block, and so are the
        changes that were staged before.

        Only one step is in memory at a time, besides the state and the summed deltas, so a
        transaction can load more than memory holds. Views show the steps so far, except in a
        circuit that depends on ticks, as by a delay or a watermark: there the steps are collected,
        and computed as one net change at the end. Other methods that change the run raise inside
        the block.

        With a checkpoint the steps are written as they come, and are final when the block ends.

        Parameters:
            label: as for `step`.

        Returns:
            The transaction, for a `with` statement; its `result` is that of the tick.

        Raises:
            CircuitError: another transaction of the run is open, when the block begins.
            ArgumentError: the checkpoint cannot store the label, when the block begins.
            CheckpointError: the checkpoint cannot be written.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> with run.transaction() as tx:
            ...     for rows in ([(7,), (3,)], [(8,)]):
            ...         tx.step({"sale": rows})
            >>> tx.result["big"].to_dict(), tx.result.number
            ({(7,): 1, (8,): 1}, 1)
        """
        return BulkTransaction(self, label)

    def open_bulk(self, owner: BulkTransaction, label: Any) -> BulkProgress:
        """Begin a transaction, which this object continues."""
        self.refuse_inside_tick("transaction")
        self._notify()
        if self.log is not None:
            self.log.check_label(label)
            self.begin(OpenWork("transaction", sys._getframe()))
            try:
                self.log.begin(self)
            finally:
                self.settle()
        progress = self._bulk = BulkProgress(self._scope, owner, self._ticks + 1, label)
        progress.open(self)
        return progress

    def apply_part(self, progress: BulkProgress, stage: Callable[[], Part]) -> None:
        """Apply the next part of a transaction; if this raises, the transaction is rolled back."""
        started = time.perf_counter()
        self._expect_open(progress)
        progress.intact = False
        work = self._work = _OpenPart(self, sys._getframe())
        live = self._live
        try:
            if self.budget is not None:
                self.budget.begin_tick()
            staged, taken = stage()
            staged = dict(staged)
            many = sum(map(len, staged.values())) > MANY
            if progress.staging is not None:
                progress.staging.add(staged)
            else:
                if live is not None:
                    live.begin()
                self._compute(staged if self.log is None else dict(staged), release=many)
                progress.add(self)
                if live is not None:
                    live.step(final=False)
            if self.log is not None:
                self.log.record_part(progress.number, staged, self)
            if progress.staging is None:
                self._scope.commit()  # the savepoint undoes it, if necessary
                if many:
                    self._scope.forget()
                self._scope.merge()
                if live is not None:
                    live.settle_part(many)
            for part in taken:
                part.handle.remove(part.pieces)
            self.close_work(work)
            progress.parts += 1
            progress.seconds += time.perf_counter() - started
            progress.intact = True
        except (MemoryError, SystemError) as error:
            self._undo_without_memory(progress, error)
        except BaseException:
            self.close_bulk(progress)
            raise

    def end_bulk(self, progress: BulkProgress, intact: bool) -> None:
        """Make the parts of a transaction final, by a tick without further changes.

        Raises CircuitError if one of the parts has not ended normally.
        """
        self.refuse_inside_work("transaction")
        if not intact or self._bulk is not progress:
            self.close_bulk(progress)
            raise CircuitError(_UNDONE, code="transaction-ended")
        progress.begin_end(sys._getframe())
        try:
            result = self._tick(None, progress.net_changes, progress.label)
            result.seconds += progress.seconds
        finally:
            self.close_bulk(progress)

    def close_bulk(self, progress: BulkProgress) -> None:
        """Close a transaction; undo it unless its tick is final."""
        if self._bulk is progress:
            self.settle()
            self.settle_bulk()

    def settle_bulk(self) -> None:
        progress = self._bulk
        if progress is not None:
            if progress.result is None and self._live is not None:
                self._live.invalidate()
            progress.undo_or_release(self)
            self.repair()
            progress.frame = None
            self._bulk = None

    def _expect_open(self, progress: BulkProgress) -> None:
        """Raise CircuitError unless this is the open transaction of the run."""
        self.refuse_inside_work("step")
        self.recover()
        if self._bulk is not progress:
            raise CircuitError(_CLOSED if progress.result is not None else _UNDONE, code="transaction-ended")

    def _undo_without_memory(self, progress: BulkProgress, error: Exception) -> NoReturn:
        """Undo a transaction after a failed allocation; raise MemoryLimitError or the interrupt."""
        cause = interrupt_behind(error)
        ending = "the transaction was rolled back"
        try:
            self.close_bulk(progress)
        except MemoryError:
            ending = "the run undoes the transaction at its next use"
        if not isinstance(cause, MemoryError):
            raise cause from None
        raise MemoryLimitError(f"{memory_message()}; {ending}") from None


class _OpenPart(OpenWork):
    """The application of one part; what it has changed is undone if it does not end normally."""

    __slots__ = ("_run",)

    def __init__(self, run: Ticks, frame: FrameType) -> None:
        super().__init__("step", frame)
        self._run = run

    def settle(self) -> None:
        self._run.roll_back()


@methods_end_at_caller
class BulkTransaction:
    """A block whose steps become one tick (see `Run.transaction`).

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", x=int))
        >>> run = circuit.start()
        >>> with run.transaction() as tx:
        ...     tx.step({"sale": [(7,)]})
        ...     tx.step({"sale": [(3,)]})
        >>> tx.result
        <tick 1: all: ZSet({(3,): 1, (7,): 1}, x: int)>
    """

    __slots__ = ("__weakref__", "_label", "_progress", "_run")

    def __init__(self, run: BulkTicks, label: Any) -> None:
        self._run = run
        self._label = label
        self._progress: BulkProgress | None = None

    def __repr__(self) -> str:
        if self._progress is None:
            return "<transaction, not started>"
        state = "committed" if self._progress.result is not None else "not committed"
        return f"<transaction of {counted(self._progress.parts, 'step')}, {state}>"

    def __enter__(self) -> BulkTransaction:
        if self._progress is not None:
            raise CircuitError(
                "a transaction has one block; call run.transaction() again", code="transaction-ended"
            )
        self._progress = self._run.open_bulk(self, self._label)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        progress = self._entered()
        # First: if an interrupt ends this call, the next use of the run undoes the transaction.
        intact, progress.intact = progress.intact, False
        if error is None:
            self._run.end_bulk(progress, intact)
        else:
            self._run.refuse_inside_work("transaction")
            with contextlib.suppress(MemoryError):  # the next use of the run tries again
                self._run.close_bulk(progress)

    def step(self, changes: Changes | None = None) -> None:
        """Apply the changes, and the changes staged before, as the next part of the transaction.

        Every step must be valid by itself: rows that a later step retracts are evaluated, too. On
        an input with set semantics or with a key, the last change of a row or key wins, also over
        several steps. A table that is read by chunks, such as `read_parquet(...)`, is applied as
        several steps of at least 250,000 rows.

        Parameters:
            changes: as for `Run.step`.

        Raises:
            CircuitError: the transaction is not open, since its block has ended or a step raised.
            DbspError: as for `Run.step`; the whole transaction is rolled back.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", id=int, x=float, key=["id"]))
            >>> run = circuit.start()
            >>> with run.transaction() as tx:
            ...     tx.step({"sale": [(1, 7.0), (2, 3.0)]})
            ...     tx.step({"sale": [(1, 8.0)]})
            >>> tx.result["all"].to_dict()
            {(1, 8.0): 1, (2, 3.0): 1}
        """
        progress = self._entered()
        self._run.refuse_inside_work("step")
        try:
            for part in parts_of(changes, self._run.input_ports):
                self._run.apply_part(progress, partial(self._run.net, part))
        except BaseException:
            progress.intact = False  # also if a table cannot be read
            with contextlib.suppress(MemoryError):  # the next use of the run tries again
                self._run.close_bulk(progress)
            raise

    def step_staged(self, staged: Mapping[str, Batch]) -> None:
        """Apply encoded batches as the next part, as the journal of a checkpoint stores them."""
        self._run.apply_part(self._entered(), lambda: (staged, ()))

    @property
    def result(self) -> TickResult:
        """The result of the tick, after the block.

        Raises:
            CircuitError: the transaction is open, or was rolled back.
        """
        progress = self._entered()
        if progress.result is None:
            self._run.recover()
        if progress.result is None:
            raise CircuitError(
                "the transaction has no result: it is still open, or was rolled back; read the result after "
                "the block has ended without an error",
                code="inside-transaction",
            )
        return progress.result

    @property
    def parts(self) -> int:
        """The number of steps applied so far; a table that is read by chunks counts as several."""
        return 0 if self._progress is None else self._progress.parts

    def _entered(self) -> BulkProgress:
        if self._progress is None:
            raise CircuitError(_CLOSED, code="transaction-ended")
        return self._progress
