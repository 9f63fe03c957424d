"""Integrate, I: the sum of a stream so far.

    I(s)[t] = s[0] + s[1] + ... + s[t]          (DBSP paper, arXiv 2203.16684, definition 2.9)

The output of every tick is the whole integral, so a tick costs its size; what needs an integral
to probe uses an arrangement instead. Linear and time invariant: its own incremental form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbsp.errors import CircuitError
from dbsp.graph import Node
from dbsp.operator import Operator, Step
from dbsp.scheduler import Scope
from dbsp.schema import Schema
from dbsp.trace import Trace


@dataclass(frozen=True)
class Integrate(Operator):
    """The running sum of a stream."""

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: Scope) -> Step:
        if scope.nested:
            raise CircuitError(
                "a stream inside a fixpoint stands for its changes from iteration to iteration, so "
                "its value is integrated already; integrating again would never converge",
                where=node.describe(),
            )
        return IntegrateStep(sources[0], scope)


class IntegrateStep(Step):
    __slots__ = ("_source", "_trace")

    def __init__(self, source: Step, scope: Scope) -> None:
        super().__init__()
        self._source = source
        self._trace = scope.new_trace(source.node.schema.arity)

    @property
    def trace(self) -> Trace:
        return self._trace

    def step(self) -> None:
        batch = self._source.out
        if batch is not None:
            self._trace.append(batch.rows, batch.weights)
        total = self._trace.contents()
        self.out = total if len(total) else None
