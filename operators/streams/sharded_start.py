"""Starting a circuit on several shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.data.interner import Interner
from dbsp.errors import ArgumentError, CircuitError, choice, wrong_argument

if TYPE_CHECKING:  # most runs have no shards
    from dbsp.shards.sharded_run import ShardedRun

SHARDED = (Stage.PHYSICAL, Stage.DISTRIBUTED)
"""The stages that can be started on shards; both run the distributed circuit."""


def expect_shards(shards: int, stage: Stage | str, checkpoint: object = None) -> None:
    """Raise ArgumentError if `shards` is not a number of processes, or the stage has no shards.

    Raises CircuitError for a checkpoint.
    """
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise wrong_argument("shards", "a number of processes, 1 or more", shards)
    if choice("stage", Stage, stage) not in SHARDED:
        raise ArgumentError(
            f"shards= needs the stage 'physical' or 'distributed', got '{Stage(stage)}'; the other stages "
            "compute with whole relations, in one process"
        )
    if checkpoint is not None:
        raise CircuitError(
            "a sharded run cannot write a checkpoint; start it without checkpoint=, or without shards=",
            code="not-shardable",
        )


def start_sharded(
    distributed: Graph, shards: int, memory_limit: int | None, interner: Interner | None = None
) -> ShardedRun:
    """Start a distributed circuit on shards. Raises the errors of `ShardedRun`."""
    from dbsp.shards.sharded_run import ShardedRun

    return ShardedRun(distributed, shards, memory_limit=memory_limit, interner=interner)
