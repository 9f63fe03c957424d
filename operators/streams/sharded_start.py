"""Starting a circuit on several shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.data.interner import Interner
from dbsp.durable.circuit_match import starting
from dbsp.durable.step_memory import signature
from dbsp.errors import ArgumentError, choice, wrong_argument
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.stages.passes.distribute import ScopePolicy, distribute
from dbsp.operators.stages.placing.placed_scopes import pivots_of
from dbsp.runtime.checkpoints import Checkpoint

if TYPE_CHECKING:  # most runs have no shards
    from dbsp.shards.placed_circuit import PlacedCircuit
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


def expect_unobserved(observe: bool) -> None:
    """Raise ArgumentError if statistics of nodes are asked of shards."""
    if observe:
        raise ArgumentError(
            "observe= needs a run of one process; stats() and explain() of a run with shards= show the rows "
            "of shards and exchanges"
        )


def expect_scopes(scopes: ScopePolicy | str | None, shards: int | None) -> ScopePolicy | None:
    """Return the place of recursions without a pivot. Raises ArgumentError."""
    if scopes is None:
        return None
    if shards is None:
        raise ArgumentError("scopes= needs shards=, the number of processes")
    return choice("scopes", ScopePolicy, scopes)


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
    physical: Graph,
    shards: int,
    memory_limit: int | None,
    folder: ShardFolder | None = None,
    *,
    scopes: ScopePolicy | None = None,
    query: str | None = None,
    interner: Interner | None = None,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    plans: str | None = None,
) -> ShardedRun:
    """Start a physical circuit on shards; the folder is released if that fails.

    A folder with ticks has the circuit with which the run continues.
    `query` is the identity of the query, by default that of the circuit. `plans` are those of the
    circuit (see `dbsp.runtime.replanning.Proposal`). Raises the errors of `ShardedRun`.
    """
    from dbsp.shards.sharded_run import ShardedRun

    try:
        placed = replace(place(physical, scopes is ScopePolicy.EXCHANGE), plans=plans)
        query = signature(physical) if query is None else query
        if folder is not None:
            placed = _circuit_of(folder, query, placed, functors or {})
        return ShardedRun(
            placed.graph,
            shards,
            memory_limit=memory_limit,
            folder=folder,
            query=query,
            interner=interner,
            distribute=place,
            placed=placed,
            scopes=scopes,
        )
    except BaseException:
        if folder is not None:
            folder.close()
        raise


def place(physical: Graph, supersteps: bool) -> PlacedCircuit:
    """Distribute a physical circuit; with `supersteps`, scopes without a pivot exchange rows."""
    from dbsp.shards.placed_circuit import PlacedCircuit

    scopes = ScopePolicy.EXCHANGE if supersteps else ScopePolicy.GATHER
    graph = distribute(physical, scopes=scopes)
    return PlacedCircuit(graph, physical, () if supersteps else _gathered(physical, graph), supersteps)


def _gathered(physical: Graph, graph: Graph) -> tuple[int, ...]:
    """Return the positions in the distributed circuit of the fixpoints without a pivot."""
    pivots = pivots_of(physical)
    before = [node for node in physical.nodes if isinstance(node.operator, Fixpoint)]
    after = [at for at, node in enumerate(graph.nodes) if isinstance(node.operator, Fixpoint)]
    return tuple(at for at, node in zip(after, before, strict=True) if node not in pivots)


def _circuit_of(
    folder: ShardFolder, query: str, placed: PlacedCircuit, functors: Mapping[str, Callable[..., Any]]
) -> PlacedCircuit:
    """Return the circuit with which a run continues: that of the folder, if it has ticks."""
    header = folder.header
    if header is None or header.query != query or header.circuit is None or not folder.tick:
        return placed
    from dbsp.operators.streams.circuit_reader import read_circuit  # it imports the builder
    from dbsp.shards.placed_circuit import PlacedCircuit

    with starting(folder.folder, header.circuit):
        graph = read_circuit(header.circuit, functors, like=placed.graph)
        if header.physical is None:
            return PlacedCircuit(graph, supersteps=header.supersteps, plans=header.plans)
        physical = read_circuit(header.physical, functors, like=placed.graph)
    gathered = () if header.supersteps else _gathered(physical, graph)
    return PlacedCircuit(graph, physical, gathered, header.supersteps, header.plans)
