"""What some steps can do besides stepping. A step inherits the roles that it plays.

| role            | who asks                                         | examples                        |
|-----------------|--------------------------------------------------|---------------------------------|
| StrictStep      | the scope, once, to close cycles                 | delay, input with a set or key  |
| FeedbackStep    | a fixpoint, after each iteration                 | delay                           |
| ResettingStep   | a fixpoint, before the first iteration of a tick | delay, integrate, differentiate |
| TimedStep       | a fixpoint, for the next iteration with work     | join, distinct, nested fixpoint |
| RememberingStep | checkpoints and replanning                       | delay, watermark, fixpoint      |
| KeepingStep     | views, replanning and fixpoints                  | arrange, distinct               |
| Arranged        | joins, groups and others that probe its trace    | arrange, delta_0 of arranged    |
| ReplayingStep   | replanning                                       | arrange, distinct, aggregate    |
| TracedStep      | statistics, and steps that read its trace        | arrange, integrate              |
| ReportingStep   | `Run.reported`                                   | fixpoint, multi-way join        |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes
from dbsp.state.trace import Trace

if TYPE_CHECKING:
    from dbsp.circuit.graph import Node

Time: TypeAlias = tuple[int, ...]
"""A time within a tick: the iteration of each nested scope, outermost first."""


class StrictStep(Step):
    """A step that reads some inputs as they were one step before."""

    __slots__ = ()

    @abstractmethod
    def connect(self, strict: Sequence[Step]) -> None:
        """Receive the strict inputs' steps, which may come later in the schedule."""


class FeedbackStep(StrictStep):
    """A strict step that carries a variable of a nested scope from one iteration to the next."""

    __slots__ = ()

    @abstractmethod
    def advance(self) -> bool:
        """End an iteration; True when the next one receives rows."""


class ResettingStep(Step):
    """A step with state that lives for the iterations of one tick."""

    __slots__ = ()

    @abstractmethod
    def reset(self) -> None:
        """Start the iterations of a tick with empty state."""


class TimedStep(Step):
    """A step of a nested scope whose work may wait for a later iteration."""

    __slots__ = ()

    @abstractmethod
    def next_time(self) -> Time | None:
        """The earliest later time at which work waits."""

    @abstractmethod
    def drop_waiting(self) -> None:
        """Drop the work that waits for later times of this tick."""


class RememberingStep(Step):
    """A step with state between ticks that is in no trace and no table."""

    __slots__ = ()

    @abstractmethod
    def memory(self) -> Any:
        """That state, made of plain values and batches; None if it is empty.

        It is written to checkpoints, and handed to the step of an equal operator when a run switches
        to another circuit.
        """

    @abstractmethod
    def recall(self, memory: Any) -> None:
        """Restore what `memory` returned, before the first step."""


class KeepingStep(Step):
    """A step that keeps the integral of its stream (`Operator.keeps_integral`)."""

    __slots__ = ()

    @abstractmethod
    def integral(self) -> Batch:
        """The sum of all deltas so far.

        Of an arrangement it is the integral of the stream it arranges, in that stream's column order.
        """

    @property
    @abstractmethod
    def kept_rows(self) -> int:
        """How many rows are kept for `integral`, retracted rows that are not merged yet included."""


class Arranged(KeepingStep):
    """A step whose consumers also read a trace of its stream (see `dbsp.operators.traces.arrange`)."""

    __slots__ = ()

    @property
    @abstractmethod
    def before(self) -> int:
        """Runs of the trace that hold the integral without this step's delta."""

    @property
    @abstractmethod
    def table(self) -> Codes:
        """The run table to pass to kernels."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Runs of the trace, this step's delta included."""

    @property
    def coordinates(self) -> int:
        """How many columns at the end of a run row hold its time: the nested scopes around it."""
        return 0


class ReplayingStep(Step):
    """A step that can emit all of its past again from its state."""

    __slots__ = ()

    @abstractmethod
    def replay(self) -> None:
        """Set `out` to the integral of the output, as if all of the past had come in this step.

        The inputs need not be replayed for it.
        """


class TracedStep(Step):
    """A step that owns a trace."""

    __slots__ = ()

    @property
    @abstractmethod
    def trace(self) -> Trace:
        """The trace this step keeps itself."""


class ReportingStep(Step):
    """A step that reports facts which only its kind of operator has."""

    __slots__ = ()

    @abstractmethod
    def report(self) -> Mapping[str, Any]:
        """Facts by name, such as how a fixpoint is evaluated at present."""


def keeping(step: Step) -> KeepingStep:
    """Return a step that keeps its integral because its operator says so; raise InvariantError if not."""
    if not isinstance(step, KeepingStep):
        name = type(step).__name__
        raise InvariantError(f"expected a step that keeps its integral, got {name}; this is a defect of dbsp")
    return step


def expect_arranged(node: Node, sources: Sequence[Step]) -> list[Arranged]:
    """Return the input steps of a node, all of which are arrangements; raise InvariantError if not."""
    arranged = [source for source in sources if isinstance(source, Arranged)]
    if len(arranged) < len(sources):
        names = ", ".join(type(source).__name__ for source in sources)
        message = f"expected arrangements as inputs, got {names}; this is a defect of dbsp"
        raise InvariantError(message, where=node.describe())
    return arranged
