"""Updates: a run continues with another program, and keeps the state that both programs share.

The circuit of the new program takes over the state of every node that the running circuit has,
too (see `dbsp.runtime.transplant`). One step computes what the edit changes: nodes behind it take
the difference, and others are rebuilt from kept state. Then the facts that
only one of the two programs has change their inputs, in a step of the new circuit. Both steps
together are one tick:

    delta of an output  =  view in the new program - view in the old program

An output that only the new program has emits its rows. One that only the old program has emits
nothing. Cost: that of the edited rules over all rows, in both programs, and of a tick over the
difference; O(n log n) for the n rows that rebuilt nodes read or store. Planning counts the rows of
relations that new rules join.

With a log, it decides the update: the state of the new circuit becomes the snapshot of the new
program in a checkpoint, or all shards of a run agree. The state is committed before the decision;
until then, a savepoint of the old scope undoes it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph
from dbsp.data.batch import Batch, sum_if_any
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, expect_present
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.bulk_transaction import BulkTicks
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.input_handle import InputHandle
from dbsp.runtime.latest_tick import LatestTick, up_to
from dbsp.runtime.live_graph import LivePrograms
from dbsp.runtime.memory import give_back
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.ports import InputPort
from dbsp.runtime.run_log import UpdateLog
from dbsp.runtime.savepoint import Savepoint
from dbsp.runtime.stored_relations import StoredRelations
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.ticks import LARGE
from dbsp.runtime.transplant import Transplant
from dbsp.runtime.update_report import Updated, states_of_relations

if TYPE_CHECKING:
    from dbsp.runtime.run_subscription import RunSubscription


@dataclass(frozen=True)
class ProposedUpdate:
    """The circuit of another program, and the other changes that come with it."""

    graph: Graph
    identity: str
    """Identifies the new program in a checkpoint."""
    source: dict[str, Any]
    """The new program as JSON, for a checkpoint."""
    plans: str | None
    """The plans of its rules, as for `Proposal`."""
    facts: Mapping[str, InputChange]
    """By input, the facts that only the new program has, and retractions of those that it lacks."""
    adopt: Callable[[], None]
    """Makes the run one of the new program; raises nothing, and may be called more than once."""


class RunningProgram(LivePrograms, Protocol):
    """The program of a run; its compiler provides it."""

    def update_to(self, run: Any, program: Any) -> ProposedUpdate:
        """Return the circuit of another program for a run, and change nothing."""


class ProgramUpdates(BulkTicks, StoredRelations):
    """The part of a run that continues with another program."""

    program: RunningProgram | None = None
    """The program that the run was started from; None for a circuit that was built by hand."""

    @ends_at_caller
    def update(self, program: Any) -> Updated:
        """Continue with another program, as one tick; state that both programs share is kept.

        Rules, relations and outputs may be added, dropped and replaced. A relation is *kept* if its
        rules, and everything that they read, are the same in both programs: its state is not
        touched. It is *changed* if it keeps its state and takes the difference that the edit makes:
        rules that both programs have are not evaluated. Other relations are *rebuilt* from the rows
        that the run has. Positions, white space, comments and the order of declarations do not
        count.

        The tick emits for each output the difference between its rows in the two programs. A new
        output, and one whose columns have other types, emits all of its rows; a dropped output is
        not in the result. Facts that only the new program has are inserted, and facts that it lacks
        are retracted; the other rows of inputs stay, and a new input is empty. A dropped input
        loses its rows. Staged changes stay staged. Later ticks return what a run of the new program
        returns.

        All or nothing: when this raises, the run continues with its program, and nothing has
        changed. With a checkpoint, the update is a durable tick when this returns: the folder then
        belongs to the new program, with a snapshot of its state. The label of the tick before
        stays.

        Parameters:
            program: the new program, as `dbsp.compile` returns it.

        Returns:
            The deltas of the tick, and the relations that were kept, changed, rebuilt, added and
            dropped.

        Raises:
            CircuitError: the run was not started from a program, or steps another stage than the
                physical one; an input has other columns, or a dropped input has staged changes; a
                rule of the new program depends on past ticks, as with `autoinc()`; or the run has
                a checkpoint, and the circuit cannot be written as JSON.
            CheckpointError: the checkpoint cannot be written.
            DbspError: the evaluation of a new rule fails.

        Examples:
            >>> text = '''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl loop(x: number) .output loop
            ...     loop(x) :- edge(x, x).
            ... '''
            >>> run = dbsp.compile(text).start({"edge": [(1, 1), (1, 2), (2, 1)]})
            >>> done = run.update(dbsp.compile(text + "loop(x) :- edge(x, y), edge(y, x), x < y."))
            >>> done.deltas["loop"].to_dict(), done.deltas.number
            ({}, 2)
            >>> done = run.update(dbsp.compile(text + "loop(x) :- edge(x, y), edge(y, x)."))
            >>> done.deltas["loop"].to_dict(), dict(done.relations)
            ({(2,): 1}, {'edge': 'kept', 'loop': 'changed'})
        """
        started = time.perf_counter()
        proposed = self._proposed("update", program)
        done = self.switch_program(proposed, lambda: self.encoded(proposed.facts) or None)
        done.deltas.seconds = time.perf_counter() - started
        self._notify()
        return done

    def switch_program(
        self, proposed: ProposedUpdate, encode: Callable[[], Mapping[str, Batch] | None]
    ) -> Updated:
        """Continue with a proposed update, as `update` does.

        `encode` returns the changed facts for the inputs of the new circuit; None if there are none
        on any shard.
        """
        before = None if self._live is None else self._live.capture()
        log = None if self.log is None else self.log.begin_update(self)
        work = OpenUpdate(self, sys._getframe(), before, log)
        self.begin(work)
        try:
            for observer in self.observers:
                observer.begin_update()
            self._compute_update(work, proposed.graph, encode)
            work.plans, work.adopt = proposed.plans, proposed.adopt
            if log is not None:
                self._record_update(work, log, proposed)
            work.decided = True
            self.commit_update(work)
        finally:
            self.settle()
        self._scope.forget()
        self._scope.merge()
        if work.rows > LARGE:
            give_back()
        self.record_sizes()
        if self._live is not None:
            self._live.refresh()
        return expect_present(work.updated, "the report of a committed update")

    @ends_at_caller
    def preview_update(self, program: Any) -> Updated:
        """Return what `update` would return, and change nothing.

        The update is computed and undone: no view changes, and no subscription is notified. The
        cost is that of the update.

        Parameters:
            program: the new program, as `dbsp.compile` returns it.

        Returns:
            The deltas of the tick, and what would happen to each relation.

        Raises:
            CircuitError: as `update`.
            DbspError: the evaluation of a new rule fails.

        Examples:
            >>> text = ".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x), x > 1."
            >>> run = dbsp.compile(text).start({"a": [(1,), (2,), (3,)]})
            >>> would = run.preview_update(dbsp.compile(text.replace("x > 1", "x > 2")))
            >>> would.names("rebuilt"), would.deltas["b"].to_dict(), run.view("b").rows(), run.tick
            (('b',), {(2,): -1}, [(2,), (3,)], 1)
        """
        started = time.perf_counter()
        proposed = self._proposed("preview_update", program)
        work = OpenUpdate(self, sys._getframe(), None, None)
        self.begin(work)
        try:
            self._compute_update(work, proposed.graph, lambda: self.encoded(proposed.facts) or None)
        finally:
            self.settle()  # undoes the switch, since it is not decided
            self._scope.forget()
        would = expect_present(work.updated, "the report of a computed update")
        would.deltas.seconds = time.perf_counter() - started
        return would

    def _proposed(self, method: str, program: Any) -> ProposedUpdate:
        """Return the circuit of another program. Raises DbspError, and changes nothing."""
        self.refuse_inside_tick(method)
        running = expect_updatable(self.program)
        self._notify()
        proposed = running.update_to(self, program)
        if self.log is not None:
            proposed.graph.to_json()  # the snapshot of the update has the circuit; raises if it cannot
        return proposed

    def _compute_update(
        self, work: OpenUpdate, graph: Graph, encode: Callable[[], Mapping[str, Batch] | None]
    ) -> None:
        """Compute the update up to its decision."""
        if self.budget is not None:
            self.budget.begin_tick()
        # The state is committed before the update is decided: later steps of the update need it so.
        work.savepoint = Savepoint(self._scope)
        work.savepoint.take()
        transplant = work.transplant = Transplant(self._scope, graph, same_query=False)
        refuse_dropped_changes(self._handles, self.ports_of(transplant.scope)[0], graph)
        self.install(graph, transplant.scope)
        facts = encode()
        work.facts = facts or {}
        if facts is not None or transplant.old.first_tick:
            self._compute(dict(work.facts))
        deltas: dict[str, ZSet] = {}
        for name, port in self.output_ports.items():
            total = sum_if_any(transplant.output_changes.get(name), port.out, 1)
            deltas[name] = (
                self._nothing[name] if total is None else ZSet.wrap(port.columns, self.interner, total)
            )
        absent = {name: port.absent for name, port in self.input_ports.items() if port.absent}
        present = {name: port.present for name, port in self.input_ports.items() if port.present}
        result = TickResult(deltas, self._ticks + 1, 0.0, absent, present, self.input_ports)
        work.rows = transplant.replayed_rows + sum(map(len, deltas.values()))
        outputs = {name: delta.stored for name, delta in deltas.items()}
        work.latest = LatestTick(None, up_to(self.kept_changes, outputs), update=True)
        work.updated = Updated(
            result,
            states_of_relations(transplant),
            transplant.kept,
            transplant.changed,
            transplant.rebuilt,
            transplant.dropped,
            transplant.replayed_rows,
        )

    def _record_update(self, work: OpenUpdate, log: UpdateLog, program: ProposedUpdate) -> None:
        """Make a computed update durable, which decides it."""
        self._scope.commit()
        work.recording = True
        done = expect_present(work.updated, "the report of a computed update")
        log.record(program, work.facts, self, done)

    def commit_update(self, work: OpenUpdate) -> None:
        """Make a decided update final. If this is interrupted, call it again."""
        done = expect_present(work.updated, "the report of a decided update")
        self._scope.commit()
        self._ticks = done.deltas.number
        self._latest = work.latest
        self.stored_plans = work.plans
        self.latest_update = done.deltas.number, done.relations
        if work.log is not None:
            work.log.committed(done.deltas)
        expect_present(work.adopt, "the adoption of a decided update")()
        if self._live is not None and work.before is not None:
            self._live.switch(work.before)
        for observer in self.observers:
            observer.commit_update(self._ticks)
            self._unnotified = self._unnotified or observer.notifies
        self.drop_handles()
        work.release_savepoint()
        expect_present(work.transplant, "the state of a decided update").release()
        work.committed = True


class OpenUpdate(OpenWork):
    """The switch of a run to another program."""

    __slots__ = (
        "_graph",
        "_run",
        "_scope",
        "adopt",
        "before",
        "committed",
        "facts",
        "latest",
        "log",
        "plans",
        "recording",
        "rows",
        "savepoint",
        "transplant",
        "updated",
    )

    def __init__(
        self,
        run: ProgramUpdates,
        frame: FrameType,
        before: dict[RunSubscription, Batch] | None,
        log: UpdateLog | None,
    ) -> None:
        super().__init__("update", frame)
        self.before = before
        """The rows of the subscriptions before the update."""
        self.log = log
        self.recording = False
        """Whether the log has been asked to record the update; if it has, the update is decided."""
        self.savepoint: Savepoint | None = None
        self.facts: Mapping[str, Batch] = {}
        self._run = run
        self._graph = run.graph
        self._scope = run._scope
        self.transplant: Transplant | None = None
        self.updated: Updated | None = None
        self.latest: LatestTick | None = None
        self.plans: str | None = None
        self.adopt: Callable[[], None] | None = None
        self.rows = 0
        """The number of rows that the update read and emitted."""
        self.committed = False

    def settle(self) -> None:
        if not self.decided and self.recording and self.log is not None:
            # The interrupt may have arrived after the log had recorded the update.
            self.decided = self.log.decided()
        if self.decided:
            if not self.committed:
                self._run.commit_update(self)
            return
        self._run.install(self._graph, self._scope)
        self._run.roll_back()  # the journal of the kept state is that of both scopes
        if self.savepoint is not None:
            self.savepoint.restore()
        if self.log is not None:
            self.log.withdraw()
        self.release_savepoint()
        if self.transplant is not None:
            self.transplant.withdraw()

    def release_savepoint(self) -> None:
        """Release what would undo the update. If this is interrupted, call it again."""
        if self.savepoint is not None:
            self.savepoint.release()


def expect_updatable(program: RunningProgram | None) -> RunningProgram:
    """Return the program of a run. Raises CircuitError if the run cannot be updated."""
    if program is None:
        raise CircuitError(
            "update needs a run of a compiled program in its physical stage, and this run was started "
            "from a circuit, from another stage, or with circuit=...; start it with "
            "dbsp.compile(text).start()",
            code="update-refused",
        )
    return program


def refuse_dropped_changes(
    handles: Mapping[str, InputHandle], inputs: Mapping[str, InputPort], graph: Graph
) -> None:
    """Raise CircuitError if changes are staged for an input that the new circuit does not have."""
    for name, handle in handles.items():
        if name not in inputs and handle.staged:
            raise CircuitError(
                f"the new program has no input '{name}', and changes of it are staged; apply them with "
                f"run.step(), or drop them with run.input({name!r}).clear(), before the update",
                where=f"circuit '{graph.name}'",
                code="update-refused",
            )
