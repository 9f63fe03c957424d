"""Give the checkpoint of a sharded run another number of shards.

The state of a circuit is determined by the integrals of its inputs, since nodes compute lifted
functions of Z-sets incrementally (see `dbsp.runtime.transplant`). So the old shards are started
once more, their inputs are summed up, and one step of the new shards applies them:

    old shards:  s_i = integral of the input on shard i
    new shards:  t_j = the rows x of (sum over i of s_i) with h(x) mod n = j

The new shards write their snapshots to new folders. Writing `shards.json` makes them those of the
run; until then the old ones are. A circuit whose state depends on the past ticks, or that does not
keep the rows of an input, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dbsp.circuit.graph import Graph
from dbsp.circuit.operator_roles import depends_on_ticks
from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import CheckpointError, expect_present, expect_type
from dbsp.shards.dealing import Dealer, DistributedPorts
from dbsp.shards.group_start import GroupStart
from dbsp.shards.remote_shard import result_of
from dbsp.shards.shard_commands import Command, Latest, ReadInputs, ReadLatest, ReadView, Rebuild, SentBatches
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.shard_group import ShardGroup

_WHILE = "while the rows were dealt to other shards"


def reshard(
    start: GroupStart, shards: int, graph: Graph, ports: DistributedPorts, interner: Interner
) -> None:
    """Give the folder of `start` this number of shards. Raises CheckpointError if it cannot."""
    folder = expect_present(start.folder, "the folder of a run to reshard")
    if not folder.tick:
        folder.adopt(folder.next_header(shards))
        return
    for node in graph.nodes:
        if depends_on_ticks(node):
            raise _refused(
                folder, shards, "the state of this node depends on the past ticks", node.describe()
            )
    old = start(len(folder.expect_header().shards))
    try:
        rows = _read_inputs(old, folder, shards, ports)
        latest = expect_type(result_of(_ask(old, ReadLatest)[0]), Latest, "a latest tick")
        views = _views(old, ports)
    finally:
        old.close()
    header = folder.next_header(shards)
    new = start.on(folder.new_places(header))
    try:
        _rebuild(new, Dealer(ports.inputs, shards, interner).deal(rows), folder.tick, latest.label, ports)
        if _views(new, ports) != views:
            raise _refused(folder, shards, "its outputs would differ, since they depend on the past ticks")
    finally:
        new.close()
    folder.adopt(header)


def _refused(folder: ShardFolder, shards: int, reason: str, where: str | None = None) -> CheckpointError:
    found = len(folder.expect_header().shards)
    return CheckpointError(
        f"cannot deal the rows of {folder.folder} to {shards} shards: {reason}; start the run with "
        f"shards={found}, or choose another folder",
        where=where,
        code="checkpoint-other-shards",
    )


def _ask(group: ShardGroup, command: Callable[[int], Command]) -> list[Any]:
    shards = group.ask([(command(group.next_epoch()), ())] * group.shards, _WHILE)
    return list(shards)


def _read_inputs(
    group: ShardGroup, folder: ShardFolder, shards: int, ports: DistributedPorts
) -> dict[str, Batch]:
    """Return the integrals of all inputs, summed over the shards."""
    schemas = {name: port.columns for name, port in ports.inputs.items()}
    found: dict[str, list[Batch]] = {name: [] for name in schemas}
    for shard in _ask(group, ReadInputs):
        sent = expect_type(result_of(shard), SentBatches, "the rows of inputs")
        for name in sent.missing:
            reason = f"the circuit does not keep the rows of the input '{name}'; declare it with kind=\"set\""
            raise _refused(folder, shards, reason)
        for name, batch in shard.post.unpack(sent.names, sent.packets, shard.take_buffers(), schemas).items():
            found[name].append(batch)
    group.succeeded()
    summed = {name: merge_sorted(batches) for name, batches in found.items()}
    return {name: batch for name, batch in summed.items() if batch is not None}


def _rebuild(
    group: ShardGroup, dealt: Sequence[Mapping[str, Batch]], tick: int, label: Any, ports: DistributedPorts
) -> None:
    """Let new shards compute the state after a tick, and write snapshots of it."""
    schemas = {name: port.columns for name, port in ports.inputs.items()}
    epoch = group.next_epoch()
    messages = []
    for shard, rows in zip(group, dealt, strict=True):
        packed = shard.post.pack(rows, schemas)
        messages.append((Rebuild(epoch, tick, packed.names, packed.packets, label), packed.buffers))
    group.ask(messages, _WHILE)
    group.succeeded()


def _views(group: ShardGroup, ports: DistributedPorts) -> dict[str, list[Any]]:
    """Return the rows and weights of all outputs, summed over the shards."""
    views = {}
    for name, port in ports.outputs.items():
        schemas: dict[str, Schema] = {name: port.columns}
        parts: list[Batch] = []
        for shard in _ask(group, lambda epoch, name=name: ReadView(epoch, name)):  # type: ignore[misc]
            buffers = shard.take_buffers()
            parts += shard.post.unpack((name,), (len(buffers),), buffers, schemas).values()
        group.succeeded()
        total = merge_sorted(parts)
        views[name] = [] if total is None else np.column_stack([total.rows, total.weights]).tolist()
    return views
