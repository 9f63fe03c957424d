"""What a step may ask of the scope it runs in; `dbsp.runtime.scope.Scope` provides it."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from dbsp.data.interner import Interner
from dbsp.kernels.arrays import Codes
from dbsp.state.journal import Journalled
from dbsp.state.state_table import StateTable
from dbsp.state.trace import Trace

T = TypeVar("T")


class StepScope(Protocol):
    """The scope of a step: where its state lives, and which time it is.

    State is asked for in `Operator.start`, the rest at any time.
    """

    @property
    def interner(self) -> Interner:
        """The dictionary of values that codes refer to."""

    @property
    def nested(self) -> bool:
        """Whether this is the scope of a fixpoint."""

    @property
    def depth(self) -> int:
        """How many coordinates a time has here: the timed scopes around the step."""

    @property
    def now(self) -> Codes:
        """The time within the tick: the iterations of the timed scopes, outermost first."""

    @property
    def iteration(self) -> int:
        """The iteration of this scope, 0 at the top level."""

    @property
    def first_tick(self) -> bool:
        """Whether no tick has been committed yet."""

    @property
    def journal(self) -> list[Journalled]:
        """What this tick has changed; a step with state of its own appends it once per tick."""

    def new_trace(self, arity: int) -> Trace:
        """A trace of rows of `arity` columns; in a nested scope with the time behind them."""

    def new_table(self) -> StateTable[Any, Any]:
        """A dictionary for a step to keep its state in (see `dbsp.state.state_table`)."""

    def shared(self, kind: type[T]) -> T:
        """The one object of a class that the steps of this scope share."""
