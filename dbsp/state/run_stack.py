"""The sorted runs of a trace, and the table of them that kernels read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dbsp.data.types import Type
from dbsp.kernels import narrow_rows, register_run
from dbsp.kernels.arrays import StoredRows
from dbsp.kernels.limits import INT64_MAX
from dbsp.state.journal import Journalled
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.sorted_run import SortedRun

ROOM = 32
"""The runs that fit a new table."""


class RunStack:
    """A stack of sorted runs, oldest first: `runs` are committed, `current` belong to this tick.

    `width` is the number of columns of a run row. In a nested scope it is more than the arity of
    the stream: the last columns hold the iterations, outermost scope first. `table` is the run
    table for kernels (see `dbsp.kernels.run_search`), `count` the number of runs in it, `past` the
    number of committed runs. `fresh` is the number of the newest runs that are the delta of the
    current step. With a `budget`, runs may be in files.
    """

    __slots__ = (
        "__weakref__",
        "_bound",
        "_budget",
        "_journal",
        "_replacing",
        "count",
        "current",
        "fresh",
        "past",
        "runs",
        "table",
        "types",
        "width",
    )

    def __init__(self, width: int, journal: list[Journalled], budget: MemoryBudget | None = None) -> None:
        self.width = width
        self.types: tuple[Type, ...] | None = None
        """The types of the columns, if they are known."""
        self.runs: list[SortedRun] = []
        self.current: list[SortedRun] = []
        self.table = np.zeros((ROOM, 3), np.int64)
        self.count = 0
        self.past = 0
        self.fresh = 0
        self._bound = 0
        """No sum of weights over some of the runs is larger."""
        self._journal = journal
        self._replacing = False
        """Whether runs are being replaced: until this ends, the table may not fit them."""
        self._budget = budget

    @property
    def before(self) -> int:
        """The number of runs that hold the integral without the delta of the current step."""
        return self.count - self.fresh

    @property
    def rows(self) -> int:
        """The number of rows in all runs."""
        return sum(len(run) for run in self.runs) + sum(len(run) for run in self.current)

    @property
    def file_bytes(self) -> int:
        """The bytes of rows and weights in files."""
        return sum([run.file.end for run in (*self.runs, *self.current) if run.file is not None])

    def in_memory(self) -> Iterator[SortedRun]:
        """Yield the runs that are not in files."""
        return (run for run in (*self.runs, *self.current) if run.file is None)

    def map(self, run: SortedRun, mapped: SortedRun) -> None:
        """Replace the arrays of a run by those of its file; if interrupted, call `repair`."""
        index = [id(each) for each in (*self.runs, *self.current)].index(id(run))
        self._replacing = True
        run.codes = mapped.codes
        run.stored = mapped.stored
        run.file = mapped.file
        self._register(index, run)
        self._replacing = False

    def refer(self, run: SortedRun, codes: StoredRows) -> None:
        """Let a run use another array of the same rows; if interrupted, call `repair`."""
        index = [id(each) for each in (*self.runs, *self.current)].index(id(run))
        self._replacing = True
        run.codes = codes
        self._register(index, run)
        self._replacing = False

    @property
    def sums_fit(self) -> bool:
        """Whether all sums of weights over some of the runs are in int64."""
        return self._bound <= INT64_MAX

    def narrow(self) -> None:
        """Store the newest run of this tick in 32 bits if it may be.

        Nobody reads its delta again.
        """
        self._narrow_newest(self.current, self.past)

    def _narrow_newest(self, runs: list[SortedRun], offset: int) -> None:
        """Store the newest of `runs`, which has `offset` in the table, in 32 bits if it may be.

        Its rows are those of the delta, which is released by now: before, they are shared.
        """
        if runs and runs[-1].size >= narrow_rows.LARGE:
            run = runs[-1].compact()
            if run is not runs[-1]:
                runs[-1] = run
                self._register(offset + len(runs) - 1, run)

    def _push(self, runs: list[SortedRun], run: SortedRun) -> None:
        """Append a run to `runs` and to the end of the table."""
        # As `_register`, whose call would be measurable here: this is once per trace and tick.
        if run.largest or run.narrow:
            self.table[self.count] = run.entry()
        else:
            run.largest = register_run(self.table, self.count, run.rows, run.stored)
        self._bound += run.largest
        runs.append(run)
        self.count += 1

    def _register(self, index: int, run: SortedRun) -> None:
        """Write a run into the table."""
        if run.largest or run.narrow:
            self.table[index] = run.entry()
        else:
            run.largest = register_run(self.table, index, run.rows, run.stored)
