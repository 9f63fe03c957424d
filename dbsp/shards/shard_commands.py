"""The messages between the coordinator of a sharded run and its shards.

    coordinator  Start       StepTick         Commit   RollBack          ReadView, ...         Stop
    shard               Done         Ready                      Done                  Done
                                     or Failed                  or Failed             or Failed

SwitchCircuit is answered and decided like a tick.

The coordinator sends one command at a time to a shard, and the shard answers each with one message.
`Stop` has no answer, and neither has `Commit`: a shard that is ready obeys it or ends, so an answer
would say nothing, and the next command comes after it. The error of work after the commit, such as
a merge that has no space, is the answer to the next command, which is then not obeyed.

Batches follow their message as packets (see `dbsp.shards.value_packets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from dbsp.lazy_dataclass import dataclass
from dbsp.shards.shard_questions import Question
from dbsp.shards.shard_store import ShardPlace
from dbsp.shards.shipped_graph import ShippedGraph
from dbsp.shards.snapshot_plan import ShardStatus


@dataclass(frozen=True, slots=True)
class Start:
    """The first command: everything that a shard needs to start its run."""

    shard: int
    shards: int
    graph: ShippedGraph
    """The distributed circuit."""
    memory_limit: int | None
    """The bytes of memory for the state of this shard."""
    place: ShardPlace | None = None
    """Where the shard continues; None for a run without a checkpoint."""
    threads: int = 1
    """How many threads compute the large batches of this shard."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command after the start.

    A new `epoch` begins after every command that has failed: both sides then forget which values
    they have sent, since a packet may be lost.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class StepTick(Command):
    """Compute a tick, and answer Ready or Failed. The packets are the staged changes."""

    generation: int
    """The number of this attempt, which is never used again."""
    staged: tuple[str, ...]
    """The inputs that change, in the order of their packets."""
    packets: tuple[int, ...]
    """By changed input, the number of buffers of its packet."""
    changed: frozenset[str]
    """The inputs that change on any shard."""
    label: Any = None
    snapshot: int | None = None
    """The tick of the common snapshot, if the shard writes a snapshot before this tick."""


@dataclass(frozen=True, slots=True)
class SwitchCircuit(Command):
    """Rebuild the state for another circuit of the query, and answer Switched or Failed."""

    generation: int
    """The number of this attempt, as of a tick."""
    graph: ShippedGraph
    """The distributed circuit."""
    snapshot: int | None = None
    """The tick of the common snapshot, if the shard writes a snapshot of the new circuit."""


@dataclass(frozen=True, slots=True)
class UpdateProgram(Command):
    """Move the state into the circuit of another program, and answer Updating or Failed.

    The packets are the changes of the facts, for the inputs of the new circuit.
    """

    generation: int
    """The number of this attempt, as of a tick."""
    graph: ShippedGraph
    """The distributed circuit of the new program."""
    staged: tuple[str, ...]
    """The inputs whose facts change, in the order of their packets."""
    packets: tuple[int, ...]
    """By changed input, the number of buffers of its packet."""
    changed: frozenset[str]
    """The inputs whose facts change on any shard."""
    query: str = ""
    """The identity of the new program in the checkpoint of the shard, if it has one."""
    snapshot: int | None = None
    """The tick of the common snapshot, if the shard has a checkpoint."""


@dataclass(frozen=True, slots=True)
class Commit(Command):
    """Commit the tick or the circuit that is ready."""


@dataclass(frozen=True, slots=True)
class RollBack(Command):
    """Undo the tick or the circuit that is ready."""


@dataclass(frozen=True, slots=True)
class ReadView(Command):
    """Send the integral of an output."""

    output: str


@dataclass(frozen=True, slots=True)
class ReadInput(Command):
    """Send the rows of an input."""

    input: str


@dataclass(frozen=True, slots=True)
class ReadRelation(Command):
    """Send the rows that the shard keeps of a relation."""

    relation: str


@dataclass(frozen=True, slots=True)
class Ask(Command):
    """Send the answer to a question (see `dbsp.shards.shard_questions`)."""

    question: Question


@dataclass(frozen=True, slots=True)
class ReadStats(Command):
    """Send the statistics of the shard."""


@dataclass(frozen=True, slots=True)
class Compact(Command):
    """Merge the sorted runs of all traces, and free values.

    The values that were sent before are forgotten, so the next command begins a new epoch.
    """


@dataclass(frozen=True, slots=True)
class WriteSnapshot(Command):
    """Write a snapshot, and wait until it is durable."""

    common: int
    """The tick of the common snapshot (see `dbsp.shards.snapshot_plan`)."""


@dataclass(frozen=True, slots=True)
class ReadLatest(Command):
    """Send the results of the latest tick, which an earlier process may have computed."""


@dataclass(frozen=True, slots=True)
class ReadInputs(Command):
    """Send the integrals of all inputs."""


@dataclass(frozen=True, slots=True)
class Rebuild(Command):
    """Compute the state after a tick from the integrals of all inputs, and write a snapshot.

    The packets are those integrals; the shard has made no tick.
    """

    tick: int
    staged: tuple[str, ...]
    packets: tuple[int, ...]
    label: Any = None


@dataclass(frozen=True, slots=True)
class Stop:
    """End the process."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The tick is computed and can be committed. The packets are the deltas of the outputs."""

    changed: tuple[str, ...] = ()
    """The outputs that change, in the order of their packets."""
    packets: tuple[int, ...] = ()
    absent: Mapping[str, int] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)
    status: ShardStatus | None = None
    """The state of the checkpoint, which has recorded the tick; None for a run without one."""
    gathered: int = 0
    """The bytes of the state of gathered recursions, in memory and in files."""


@dataclass(frozen=True, slots=True)
class Switched(Ready):
    """The run has another circuit, and can continue with it or with the one before."""

    signature: str = ""
    """The signature of the circuit in snapshots."""
    kept: int = 0
    rebuilt: int = 0
    dropped: int = 0
    """The traces and tables, as in `Replanned`."""


@dataclass(frozen=True, slots=True)
class Updating(Ready):
    """The run has the circuit of another program, and can continue with it or the one before.

    The packets are the differences of the outputs.
    """

    relations: Mapping[str, str] = field(default_factory=dict)
    """What happened to each relation, as in `Updated`."""
    signature: str = ""
    """The signature of the circuit in snapshots; empty without a checkpoint."""
    kept: int = 0
    rebuilt: int = 0
    dropped: int = 0
    """The traces and tables, as in `Updated`."""
    replayed_rows: int = 0


@dataclass(frozen=True, slots=True)
class SentBatches:
    """The names of batches whose packets follow, and of those that the shard does not have."""

    names: tuple[str, ...]
    packets: tuple[int, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Latest:
    """The results and the label of the latest tick; the packets are the deltas of the outputs."""

    results: Ready
    label: Any = None


@dataclass(frozen=True, slots=True)
class Done:
    """A command is done; its result."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A command has failed, and has changed nothing."""

    error: bytes
    """The exception (see `dbsp.shards.shipped_errors`)."""


Answer: TypeAlias = Ready | Done | Failed
