"""A run as of an earlier tick of its checkpoint: everything can be read, and nothing stepped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit.graph import Graph
from dbsp.data.zset import ZSet
from dbsp.durable.journal_replay import Replay
from dbsp.durable.moments import Moment, PastMoment
from dbsp.durable.tick_journal import TickChanges
from dbsp.errors import ArgumentError, CircuitError
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.bulk_transaction import BulkTransaction
from dbsp.runtime.run import Run
from dbsp.runtime.run_watching import MAX_ROWS
from dbsp.runtime.stream_lookup import StreamChoice
from dbsp.runtime.tick_recording import Recording
from dbsp.runtime.tick_result import TickResult


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """A tick of a checkpoint."""

    id: str
    """The unique name of the checkpoint."""
    journal: str
    """The checksum of the tick in the journal; empty at tick 0."""
    label: Any
    time: float | None
    """When it was written, in seconds since 1970; None if that is not known."""


class PastSource(Protocol):
    """The checkpoint from which a run was opened."""

    folder: Path

    def openable(self, tick: int) -> range:
        """Return the ticks around this one that can be opened. Raises CheckpointError."""

    def results(self, since: PastMoment, until: PastMoment) -> Iterator[TickResult]:
        """Return the results of the ticks after a moment, up to another. Raises CheckpointError."""

    def recorded(
        self, since: PastMoment, until: PastMoment, begin: Callable[[PastRun], Recording]
    ) -> Recording:
        """Return what `begin` returns for a run at a moment, after it has repeated the ticks up to
        another moment. Raises CheckpointError."""

    def change(self, output: str, since: PastMoment, until: PastMoment, known: PastRun) -> ZSet:
        """Return the change of an output between two moments; `known` is a run that is open."""


@methods_end_at_caller
class PastRun(Run):
    """A run as of a tick of a checkpoint, which `Program.open` and `Circuit.open` return.

    Its views, rows and reports are those of the run at that tick, and `program.query`, `why` and
    `explain` accept it. It is independent of the folder and of the run that writes there. `step`,
    `update` and everything else that would make a new tick raise CircuitError.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> run = circuit.start(checkpoint=folder)
        >>> for row in (7, 3, 9):
        ...     _ = run.step({"sale": [(row,)]})
        >>> past = circuit.open(folder, as_of=1)
        >>> past.view("big").rows(), run.view("big").rows()
        ([(7,)], [(7,), (9,)])
        >>> past
        <run of 'shop': (sale) -> (big), 1 tick, 1 row stored, read-only>
    """

    def __init__(
        self,
        graph: Graph,
        source: PastSource,
        position: JournalPosition,
        memory_limit: int | None = None,
    ) -> None:
        super().__init__(graph, memory_limit=memory_limit)
        self._source = source
        self._repeating = False
        self.replay: Replay
        """Repeats ticks of the journal; set once the snapshot before them is restored."""
        self.position = position
        """The place of the tick in the journal."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, read-only>"

    @property
    def label(self) -> Any:
        """The label that `step` gave to the tick."""
        return self.position.label

    @property
    def time(self) -> datetime | None:
        """When the tick was written, in UTC; None if an earlier version of dbsp wrote it."""
        seconds = self.position.time
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

    @property
    def history(self) -> range:
        """The ticks of the checkpoint that can be opened now, with the program of this run."""
        return self._source.openable(self.tick)

    # --- changes between two ticks ----------------------------------------------------------------

    def ticks(self, since: Moment, until: Moment | None = None) -> Iterator[TickResult]:
        """Yield the results of the ticks t with since < t <= until, as `step` returned them.

        The ticks are computed again, one at a time: memory is bounded by the state of the run and
        one file of the journal. Callbacks of `inspect` are not called.

        Parameters:
            since: a tick, a datetime or the ISO text of one; that tick's own changes are left out.
            until: the last tick; by default that of this run.

        Returns:
            An iterator over the results, in the order of the ticks.

        Raises:
            ArgumentError: `since` is after `until`.
            CheckpointError: a tick is outside the history, or a file is damaged.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start(checkpoint=folder)
            >>> for row in (7, 3, 9):
            ...     _ = run.step({"sale": [(row,)]})
            >>> for result in circuit.open(folder).ticks(since=1):
            ...     print(result.number, result["big"].to_dict())
            2 {}
            3 {(9,): 1}
        """
        first, last = self._between(since, until)
        return self._source.results(first, last)

    def deltas(self, output: str, since: Moment, until: Moment | None = None) -> ZSet:
        """Return the change of an output between two ticks: its view at `until` minus at `since`.

        The cost is that of opening one tick or two. The ticks in between are only repeated when
        they have no snapshot.

        Parameters:
            output: the name of the output.
            since: a tick, a datetime or the ISO text of one; that tick's own changes are left out.
            until: the last tick; by default that of this run.

        Returns:
            The sum of the deltas of the ticks t with since < t <= until.

        Raises:
            InputError: there is no such output.
            ArgumentError: `since` is after `until`.
            CheckpointError: a tick is outside the history, or a file is damaged.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start(checkpoint=folder)
            >>> for row in (7, 3, 9):
            ...     _ = run.step({"sale": [(row,)]})
            >>> circuit.open(folder).deltas("big", since=0, until=2)
            ZSet({(7,): 1}, x: int)
        """
        self.output_port(output)
        first, last = self._between(since, until)
        return self._source.change(output, first, last, self)

    def _between(self, since: Moment, until: Moment | None) -> tuple[PastMoment, PastMoment]:
        first = PastMoment.of(since, "since")
        last = PastMoment.of(self.tick if until is None else until, "until")
        for one, other in ((first.tick, last.tick), (first.seconds, last.seconds)):
            if one is not None and other is not None and one > other:
                raise ArgumentError(f"expected since <= until, got {first.text} and {last.text}")
        return first, last

    def recording(
        self,
        since: Moment,
        until: Moment | None = None,
        *,
        streams: Sequence[StreamChoice] | None = None,
        max_rows: int = MAX_ROWS,
    ) -> Recording:
        """Return a recording of the ticks t with since < t <= until.

        The ticks are computed again, by another run, which the recording keeps. So it has the
        deltas of all streams, and their integrals as of each of these ticks.

        Parameters:
            since: a tick, a datetime or the ISO text of one; that tick's own changes are left out.
            until: the last tick; by default that of this run.
            streams: as for `Run.record`.
            max_rows: as for `Run.record`.

        Raises:
            ArgumentError: `since` is after `until`.
            InputError: the circuit has no such stream.
            CheckpointError: a tick is outside the history, or a file is damaged.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> circuit = Circuit("shop")
            >>> big = circuit.input("sale", x=int).filter(col("x") > 5)
            >>> circuit.output("big", big)
            >>> run = circuit.start(checkpoint=folder)
            >>> for row in (7, 3, 9):
            ...     _ = run.step({"sale": [(row,)]})
            >>> recording = circuit.open(folder).recording(since=1)
            >>> recording.ticks, recording.delta("sale", 2).rows(), recording.integral("big", 2).rows()
            ((2, 3), [(3,)], [(7,)])
        """
        first, last = self._between(since, until)

        def begin(run: PastRun) -> Recording:
            recording = run.record(sys.maxsize, streams=streams, max_rows=max_rows)
            recording.keep(run)
            return recording

        return self._source.recorded(first, last, begin)

    # --- refused ----------------------------------------------------------------------------------

    def repeat(self, position: JournalPosition, changes: TickChanges) -> TickResult:
        """Apply the next tick of the journal."""
        self._repeating = True
        try:
            result = self.replay.apply(changes)
        finally:
            self._repeating = False
        self.position = position
        return result

    def _refuse(self, name: str) -> NoReturn:
        raise CircuitError(
            f"{name}: {self._source.folder} was opened as of tick {self.tick}, to be read only; "
            "start(checkpoint=...) continues from the latest tick",
            code="read-only-run",
        )

    def step(self, changes: Any = None, *, label: Any = None) -> NoReturn:
        """Raise CircuitError: the past does not change."""
        self._refuse("step")

    def step_staged(self, staged: Any, label: Any = None) -> TickResult:
        """Apply a tick of the journal; raise CircuitError for any other caller."""
        if not self._repeating:
            self._refuse("step_staged")
        return super().step_staged(staged)

    def transaction(self, label: Any = None) -> BulkTransaction:
        """Apply a transaction of the journal; raise CircuitError for any other caller."""
        if not self._repeating:
            self._refuse("transaction")
        return super().transaction(label)

    def replan(self, circuit: Graph | None = None) -> NoReturn:
        """Raise CircuitError: the circuit is that of the past."""
        self._refuse("replan")

    def switch_to(self, proposal: Any) -> NoReturn:
        """Raise CircuitError: the circuit is that of the past."""
        self._refuse("switch_to")

    def subscribe(self, target: Any, to: Any = None) -> NoReturn:
        """Raise CircuitError: a run as of the past makes no ticks."""
        self._refuse("subscribe")

    def update(self, program: Any) -> NoReturn:
        """Raise CircuitError: the program is that of the past."""
        self._refuse("update")

    def snapshot(self) -> NoReturn:
        """Raise CircuitError: the folder belongs to the run that writes there."""
        self._refuse("snapshot")

    def _notify(self) -> None:
        """Call no callbacks of `inspect`: they were called when the ticks took place."""
        self._unnotified = False
