"""The modes of evaluating a recursive scope, their costs, and the choice between them.

    insert-only   semi-naive evaluation that continues from the fixpoint of the previous tick. It
                  stores no iterations, so it is fast and small. A deletion removes all rows that
                  lose a derivation, then restores those with others (see
                  `dbsp.operators.groups.untimed_distinct_step`).
    incremental   by tick and iteration (see `dbsp.operators.recursion.fixpoint`): deletions are
                  exact, too. The cost is proportional to the changes at all iterations and can
                  exceed the cost of a restart.
    restart       the fixpoint of all input rows so far, and its difference from the previous one.

A scope in mode "auto" is insert-only at first. It becomes incremental, by a restart, when a
deletion exceeds its budget because most of the removed rows would return, or when such rows have
cost as much as a restart. When a tick's work exceeds the estimated cost of a restart, the scope
restarts. Work is counted in matches of joins and in rows emitted by the operators of the body, so
the choice depends on the changes alone and not on the machine.
"""

from __future__ import annotations

from dataclasses import fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:  # every command reads the names of the modes, and NumPy is slow to import
    from dbsp.kernels.arrays import Codes

STEP_ROWS = 24
"""The fixed cost of a step of one operator, in rows."""

CHANGED_ROW = 2
"""The cost of a row in an incremental tick and in the first phase of a deletion, which look up
every row in the past, in rows of a first evaluation: 2 to 5 were measured."""

REMOVAL = 0.25
"""The fraction of a restart's cost that the first phase of a deletion may spend. The second phase
costs about the same at most."""

DOUBTFUL = 0.5
"""If a deletion exceeds its budget and at least this fraction of the rows removed so far has other
derivations, the scope keeps iterations from then on, which show at once which rows stay."""

BUDGET = 0.8
"""The fraction of a restart's cost that a tick with deletions may spend before the scope restarts.
A tick without deletions is bounded by the rows that can be derived."""

SHARE = 0.05
"""The fraction of all input rows that one tick may retract without a restart of the scope."""

MANY = 64
"""With at least so many changed rows, a tick is expected to cost per row what earlier ticks
cost."""

UNFINISHED = 2
"""The first phase of a deletion that ended at its budget counts as so many times its work."""

MEMORY = 0.2
"""The weight of the latest tick in the mean cost of a changed row."""


class Recursion(StrEnum):
    """The modes; `AUTO` chooses in every tick."""

    AUTO = "auto"
    INCREMENTAL = "incremental"
    INSERT_ONLY = "insert-only"


RecursionName: TypeAlias = Literal["auto", "incremental", "insert-only"]
"""The name of a mode."""


INCREMENTAL_MODE = "incremental by tick and iteration"
"""The description of the incremental mode, for reports."""


def describe_insert_only(auto: bool, deletes: bool) -> str:
    """Describe a scope that starts insert-only, for reports."""
    if auto:
        end = "while deletions are cheap" if deletes else "until a row is removed"
        return f"insert-only {end}, then {INCREMENTAL_MODE}; restarts where that costs less"
    if deletes:
        return "insert-only; removes rows in two phases, or restarts where that costs less"
    return "insert-only; restarts when a row is removed"


class Removal(NamedTuple):
    """The first phase of a deletion without iterations; numbers of rows, on all shards."""

    work: int
    removed: int
    """The rows that left a set."""
    supported: int
    """Those of them that return: they have derivations from other rows."""


@dataclass(frozen=True)
class EvaluationHistory:
    """The statistics of a scope's evaluation so far.

    `arrivals` counts, by variable, the rows that enter it at each iteration, in a `timed` scope.
    """

    timed: bool
    rows: int = 0
    """The number of rows of the results."""
    entered: int = 0
    """The number of input rows."""
    restart_work: int = 0
    """The work of the latest evaluation from scratch."""
    restart_rows: int = 0
    """The number of result rows of the latest evaluation from scratch."""
    per_change: float = 0.0
    """The mean cost of a changed row in incremental ticks; 0 if there was none."""
    restarts: int = 0
    """The number of restarts of the scope."""
    arrivals: tuple[Codes, ...] = ()
    wasted: int = 0
    """The work of removing rows that had other derivations, since the latest restart."""
    per_removal: float = 0.0
    """The mean cost of a retracted row in the first phase of deletions; 0 if there was none."""

    def memory(self) -> tuple[Any, ...]:
        """Return the fields in their order, as plain values and arrays."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def describe(self) -> str:
        """Return the current mode and the number of restarts as text."""
        mode = "incremental" if self.timed else "insert-only"
        times = "once" if self.restarts == 1 else f"{self.restarts} times"
        return f"{mode}, restarted {times}" if self.restarts else mode

    def restart_cost(self, rows: int) -> float:
        """Return the expected cost of a restart when the results have `rows` rows."""
        return self.restart_work * max(rows, 1) / max(self.restart_rows, 1)

    def restarted(self, work: int) -> EvaluationHistory:
        """Return the history after an evaluation from scratch."""
        return replace(self, restart_work=work, restart_rows=self.rows, wasted=0)

    def removed(self, work: int, left: int, complete: bool) -> EvaluationHistory:
        """Return the history after a first phase of this work for `left` retractions."""
        if not left:
            return self
        each = work * (1 if complete else UNFINISHED) / left
        return replace(self, per_removal=_mean(self.per_removal, each))

    def expects_long_removal(self, left: int) -> bool:
        """Whether the first phase for `left` retractions should exceed its budget."""
        return left >= MANY and self.per_removal * left > self.removal_budget()

    def without_removal(self) -> EvaluationHistory:
        """Return the history after a tick that is not expected to remove rows within the budget.

        The expectation fades, so that a later tick of this size tries it again.
        """
        return replace(self, per_removal=(1 - MEMORY) * self.per_removal)

    def deleted(self, removal: Removal, rows: int) -> EvaluationHistory:
        """Return the history after a deletion without iterations that changed `rows` results."""
        wasted = 2 * removal.work * removal.supported // max(removal.removed, 1)
        return replace(self, rows=self.rows + rows, wasted=self.wasted + wasted)

    def removal_budget(self) -> float:
        """Return the work that the first phase of a deletion may spend before a restart."""
        return REMOVAL * self.restart_cost(self.rows)

    def should_keep_iterations(self) -> bool:
        """Whether rows were removed and restored so often that iterations would have cost less."""
        return self.wasted > self.restart_cost(self.rows)

    def is_doubtful(self, removal: Removal) -> bool:
        """Whether many of the removed rows have other derivations."""
        return removal.supported >= DOUBTFUL * removal.removed

    def retracts_many(self, left: int) -> bool:
        """Whether a restart should be cheaper than `left` retractions."""
        return left > SHARE * self.entered

    def budget(self, rows: int) -> float:
        """Return the work that a tick may spend before a restart; the results have `rows` rows."""
        return BUDGET * self.restart_cost(rows)

    def should_restart(self, changed: int, left: int) -> bool:
        """Whether a restart should be cheaper than `changed` rows with `left` retractions."""
        if self.retracts_many(left):
            return True
        return changed >= MANY and self.per_change * changed > self.restart_cost(self.rows)

    def after(self, changed: int, work: int, rows: int, arrivals: tuple[Codes, ...]) -> EvaluationHistory:
        """Return the history after an incremental tick."""
        mean = _mean(self.per_change, work / max(changed, 1))
        return replace(self, rows=rows, per_change=mean, arrivals=arrivals)


def _mean(before: float, latest: float) -> float:
    return (1 - MEMORY) * before + MEMORY * latest if before else latest
