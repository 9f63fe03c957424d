"""The part of a run that shows the values inside its circuit: watches, recordings, traced ticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.errors import ArgumentError, expect_present, wrong_argument
from dbsp.runtime.observed_run import ObservedRun
from dbsp.runtime.recorded_tick import RecordedTick
from dbsp.runtime.staged_inputs import Changes
from dbsp.runtime.stream_lookup import StreamChoice
from dbsp.runtime.stream_watch import StreamWatch, WatchedTick
from dbsp.runtime.tick_recording import Recording
from dbsp.runtime.tick_trace import TickTrace, TickTracer

MAX_ROWS = 1_000_000
"""The rows that a recording keeps by default."""


class Watching(ObservedRun):
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
        While something records, each pass of a scope costs a loop over its nodes and one list.

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

    @ends_at_caller
    def watch(
        self, stream: StreamChoice, callback: Callable[[WatchedTick], Any] | None = None
    ) -> StreamWatch:
        """Watch the changes of any stream of the circuit from the next tick on.

        The stream may be a relation, an internal stream that the compiler made, or a stream inside
        a fixpoint. After the commit of every tick that changes it, the callback gets its delta, its
        deltas by iteration, and its integral. If the callback raises, `step` raises
        UserFunctionError; the tick remains committed. The callback must not step the run. A run
        without watches does no work for them; a watch costs one check per pass of a scope, and
        looks at its own stream only.

        Parameters:
            stream: the stream, named as in `Recording`.
            callback: a function of a `WatchedTick`; its result is ignored. Without it, `latest` of
                the watch has the latest change.

        Returns:
            The watch; `stop` ends it.

        Raises:
            InputError: the circuit has no such stream.
            ArgumentError: `callback` is not a function.
            CircuitError: the call comes from a function of the circuit, or inside a transaction.

        Examples:
            >>> program = dbsp.compile('''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl path(x: number, y: number) .output path
            ...     path(x, y) :- edge(x, y).
            ...     path(x, z) :- path(x, y), edge(y, z).
            ... ''')
            >>> run = program.start()
            >>> join = next(node for node in run.graph.walk() if node.operator.name == "Join")
            >>> watch = run.watch(join)
            >>> _ = run.step({"edge": [(1, 2), (2, 3), (3, 4)]})
            >>> {time: delta.rows() for time, delta in watch.latest.by_iteration.items()}
            {(1,): [(1, 3), (2, 4)], (2,): [(1, 4)]}
        """
        if callback is not None and not callable(callback):
            raise wrong_argument("callback", "a function of a watched tick", callback)
        self.refuse_inside_tick("watch")
        return StreamWatch(self, stream, callback)

    @ends_at_caller
    def trace_tick(
        self,
        changes: Changes | None = None,
        *,
        commit: bool = True,
        label: Any = None,
        max_rows: int = MAX_ROWS,
    ) -> TickTrace:
        """Apply the changes as one tick, as `step` does, and return what every node did in it.

        The trace has one step per node, and inside fixpoints one per node and iteration: what it
        read, what it emitted, and how long it took. With `commit=False` the tick is computed and
        rolled back: no view changes, no callback is notified, and changes that were staged before
        stay staged.

        Parameters:
            changes: as for `step`.
            commit: whether the tick is to count.
            label: as for `step`.
            max_rows: the number of rows to keep. If the steps emit more, the tick takes place, and
                reading the steps raises InputError.

        Returns:
            The steps in their order, and the result of the tick.

        Raises:
            DbspError: as for `step`.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> trace = run.trace_tick({"sale": [(7,), (3,)]}, commit=False)
            >>> trace, run.tick
            (<trace of tick 1, rolled back: 4 steps, 5 rows>, 0)
            >>> {step.node.operator.name: step.emitted.rows() for step in trace.steps[:2]}
            {'Input': [(3,), (7,)], 'Filter': [(7,)]}
        """
        self.refuse_inside_tick("trace_tick")
        tracer = TickTracer(max_rows)
        self.attach(tracer)
        try:
            if commit:
                result = self.step(changes, label=label)
            else:
                result = self.previewed("trace_tick", lambda: self.net(changes)[0], tracer.look)
        finally:
            self.detach(tracer)
        observed = expect_present(tracer.tick, "the passes of a traced tick")
        tick = RecordedTick(result.number, observed, self.lookup(), self.interner)
        return TickTrace(tick, result, commit)
