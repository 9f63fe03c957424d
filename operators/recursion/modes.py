"""How a recursive scope is evaluated, and what it costs: the modes, and the choice between them.

    insert-only   semi-naive evaluation that goes on from the fixpoint of the tick before. It keeps no
                  iterations, so it is fast and small; after a deletion it has to begin anew.
    incremental   by tick and iteration (see `dbsp.operators.recursion.fixpoint`): deletions are
                  exact, too, at a cost that follows what changes at some iteration. That can be more
                  than a restart.
    restart       the fixpoint of all input rows so far, and its difference from the previous one.

A scope in mode "auto" is insert-only until the first deletion, which it pays for with one evaluation
anew, and incremental from then on. A tick whose work outgrows what it would take to begin anew is begun
anew. Work is counted in matches of joins and in rows put out by the operators of the body, so the choice
depends on the changes alone and not on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from dbsp.kernels.arrays import Codes

STEP_ROWS = 24
"""What a step of one operator costs besides its rows, in rows."""

CHANGED_ROW = 2
"""What a row costs in an incremental tick, where every row is looked up in the past, in rows of a first
evaluation: 2 to 5 were measured."""

BUDGET = 0.8
"""The part of an evaluation anew that a tick with deletions may cost before it is begun anew. One without
is bounded by what there is to derive."""

SHARE = 0.05
"""The part of all that has entered that may leave in one tick without the scope being begun anew."""

MANY = 64
"""From so many changed rows on a tick is expected to cost what those before it cost for each of theirs."""

MEMORY = 0.2
"""How much the latest tick counts in the mean cost of a changed row."""


class Recursion(StrEnum):
    """The modes; `AUTO` chooses as it goes."""

    AUTO = "auto"
    INCREMENTAL = "incremental"
    INSERT_ONLY = "insert-only"


MODE_DESCRIPTIONS = {
    Recursion.AUTO: "insert-only until something leaves, then incremental by tick and iteration; "
    "begun anew where that costs less",
    Recursion.INCREMENTAL: "incremental by tick and iteration",
    Recursion.INSERT_ONLY: "insert-only; begun anew when something leaves",
}
"""What each mode means, in words."""


@dataclass(frozen=True)
class EvaluationHistory:
    """What a scope remembers of its evaluation so far, besides its traces.

    `arrivals` counts, by variable, the rows that enter it at each iteration, in a scope that is `timed`.
    """

    timed: bool
    rows: int = 0
    """Rows of the results,"""
    entered: int = 0
    """and of what has entered."""
    restart_work: int = 0
    """What the latest evaluation from nothing cost,"""
    restart_rows: int = 0
    """and how many rows it gave."""
    per_change: float = 0.0
    """The mean cost of a changed row in incremental ticks; 0 if there was none."""
    restarts: int = 0
    """How often the scope was begun anew."""
    arrivals: tuple[Codes, ...] = ()

    def describe(self) -> str:
        """What it is now, and how often it was begun anew."""
        now = "incremental by now" if self.timed else "insert-only so far"
        times = "once" if self.restarts == 1 else f"{self.restarts} times"
        return f"{now}, begun anew {times}" if self.restarts else now

    def restart_cost(self, rows: int) -> float:
        """What beginning anew is expected to cost when there are `rows` rows of results."""
        return self.restart_work * max(rows, 1) / max(self.restart_rows, 1)

    def begun(self, work: int) -> EvaluationHistory:
        """The history after an evaluation from nothing."""
        return replace(self, restart_work=work, restart_rows=self.rows)

    def budget(self, rows: int) -> float:
        """What a tick may cost that is to go on, with so many rows of results by now."""
        return BUDGET * self.restart_cost(rows)

    def should_restart(self, changed: int, left: int) -> bool:
        """Whether to begin anew ought to cost less than a tick of so many rows, of which `left` leave."""
        if left > SHARE * self.entered:
            return True
        return changed >= MANY and self.per_change * changed > self.restart_cost(self.rows)

    def after(self, changed: int, work: int, rows: int, arrivals: tuple[Codes, ...]) -> EvaluationHistory:
        """The history after an incremental tick."""
        each = work / max(changed, 1)
        mean = each if not self.per_change else (1 - MEMORY) * self.per_change + MEMORY * each
        return replace(self, rows=rows, per_change=mean, arrivals=arrivals)


def joined(past: Codes, present: dict[int, int]) -> Codes:
    """Arrivals by iteration after a tick that changed some."""
    size = max(len(past), max(present, default=-1) + 1)
    total = np.zeros(size, np.int64)
    total[: len(past)] = past
    for iteration, rows in present.items():
        total[iteration] += rows
    return total[: int(np.flatnonzero(total)[-1]) + 1] if total.any() else total[:0]
