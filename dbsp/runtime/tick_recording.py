"""Recordings: the deltas of the streams of a run over the last ticks, and integrals as of them."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, InputError, counted
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.observed_run import ObservedRun
from dbsp.runtime.pass_observer import ObservedScope, ObservedTick, PassObserver, PassTime, ScopePass
from dbsp.runtime.past_integrals import integral_of
from dbsp.runtime.recorded_tick import RecordedTick
from dbsp.runtime.stream_lookup import FoundStream, StreamChoice, scope_name


@dataclass(frozen=True)
class RecordedIteration:
    """One iteration of a scope in a recorded tick (see `Recording.iterations`).

    Examples:
        >>> program = dbsp.compile('''
        ...     .decl edge(x: number, y: number) .input edge
        ...     .decl path(x: number, y: number) .output path
        ...     path(x, y) :- edge(x, y).
        ...     path(x, z) :- path(x, y), edge(y, z).
        ... ''')
        >>> run = program.start()
        >>> recording = run.record(ticks=10)
        >>> _ = run.step({"edge": [(1, 2), (2, 3)]})
        >>> [iteration.time for iteration in recording.iterations("path")]
        [(0,), (1,), (2,)]
    """

    time: PassTime
    """The iteration of each scope around it, outermost first; the last one is its own."""
    deltas: Mapping[str, ZSet]
    """The deltas that are not empty, by the path of their node."""

    @property
    def rows(self) -> int:
        """The number of rows in all deltas."""
        return sum(map(len, self.deltas.values()))


@methods_end_at_caller
class Recording:
    """The deltas of the streams of a run over its last ticks; `Run.record` begins one.

    A stream is named by a relation of the run ("path"), by the path of a node in `run.graph` ("3",
    or "3/0" inside the scope of node 3), by a node or stream of `run.graph`, or by a stream of the
    circuit that was started. Without `tick`, a method means the latest recorded tick.

    An update of the run to another program is not a recorded tick. The deltas of the ticks before
    it remain; integrals as of these ticks do not.

    Examples:
        >>> circuit = Circuit("shop")
        >>> big = circuit.input("sale", x=int).filter(col("x") > 5)
        >>> circuit.output("big", big.map(x=col("x") * 2))
        >>> run = circuit.start()
        >>> recording = run.record(ticks=10)
        >>> for row in (7, 3, 9):
        ...     _ = run.step({"sale": [(row,)]})
        >>> recording
        <recording of ticks 1 to 3: 11 rows>
        >>> recording.delta("sale", 2).to_dict(), recording.delta("big", 2).to_dict()
        ({(3,): 1}, {})
        >>> recording.integral("big", 1).to_dict()
        {(14,): 1}
    """

    def __init__(
        self,
        run: ObservedRun,
        ticks: int,
        streams: Sequence[StreamChoice] | None,
        max_rows: int,
        *,
        timed: bool = False,
    ) -> None:
        self._run = weakref.ref(run)
        self._kept: deque[RecordedTick] = deque()
        self._last: RecordedTick | None = None
        self._updated_at = 0
        """The tick of the latest update to another program; 0 without one."""
        self._owner: ObservedRun | None = None
        self._ticks = ticks
        self._max_rows = max_rows
        self._observer = _Recorder(self._take, self._nodes, max_rows, self._note_update)
        self._observer.timed = timed
        self._lookup = run.lookup()
        self._streams = None if streams is None else [self._lookup.lasting(stream) for stream in streams]
        run.attach(self._observer)

    def __repr__(self) -> str:
        if not self._kept:
            return "<recording of no ticks>"
        first, last = self._kept[0].number, self._kept[-1].number
        numbers = f"tick {first}" if first == last else f"ticks {first} to {last}"
        return f"<recording of {numbers}: {counted(self.rows, 'row')}>"

    # --- what is recorded -------------------------------------------------------------------------

    @property
    def ticks(self) -> tuple[int, ...]:
        """The numbers of the recorded ticks, oldest first."""
        return tuple(tick.number for tick in self._kept)

    @property
    def rows(self) -> int:
        """The number of recorded rows, at most `max_rows`."""
        if not self._kept:
            return 0
        first, last = self._kept[0], self._kept[-1]
        return last.rows_before + last.rows - first.rows_before

    @property
    def dropped(self) -> int:
        """The number of ticks that were recorded and dropped again, as the oldest ones."""
        return self._last.place + 1 - len(self._kept) if self._last is not None else 0

    @property
    def truncated(self) -> tuple[int, ...]:
        """The recorded ticks whose deltas are left out: each has more rows than `max_rows`."""
        return tuple(tick.number for tick in self._kept if tick.observed.truncated)

    def streams(self, tick: int | None = None) -> dict[str, Node]:
        """Return the nodes of the circuit by their path, nested scopes included.

        Parameters:
            tick: a recorded tick, for the circuit that the run had in it.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> {path: node.operator.name for path, node in run.record(ticks=10).streams().items()}
            {'0': 'Input', '1': 'Arrange', '2': 'Output'}
        """
        lookup = self._lookup if tick is None and not self._kept else self._tick(tick).lookup
        return lookup.paths()

    # --- deltas -----------------------------------------------------------------------------------

    def delta(self, stream: StreamChoice, tick: int | None = None) -> ZSet:
        """Return the change of a stream in a recorded tick.

        Inside a scope it is the change of the value at the fixpoint: the sum over the iterations.

        Parameters:
            stream: the stream; see the class.
            tick: a recorded tick.

        Raises:
            InputError: the circuit has no such stream, or the tick or the stream is not recorded.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=10)
            >>> _ = run.step({"sale": [(7,)]})
            >>> recording.delta("sale").to_dict()
            {(7,): 1}
        """
        kept = self._tick(tick)
        found = kept.lookup.find(stream)
        stream = kept.lookup.lasting(stream)
        if kept.knows_change(found.node):
            change = kept.change(found.node)
        else:
            kept.expect_recorded(found.node)
            after = self._integral(stream, kept.number)
            before = self._integral(stream, kept.number - 1)
            change = after.plus(before, -1)
        return _shown(found, kept, change)

    def deltas(self, tick: int | None = None) -> dict[str, ZSet]:
        """Return the sum of what each node emitted in a recorded tick, by the path of the node.

        Nodes that emitted nothing are left out. After a restart of a scope, or when it has
        converged early (see `evaluation`), this is not the change of the streams inside.

        Parameters:
            tick: a recorded tick.

        Raises:
            InputError: the tick is not recorded.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=10)
            >>> _ = run.step({"sale": [(7,)]})
            >>> {path: delta.to_dict() for path, delta in recording.deltas().items()}
            {'0': {(7,): 1}, '1': {(7,): 1}, '2': {(7,): 1}}
        """
        kept = self._tick(tick)
        emitted = {node for each in kept.passes for node, _ in each.deltas}
        found = {}
        for path, node in kept.lookup.paths().items():
            change = kept.delta(node) if node in emitted else None
            if change is not None:
                found[path] = ZSet.wrap(node.schema, kept.interner, change)
        return found

    def by_iteration(
        self, stream: StreamChoice, tick: int | None = None, *, summed: bool = False
    ) -> dict[PassTime, ZSet]:
        """Return what a stream emitted in each iteration of a recorded tick.

        The keys are the times of the iterations: a tuple of one number per scope around the stream,
        outermost first; `()` for a stream outside of scopes. Iterations without rows are left out.

        Inside a scope, a stream emits the differences of its values from iteration to iteration.
        `summed` adds them up: then each iteration has the change of the value that the stream has
        in it, which is the value itself in the first tick and after a restart.

        Parameters:
            stream: the stream; see the class.
            tick: a recorded tick.
            summed: whether to sum the iterations so far.

        Raises:
            InputError: the circuit has no such stream, or the tick or the stream is not recorded.

        Examples:
            >>> circuit = Circuit("down")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("down") as scope:
            ...     down = scope.variable("down", n.schema)
            ...     scope.define(down, (n + down.filter(col("x") > 0).map(x=col("x") - 1)).distinct())
            >>> circuit.output("down", scope.leave(down))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=10)
            >>> _ = run.step({"n": [(2,)]})
            >>> {time: delta.rows() for time, delta in recording.by_iteration(down).items()}
            {(1,): [(2,)], (2,): [(1,)], (3,): [(0,)]}
        """
        kept = self._tick(tick)
        found = kept.lookup.find(stream)
        pieces = kept.summed_by_time(found.node) if summed else kept.by_time(found.node)
        return {time: _shown(found, kept, batch) for time, batch in pieces.items()}

    def iterations(self, scope: str, tick: int | None = None) -> tuple[RecordedIteration, ...]:
        """Return the iterations of a scope in a recorded tick, in their order.

        Parameters:
            scope: the name of the fixpoint as in `Run.iterations`, "outer/inner" if it is nested.
            tick: a recorded tick.

        Returns:
            The iterations with the deltas of all recorded streams inside; none if no input of the
            scope changed.

        Raises:
            InputError: the circuit has no such scope, or the tick is not recorded.

        Examples:
            >>> circuit = Circuit("down")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("down") as scope:
            ...     down = scope.variable("down", n.schema)
            ...     scope.define(down, (n + down.filter(col("x") > 0).map(x=col("x") - 1)).distinct())
            >>> circuit.output("down", scope.leave(down))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=10)
            >>> _ = run.step({"n": [(2,)]})
            >>> [(i.time, i.rows) for i in recording.iterations("down")]
            [((0,), 4), ((1,), 6), ((2,), 6), ((3,), 1)]
        """
        kept = self._tick(tick)
        self._expect_scope(kept, scope)
        paths = {node: path for path, node in kept.lookup.paths().items()}
        return tuple(
            RecordedIteration(each.time, _deltas(each, paths, kept)) for each in kept.passes_of(scope)
        )

    def scopes(self, tick: int | None = None) -> dict[str, str]:
        """Return by name of a scope how a recorded tick evaluated it.

        "changes" means that the iterations add up to the changes of the streams inside. "restart"
        means that the iterations evaluate the scope from scratch. "converged early" means that the
        rows of all later iterations were retracted at once, without iterating. `delta` returns the
        change of a stream in all three cases.

        Parameters:
            tick: a recorded tick.

        Examples:
            >>> circuit = Circuit("down")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("down") as scope:
            ...     down = scope.variable("down", n.schema)
            ...     scope.define(down, (n + down.filter(col("x") > 0).map(x=col("x") - 1)).distinct())
            >>> circuit.output("down", scope.leave(down))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=10)
            >>> _ = run.step({"n": [(2,)]})
            >>> recording.scopes()
            {'down': 'changes'}
        """
        kept = self._tick(tick)
        graphs = dict.fromkeys(node.graph for node in kept.lookup.graph.walk())
        return {scope_name(graph): kept.evaluation(graph) for graph in graphs if graph.parent is not None}

    # --- integrals --------------------------------------------------------------------------------

    def integral(self, stream: StreamChoice, tick: int | None = None) -> ZSet:
        """Return the integral of a stream as of a recorded tick: the sum of its deltas until then.

        It is computed from the state of the run and the recorded deltas, so the recording stores no
        integrals. Inside a scope it is the value at the fixpoint. Cost: O(n log n) for n rows that
        the state has; a stream whose integral the state has not is evaluated from those it has, and
        a stream of a scope by evaluating the scope from scratch.

        Parameters:
            stream: the stream; see the class.
            tick: a recorded tick, or the tick before the first one.

        Raises:
            InputError: the circuit has no such stream; the tick or the stream is not recorded; or
                the run has made ticks since the recording was stopped.
            CircuitError: the state does not determine the integral: the rows of an input are not
                kept, or a node depends on ticks; or the run has been released.

        Examples:
            >>> circuit = Circuit("shop")
            >>> big = circuit.input("sale", x=int, kind="set").filter(col("x") > 5)
            >>> circuit.output("n", big.group_by().agg(n=count()))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=10)
            >>> for row in (7, 3, 9):
            ...     _ = run.step({"sale": [(row,)]})
            >>> [recording.integral(big, tick).rows() for tick in recording.ticks]
            [[(7,)], [(7,)], [(7,), (9,)]]
        """
        number = self._tick(None).number if tick is None else tick
        before_first = bool(self._kept) and number == self._kept[0].number - 1
        kept = self._kept[0] if before_first else self._tick(number)
        total = self._integral(kept.lookup.lasting(stream), number)
        return _shown(kept.lookup.find(stream), kept, total)

    def _integral(self, stream: StreamChoice, number: int) -> Batch:
        run = self._run()
        if run is None:
            raise CircuitError(
                "the run of this recording has been released, and with it the integrals; keep a reference to "
                "the run",
                code="rows-not-kept",
            )
        if number < self._updated_at:
            raise InputError(
                f"tick {self._updated_at} has updated the run to another program, so the recording has the "
                f"deltas of the ticks before it, and no integrals as of tick {number}; choose a later tick",
                code="not-recorded",
            )
        if run.tick != self._kept[-1].number:
            raise InputError(
                f"the run is at tick {run.tick}, and the recording ends with tick {self._kept[-1].number}; "
                "read integrals before stopping the recording",
                code="not-recorded",
            )
        later = [tick for tick in self._kept if tick.number > number]
        same = [tick for tick in later if tick.lookup.graph is run.graph]
        total = integral_of(run.scope, run.lookup().find(stream).node, same)
        for tick in later[: len(later) - len(same)]:  # of circuits from which the run has switched
            change = tick.change(tick.lookup.find(stream).node)
            if change is not None:
                total = total.plus(change, -1)
        return total

    # --- the observer -----------------------------------------------------------------------------

    def stop(self) -> None:
        """Record no further ticks; the recorded ones remain.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> recording = run.record(ticks=10)
            >>> recording.stop()
            >>> _ = run.step({"sale": [(7,)]})
            >>> recording.ticks
            ()
        """
        run = self._run()
        if run is not None:
            run.detach(self._observer)

    def keep(self, run: ObservedRun) -> None:
        """Keep the run for as long as the recording; otherwise its owner keeps it."""
        self._owner = run

    def _take(self, number: int, observed: ObservedTick) -> None:
        # A commit that is interrupted is repeated, so the tick may be here already.
        run, kept, last = self._run(), self._kept, self._last
        if run is None:
            return
        if last is None or last.number != number:
            if self._lookup.graph is not run.graph:
                self._lookup = run.lookup()
            nodes = None if self._streams is None else self._nodes()
            last = self._last = RecordedTick(number, observed, self._lookup, run.interner, nodes, last)
        if not kept or kept[-1] is not last:
            kept.append(last)
        rows = last.rows_before + last.rows
        while len(kept) > self._ticks or rows - kept[0].rows_before > self._max_rows:
            kept.popleft()

    def _note_update(self, number: int) -> None:
        self._updated_at = number

    def _nodes(self) -> Collection[Node] | None:
        """Return the nodes to record; None for all."""
        run = self._run()
        if self._streams is None or run is None:
            return None
        lookup, nodes = run.lookup(), set()
        for stream in self._streams:
            # A circuit to which the run has switched may lack it: reading its delta raises then.
            with suppress(InputError):
                nodes.add(lookup.find(stream).node)
        return nodes

    def recorded(self, tick: int | None = None) -> RecordedTick:
        """Return the passes of a recorded tick, with the duration of each step if the recording is
        timed."""
        return self._tick(tick)

    def _tick(self, number: int | None) -> RecordedTick:
        """Return a recorded tick, by default the latest. Raises InputError."""
        for tick in reversed(self._kept):
            if number is None or tick.number == number:
                return tick
        if not self._kept:
            raise InputError("the recording has no tick yet; step the run first", code="not-recorded")
        raise InputError(
            f"the recording has ticks {self._kept[0].number} to {self._kept[-1].number}, got tick {number}; "
            "choose one of them, or record more with ticks= and max_rows=",
            code="not-recorded",
        )

    def _expect_scope(self, tick: RecordedTick, scope: str) -> None:
        known = dict.fromkeys(
            scope_name(node.graph) for node in tick.lookup.graph.walk() if node.graph.parent
        )
        if scope not in known:
            have = f"the scopes are {', '.join(known)}" if known else "the circuit has no scopes"
            raise InputError(f"unknown scope {scope!r}; {have}", code="unknown-stream")


class _Recorder(PassObserver):
    """Passes committed ticks on to a recording."""

    def __init__(
        self,
        receive: Callable[[int, ObservedTick], None],
        nodes: Callable[[], Collection[Node] | None],
        max_rows: int,
        note_update: Callable[[int], None],
    ) -> None:
        super().__init__()
        self._receive = receive
        self._nodes = nodes
        self._note_update = note_update
        self.max_rows = max_rows

    def choose(self, scope: ObservedScope) -> Sequence[Step]:
        nodes = self._nodes()
        return scope.steps if nodes is None else [step for step in scope.steps if step.node in nodes]

    def commit_tick(self, number: int) -> None:
        if self.pending is not None:
            self._receive(number, self.pending)
            self.drop()

    def commit_update(self, number: int) -> None:
        self._note_update(number)
        self.drop()


def _shown(found: FoundStream, tick: RecordedTick, batch: Batch | None) -> ZSet:
    return ZSet.wrap(found.columns, tick.interner, batch or Batch.empty(found.columns.arity))


def _deltas(each: ScopePass, paths: Mapping[Node, str], tick: RecordedTick) -> dict[str, ZSet]:
    return {paths[node]: ZSet.wrap(node.schema, tick.interner, batch) for node, batch in each.deltas}
