"""Watches: a callback on the changes of any stream of a running circuit."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, InputError, UserFunctionError, cause_text
from dbsp.runtime.observed_run import ObservedRun
from dbsp.runtime.pass_observer import ObservedScope, ObservedTick, PassObserver, PassTime, ScopePass
from dbsp.runtime.past_integrals import integral_of
from dbsp.runtime.recorded_tick import RecordedTick, leaving
from dbsp.runtime.stream_lookup import FoundStream, StreamChoice


@methods_end_at_caller
class WatchedTick:
    """The change of a watched stream in one tick; the callback of `Run.watch` gets it.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", x=int))
        >>> run = circuit.start()
        >>> watch = run.watch("sale")
        >>> _ = run.step({"sale": [(7,)]})
        >>> watch.latest
        <tick 1 of sale: 1 row changed>
    """

    def __init__(self, run: ObservedRun, found: FoundStream, tick: RecordedTick) -> None:
        self._run = weakref.ref(run)
        self._found = found
        self._tick = tick

    def __repr__(self) -> str:
        rows = sum(map(len, self._tick.by_time(self._found.node).values()))
        name = self._tick.lookup.name_of(self._found.node)
        return f"<tick {self.number} of {name}: {rows} row{'' if rows == 1 else 's'} changed>"

    @property
    def number(self) -> int:
        """The number of the tick."""
        return self._tick.number

    @property
    def delta(self) -> ZSet:
        """The change of the stream; inside a scope that of the value at the fixpoint.

        Raises:
            InputError: the tick restarted the scope of the stream, or ended its iterations early,
                and the stream does not leave the scope. `Run.record` has the change all the same.
        """
        return self._shown(self._tick.change(self._found.node))

    @property
    def by_iteration(self) -> dict[PassTime, ZSet]:
        """What the stream emitted, by the iteration of each scope around it; `()` outside."""
        pieces = self._tick.by_time(self._found.node)
        return {time: self._shown(batch) for time, batch in pieces.items()}

    def integral(self) -> ZSet:
        """Return the integral of the stream after this tick, which must be the run's latest.

        The cost is that of `Recording.integral`.

        Raises:
            InputError: the run has made another tick since.
            CircuitError: the state does not determine the integral.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> watch = run.watch("sale", lambda tick: print(tick.delta.rows(), tick.integral().rows()))
            >>> for row in (7, 3):
            ...     _ = run.step({"sale": [(row,)]})
            [(7,)] [(7,)]
            [(3,)] [(3,), (7,)]
        """
        run = self._run()
        if run is None or run.tick != self.number or run.graph is not self._tick.lookup.graph:
            raise InputError(
                f"the run is past tick {self.number}, so the watch has no integral as of it; read the "
                "integral in the callback, or use run.record()",
                code="not-recorded",
            )
        return self._shown(integral_of(run.scope, self._found.node, ()))

    def _shown(self, batch: Batch | None) -> ZSet:
        columns = self._found.columns
        return ZSet.wrap(columns, self._tick.interner, batch or Batch.empty(columns.arity))


@methods_end_at_caller
class StreamWatch:
    """A watch on one stream of a run; `Run.watch` begins it, and `stop` ends it.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", x=int))
        >>> run = circuit.start()
        >>> run.watch("all")
        <watch of all>
    """

    def __init__(
        self, run: ObservedRun, stream: StreamChoice, callback: Callable[[WatchedTick], Any] | None
    ) -> None:
        lookup = self._lookup = run.lookup()
        self._stream = lookup.lasting(stream)
        self._present: FoundStream | None = lookup.find(stream)
        """The stream in the circuit of `_lookup`; None if that circuit lacks it."""
        self._name = lookup.name_of(lookup.find(stream).node)
        self._run = weakref.ref(run)
        self._callback = callback
        self.latest: WatchedTick | None = None
        """The latest tick in which the stream changed since the watch began, if there is one."""
        self._types = lookup.find(stream).columns.types
        self._observer = _Watcher(self._found, self._take, self._integral, self._take_update)
        run.attach(self._observer)

    def __repr__(self) -> str:
        return f"<watch of {self._name}>"

    def stop(self) -> None:
        """End the watch. Its callback may call this, too.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> watch = run.watch("sale", print)
            >>> watch.stop()
            >>> _ = run.step({"sale": [(7,)]})
        """
        run = self._run()
        if run is not None:
            run.detach(self._observer)

    def _found(self) -> FoundStream | None:
        """Return the stream in the present circuit of the run; None if the circuit lacks it."""
        run = self._run()
        if run is not None and run.graph is not self._lookup.graph:
            self._lookup = run.lookup()
            self._present = None
            with suppress(InputError):
                self._present = self._lookup.find(self._stream)
        return self._present

    def _integral(self) -> Batch | CircuitError | None:
        """Return the rows of the stream, or why they are unknown; None if there is no stream."""
        run, found = self._run(), self._found()
        if run is None or found is None:
            return None
        try:
            return integral_of(run.scope, found.node, ())
        except CircuitError as error:
            return error

    def _take_update(self, before: Batch | CircuitError | None) -> None:
        """Take the tick of an update: the difference of the rows before and after it."""
        run, after = self._run(), self._integral()
        found = self._present
        if run is None:
            return
        if found is None or before is None or after is None:
            self._end(f"the update of tick {run.tick} has dropped this stream")
            return
        if isinstance(before, CircuitError) or isinstance(after, CircuitError):
            reason = before if isinstance(before, CircuitError) else after
            self._end(f"its change by the update of tick {run.tick} is unknown: {reason}")
            return
        if before.arity != after.arity or self._types != found.columns.types:
            self._end(f"the update of tick {run.tick} has changed the columns of this stream")
            return
        change = after.plus(before, -1)
        observed = ObservedTick()
        observed.passes.append(ScopePass(found.node.graph, 0, (), [found.node, change], None))
        observed.rows = len(change)
        if change:
            self._take(observed)

    def _end(self, reason: str) -> None:
        """End the watch, and warn."""
        self.stop()
        warnings.warn(f"the watch of {self._name} has ended: {reason}", UserWarning, stacklevel=2)

    def _take(self, observed: ObservedTick) -> None:
        run, found = self._run(), self._found()
        if run is None:
            return
        if found is None:
            self._end(f"before tick {run.tick}, the run switched to a circuit without this stream")
            return
        tick = RecordedTick(run.tick, observed, self._lookup, run.interner)
        if not tick.by_time(found.node) and tick.exact(found.node.graph):
            return
        self.latest = WatchedTick(run, found, tick)
        if self._callback is None:
            return
        try:
            self._callback(self.latest)
        except Exception as error:
            raise UserFunctionError(
                f"the callback of the watch of {self._name} raised {cause_text(error)}; it was called after "
                "the commit, so the tick remains committed",
                where=found.node.describe(),
            ) from error


class _Watcher(PassObserver):
    """Passes the deltas of one stream on to its watch."""

    notifies = True

    def __init__(
        self,
        found: Callable[[], FoundStream | None],
        take: Callable[[ObservedTick], None],
        integral: Callable[[], Batch | CircuitError | None],
        take_update: Callable[[Batch | CircuitError | None], None],
    ) -> None:
        super().__init__()
        self._found = found
        self._take = take
        self._integral = integral
        self._take_update = take_update
        self._nodes: set[Node] = set()
        self._before: Batch | CircuitError | None = None
        """The rows of the stream before an update, or why they are unknown."""
        self._updated = False

    def observe(self, scope: ObservedScope) -> None:
        super().observe(scope)
        self._nodes = set()

    def choose(self, scope: ObservedScope) -> Sequence[Step]:
        if not self._nodes:
            found = self._found()
            # Outside of its scope, a stream has its change in ticks that restart the scope.
            node = None if found is None else found.node
            while node is not None:
                self._nodes.add(node)
                node = leaving(node)
        return [step for step in scope.steps if step.node in self._nodes]

    def begin_update(self) -> None:
        self._before = self._integral()

    def commit_update(self, number: int) -> None:
        self._updated = True

    def notify(self) -> None:
        tick, before, updated = self.pending, self._before, self._updated
        self.drop()
        self._before, self._updated = None, False
        if updated:
            self._take_update(before)
        elif tick is not None and (tick.rows or tick.restarted or tick.converged or self._found() is None):
            self._take(tick)
