"""Rebuilding the state of a shard from rows that the running circuit keeps on other shards.

Two plans of one query may deal an input by different columns, or exchange the same stream by
different columns. If the running circuit keeps the stream in one placement, the new circuit moves
it to the other, instead of computing it again:

    input, exchange, gather:  out_i = sum over j of the rows of shard j that belong on shard i
    broadcast:                out_i = sum over j of the rows of shard j

All shards call this together, as they step exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import HashPlaced, Port, RowCopying, RowMoving
from dbsp.circuit.shard_link import ShardLink
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import KeepingStep
from dbsp.data.batch import Batch, combine
from dbsp.data.interner import Interner
from dbsp.data.value_hashes import ValueHashes
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.ports import OutputPort
from dbsp.runtime.scope import Scope


@dataclass(frozen=True)
class MovedIntegral:
    """Makes a step emit the integral that a step of the old scope keeps in another placement."""

    keeper: KeepingStep
    copied: bool
    """Whether every shard keeps all rows."""
    link: ShardLink
    interner: Interner

    def __call__(self, step: Step) -> None:
        node, link = step.node, self.link
        batch = None if self.copied and link.shard else self.keeper.integral()
        parts: list[Batch | None] = [batch] * link.shards
        if batch is not None and not isinstance(node.operator, RowCopying):
            operator = node.operator
            columns = operator.placed_by if isinstance(operator, HashPlaced) else ()
            types = node.schema.types
            parts = list(ValueHashes(self.interner).split(batch, columns, types, link.shards))
        step.out = link.exchange(f"rebuilt {node.describe()}", parts, node.schema) or None


class MovableStreams:
    """The streams that the old circuit keeps in some placement, by their rows on all shards."""

    def __init__(self, old: Scope, numbers: Mapping[Node, int]) -> None:
        self._old = old
        self._numbers = numbers
        self._kept: dict[Hashable, tuple[KeepingStep, bool]] = {}
        for node in old.graph.nodes:
            keeper = old.keeper(node) if _is_movable(node) else None
            if keeper is not None:
                copied = isinstance(node.operator, RowCopying)
                found = self._kept.get(self._rows_of(node))
                if found is None or (found[1] and not copied):
                    self._kept[self._rows_of(node)] = keeper, copied

    def find(self, node: Node) -> Callable[[Step], None] | None:
        """Return an action that emits the rows of a new input or exchange; None if no step keeps
        them."""
        found = self._kept.get(self._rows_of(node)) if _is_movable(node) else None
        return None if found is None else MovedIntegral(*found, self._old.link, self._old.interner)

    def _rows_of(self, node: Node) -> Hashable:
        """Return an object that is equal for streams with the same rows in different places."""
        while isinstance(node.operator, RowMoving | RowCopying):
            node = node.inputs[0].node
        return node.operator.relation if _is_dealt(node) else self._numbers[node]  # type: ignore[attr-defined]


def _is_movable(node: Node) -> bool:
    return isinstance(node.operator, RowMoving | RowCopying) or _is_dealt(node)


def _is_dealt(node: Node) -> bool:
    """Return whether a node is an input of a distributed circuit."""
    return isinstance(node.operator, Port) and isinstance(node.operator, HashPlaced)


def same_view(old: OutputPort, new: OutputPort, scope: Scope) -> bool:
    """Return whether two ports have the same integral, as the sum over all shards.

    On several shards the differences are exchanged, so rows may be on different shards.
    """
    before, after, link = old.view(), new.view(), scope.link
    if link.shards == 1:
        return (
            len(before) == len(after)
            and bool((before.rows == after.rows).all())
            and bool((before.weights == after.weights).all())
        )
    difference = combine([(after.rows, after.weights), (before.rows, -before.weights)])
    parts: list[Batch | None] = [None] * link.shards
    if difference is not None:
        columns = range(difference.arity)
        parts = list(ValueHashes(scope.interner).split(difference, columns, new.columns.types, link.shards))
    return not link.exchange(f"compared views of {new.node.describe()}", parts, new.columns)
