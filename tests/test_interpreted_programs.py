"""Programs with interpreted kernels: every tick equals the reference interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier
from tests.profiles import examples

from .live_program import Change, Subject
from .random_datalog import programs
from .test_programs import OWN_VALUES, PROGRAMS, VALUES, program_changes, subject_of

SAMPLE = {
    "aggregates",
    "chosen",
    "cliques",
    "cycles",
    "dominated",
    "equivalences",
    "joins",
    "patterns_in_recursion",
    "shortest",
    "words",
}
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    choose_tier(INTERPRETED)
    yield
    choose_tier(COMPILED)


def check(subject: Subject, ticks: list[list[Change]]) -> None:
    """Load the first tick and apply the others; `LiveProgram` compares each with the reference."""
    initial, *others = ticks
    live = subject.start(initial)
    for tick in others:
        live.tick(tick)


@pytest.mark.parametrize(
    "path", [path for path in PROGRAMS if path.stem in SAMPLE], ids=lambda path: path.stem
)
def test_programs(path: Path) -> None:
    subject = subject_of(path)

    @settings(max_examples=3, deadline=None, suppress_health_check=SLOW)
    @given(program_changes(subject, VALUES | OWN_VALUES.get(path.stem, {})))
    def compare(ticks: list[list[Change]]) -> None:
        check(subject, ticks)

    compare()


@settings(max_examples=examples(15), deadline=None, suppress_health_check=SLOW)
@given(programs(kinds=True), st.data())
def test_random_programs(text: str, data: st.DataObject) -> None:
    subject = Subject(text)
    check(subject, data.draw(program_changes(subject, VALUES)))
