"""The part of a run that shows the values inside its circuit: watches, recordings, traced ticks."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.errors import ArgumentError, wrong_argument
from dbsp.runtime.pass_observer import PassObserver
from dbsp.runtime.tick_recording import Recording
from dbsp.runtime.stream_lookup import StreamChoice, StreamLookup
from dbsp.runtime.ticks import Ticks

MAX_ROWS = 1_000_000
"""The rows that a recording keeps by default."""


class Watching(Ticks):
    """The part of a run that observes the streams inside its circuit."""

    @ends_at_caller
    def record(
        self,
        ticks: int = 50,
        *,
        streams: Sequence[StreamChoice] | None = None,
        max_rows: int = MAX_ROWS,
    ) -> Recording:
        """Record the deltas of all streams of the circuit from the next tick on.

        The recording has the latest ticks: their deltas, by iteration inside fixpoints, and the
        integral of every stream as of each of them. Batches are shared with the run and not copied.
        A tick costs about 0.1 microseconds per node and iteration more while something records.

        Parameters:
            ticks: the number of ticks to keep.
            streams: the streams to record (see `Recording`); all by default.
            max_rows: the number of rows to keep, over all streams and ticks. When there are more,
                the oldest ticks are dropped; a tick that has more by itself is kept without its
                deltas.

        Returns:
            The recording; `stop` ends it.

        Raises:
            ArgumentError: `ticks` or `max_rows` is not a number of 1 or more.
            InputError: the circuit has no such stream.
            CircuitError: the call comes from a function of the circuit, or inside a transaction.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=2)
            >>> for row in (7, 3, 9):
            ...     _ = run.step({"sale": [(row,)]})
            >>> recording.ticks, recording.delta("sale", 2).rows(), recording.integral("big", 2).rows()
            ((2, 3), [(3,)], [(7,)])
        """
        for name, number in (("ticks", ticks), ("max_rows", max_rows)):
            if type(number) is not int or number < 1:
                raise wrong_argument(name, "a number of 1 or more", number)
        if isinstance(streams, str):
            raise ArgumentError(f"streams: expected a list of streams, got the text {streams!r}")
        self.refuse_inside_tick("record")
        return Recording(self, ticks, streams, max_rows)

    # --- observers --------------------------------------------------------------------------------

    def lookup(self) -> StreamLookup:
        """Return the streams of the present circuit by their names."""
        return StreamLookup(self.graph, self.input_ports, self.output_ports)

    def attach(self, observer: PassObserver) -> None:
        """Let an observer receive the passes of all ticks from the next one on."""
        self.observers.append(observer)
        observer.observe(self._scope)

    def detach(self, observer: PassObserver) -> None:
        """Let an observer receive no further passes."""
        if observer in self.observers:
            self.observers.remove(observer)
            observer.leave(self._scope)
