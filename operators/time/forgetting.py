"""Forgetting: traces drop the rows that a watermark has passed and that no step reads any more.

    I(s) without the rows whose `column` < w + offset          w the watermark of the latest tick

`dbsp.operators.stages.passes.forget_rows` finds the traces, columns and offsets, and replaces the
operators that keep them by the operators of this module. Nothing else changes: the output of such
an operator is that of the operator it replaces. The strict inputs are the watermarks; of several,
the least counts. Rows are dropped between ticks (`dbsp.state.trace_limit`), from the top-level
circuit only.

The trace does not hold its integral any more, so no view reads it, and replanning cannot compute
other state from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import timedelta

from dbsp.circuit.field_ranges import COLUMN, INT64
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.operator_roles import Forgetful, StrictOperator
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import StrictStep, TracedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.types import Type
from dbsp.errors import CircuitError, expect_type
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.time.watermark import Watermark, WatermarkStep
from dbsp.operators.traces.arrange import Arrange, ArrangeStep
from dbsp.state.trace import Trace
from dbsp.state.trace_limit import TraceLimit

_UNITS = {"date": "days", "timestamp": "microseconds", "timestamptz": "microseconds"}
"""By kind of time, the unit of its codes."""


@dataclass(frozen=True)
class ForgettingOperator(StrictOperator, Forgetful):
    """An operator whose trace forgets the rows whose `column` is below the watermark + `offset`.

    It reads one watermark or more, one step late.
    """

    column: int = field(kw_only=True, metadata=COLUMN)
    offset: int = field(kw_only=True, metadata=INT64)

    @property
    def shareable(self) -> bool:
        return False  # equal operators over equal inputs may read other watermarks

    def forgotten(self, column: str, type_: Type) -> str:
        """Return the condition of the forgotten rows in words, with the name of the column."""
        unit = _UNITS.get(type_.kind)
        second = 10**6 if unit == "microseconds" else 1
        # Lengths of windows are whole seconds, as a rule: say `<= watermark - 15 minutes`.
        inclusive = self.offset == 1 or (self.offset % second != 0 and (self.offset - 1) % second == 0)
        offset = self.offset - inclusive
        length = str(timedelta(**{unit: abs(offset)})) if unit else str(abs(offset))
        by = f" {'-' if offset < 0 else '+'} {length}" if offset else ""
        return f"{column} {'<=' if inclusive else '<'} watermark{by}"

    def check_strict(self, node: Node, strict: Sequence[Stream]) -> None:
        time = node.schema.types[self.column].required()
        for stream in strict:
            if not isinstance(stream.node.operator, Watermark) or stream.schema.types != (time,):
                raise CircuitError(
                    f"expected a watermark of type {time}, got ({stream.schema.describe()}) of "
                    f"{stream.node.describe()}",
                    code="invalid-circuit-file",
                )

    def check_connected(self, node: Node) -> None:
        """Raise CircuitError if the node reads no watermark."""
        if not node.strict:
            raise CircuitError(
                "expected one watermark or more, one step late, got none",
                where=node.describe(),
                code="incomplete-circuit",
            )


class ForgettingStep(StrictStep, TracedStep):
    """A step whose trace forgets rows."""

    __slots__ = ()

    _scope: StepScope

    @property
    def complete(self) -> bool:
        return False

    @property
    def limited(self) -> Sequence[Trace]:
        """The traces that forget rows, all by the same column."""
        return [self.trace]

    def connect(self, strict: Sequence[Step]) -> None:
        marks = [expect_type(step, WatermarkStep, "the step of a watermark") for step in strict]
        what = "an operator that forgets rows"
        operator = expect_type(self.node.operator, ForgettingOperator, what)  # type: ignore[type-abstract]
        for trace in self.limited:
            self._scope.limit(
                TraceLimit(trace, operator.column, operator.offset, lambda: [step.mark for step in marks])
            )


@dataclass(frozen=True)
class ForgettingArrange(ForgettingOperator, Arrange):
    """An arrangement that forgets rows, by a column of the trace."""

    @property
    def name(self) -> str:
        return "Arrange"

    @property
    def whole(self) -> Operator:
        return Arrange(self.order)

    @property
    def label(self) -> str:
        return f"{super().label}, forgets by {self.order[self.column]}"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        self.check_connected(node)
        return ForgettingArrangeStep(sources[0], self.order, scope)


class ForgettingArrangeStep(ForgettingStep, ArrangeStep):
    __slots__ = ()
