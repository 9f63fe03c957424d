"""Well-founded negation: every tick is compared with the model by unfounded sets."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from tests.live_program import Change, LiveProgram, Subject
from tests.profiles import examples
from tests.random_datalog import programs
from tests.reference_datalog.values import Row

VALUE = st.integers(0, 3)
CHANGE = st.one_of(
    st.tuples(st.sampled_from("ab"), st.tuples(VALUE, VALUE), st.sampled_from([1, 1, -1])),
    st.tuples(st.just("c"), st.tuples(VALUE), st.sampled_from([1, -1])),
)
TICKS = st.lists(st.lists(CHANGE, max_size=8), min_size=1, max_size=5)

GAME = """
.decl move(x: number, y: number)
.input move
.decl win(x: number)
.output win
win(x) :- move(x, y), !win(y).
"""

GROUND_RULES = """
.decl rule(head: number, p1: number, p2: number, n1: number, n2: number)
.input rule
.decl t(atom: number)
.output t
t(0).
t(h) :- rule(h, p1, p2, n1, n2), t(p1), t(p2), !t(n1), !t(n2).
.decl above(atom: number, low: number)
.output above
above(x, y) :- t(x), t(y), y < x, !t(x - y).
"""
"""Every row is a ground rule: atom 0 is true, and 9 is false. `above` is a stratum of its own."""


def follow(subject: Subject, sequence: Iterator[list[Change]]) -> LiveProgram:
    live = subject.start()
    for changes in sequence:
        live.tick(changes)
    return live


def churn(draw: random.Random, relation: str, row: object, first: int, ticks: int) -> Iterator[list[Change]]:
    """A load of some rows, then ticks that replace some of them."""
    present: set[Row] = {row() for _ in range(first)}  # type: ignore[operator]
    yield [(relation, r, 1) for r in present]
    for _ in range(ticks):
        gone = draw.sample(sorted(present), min(len(present), draw.randint(0, 3)))
        come = {row() for _ in range(draw.randint(0, 3))} - present  # type: ignore[operator]
        present = (present - set(gone)) | come
        yield [*((relation, r, -1) for r in gone), *((relation, r, 1) for r in come)]
