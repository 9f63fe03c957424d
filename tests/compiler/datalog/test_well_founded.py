"""Well-founded negation: every tick is compared with the model by unfounded sets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from tests.live_program import Change, Subject
from tests.profiles import examples
from tests.random_datalog import programs

VALUE = st.integers(0, 3)
CHANGE = st.one_of(
    st.tuples(st.sampled_from("ab"), st.tuples(VALUE, VALUE), st.sampled_from([1, 1, -1])),
    st.tuples(st.just("c"), st.tuples(VALUE), st.sampled_from([1, -1])),
)
TICKS = st.lists(st.lists(CHANGE, max_size=8), min_size=1, max_size=5)


@settings(max_examples=examples(60), deadline=None)
@given(programs(loops=True), TICKS)
def test_random_programs(text: str, ticks: list[list[Change]]) -> None:
    subject = Subject(text, negation="well-founded")
    live = subject.start()
    for changes in ticks:
        live.tick(changes)
