"""A savepoint: the committed state of a scope, to which the ticks after it can be undone together.

Sorted runs never change, so the savepoint of a trace is the list of its runs: merges replace
entries of the list, and the replaced runs stay in memory until the savepoint is released. Tables
keep the first value before each change. The memory of steps is small and copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep
from dbsp.runtime.scope import Scope
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace


class SavedRuns:
    """The runs of a trace at a savepoint; a budget may move them to files, as for a trace."""

    __slots__ = ("__weakref__", "_runs", "_trace")

    def __init__(self, trace: Trace, budget: MemoryBudget | None) -> None:
        self._trace = trace
        self._runs = tuple(trace.runs)
        if budget is not None:
            budget.watch(self)

    @property
    def nbytes(self) -> int:
        """The bytes of the runs in memory that only the savepoint keeps."""
        return sum([run.nbytes for run in self.in_memory()])

    def in_memory(self) -> Iterator[SortedRun]:
        """Yield the runs that are not in files, and not in the trace any more."""
        shared = set(map(id, self._trace.runs))
        return (run for run in self._runs if run.file is None and id(run) not in shared)

    def map(self, run: SortedRun, mapped: SortedRun) -> None:
        """Replace the arrays of a run by those of its file."""
        run.codes, run.stored, run.file = mapped.codes, mapped.stored, mapped.file

    def repair(self) -> None:
        """Do nothing: the runs do not depend on each other."""

    def restore(self) -> None:
        """Return the trace to these runs. If this is interrupted, call it again."""
        self._trace.rewind(self._runs)


class Savepoint:
    """The state of a scope and of the scopes within it, between two ticks. O(number of runs)."""

    __slots__ = ("_first_ticks", "_memories", "_runs", "_tables")

    def __init__(self, scope: Scope) -> None:
        scopes = list(scope.scopes())
        self._first_ticks = [(each.state, each.state.first_tick) for each in scopes]
        self._memories: list[Callable[[], None]] = [
            step.savepoint() for each in scopes for step in each.steps if isinstance(step, RememberingStep)
        ]
        self._runs = [SavedRuns(trace, scope.budget) for trace in scope.traces]
        self._tables = scope.tables

    def take(self) -> None:
        """Let the tables keep the values that change; `release` ends this."""
        for table in self._tables:
            table.save()

    def restore(self) -> None:
        """Return to this state, after the rollback of the latest tick.

        If it is interrupted, call it again.
        """
        for recall in self._memories:  # first: a step may return to an earlier scope within this one
            recall()
        for runs in self._runs:
            runs.restore()
        for table in self._tables:
            table.rewind()
        for state, first_tick in self._first_ticks:
            state.rewind(first_tick)

    def release(self) -> None:
        """Release the runs and values that only the savepoint keeps."""
        for table in self._tables:
            table.discard_save()
        self._runs = []


def can_be_saved(step: Step) -> bool:
    """Return whether a savepoint has all the state of a step, also after its commit."""
    return isinstance(step, RememberingStep) or not hasattr(step, "rollback")
