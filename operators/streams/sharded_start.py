"""Starting a circuit on several shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.data.interner import Interner
from dbsp.durable.circuit_match import starting
from dbsp.durable.step_memory import signature
from dbsp.errors import ArgumentError, choice, wrong_argument
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.runtime.checkpoints import Checkpoint

if TYPE_CHECKING:  # most runs have no shards
    from dbsp.shards.shard_folder import ShardFolder
    from dbsp.shards.sharded_run import ShardedRun

    ShardedPlace: TypeAlias = Union[str, Path, ShardFolder]  # noqa: UP007
    """The checkpoint of a sharded run."""

SHARDED = (Stage.PHYSICAL, Stage.DISTRIBUTED)
"""The stages that can be started on shards; both run the distributed circuit."""


def expect_shards(shards: int, stage: Stage | str) -> None:
    """Raise ArgumentError if `shards` is not a number of processes, or the stage has no shards."""
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise wrong_argument("shards", "a number of processes, 1 or more", shards)
    if choice("stage", Stage, stage) not in SHARDED:
        raise ArgumentError(
            f"shards= needs the stage 'physical' or 'distributed', got '{Stage(stage)}'; the other stages "
            "compute with whole relations, in one process"
        )


def open_shard_folder(place: ShardedPlace | Checkpoint | None) -> ShardFolder | None:
    """Open the checkpoint of a sharded run. Raises CheckpointError, ArgumentError."""
    if place is None:
        return None
    from dbsp.shards.shard_folder import ShardFolder

    if isinstance(place, str | Path):
        return ShardFolder(place)
    if not isinstance(place, ShardFolder):
        raise wrong_argument("checkpoint", "a folder or a ShardFolder, since shards= is given", place)
    return place


def start_sharded(
    distributed: Graph,
    shards: int,
    memory_limit: int | None,
    folder: ShardFolder | None = None,
    *,
    query: str | None = None,
    interner: Interner | None = None,
    functors: Mapping[str, Callable[..., Any]] | None = None,
) -> ShardedRun:
    """Start a distributed circuit on shards; the folder is released if that fails.

    A folder with ticks may have another circuit of the query, with which the run then continues.
    `query` is the identity of the query, by default that of the circuit. Raises the errors of
    `ShardedRun`.
    """
    from dbsp.shards.sharded_run import ShardedRun

    try:
        query = signature(distributed) if query is None else query
        return ShardedRun(
            distributed if folder is None else _circuit_of(folder, query, distributed, functors or {}),
            shards,
            memory_limit=memory_limit,
            folder=folder,
            query=query,
            interner=interner,
            distribute=distribute,
        )
    except BaseException:
        if folder is not None:
            folder.close()
        raise


def _circuit_of(
    folder: ShardFolder, query: str, graph: Graph, functors: Mapping[str, Callable[..., Any]]
) -> Graph:
    """Return the circuit with which a run continues: that of the folder, if it has ticks."""
    header = folder.header
    if header is None or header.query != query or header.circuit is None or not folder.tick:
        return graph
    from dbsp.operators.streams.circuit_reader import read_circuit  # it imports the builder

    with starting(folder.folder, header.circuit):
        return read_circuit(header.circuit, functors, like=graph)
