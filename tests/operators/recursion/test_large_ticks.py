"""Recursion with a filter and deferred merges, as in large ticks, from the first row on.

Linear recursion runs its steps, as in large iterations (see `test_linear_iterations.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings

from dbsp import IterationLimitError, Run
from dbsp.kernels.arrays import Codes
from dbsp.operators.groups.untimed_distinct_step import UntimedDistinctStep
from dbsp.operators.recursion import linear_iterations
from dbsp.operators.recursion.fixpoint_step import FixpointStep
from dbsp.operators.traces.arrange import DeferredArrangeStep
from dbsp.state import merging_stack, seen_rows, trace, wide_merge
from dbsp.state.sorted_run import SortedRun
from tests.harness import view
from tests.operators.recursion.closures import (
    SETS,
    STEPS,
    chain,
    closure_of,
    expect_recomputation,
    started,
)
from tests.profiles import examples
from tests.strategies import Tick

NOW = [
    (seen_rows, "LEAST", 1),
    (seen_rows, "DISTANCE", 0),
    (merging_stack, "SMALL", 1),
    (merging_stack, "TAIL", 2),
    (linear_iterations, "FEW_ROWS", 0),
    (linear_iterations, "SOME_ROWS", 0),
    (linear_iterations, "GROUPED_ROWS", 0),
]
NOW += [(wide_merge, "FEW", 2), (wide_merge, "PIECE", 4), (wide_merge, "SLICE", 1)]


@pytest.fixture(scope="module", autouse=True)
def from_the_first_row() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in NOW:
            patch.setattr(module, name, value)
        yield


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("mode", ["auto", "insert-only"])
@settings(max_examples=examples(20))
@given(sequence=SETS)
def test_every_tick_agrees_with_a_recomputation(step: str, mode: str, sequence: list[Tick]) -> None:
    run = started(step, mode)
    expect_recomputation(run, sequence)


def steps_of(run: Run) -> tuple[FixpointStep, UntimedDistinctStep]:
    (fixpoint,) = (step for step in run._scope.steps if isinstance(step, FixpointStep))
    (distinct,) = (s for s in fixpoint._inner.scope.steps if isinstance(s, UntimedDistinctStep))
    return fixpoint, distinct


def test_chains_that_grow_and_meet() -> None:
    """Later ticks search the rows of earlier ticks, too; all derive rows that exist already."""
    run = started("right linear", "auto")
    run.step({"edge": chain(0, 30)})
    run.step({"edge": chain(40, 60)})
    run.step({"edge": [(10, 12), (3, 9)]})
    assert view(run) == closure_of(0, 30) | closure_of(40, 60)
    run.step({"edge": chain(29, 41)})
    assert view(run) == closure_of(0, 60)
    assert steps_of(run)[0].report() == {"evaluation": "insert-only"}


def test_a_tick_that_fails_leaves_the_scope_as_it_was() -> None:
    run = started("right linear", "auto", most=15)
    run.step({"edge": chain(0, 10)})
    with pytest.raises(IterationLimitError):
        run.step({"edge": chain(20, 60)})
    run.step({"edge": [(9, 10), (2, 3)]})
    assert view(run) == closure_of(0, 11)


def test_the_runs_of_a_tick_become_one() -> None:
    """Searches find no row of a chain; so nothing is merged before the end of the tick."""
    run = started("right linear", "auto")
    run.step({"edge": chain(0, 50)})
    _, distinct = steps_of(run)
    assert [run.size for run in distinct._trace.runs] == [49 * 50 // 2]
    assert len(distinct._trace.runs[0].stored) == 1


def test_the_filter_lasts_one_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    run = started("right linear", "auto", most=15)
    _, distinct = steps_of(run)
    sizes = []
    note = seen_rows.SeenRows.note

    def noted(self: seen_rows.SeenRows, rows: Codes, earlier: Sequence[SortedRun]) -> Codes | None:
        found = note(self, rows, earlier)
        sizes.append(self.nbytes)
        return found

    monkeypatch.setattr(seen_rows.SeenRows, "note", noted)
    run.step({"edge": chain(0, 14)})
    assert distinct._seen.nbytes == 0
    with pytest.raises(IterationLimitError):
        run.step({"edge": chain(20, 60)})
    largest = sizes[-1]
    sizes.clear()
    run.step({"edge": [(14, 15)]})
    assert 0 < max(sizes) < largest


def test_a_reader_of_a_trace_ends_its_deferred_merges() -> None:
    run = started("non-linear", "auto")
    run.step({"edge": chain(0, 20)})
    steps = steps_of(run)[0]._inner.scope.steps
    arranged = [step for step in steps if isinstance(step, DeferredArrangeStep)]
    assert arranged
    for step in arranged:
        step.trace.deferred = True
        assert step.table is step.trace.table and not step.trace.deferred


def test_few_new_rows_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain whose rows are all new, and of rows that are derived twice."""
    found = 0
    count = trace.Trace.count_searches

    def counted(self: trace.Trace, known: int, rows: int) -> None:
        nonlocal found
        found += known
        count(self, known, rows)

    monkeypatch.setattr(trace.Trace, "count_searches", counted)
    started("right linear", "auto").step({"edge": chain(0, 60)})
    assert found <= 20  # of 1,770 rows
    started("right linear", "auto").step({"edge": [*chain(0, 60), *((x, x + 2) for x in range(58))]})
    assert found > 500
