"""Comparisons between variables of unconnected atoms become range joins."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_rules import range_programs
from tests.test_programs import VALUES, program_changes

DECLARATIONS = """
.decl i(n: number, l: number, u: number)  .decl p(x: number)  .decl q(x: number, y: number)
.decl f(x: float)  .decl s(x: symbol)  .decl v(x: unsigned)
.decl o(x: number)  .decl oo(x: number, y: number)
.input i, p, q, f, s, v
.output o, oo
"""


def steps(rule: str) -> list[str]:
    lines = dbsp.compile(DECLARATIONS + rule).explain().splitlines()
    return [line.split(". ", 1)[1] for line in lines if line.strip()[:1].isdigit() and ". " in line]


@pytest.mark.parametrize(
    ("rule", "joined"),
    [
        ("oo(n, x) :- i(n, l, u), p(x), l <= x, x < u.", "range join p(x) with l <= x < u"),
        ("oo(n, x) :- p(x), i(n, l, u), u > x, x > l.", "range join i(n, l, u) with l < x < u"),
        ("o(x) :- p(x), q(y, _), x > y.", "range join q(y, _) with y < x"),
        ("o(x) :- q(x, _), p(y), y >= x.", "range join q(x, _) with x <= y"),
        # With a key, too, if there are two limits.
        ("o(x) :- i(n, l, u), q(n, x), l <= x, x < u.", "range join q(n, x) on n with l <= x < u"),
        # Two limits come before one, and a scan that is compared before others.
        ("o(z) :- p(z), f(_), q(x, y), z < y, x < z, x != y.", "range join q(x, y) with x < z < y"),
        ("o(c) :- p(x), c = count : { q(y, _), y < x }.",
         "let #1 = count per x, for the values found so far (0 for no rows) over: range join q(y, _) "
         "with y < x"),
    ],
)  # fmt: skip
def test_range_conditions_are_planned_as_range_joins(rule: str, joined: str) -> None:
    assert joined in steps(rule)


@pytest.mark.parametrize(
    "rule",
    [
        "oo(n, x) :- i(n, l, u), p(x), l <= x + 1.",  # computed
        "o(1) :- f(x), f(y), x < y.",  # floats have NaN and infinities
        "o(1) :- s(x), s(y), x < y.",
        "o(n) :- i(n, l, _), q(n, x), l <= x.",  # joined on n, and one limit
        "oo(n, x) :- i(n, l, u), p(x), l != x.",
        "o(n) :- i(n, l, u), q(n, l), n <= u, u < l.",  # variables of the key
    ],
)
def test_other_comparisons_are_tested_after_the_join(rule: str) -> None:
    assert not any("range join" in step for step in steps(rule))


def test_a_threshold_changes_the_rows_between_its_values() -> None:
    run = dbsp.compile(DECLARATIONS + "o(x) :- p(x), q(y, _), x > y.").start()
    run.step({"p": [(n,) for n in range(1_000)], "q": [(990, 0)]})
    assert run.view("o").rows() == [(n,) for n in range(991, 1_000)]
    assert run.state_rows < 2_100
    changed = run.step({"q": {(990, 0): -1, (988, 0): 1}})["o"]
    assert changed.to_dict() == {(989,): 1, (990,): 1}


@pytest.mark.parametrize(
    "rule", ["o(x, v) :- q(x, _), o(u, v), x < u.", "o(x, v) :- o(x, u), q(x, v), u < v, q(v, _)."]
)
@pytest.mark.parametrize("recursion", ["auto", "incremental", "insert-only"])
def test_linear_recursions_with_ranges(rule: str, recursion: str) -> None:
    """Each iteration looks up ranges of the rows that enter, not all of them."""
    text = ".decl q(x: number, y: number) .input q .decl o(x: number, y: number) .output o\n"
    subject = Subject(text + "o(x, y) :- q(x, y).\n" + rule, recursion=recursion)
    live = subject.start([("q", (2, 0), 1), ("q", (1, 1), 1)])
    chance = random.Random(0)
    for _ in range(12):
        live.tick([("q", (chance.randrange(5), chance.randrange(5)), sign) for sign in (1, 1, -1)])


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(range_programs(), st.data())
def test_random_range_conditions(text: str, data: st.DataObject) -> None:
    """Compare every tick with the reference, which interprets the checked program."""
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)
    live.tick([])
