"""Integrate, I: the sum of a stream so far.

    I(s)[t] = s[0] + s[1] + ... + s[t]          (DBSP paper, arXiv 2203.16684, definition 2.9)

The output of every tick is the whole integral, so a tick costs its size; operators that look up
rows use an arrangement instead. Linear and time invariant: its own incremental form.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator_roles import TickDependent
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import ResettingStep, TracedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.time.delay import Delay
from dbsp.state.trace import Trace


@dataclass(frozen=True)
class Integrate(TickDependent):
    """The running sum of a stream."""

    input_counts = ONE_INPUT

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if scope.nested:
            return NestedIntegrateStep(sources[0], node.schema.arity)
        return IntegrateStep(sources[0], scope)


def old_integral(rewriting: Rewriting, delta: Stream) -> Stream:
    """z^-1(I(delta)): the sum of a stream before the current tick."""
    total = rewriting.add(Integrate(), delta)
    return rewriting.add_strict(Delay(total.schema), total)


class IntegrateStep(TracedStep):
    __slots__ = ("_source", "_trace")

    def __init__(self, source: Step, scope: StepScope) -> None:
        super().__init__()
        self._source = source
        schema = source.node.schema
        self._trace = scope.new_trace(schema.arity, schema.types)

    @property
    def trace(self) -> Trace:
        return self._trace

    def step(self) -> None:
        batch = self._source.out
        if batch is not None:
            self._trace.append(batch.rows, batch.weights)
        total = self._trace.contents()
        self.out = total if len(total) else None


class NestedIntegrateStep(ResettingStep):
    """The sum over the iterations of one tick; it starts empty in every tick."""

    __slots__ = ("_source", "_total")

    def __init__(self, source: Step, arity: int) -> None:
        super().__init__()
        self._source = source
        self._total = Batch.empty(arity)

    def reset(self) -> None:
        self._total = Batch.empty(self._total.arity)

    def step(self) -> None:
        batch, total = self._source.out, self._total
        if batch is not None:
            total = total.plus(batch)
            self._total = total
        self.out = total if len(total) else None
