"""Updates of a sharded run: all shards continue with another program between two ticks.

    propose:  compile and distribute the new program             (coordinator)
    rebuild:  move the state into the new circuit                (shards)
    step:     apply the facts that only one program has          (shards)
    record:   write the new state, if there is a checkpoint      (shards)
    answer:   ready with the differences of outputs, or failed   (shards)
    decide:   commit if all are ready, else roll back            (coordinator)
    sum the differences                                          (coordinator)

A stream is kept if both circuits compute it on the same shards: exchanges are nodes of the circuit,
and how an input is dealt is part of its operator. A stream that the new circuit has in other places
is moved there, from the rows that the shards keep (see `dbsp.runtime.moved_integrals`). An update
is one tick, all or nothing: it is committed by all shards or by none. With a checkpoint, the header
of the run decides, and with it the tick: it then names the new program, and the snapshots of the
shards that count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.batch import Batch
from dbsp.durable.shards_header import ShardsHeader
from dbsp.errors import expect_present, expect_type
from dbsp.runtime.latest_tick import LatestTick, up_to
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.program_update import (
    ProposedUpdate,
    RunningProgram,
    expect_updatable,
    refuse_dropped_changes,
)
from dbsp.runtime.update_report import Updated
from dbsp.shards.dealing import Dealer
from dbsp.shards.shard_commands import UpdateProgram, Updating
from dbsp.shards.sharded_replanning import ReadyCircuit, ShardedReplanning


class ShardedUpdates(ShardedReplanning):
    """The part of a sharded run that continues with another program."""

    program: RunningProgram | None = None
    """The program that the run was started from; None for a circuit that was built by hand."""

    @ends_at_caller
    def update(self, program: Any) -> Updated:
        """Continue with another program on all shards, as `Run.update`.

        The result is that of one process, except for the number of traces: exchanges need their
        own. A relation is kept if its rules are the same in both programs, and the new circuit has
        its rows on the same shards; rows that belong on other shards are moved there.

        All or nothing: when this raises, all shards continue with their program. With a folder, the
        update is a durable tick when this returns, and the folder belongs to the new program.

        Parameters:
            program: the new program, as `dbsp.compile` returns it.

        Returns:
            The deltas of the tick; the relations that were kept, rebuilt, added and dropped; the
            number of traces of each shard, and of the rows that all shards have read.

        Raises:
            CircuitError: as `Run.update`; or shards cannot run the program.
            CheckpointError: the folder cannot be written.
            ShardError: the run is closed, or the process of a shard has ended.
            DbspError: the evaluation of a new rule fails.

        Examples:
            >>> text = '''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl loop(x: number) .output loop
            ...     loop(x) :- edge(x, x).
            ... '''
            >>> with dbsp.compile(text).start({"edge": [(1, 2), (2, 1)]}, shards=1) as run:
            ...     done = run.update(dbsp.compile(text + "loop(x) :- edge(x, y), edge(y, x)."))
            ...     done.deltas["loop"].to_dict(), dict(done.relations)
            ({(1,): 1, (2,): 1}, {'edge': 'kept', 'loop': 'rebuilt'})
        """
        started = time.perf_counter()
        work = OpenShardedUpdate(self, sys._getframe(), *self._proposed("update", program))
        self.begin(work)
        try:
            done = self._compute_update(work)
            if self._folder is not None:
                self._folder.switch(expect_present(work.header, "the header of an update"))
            work.decided = True
            self.commit_update(work)
        finally:
            self.settle()
        self.record_sizes()
        done.deltas.seconds = time.perf_counter() - started
        return done

    @ends_at_caller
    def preview_update(self, program: Any) -> Updated:
        """Return what `update` would return, and change nothing, as `Run.preview_update`.

        Parameters:
            program: the new program, as `dbsp.compile` returns it.

        Returns:
            The deltas of the tick, and the relations that would be kept, rebuilt, added, dropped.

        Raises:
            CircuitError: as `update`.
            ShardError: the run is closed, or the process of a shard has ended.
            DbspError: the evaluation of a new rule fails.

        Examples:
            >>> text = ".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x), x > 1."
            >>> with dbsp.compile(text).start({"a": [(1,), (2,), (3,)]}, shards=1) as run:
            ...     would = run.preview_update(dbsp.compile(text.replace("x > 1", "x > 2")))
            ...     would.deltas["b"].to_dict(), run.view("b").rows()
            ({(2,): -1}, [(2,), (3,)])
        """
        started = time.perf_counter()
        work = OpenShardedUpdate(self, sys._getframe(), *self._proposed("preview_update", program))
        self.begin(work)
        try:
            would = self._compute_update(work)
        finally:
            self.settle()  # undoes the switch, since it is not decided
        would.deltas.seconds = time.perf_counter() - started
        return would

    def _proposed(self, method: str, program: Any) -> tuple[ProposedUpdate, ReadyCircuit]:
        """Return another program and its distributed circuit. Raises DbspError, changes nothing."""
        self.refuse_inside_tick(method)
        proposed = expect_updatable(self.program).update_to(self, program)
        ready = self._ready(self._place(proposed.graph, proposed.plans))
        refuse_dropped_changes(self._handles, ready.ports.inputs, ready.placed.graph)
        return proposed, ready

    def _compute_update(self, work: OpenShardedUpdate) -> Updated:
        """Compute an update on all shards up to its decision."""
        self._ports = work.ready.ports
        self.install(work.ready.placed.graph, self._scope)
        facts = self.encoded(work.proposed.facts)
        answers = self._together(lambda: self._compute_update_once(work, facts))
        result, _ = self._outcome(self._ticks + 1)
        outputs = {name: delta.stored for name, delta in result.items()}
        work.latest = LatestTick(None, up_to(self.kept_changes, outputs), update=True)
        first = answers[0]
        work.updated = Updated(
            result,
            first.relations,
            first.kept,
            0,
            first.rebuilt,
            first.dropped,
            sum(answer.replayed_rows for answer in answers),
        )
        return work.updated

    def _compute_update_once(self, work: OpenShardedUpdate, facts: Mapping[str, Batch]) -> list[Updating]:
        group, folder, ready, header = self._group, self._folder, work.ready, None
        if folder is not None:
            written, graph = ready.placed.written(), ready.placed.graph
            header = folder.next_program(graph.name, work.proposed.identity, written, self._ticks + 1)
        epoch = group.next_epoch()
        self._generation += 1
        dealt = Dealer(ready.ports.inputs, group.shards, self.interner).deal(facts)
        changed, messages = frozenset(facts), []
        for shard, changes in zip(group, dealt, strict=True):
            packed = shard.post.pack(changes, self.inputs)
            command = UpdateProgram(
                epoch,
                self._generation,
                ready.placed.shipped,
                packed.names,
                packed.packets,
                changed,
                "" if header is None else header.identity(shard.number),
                None if folder is None else folder.plan.common,
            )
            messages.append((command, packed.buffers))
        shards = group.ask(messages, "during the update")
        answers = [expect_type(shard.answer, Updating, "the answer to another program") for shard in shards]
        self._sum_up(shards, answers)
        self._statuses = [answer.status for answer in answers if answer.status is not None]
        group.succeeded()
        if header is not None:
            work.header = replace(header, signature=answers[0].signature)
        return answers

    def commit_update(self, work: OpenShardedUpdate) -> None:
        """Make a decided update final. If this is interrupted, call it again."""
        done = expect_present(work.updated, "the report of a decided update")
        result = done.deltas
        self.continue_with(work.ready)
        if self.log is not None:
            self.log.committed(result, self.log.label)
        self._ticks, self._latest = result.number, work.latest
        self._stays_gathered = ""
        self.latest_update = result.number, done.relations
        work.proposed.adopt()
        self.drop_handles()
        work.committed = True


class OpenShardedUpdate(OpenWork):
    """The switch of a sharded run to another program."""

    __slots__ = (
        "_graph",
        "_ports",
        "_run",
        "committed",
        "header",
        "latest",
        "proposed",
        "ready",
        "updated",
    )

    def __init__(
        self, run: ShardedUpdates, frame: FrameType, proposed: ProposedUpdate, ready: ReadyCircuit
    ) -> None:
        super().__init__("update", frame)
        self._run = run
        self._graph = run.graph
        self._ports = run._ports
        self.proposed = proposed
        self.ready = ready
        self.updated: Updated | None = None
        self.latest: LatestTick | None = None
        self.header: ShardsHeader | None = None
        """The header of the checkpoint after the update: if it is written, the update counts."""
        self.committed = False

    def settle(self) -> None:
        run = self._run
        if not self.decided and self.header is not None and run._folder is not None:
            self.decided = run._folder.switched(self.header)
        if self.decided:
            if not self.committed:
                run.commit_update(self)
            return
        run._ports = self._ports
        run.install(self._graph, run._scope)
        run.roll_back()
