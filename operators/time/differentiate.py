"""Differentiate, D: the change of a stream from one tick to the next.

    D(s)[t] = s[t] - s[t - 1]                   (DBSP paper, arXiv 2203.16684, definition 2.6)

The inverse of Integrate. Linear and time invariant: its own incremental form. O(|s[t]| + |s[t-1]|).
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import TickDependent
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep, ResettingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Differentiate(TickDependent):
    """The difference between a stream and its delay."""

    input_counts = ONE_INPUT

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return DifferentiateStep(sources[0], scope)


class DifferentiateStep(ResettingStep, RememberingStep):
    __slots__ = ("_held", "_scope", "_source")

    def __init__(self, source: Step, scope: StepScope) -> None:
        super().__init__()
        self._source = source
        self._scope = scope
        self._held = Batch.empty(source.node.schema.arity)

    def step(self) -> None:
        now = self._source.out or Batch.empty(self._held.arity)
        change = now.plus(self._held, -1)
        self.out = change if len(change) else None
        if self._scope.nested:
            self._held = now
        else:
            self._scope.journal.append(self)

    def reset(self) -> None:
        # Over the iterations of one tick: starts empty in every tick.
        self._held = Batch.empty(self._held.arity)

    def memory(self) -> Batch | None:
        return None if self._scope.nested else self._held

    def recall(self, memory: Batch | None) -> None:
        if memory is not None:
            self._held = memory

    def commit(self) -> None:
        self._held = self._source.out or Batch.empty(self._held.arity)

    def rollback(self) -> None:
        """Do nothing: the value held for this tick has not been replaced yet."""
