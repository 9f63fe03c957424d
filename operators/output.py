"""Output: a named result. Its delta is handed out each tick; its integral can be read as a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbsp.batch import Batch
from dbsp.graph import Node, Stream
from dbsp.incremental import Lowering
from dbsp.kernels import arrange
from dbsp.operator import Arranged, Operator, Step
from dbsp.operators.arrange import arranged_anyhow, order_of
from dbsp.operators.distinct import DeltaDistinct
from dbsp.ports import OutputPort
from dbsp.scheduler import Scope
from dbsp.schema import Schema


@dataclass(frozen=True)
class Output(Operator):
    """The stream handed out under a name.

    In a lowered graph the second input is the arrangement the view is read from. With `positive`
    that is the arrangement below a distinct, of which the view is the part with positive weight:
    what a distinct remembers anyway need not be stored twice.
    """

    relation: str
    positive: bool = False

    @property
    def label(self) -> str:
        return f"Output {self.relation}"

    @property
    def shareable(self) -> bool:
        return False

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def incremental(self, lowering: Lowering, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs

        def attach() -> None:
            below = stream.node
            if isinstance(below.operator, DeltaDistinct):
                lowering.add(Output(self.relation, positive=True), stream, below.inputs[0])
            else:
                lowering.add(self, stream, arranged_anyhow(lowering, stream))

        # Last of all, so that an arrangement that somebody else needs is shared.
        lowering.finally_(attach)
        return stream

    def start(self, node: Node, sources: Sequence[Step], scope: Scope) -> Step:
        delta, kept = sources
        assert isinstance(kept, Arranged)
        return OutputStep(self, node, delta, kept)


class OutputStep(OutputPort):
    __slots__ = ("_delta", "_kept", "_positive", "_restore")

    def __init__(self, operator: Output, node: Node, delta: Step, kept: Arranged) -> None:
        super().__init__(operator.relation, node.schema)
        self._delta = delta
        self._kept = kept
        self._positive = operator.positive
        self._restore = np.argsort(np.array(order_of(node.inputs[1]), np.int64))

    def step(self) -> None:
        self.out = self._delta.out

    def view(self) -> Batch:
        """The integral of the output; O(n log n) for n rows."""
        trace = self._kept.trace
        assert trace is not None
        batch = trace.contents()
        if self._positive:
            rows = np.ascontiguousarray(batch.rows[batch.weights > 0])
            batch = Batch(rows, np.ones(len(rows), np.int64))
        return Batch(*arrange(batch.rows, batch.weights, self._restore))
