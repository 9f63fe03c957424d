"""Inspect: a callback on the changes of a stream.

    out = s,  and callback(D(I(s))) after the commit of every tick in which s changed

The callback gets the delta of the tick as a ZSet. Inside a nested scope this is the sum over the
iterations, the change of the value at the fixpoint. The callback is never called for a tick that
was rolled back. Linear: its own incremental form. Cost: O(|delta|) and the callback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from dbsp.circuit.field_ranges import NAMED_COLUMNS, ONE_INPUT
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator_roles import NotifyingPort
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch, combine
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import UserFunctionError, cause_text
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.row_functions import function_name
from dbsp.runtime.ports import CommitListener


@dataclass(frozen=True)
class Inspect(NotifyingPort):
    """The stream itself; `callback` receives its deltas after each commit.

    In a lowered graph it is a sink beside the stream, so readers of the stream do not depend on it.
    """

    input_counts = ONE_INPUT

    callback: Callable[[ZSet], Any]
    columns: Schema | None = field(default=None, metadata=NAMED_COLUMNS)
    """The columns with their names, because a lowered stream has no names."""
    integrated: bool = False
    """Whether the stream carries integrals instead of deltas."""

    @property
    def label(self) -> str:
        return f"Inspect by {function_name(self.callback)}"

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns or inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        rewriting.add(Inspect(self.callback, node.schema), *inputs)
        return inputs[0]

    def lifted(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """Add the callback to a stream of integrals."""
        rewriting.add(Inspect(self.callback, node.schema, integrated=True), *inputs)
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return InspectStep(self, node, sources[0], scope)


class InspectStep(RememberingStep, CommitListener):
    __slots__ = ("_held", "_operator", "_pieces", "_scope", "_source")

    def __init__(self, operator: Inspect, node: Node, source: Step, scope: StepScope) -> None:
        super().__init__()
        self._operator = operator
        self._source = source
        self._scope = scope
        self._pieces: list[Batch] = []
        self._held = Batch.empty(node.schema.arity)

    def step(self) -> None:
        self.out = self._source.out
        if self._operator.integrated:
            self._pieces.clear()  # only the value of the last iteration counts
        if self.out is not None:
            self._pieces.append(self.out)

    def memory(self) -> Batch | None:
        return self._held if self._operator.integrated else None

    def recall(self, memory: Batch | None) -> None:
        if memory is not None:
            self._held = memory

    def drop(self) -> None:
        self._pieces.clear()

    def take(self) -> Batch | None:
        change = combine([(piece.rows, piece.weights) for piece in self._pieces])
        self._pieces.clear()
        return change

    def give(self, change: Batch | None) -> None:
        self._pieces = [] if change is None else [change]

    def notify(self) -> None:
        change = self.take()
        if self._operator.integrated:
            held, value = self._held, change or Batch.empty(self._held.arity)
            change = value.plus(held, -1)
            self._held = value
        if not change:
            return
        callback = self._operator.callback
        try:
            callback(ZSet.wrap(self.node.schema, self._scope.interner, change))
        except Exception as error:
            raise UserFunctionError(
                f"function {function_name(callback)} raised {cause_text(error)}; "
                "it was called after the commit, so the tick remains committed",
                where=self.node.describe(),
            ) from error
