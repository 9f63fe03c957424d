"""Run the iterations of a linear recursion in calls of one kernel, while few rows change in each.

An iteration of a scope steps each of its nodes, which costs as much as some thousand rows. The
iterations of a linear body (see `dbsp.operators.recursion.linear_body`) only look up rows: a table
of rows collects what they derive, and the traces of the scope receive it at the end, as one delta.
In the first phase of a deletion the rows of the table are those that leave.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from dbsp.circuit.graph import Node
from dbsp.circuit.step_roles import Arranged
from dbsp.data.batch import Batch
from dbsp.data.run_batch import RunBatch
from dbsp.errors import expect_present, expect_type
from dbsp.kernels import list_edges, search_groups, transpose_pairs
from dbsp.kernels.arrays import Codes
from dbsp.kernels.frontier import (
    ITERATION_WORK,
    LAST,
    LIMITS,
    MATCH_WORK,
    MOST_QUEUED,
    MOST_ROWS,
    MOST_WORK,
    ROW_WORK,
)
from dbsp.kernels.jit import expect_calls
from dbsp.kernels.limits import INT64_MAX
from dbsp.operators.groups.untimed_distinct_step import UntimedDistinctStep
from dbsp.operators.recursion.linear_body import LinearBody
from dbsp.operators.recursion.row_tables import RowTables
from dbsp.operators.time.delay import DelayStep
from dbsp.operators.traces.arrange import DeferredArrangeStep, key_first
from dbsp.runtime.scope import Scope
from dbsp.state.sorted_run import SortedRun

T = TypeVar("T")

FEW_ROWS = 1 << 8
"""The iterations run here from a frontier with at most so many rows on."""

SOME_ROWS = 1 << 12
"""They also run here from one with at most so many rows on, if the frontier does not grow."""

GROUPED_ROWS = 1 << 20
"""They run here from a frontier with at most so many rows on, if these are in small groups: more
rows would take long in one thread, and the steps use all threads."""

MANY_ROWS = 1 << 13
"""The iterations of a group end here with a frontier of more rows: the steps take less time for
each row."""

GROUP_ROWS = 1 << 16
"""The iterations of a group end here when it has more rows: they no longer fit the cache.

They continue in a new table, and find the rows of earlier ones by a filter."""


class Prices(NamedTuple):
    """What iterations cost and may cost, in rows (see `dbsp.operators.recursion.modes`)."""

    iteration: int
    row: int
    """The cost of a match, or of a row that an operator emits."""
    most: float
    """The cost at which the iterations end."""


class Iterated(NamedTuple):
    """What iterations have done. They end early at a limit, so that more of them may be needed."""

    out: Batch | None
    """The change of the variable."""
    iterations: int
    work: int
    left: bool
    """Whether the work exceeds the limit, or that of all iterations is expected to."""


class LinearIterations:
    """The iterations of a scope with a linear body and without times."""

    __slots__ = (
        "_arrangements",
        "_carried",
        "_distinct",
        "_joins",
        "_order",
        "_searches",
        "_small",
        "_variable",
    )

    def __init__(self, body: LinearBody, scope: Scope) -> None:
        def step_of(node: Node, kind: type[T]) -> T:
            return expect_type(scope.by_node[node], kind, "a step of a linear recursion")

        self._variable = step_of(body.variable, DelayStep)
        self._distinct = step_of(body.distinct, UntimedDistinctStep)
        self._arrangements = [step_of(node, DeferredArrangeStep) for node in body.arrangements]
        self._joins = [(step_of(join.side, Arranged), join) for join in body.joins]  # type: ignore[type-abstract]
        self._carried = len(body.carried)
        self._order = key_first(body.carried, body.variable.schema.arity)
        self._searches = body.searches_values
        if self._searches:
            expect_calls(list_edges, search_groups, transpose_pairs)
        self._small = bool(body.carried)
        """Whether the rows are in groups, of which none has reached a limit in this tick."""

    @property
    def waits(self) -> bool:
        """Whether rows change in the next iteration."""
        return self._variable.held is not None

    def begin(self) -> None:
        """Begin a tick, or a phase of one."""
        self._small = self._carried > 0

    def pays(self) -> bool:
        """Whether a call costs less than the steps: few rows change in the next iteration, or the
        rows that depend on each other fit the cache."""
        waiting, latest = self._variable.held, self._variable.out
        if waiting is None:
            return False
        if self._small and len(waiting) <= GROUPED_ROWS:
            return True
        grows = latest is None or len(waiting) > len(latest)
        return len(waiting) <= (FEW_ROWS if grows else SOME_ROWS)

    def run(self, iterations: int, prices: Prices) -> Iterated:
        """Run at most so many iterations, until no row changes or a limit is reached.

        No stream enters in these iterations. Cost and errors are those of `expand_frontier`.
        """
        given = expect_present(self._variable.held, "the rows of the next iteration")
        present = self._distinct.changed(len(given))
        plan = self._plan()
        unlimited = prices.most == inf  # else several tables could exceed the limit together
        graph = plan if self._searches else None
        tables = RowTables(given, self._order, self._carried, unlimited, graph)
        emitting = 1 + len(self._arrangements)  # the steps that emit a row of a frontier
        limits = np.zeros(LIMITS, np.int64)
        limits[MOST_QUEUED], limits[MOST_ROWS] = MANY_ROWS, GROUP_ROWS
        limits[LAST], limits[MOST_WORK] = iterations, int(min(prices.most, INT64_MAX))
        limits[ITERATION_WORK], limits[MATCH_WORK] = prices.iteration, prices.row
        limits[ROW_WORK] = prices.row * (emitting + 1)
        tables.expand(plan, present, limits)
        out = self._deliver(tables)
        self._small &= not self.waits
        rows = tables.derivations + emitting * tables.joins + tables.queued - tables.given
        run = tables.iterations
        work = prices.iteration * run + prices.row * (tables.matches + rows)
        return Iterated(out, run, work, tables.left)

    def _plan(self) -> Codes:
        """Describe the joins for the kernel (see `dbsp.kernels.frontier`)."""
        plan: list[int] = []
        places = [self._order.index(column) for column in range(len(self._order))]
        for side, join in self._joins:
            table = side.table
            width = side.node.schema.arity
            key = [places[column] for column in join.key]
            result = [join.columns[column] for column in self._order]
            result = [places[v] if v >= 0 else v for v in result]
            plan += (len(key), width, side.count, table.ctypes.data, *key, *result)
        return np.array(plan, np.int64)

    def _deliver(self, tables: RowTables) -> Batch | None:
        """Pass the rows of the tables to the steps that keep them; return the new rows."""
        sign = -1 if self._distinct.removing else 1
        derived, present = tables.take()
        out = None if present is None else _batch_of(present, sign)
        if derived is not None:
            self._distinct.receive(_batch_of(derived, sign), out)
        joined = tables.joined()
        for arrangement in self._arrangements:
            arrangement.receive(joined, tables.joined_in_order, sign)
        waiting = tables.waiting()
        if waiting is not None and sign < 0:
            waiting = Batch(waiting.rows, -waiting.weights)
        self._variable.hold(waiting)
        return out


def _batch_of(run: SortedRun, sign: int) -> RunBatch:
    return RunBatch(run.codes, run.stored if sign > 0 else -run.weights)
