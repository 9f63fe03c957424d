"""Delay, z^-1: the stream as it was one step before.

    z^-1(s)[t] = s[t - 1],  z^-1(s)[0] = 0

The basic strict operator: its output does not depend on its current input, so cycles may pass
through it. It is linear and time invariant, so it is its own incremental form (DBSP paper, theorem
3.3). At the top level a step is a tick, inside a scope an iteration. A recursive variable is a
delay: the value defined at iteration i is the value of the variable at i + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.field_ranges import NO_INPUT
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator_roles import StrictOperator, TickDependent
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import FeedbackStep, RememberingStep, ResettingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, SchemaError
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Delay(StrictOperator, TickDependent):
    """z^-1 over streams of `columns`; `connect` sets its strict input."""

    input_counts = NO_INPUT

    columns: Schema
    variable: str = ""

    @property
    def label(self) -> str:
        return f"Delay {self.variable}" if self.variable else "Delay"

    @property
    def shareable(self) -> bool:
        return False

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns

    @property
    def law(self) -> str:
        return "delay"

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        stream = rewriting.add(self, graph=rewriting.graph_of(node.graph))
        (value,) = node.strict
        rewriting.at_cycles(lambda: stream.graph.connect(stream, rewriting.image(value)))
        return stream

    def accept(self, *strict: Schema) -> None:
        (given,) = strict
        pairs = list(zip(self.columns.types, given.types, strict=False))
        if given.arity != self.columns.arity or any(a.coding != b.coding for a, b in pairs):
            raise SchemaError(
                f"{self.what} expects ({self.columns.describe()}), got ({given.describe()})",
                code="schema-mismatch",
            )
        for name, (mine, theirs) in zip(self.columns.names, pairs, strict=True):
            if theirs.nullable and not mine.nullable:
                raise SchemaError(
                    f"{self.what} does not allow None in column '{name}', got type {theirs}; declare the "
                    f"column as {theirs}",
                    code="schema-mismatch",
                )

    @property
    def what(self) -> str:
        """The name of this operator in errors."""
        return f"variable '{self.variable}'" if self.variable else "the delay"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if not node.strict:
            raise CircuitError(f"{self.what} has no input", where=node.describe(), code="incomplete-circuit")
        return DelayStep(scope)


class DelayStep(FeedbackStep, ResettingStep, RememberingStep):
    __slots__ = ("_held", "_scope", "_source")

    _source: Step

    def __init__(self, scope: StepScope) -> None:
        super().__init__()
        self._scope = scope
        self._held: Batch | None = None

    def connect(self, strict: Sequence[Step]) -> None:
        (self._source,) = strict

    def step(self) -> None:
        self.out = self._held
        if self._scope.nested:
            self._held = None  # so that an iteration can release the delta
        else:
            self._scope.journal.append(self)

    def reset(self) -> None:
        # Values of a tick that was rolled back must not enter this one.
        self._held = None

    def advance(self) -> bool:
        self._held = self._source.out
        return self._held is not None

    @property
    def held(self) -> Batch | None:
        """The value of the next step."""
        return self._held

    def hold(self, value: Batch | None) -> None:
        """Replace the value of the next step."""
        self._held = value

    def memory(self) -> Batch | None:
        return None if self._scope.nested else self._held

    def recall(self, memory: Batch | None) -> None:
        self._held = memory

    def commit(self) -> None:
        self._held = self._source.out

    def rollback(self) -> None:
        """Do nothing: the delta held for this tick has not been replaced yet."""
