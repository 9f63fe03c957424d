"""Updates of a run with a fault at every so many steps: they count completely or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.faults import Injector
from dbsp import Run
from dbsp.compiler.program import Program
from dbsp.errors import expect_present
from dbsp.runtime.program_update import ProposedUpdate
from tests.harness import deltas_of, views


class Prepared:
    """A program of a run whose update has been compiled before, so that no fault meets that."""

    def __init__(self, proposed: ProposedUpdate) -> None:
        self._proposed = proposed

    def update_to(self, run: Any, program: Any) -> ProposedUpdate:
        return self._proposed


def expect_all_or_nothing(
    begin: Callable[[], Run], program: Program, tick: Any, kind: type[BaseException], stride: int
) -> None:
    """Update runs, which `begin` returns after one tick, with a fault at every so many steps.

    A run has its views, inputs and plans of before, or those of a run that was updated without a
    fault; and so has its next tick.
    """
    right, other = begin(), begin()
    held, plans, inputs = views(other), other.stored_plans, dict(other.inputs)
    right.update(program)
    updated, updated_plans = views(right), right.stored_plans
    stepped, undone_step = deltas_of(right.step(tick)), deltas_of(other.step(tick))
    for each in (right, other):
        ended(each)
    undone, committed, at = 0, 0, 17 if kind is MemoryError else 350
    run = begin()
    while True:
        running = expect_present(run.program, "a program")
        run.program = Prepared(running.update_to(run, program))  # type: ignore[assignment]
        injector = Injector(kind, at, None, False)
        injector.call(lambda run=run: run.update(program))  # type: ignore[misc]
        if run.tick == 1:
            undone += 1
            assert (views(run), run.stored_plans) == (held, plans), injector.place
            assert dict(run.inputs) == inputs, injector.place
            run.program = running
            if undone % 4 == 0:
                assert deltas_of(run.step(tick)) == undone_step, injector.place
        else:
            committed += 1
            assert (views(run), run.stored_plans) == (updated, updated_plans), injector.place
            assert deltas_of(run.step(tick)) == stepped, injector.place
        if run.tick > 1:
            ended(run)
            run = begin()
        if not injector.place:
            break
        at += stride
    ended(run)
    assert undone > 5
    assert committed > 0


def ended(run: Run) -> None:
    """Release the checkpoint of a run, if it has one."""
    if run.log is not None:
        run.log.close()
