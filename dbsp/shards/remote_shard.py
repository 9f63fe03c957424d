"""One shard as the coordinator sees it: its process, its channel, and the command that is open."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from enum import Enum, auto

from dbsp.shards.abortable_link import ABORT_SIGNAL
from dbsp.shards.command_channel import Buffer, ChannelClosedError, CommandChannel
from dbsp.shards.forked_process import describe_return_code
from dbsp.shards.packed_batches import BatchPost
from dbsp.shards.shard_commands import (
    Answer,
    Command,
    Commit,
    Done,
    Failed,
    Ready,
    RollBack,
    Start,
    StepTick,
    Stop,
    SwitchCircuit,
    UpdateProgram,
)
from dbsp.shards.shard_template import ShardProcess

_PATIENCE = 5.0
"""Seconds in which a process that was asked to end must end."""


class Phase(Enum):
    """What a shard does."""

    IDLE = auto()
    """It waits for a command, or commits a tick."""
    COMPUTING = auto()
    """It computes a tick, or rebuilds its state for another circuit."""
    READY = auto()
    """It waits for the decision."""
    UNDOING = auto()
    """It rolls back."""
    ANSWERING = auto()
    """It obeys another command."""
    LOST = auto()
    """Its process has ended, or is killed."""


_PHASES = {
    StepTick: Phase.COMPUTING,
    SwitchCircuit: Phase.COMPUTING,
    UpdateProgram: Phase.COMPUTING,
    Commit: Phase.IDLE,
    RollBack: Phase.UNDOING,
}
"""What a shard does after a command; it answers the others."""


class RemoteShard:
    """A shard, its process, and the answer to its latest command."""

    def __init__(self, number: int, process: ShardProcess, channel: CommandChannel, post: BatchPost) -> None:
        self.number = number
        self.process = process
        self.channel = channel
        self.post = post
        """The packets from and to this shard."""
        self.phase = Phase.IDLE
        self.answer: Answer | None = None
        self.buffers: Sequence[Buffer] = ()

    @property
    def waited_for(self) -> bool:
        """Whether an answer is to come."""
        return self.phase in (Phase.COMPUTING, Phase.UNDOING, Phase.ANSWERING)

    def fileno(self) -> int:
        """The descriptor of the channel, to wait for an answer."""
        return self.channel.fileno()

    def send(self, command: Start | Command, buffers: Sequence[Buffer] = ()) -> None:
        """Send a command; a process that has ended is noted."""
        try:
            self.channel.send(command, buffers)
        except ChannelClosedError:
            self.phase = Phase.LOST
            return
        self.answer = None
        self.phase = _PHASES.get(type(command), Phase.ANSWERING)

    def receive(self) -> None:
        """Receive the answer to the latest command; a process that has ended is noted."""
        try:
            answer, self.buffers = self.channel.receive()
        except ChannelClosedError:
            self.phase = Phase.LOST
            return
        self.answer = answer
        self.phase = Phase.READY if isinstance(answer, Ready) else Phase.IDLE

    def take_buffers(self) -> Sequence[Buffer]:
        """Return the packets of the latest answer, and release them here."""
        buffers, self.buffers = self.buffers, ()
        return buffers

    def abort(self) -> None:
        """Send the signal that aborts the tick of the shard."""
        if self.process.poll() is None:
            self.process.send_signal(ABORT_SIGNAL)

    @property
    def failure(self) -> bytes | None:
        """The shipped error of the latest answer."""
        return self.answer.error if isinstance(self.answer, Failed) else None

    def describe_end(self) -> str:
        """Return how the process has ended, for an error."""
        try:
            status = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        return describe_return_code(status)

    def ask_to_end(self) -> None:
        """Ask the process to end, if it waits for a command."""
        if self.phase is Phase.IDLE:
            try:
                self.channel.send(Stop())
            except ChannelClosedError:
                self.phase = Phase.LOST
        else:
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self.phase = Phase.LOST
        if self.process.poll() is None:
            self.process.kill()

    def join(self) -> None:
        """Wait for the end of the process, and release its resources."""
        self.phase = Phase.LOST
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.channel.close()


def result_of(shard: RemoteShard) -> object:
    """Return the result of the latest command of a shard, which has succeeded."""
    if not isinstance(shard.answer, Done):
        raise AssertionError(f"expected that shard {shard.number} is done, got {shard.answer!r}")
    return shard.answer.result
