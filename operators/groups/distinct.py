"""Distinct: the set of the rows of positive weight.

    distinct(s)(x) = 1 if s(x) > 0 else 0

Incremental form (DBSP paper, arXiv 2203.16684, proposition 4.7): only rows of the delta can change,

    out(x) = [new(x) > 0] - [old(x) > 0]

with old and new the weight of x in the integral before and after the delta. In a nested scope this
holds at each iteration, and the output may change again at a later iteration in which the row
changed in earlier ticks: such rows wait on an agenda. Cost: O(|delta| log n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import TracedStep, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.distinct_steps import (
    DeeplyTimedDistinctStep,
    DistinctStep,
    TimedDistinctStep,
    positive,
)
from dbsp.operators.groups.untimed_distinct_step import UntimedDistinctStep
from dbsp.operators.traces.arrange import arranged, expect_order


@dataclass(frozen=True)
class Distinct(Operator):
    """The rows of positive weight, each with weight 1."""

    input_counts = ONE_INPUT

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return positive

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    @property
    def law(self) -> str:
        return "distinct"

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        if stream.node.is_set:
            return stream
        return rewriting.add(DeltaDistinct(), arranged(rewriting, stream, ()))


@dataclass(frozen=True)
class DeltaDistinct(Operator):
    """The incremental form of distinct, over an arrangement in the stream's own column order."""

    input_counts = ONE_INPUT

    @property
    def monotone(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "Distinct"

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        (stream,) = inputs
        expect_order(stream, ())

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    @property
    def keeps_integral(self) -> bool:
        return True

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        (source,) = expect_arranged(node, sources)
        if scope.depth == 0:
            own = scope.nested and isinstance(source, TracedStep)
            return UntimedDistinctStep(source) if own else DistinctStep(source)
        if scope.depth == 1:
            return TimedDistinctStep(source, scope)
        return DeeplyTimedDistinctStep(source, node.schema.arity, positive, scope)
