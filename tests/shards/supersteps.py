"""Distributed circuits written by hand: an exchange by the key before each arrangement.

Other than `dbsp.operators.stages.passes.distribute`, this puts exchanges into every recursive
scope, so all scopes run in supersteps.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import pytest

from dbsp import Run
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting, rewrite
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.groups.group_step import RecomputeGroups
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.ports.input import DealtInput, Input
from dbsp.operators.recursion.fixpoint import Fixpoint, Leave
from dbsp.operators.recursion.fixpoint_step import FixpointStep
from dbsp.operators.shards.exchange import Exchange, Gather, Owned
from dbsp.operators.stages.placing.row_columns import row_columns
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange, order_of
from tests.harness import views
from tests.shards.compared_shards import Change, ComparedShards
from tests.shards.thread_link import ThreadShards


def with_exchanges(physical: Graph) -> Graph:
    """Return the circuit with exchanges inside of its scopes; inputs are on the first shard."""
    return rewrite(physical, _placed)


def _placed(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
    operator = node.operator
    if isinstance(operator, Input):
        own: dict[str, Any] = {field.name: getattr(operator, field.name) for field in fields(operator)}
        stream = rewriting.add(DealtInput(**own))
        if node.strict:
            stream.graph.connect(stream, rewriting.add(Arrange(order_of(node.strict[0])), stream))
        return stream
    if isinstance(operator, Arrange):
        return inputs[0]  # each reader arranges the rows after an exchange by its own key
    if isinstance(operator, Fixpoint):
        # No two shards emit the same row into the scope, so the scope counts what one process does.
        return operator.rewritten(
            rewriting,
            node,
            [rewriting.add(Exchange(tuple(range(stream.schema.arity))), stream) for stream in inputs],
            lambda body, outer: outer,
            lambda value: value,
        )
    if isinstance(operator, Delay | Leave):
        return operator.copy(rewriting, node, inputs)
    if not inputs:
        return rewriting.add(Owned(()), operator.copy(rewriting, node, inputs))
    if isinstance(operator, DeltaJoin):
        left, right = (order_of(stream) for stream in node.inputs)
        realign = operator.realign or range(operator.key)
        keys = [left[: operator.key], [right[place] for place in realign]]
    elif isinstance(operator, DeltaDistinct):
        keys = [range(node.schema.arity)]
    elif isinstance(operator, RecomputeGroups):
        keys = [order_of(node.inputs[0])[: len(operator.operator.groups(operator.over))]]
    elif row_columns(node) is not None:
        return operator.copy(rewriting, node, inputs)
    else:
        keys = [()] * len(inputs)
    sources = []
    for source, stream, key in zip(node.inputs, inputs, keys, strict=True):
        moved = rewriting.add(Exchange(tuple(key)) if key else Gather(), stream)
        sources.append(rewriting.add(Arrange(order_of(source)), moved) if _arrangement(source) else moved)
    return operator.copy(rewriting, node, sources)


def _arrangement(stream: Stream) -> bool:
    """Whether a stream is an arrangement, or one that enters a scope."""
    for outer, inside in stream.graph.entered.items():
        if inside.node is stream.node:
            return _arrangement(stream.graph.stream_class(outer))
    return isinstance(stream.node.operator, Arrange)


class SuperstepShards(ComparedShards):
    """A circuit with exchanges inside of all scopes, on shards and in one process."""

    def __init__(self, physical: Graph, shards: int, seed: int = 0) -> None:
        self.graph = with_exchanges(physical)
        self.one = Run(self.graph)
        self._physical = Run(physical)
        self.many = ThreadShards(self.graph, shards, arrival=random.Random(seed))

    def tick(self, changes: Change) -> None:
        """Compare as `ComparedShards`, and the statistics and modes of evaluation of all scopes."""
        super().tick(changes)
        if self._physical.tick < self.one.tick:
            self._physical.step(changes)
            assert views(self._physical) == views(self.one)
        first, *others = map(histories, self.many.runs)
        assert all(other == first for other in others), "the shards have decided differently"
        for ours, theirs in zip(histories(self.one), first, strict=True):
            # Work counts matches with rows that are not merged yet, so it differs a little.
            work = {"restart_work": 0, "per_change": 0, "wasted": 0, "per_removal": 0}
            assert ours | work == theirs | work
            assert theirs["restart_work"] == pytest.approx(ours["restart_work"], rel=0.25)

    @property
    def modes(self) -> str:
        """The modes of evaluation, which are equal on all shards and in the one process."""
        (modes,) = {str(list(run.evaluations().values())) for run in (self.one, *self.many.runs)}
        return modes


def histories(run: Run) -> list[dict[str, Any]]:
    """Return the statistics of every scope at the top level, as plain values."""
    steps = [step for step in run.scope.steps if isinstance(step, FixpointStep)]
    return [
        asdict(step.history) | {"arrivals": [counts.tolist() for counts in step.history.arrivals]}
        for step in steps
    ]
