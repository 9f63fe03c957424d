"""Questions that the coordinator of a sharded run asks each shard. They run in the shard.

A node travels as its position in the circuit, which is the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import HashPlaced
from dbsp.circuit.step_roles import KeepingStep
from dbsp.data.batch import Batch
from dbsp.data.columns import decode_column
from dbsp.data.schema import Schema
from dbsp.durable.step_memory import signature
from dbsp.errors import CircuitError
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run import Run
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.scope import Scope

Question: TypeAlias = Callable[[Run], Any]
"""A function of the run of one shard; it and its result are pickled."""


def kept(run: Run) -> dict[int, tuple[int, int]]:
    """Return the rows and bytes of every trace."""
    return _by_position(run, run.kept())


def join_terms(run: Run) -> dict[int, tuple[Any, ...]]:
    """Return the counts of the delta terms of multi-way joins."""
    return _by_position(run, run.join_terms())


def evaluations(run: Run) -> dict[int, str]:
    """Return the recursion mode of each fixpoint."""
    return _by_position(run, run.evaluations())


def iterations(run: Run) -> dict[str, int]:
    """Return the number of iterations of each fixpoint in the latest tick."""
    return run.iterations()


def sizes(run: Run) -> dict[str, int]:
    """Return the number of kept rows of each relation whose rows are kept."""
    return run.sizes()


def circuit_signature(run: Run) -> str:
    """Return the signature of the circuit in the snapshots of the shard."""
    return signature(run.graph)


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """The most frequent key among the rows that a shard keeps of a stream that is placed by it."""

    key: tuple[Any, ...]
    """The values of the columns that place the rows."""
    rows: int
    """The number of rows with this key."""
    all_rows: int
    """The number of rows that the shard keeps of the stream."""


def heavy_keys(run: Run) -> dict[int, HeavyKey]:
    """Return the heaviest key of every stream that is placed by columns and kept here.

    Cost: sorting all rows of these streams.
    """
    found: dict[int, HeavyKey] = {}
    for position, node in enumerate(run.graph.walk()):
        operator = node.operator
        if isinstance(operator, HashPlaced) and operator.placed_by:
            keeper = _keeper(run, node)
            rows = None if keeper is None else keeper.integral().rows
            if rows is not None and len(rows):
                columns = list(operator.placed_by)
                keys, counts = np.unique(rows[:, columns], axis=0, return_counts=True)
                most = int(np.argmax(counts))
                types = [node.schema.types[column] for column in columns]
                key = tuple(
                    decode_column(type_, keys[most : most + 1, place], run.interner)[0]
                    for place, type_ in enumerate(types)
                )
                found[position] = HeavyKey(key, int(counts[most]), len(rows))
    return found


def gathered_bytes(run: RunBase, positions: Sequence[int]) -> int:
    """Return the bytes of the state of fixpoints, in memory and in files."""
    total = 0
    for position in positions:
        bodies = run.graph.nodes[position].operator.children()
        for scope in run.scope.children:
            if scope.graph in bodies:
                total += sum(trace.nbytes + trace.file_bytes for trace in scope.traces)
                total += sum(table.nbytes for table in scope.tables)
    return total


def relation_schema(run: RunBase, name: str) -> Schema:
    """Return the columns of a relation whose rows are kept."""
    stream = run.graph.named.get(name)
    return run.inputs[name] if stream is None else stream.schema


def input_rows(run: Run, name: str) -> Batch:
    """Return the rows of an input on this shard. Raises CircuitError if they are not kept."""
    keeper = run.scope.keeper(run.input_port(name).node)
    if keeper is None:
        raise CircuitError(
            f"the circuit does not keep the rows of its input '{name}'; declare the input with "
            'kind="set" or with a key to keep them',
            code="rows-not-kept",
        )
    return keeper.integral()


def input_change(run: Run, name: str) -> tuple[list[tuple[Any, ...]], list[int]] | None:
    """Return the rows and weights by which an input changed in the latest tick; None if not kept.

    The values are decoded, because the codes have a meaning in one process only.
    """
    try:
        change = run.changed(name)
    except CircuitError:
        return None
    pairs = change.items()
    return [row for row, _ in pairs], [weight for _, weight in pairs]


def _keeper(run: Run, node: Node) -> KeepingStep | None:
    scope = _scope_of(run, node)
    return None if scope is None else scope.keeper(node)


def _scope_of(run: Run, node: Node) -> Scope | None:
    return next((scope for scope in run.scope.scopes() if node in scope.by_node), None)


def _by_position(run: Run, facts: dict[Node, Any]) -> dict[int, Any]:
    return {position: facts[node] for position, node in enumerate(run.graph.walk()) if node in facts}
