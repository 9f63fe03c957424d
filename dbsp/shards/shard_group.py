"""All shards of a run: start them, send commands, wait for answers, and end them.

An interrupt such as Ctrl-C may arrive at any bytecode of the coordinator. Messages are sent and
received with signals deferred, so no message is sent in part; only the wait for an answer can be
interrupted. The phase of each shard says which answers are missing, and `commit` and `roll_back`
can be repeated.

`commit` does not wait for the shards. All of them are ready when it is called, so the tick counts,
and nothing undoes it any more:

- a shard that is ready does nothing but wait for the decision, so it commits, or its process ends;
- if the process of a shard ends, all of them end. With a folder they start again at the tick of the
  commit record, which was written before; without one the run is over, as after a commit;
- commands arrive in order, so what a shard reads or computes next it does after the commit.

A rollback waits, since the shards may still compute and must be released from their exchanges.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from dbsp.data.interner import Interner
from dbsp.deferred_signals import call_undisturbed, poll_interruptibly
from dbsp.errors import ShardError
from dbsp.kernels.thread_count import threads
from dbsp.shards.abortable_link import TickAbortedError
from dbsp.shards.command_channel import Buffer, CommandChannel
from dbsp.shards.fork_request import ShardDescriptors
from dbsp.shards.packed_batches import BatchPost
from dbsp.shards.remote_shard import Phase, RemoteShard
from dbsp.shards.shard_commands import Command, Commit, RollBack, Start
from dbsp.shards.shard_store import ShardPlace
from dbsp.shards.shard_template import prepare_shards, start_shard
from dbsp.shards.shipped_errors import receive_error
from dbsp.shards.shipped_graph import ShippedGraph
from dbsp.shards.socket_mesh import MeshEnds, close_ends, connected_mesh
from dbsp.shards.transport import ShardAborted, ShardLost

_SIGNAL_EVERY = 100.0
"""Milliseconds between the signals to a shard that must abort its tick: it may ignore one."""

Message: TypeAlias = tuple[Command, Sequence[Buffer]]
"""A command and its packets."""


class ShardGroup:
    """The shards of one run. `lost` is set when a process has ended, and then all have."""

    def __init__(
        self,
        shards: int,
        graph: ShippedGraph,
        memory_limit: int | None,
        interner: Interner,
        places: Sequence[ShardPlace] | None = None,
        consequence: str = "its part of the state is lost, so the run has ended",
    ) -> None:
        """Start all shards. With `places` they continue from their checkpoints.

        `consequence` says what the end of a process means for the run. Raises ShardError if the
        system refuses to start a process.
        """
        self._shards: list[RemoteShard] = []
        self._interner = interner
        self._epoch = 0
        self._failed = False
        self._owner = os.getpid()
        self._consequence = consequence
        self.lost: ShardError | None = None
        threads_of_each = max(1, threads() // shards)
        with _start_errors(shards), ExitStack() as opened:
            prepare_shards()
            # The shards notice the end of this process by the end of this pipe.
            life, self._life = os.pipe()
            opened.callback(os.close, life)
            try:
                mesh = connected_mesh(shards)
                for ends in mesh:
                    opened.callback(close_ends, ends)
                for ends in mesh:
                    call_undisturbed(self._spawn, ends, life, graph.modules)
                for number, shard in enumerate(self._shards):
                    place = None if places is None else places[number]
                    start = Start(number, shards, graph, memory_limit, place, threads_of_each)
                    call_undisturbed(shard.send, start)
                self._wait(all_or_none=True)
                self._raise_lost("at its start")
                self._raise_errors()
            except BaseException:
                self.kill()
                raise

    def _spawn(self, ends: MeshEnds, life: int, modules: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            sockets = tuple(None if pair is None else (pair[0].fileno(), pair[1].fileno()) for pair in ends)
            process = start_shard(ShardDescriptors(theirs.fileno(), life, sockets), modules)
        number = len(self._shards)
        self._shards.append(RemoteShard(number, process, CommandChannel(ours), BatchPost(self._interner)))

    @property
    def shards(self) -> int:
        """The number of shards."""
        return len(self._shards)

    def __iter__(self) -> Iterator[RemoteShard]:
        return iter(self._shards)

    # --- commands ---------------------------------------------------------------------------------

    def next_epoch(self) -> int:
        """Return the epoch of a new command; call `succeeded` when both sides have its packets."""
        if self._failed:
            self._epoch += 1
            for shard in self._shards:
                shard.post.reset()
        self._failed = True
        return self._epoch

    def succeeded(self) -> None:
        """Note that no packet of the latest command is lost."""
        self._failed = False

    def ask(self, messages: Sequence[Message], when: str) -> list[RemoteShard]:
        """Send each shard its command, and wait for all answers; return the shards.

        Raises ShardError with `when` if a process has ended, or the error of a shard.
        """
        call_undisturbed(self._send_all, messages)
        self._wait()
        self._raise_lost(when)
        self._raise_errors()
        return self._shards

    def _send_all(self, messages: Sequence[Message]) -> None:
        for shard, (command, buffers) in zip(self._shards, messages, strict=True):
            shard.send(command, buffers)

    def commit(self) -> None:
        """Commit the tick on all shards that are ready; do not wait for them. Can be repeated.

        If a process has ended, the next command says so.
        """
        call_undisturbed(self._send_decision, Commit(self._epoch))

    def _send_decision(self, decision: Command) -> None:
        for shard in self._shards:
            if shard.phase is Phase.READY:
                shard.send(decision)

    def roll_back(self) -> None:
        """End the open commands on all shards, and undo an open tick. Can be repeated."""
        self._wait(abort=True)
        call_undisturbed(self._send_decision, RollBack(self._epoch))
        # No error of the rollback is raised: the shard repeats the rollback before its next tick.
        self._wait()

    def _wait(self, all_or_none: bool = False, abort: bool = False) -> None:
        """Wait until no answer is to come; with `all_or_none`, or one shard has failed.

        With `abort`, or when a process has ended, abort the tick that shards compute. When a shard
        has failed, the others have a short time for errors of their own, so that the same error is
        raised every time; then abort it as well.
        """
        overdue = False
        while waiting := {shard.fileno(): shard for shard in self._shards if shard.waited_for}:
            patience = None
            if abort or overdue or any(shard.phase is Phase.LOST for shard in self._shards):
                self._abort()
                patience = _SIGNAL_EVERY
            elif any(shard.failure is not None for shard in self._shards):
                patience = _SIGNAL_EVERY
            if all_or_none and any(
                shard.phase is Phase.LOST or shard.failure is not None for shard in self._shards
            ):
                return  # the others may wait for it in an exchange
            poll = select.poll()
            for descriptor in waiting:
                poll.register(descriptor, select.POLLIN)
            answered = [waiting[descriptor] for descriptor, _ in poll_interruptibly(poll, patience)]
            overdue = patience is not None and not answered
            call_undisturbed(_receive_all, answered)

    def _abort(self) -> None:
        for shard in self._shards:
            if shard.phase is Phase.COMPUTING:
                shard.abort()

    def _raise_lost(self, when: str) -> None:
        """If a process has ended, end all, and raise ShardError."""
        lost = [shard for shard in self._shards if shard.phase is Phase.LOST]
        if not lost:
            return
        first = lost[0]
        error = ShardError(
            f"the process of shard {first.number} of {len(self._shards)} ended {when} "
            f"({first.describe_end()}); {self._consequence}",
            code="shard-lost",
        )
        self.end(error)
        raise self.lost or error

    def _raise_errors(self) -> None:
        """Raise the error of a shard, if there is one, as one process would raise it.

        Of several errors prefer one that does not follow from another shard or a signal, then that
        of the lowest shard.
        """
        errors = [receive_error(data) for shard in self._shards if (data := shard.failure) is not None]
        for shard in self._shards:
            if shard.failure is not None:
                shard.answer = None
        if errors:
            raise min(errors, key=_distance_to_cause)

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """End all processes, and wait for their end. Can be repeated."""
        if os.getpid() != self._owner:
            return  # a forked child does not own the shards
        for shard in self._shards:
            call_undisturbed(shard.ask_to_end)
        self._join()

    def end(self, error: ShardError) -> None:
        """End all processes, because of an error that makes the shards unusable."""
        self.lost = self.lost or error
        self.kill()

    def kill(self) -> None:
        """End all processes at once. Can be repeated."""
        if os.getpid() == self._owner:
            for shard in self._shards:
                shard.kill()
            self._join()

    def _join(self) -> None:
        for shard in self._shards:
            shard.join()
        if self._life >= 0:
            life, self._life = self._life, -1
            os.close(life)


@contextmanager
def _start_errors(shards: int) -> Iterator[None]:
    """Raise ShardError for an error of the system, such as that of its limit of open files."""
    try:
        yield
    except OSError as error:
        raise ShardError(
            f"cannot start {shards} shards: {error.strerror}; start fewer, or raise the limits of the "
            "system (ulimit -n shows that of open files, ulimit -u that of processes)",
            code="shards-not-started",
        ) from error


def _receive_all(shards: Sequence[RemoteShard]) -> None:
    for shard in shards:
        shard.receive()


def _distance_to_cause(error: BaseException) -> int:
    """Return 0 for an error of the tick, more for one that follows from another shard."""
    if isinstance(error, ShardAborted | ShardLost):
        return 2
    return int(isinstance(error, TickAbortedError))
