"""Roles: abilities that only some steps have. A step inherits from its roles.

| role            | used by                                      | examples                        |
|-----------------|----------------------------------------------|---------------------------------|
| StrictStep      | the scope, once, to close cycles             | delay, input with a set or key  |
| FeedbackStep    | a fixpoint, after each iteration             | delay                           |
| ResettingStep   | a fixpoint, before the iterations of a tick  | delay, integrate, differentiate |
| TimedStep       | a fixpoint, for the next iteration with work | join, distinct, nested fixpoint |
| RememberingStep | checkpoints and replanning                   | delay, watermark, fixpoint      |
| IntegralStep    | KeepingStep and ReplayingStep                | arrange, aggregate              |
| KeepingStep     | views, replanning and fixpoints              | arrange, distinct               |
| Arranged        | joins and groups, to probe its trace         | arrange, delta_0 of arranged    |
| ReplayingStep   | replanning                                   | arrange, distinct, aggregate    |
| TracedStep      | statistics, and steps that read its trace    | arrange, integrate              |
| ExternalStep    | arrange, which then keeps no trace           | input of kind "external"        |
| ReportingStep   | `Run.reported`                               | fixpoint, multi-way join        |
| MeetingStep     | the scope, to exchange once for several      | exchange, broadcast             |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
        """Receive the steps of the strict inputs, which may come later in the schedule."""


class MeetingStep(Step):
    """A step that exchanges rows with the other shards. `step` does so alone.

    The scope may exchange for several such steps at once: it passes what `pack` returns to the link
    of the scope, and sets `out` to the result.
    """

    __slots__ = ()

    @abstractmethod
    def pack(self) -> Any:
        """Return the exchange of this step, as `ShardLink.exchange_packed` expects it."""


class FeedbackStep(StrictStep):
    """A strict step that carries a variable of a nested scope from one iteration to the next."""

    __slots__ = ()

    @abstractmethod
    def advance(self) -> bool:
        """End an iteration; return whether the next one receives rows."""


class ResettingStep(Step):
    """A step with state for the iterations of one tick."""

    __slots__ = ()

    @abstractmethod
    def reset(self) -> None:
        """Start the iterations of a tick with empty state."""


class TimedStep(Step):
    """A step of a nested scope whose work may wait for a later iteration."""

    __slots__ = ()

    @abstractmethod
    def next_time(self) -> Time | None:
        """Return the earliest later time at which work waits, or None."""

    @abstractmethod
    def drop_waiting(self) -> None:
        """Drop the work that waits for later times of this tick."""


class RememberingStep(Step):
    """A step with state between ticks outside traces and tables."""

    __slots__ = ()

    @abstractmethod
    def memory(self) -> Any:
        """Return that state as plain values and batches, or None if it is empty.

        Checkpoints store it, and the step of an equal operator receives it when a run switches to
        another circuit.
        """

    @abstractmethod
    def recall(self, memory: Any) -> None:
        """Restore what `memory` returned, before the first step or after a rollback."""

    def savepoint(self) -> Callable[[], None]:
        """Return a function that restores the present memory; it may be called more than once."""
        memory = self.memory()
        return lambda: self.recall(memory)


class IntegralStep(Step):
    """A step whose state holds an integral."""

    __slots__ = ()

    @property
    def complete(self) -> bool:
        """Whether it holds all rows; else it forgets those that a watermark has passed."""
        return True


class KeepingStep(IntegralStep):
    """A step that keeps the integral of its stream (`Operator.keeps_integral`)."""

    __slots__ = ()

    @abstractmethod
    def integral(self) -> Batch:
        """Return the sum of all deltas so far.

        For an arrangement it is the integral of the arranged stream, in the column order of the
        stream.
        """

    @property
    @abstractmethod
    def kept_rows(self) -> int:
        """How many rows are stored for `integral`, including unmerged retractions."""


class Arranged(KeepingStep):
    """A step whose consumers also read its trace (see `dbsp.operators.traces.arrange`)."""

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
    def sorted_by(self) -> tuple[int, ...] | None:
        """The columns of the arranged stream, in the order of those of the trace.

        None if the trace has other rows than the stream.
        """
        return None

    @property
    def coordinates(self) -> int:
        """How many columns at the end of a run row hold its time: the nested scopes around it."""
        return 0


class ReplayingStep(IntegralStep):
    """A step that can emit its whole past again from its state."""

    __slots__ = ()

    @abstractmethod
    def replay(self) -> None:
        """Set `out` to the integral of the output, as if this step had received the whole past.

        It does not need a replay of the inputs.
        """


class TracedStep(Step):
    """A step that owns a trace."""

    __slots__ = ()

    @property
    @abstractmethod
    def trace(self) -> Trace:
        """The trace of this step."""


class ExternalStep(Step):
    """A step whose integral is kept outside of the circuit (see `dbsp.state.external_traces`)."""

    __slots__ = ()

    @abstractmethod
    def external_trace(self, order: tuple[int, ...]) -> Trace:
        """Return the trace with the integral, sorted by the columns `order`."""


class ReportingStep(Step):
    """A step that reports facts specific to its kind of operator."""

    __slots__ = ()

    @abstractmethod
    def report(self) -> Mapping[str, Any]:
        """Return facts by name, such as the current recursion mode of a fixpoint."""


def keeping(step: Step) -> KeepingStep:
    """Return a step whose operator keeps its integral.

    Raises InvariantError if the step does not.
    """
    if not isinstance(step, KeepingStep):
        name = type(step).__name__
        raise InvariantError(f"expected a step that keeps its integral, got {name}; this is a defect of dbsp")
    return step


def expect_arranged(node: Node, sources: Sequence[Step]) -> list[Arranged]:
    """Return the input steps of a node, which are arrangements.

    Raises InvariantError if one is not.
    """
    arranged = [source for source in sources if isinstance(source, Arranged)]
    if len(arranged) < len(sources):
        names = ", ".join(type(source).__name__ for source in sources)
        message = f"expected arrangements as inputs, got {names}; this is a defect of dbsp"
        raise InvariantError(message, where=node.describe())
    return arranged
