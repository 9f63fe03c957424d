"""Reasons of changes: the input changes that inserted or retracted a row in a tick."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.why.opaque_relations import opaque_relations
from tests.change_checker import ChangeChecker, State
from tests.live_program import LiveProgram, Subject
from tests.random_datalog import programs
from tests.reference_datalog.values import TooLargeError
from tests.test_programs import SCALE, VALUES, program_changes

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def state_of(live: LiveProgram) -> State:
    inputs = {name: frozenset(rows) for name, rows in live.inputs.items()}
    return State(live.subject.program.checked, inputs)


def check_tick(live: LiveProgram, before: State) -> None:
    """Every row that the tick changed has a reason that holds; rows that it did not change, too."""
    program, after = live.subject.program, state_of(live)
    checker = ChangeChecker(before, after, live.run.tick == 1)
    for name in program.relations:
        old, new = checker.before[name], after.complete[name]
        for row in (*(old ^ new), *list(old & new)[:2]):
            checker.check(name, row, program.why_changed(live.run, name, row))
        absent = tuple([9] * program.relations[name].arity)
        if absent not in old | new:
            checker.check(name, absent, program.why_changed(live.run, name, absent))


def check_ticks(subject: Subject, data: st.DataObject, ticks: int = 4) -> None:
    initial, *changes = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    before = state_of(live)
    if live.run.tick:
        check_tick(live, State(before.program, {name: frozenset() for name in before.inputs}))
    for tick in changes[:ticks]:
        live.tick(tick)
        check_tick(live, before)
        before = state_of(live)


@pytest.mark.slow
@settings(max_examples=max(1, int(20 * SCALE)), deadline=None, suppress_health_check=SLOW)
@given(st.booleans().flatmap(lambda kinds: programs(kinds=kinds)), st.data())
def test_every_change_of_random_programs_has_a_reason(text: str, data: st.DataObject) -> None:
    check_ticks(Subject(text), data)
