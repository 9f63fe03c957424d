"""Decisions about a scope that all shards make together.

A scope whose body has exchanges runs in *supersteps*: all shards step it through the same
iterations, because each exchange of a shard meets the same exchange of every other shard. So each
decision that depends on rows is made from the rows of all shards: whether there is work, which
iteration is next, whether the scope restarts. Counts are sums over the shards, so the shards make
the decision of one process that has all rows. A scope without exchanges decides on each shard
alone.

Every shard calls the methods in the same order. Cost: one message between each pair of shards per
call.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.shard_link import ShardLink
from dbsp.operators.recursion.replicated_streams import is_replicated
from dbsp.operators.shards.exchange import Broadcast, Exchange, Gather

NEVER = 2**62
"""Stands for no iteration in a vote of numbers."""


class Decisions:
    """The decisions of a shard that decides alone: its own counts are the totals."""

    shared = False
    """Whether other shards take part."""

    def any(self, holds: bool) -> bool:
        """Return whether a condition holds on a shard."""
        return holds

    def totals(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return the sum of each number over the shards."""
        return numbers

    def least(self, iteration: int | None) -> int | None:
        """Return the earliest iteration that a shard needs, or None if none needs any."""
        return iteration

    def step(self, numbers: Sequence[int], iteration: int | None) -> tuple[Sequence[int], int | None]:
        """Return `totals(numbers)` and `least(iteration)`."""
        return numbers, iteration

    def counts(self, node: Node) -> bool:
        """Whether this shard counts the rows of a node; the first shard counts those all have."""
        return True


class SharedDecisions(Decisions):
    """The decisions that the shards of `link` make together."""

    shared = True

    def __init__(self, link: ShardLink) -> None:
        self._link = link

    def any(self, holds: bool) -> bool:
        return any(vote for (vote,) in self._link.vote((int(holds),)))

    def totals(self, numbers: Sequence[int]) -> Sequence[int]:
        return [sum(column) for column in zip(*self._link.vote(numbers), strict=True)]

    def least(self, iteration: int | None) -> int | None:
        return self.step((), iteration)[1]

    def step(self, numbers: Sequence[int], iteration: int | None) -> tuple[Sequence[int], int | None]:
        votes = self._link.vote((NEVER if iteration is None else iteration, *numbers))
        iterations, *columns = zip(*votes, strict=True)
        first = min(iterations)
        return [sum(column) for column in columns], None if first == NEVER else first

    def counts(self, node: Node) -> bool:
        return self._link.shard == 0 or not is_replicated(node)


def decisions(body: Graph, link: ShardLink) -> Decisions:
    """Return how the shards of `link` decide about a scope with this body."""
    if link.shards == 1:
        return Decisions()
    exchanges = any(isinstance(node.operator, Exchange | Gather | Broadcast) for node in body.walk())
    return SharedDecisions(link) if exchanges else Decisions()
