"""Comparisons of numbers in cyclic bodies limit the values that the multi-way join proposes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.circuit.stage import Stage
from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.linear.filter import Filter
from tests.live_program import Subject
from tests.profiles import examples
from tests.test_programs import VALUES, program_changes

DECLARATIONS = """
.decl e(x: number, y: number)  .decl u(x: unsigned, y: unsigned)  .decl f(x: float, y: float)
.decl s(x: symbol, y: symbol)
.decl o(x: number, y: number, z: number)  .decl p(x: number, y: number)
.decl ou(x: unsigned, y: unsigned, z: unsigned)  .decl of(x: float, y: float, z: float)
.decl os(x: symbol, y: symbol, z: symbol)
.input e, u, f, s
.output o, p, ou, of, os
"""

RULES = [
    "o(x, y, z) :- e(x, y), e(y, z), e(x, z), x < y, y < z.",
    "o(x, y, z) :- e(x, y), e(y, z), e(x, z), x >= y, z != 1, y <= 2.",
    "o(x, y, z) :- e(x, y), e(y, z), e(x, z), z < x + 2, y > x - 1.",
    "o(x, y, z) :- e(x, y), e(y, z), e(z, x), x = y.",
    "ou(x, y, z) :- u(x, y), u(y, z), u(x, z), x < y, z > 1.",
    "of(x, y, z) :- f(x, y), f(y, z), f(x, z), x < y, y >= 0.5.",
    "os(x, y, z) :- s(x, y), s(y, z), s(x, z), x < y, y != z.",
    # Recursion: every part of the triangle, or one of them.
    "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z), e(z, x), x < z, y != z.",
    "p(x, y) :- e(x, y), x <= y. p(y, z) :- p(x, y), e(y, z), p(x, z), y <= z, x < 3.",
    "p(x, y) :- e(x, y). p(z, x) :- p(x, y), p(y, z), e(x, z), z <= x + 1.",
]


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_programs_agree_with_the_reference(rule: str, data: st.DataObject) -> None:
    """An interpreter of the program has the same rows after every tick."""
    subject = Subject(DECLARATIONS + rule)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    choose_tier(data.draw(st.sampled_from([COMPILED, COMPILED, INTERPRETED])))
    try:
        live = subject.start(initial)
        for tick in ticks:
            live.tick(tick)
        live.tick([])
    finally:
        choose_tier(COMPILED)


@pytest.mark.parametrize("rule", [RULES[at] for at in (0, 1, 3, 4, 5, 6, 7, 8)])
def test_no_filter_follows_the_join(rule: str) -> None:
    circuit = dbsp.compile(DECLARATIONS + rule).circuit(Stage.PHYSICAL)
    for node in circuit.walk():
        if isinstance(node.operator, Filter):
            read = {stream.node.operator.name for stream in node.inputs}
            assert "MultiwayJoin" not in read, node


def test_a_sum_narrows_the_join_before_its_filter() -> None:
    circuit = dbsp.compile(DECLARATIONS + RULES[2]).circuit(Stage.PHYSICAL)
    (join,) = (node.operator for node in circuit.walk() if isinstance(node.operator, DeltaMultiwayJoin))
    assert [repr(condition) for condition in join.join.narrowing] == [
        'col("z") < col("x") + 2',
        'col("y") > col("x") - 1',
    ]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (RULES[0], "e(x, z) with x < y, y < z"),
        (RULES[2], "e(x, z) with z < x + 2, y > x - 1"),
        ("ou(x, y, z) :- u(x, y), u(y, z), u(x, z), 1 < y, x + 1 < z.",
         "u(x, z) with 1 < y, x + 1 < z"),
        (RULES[6], "s(x, z); keep rows with x < y; keep rows with y != z"),
        ("o(x, y, z) :- e(x, y), e(y, z), e(x, z), x * 2 < z, y < x.",
         "e(x, z) with y < x; keep rows with x * 2 < z"),
    ],
)  # fmt: skip
def test_explain_shows_the_limits(rule: str, line: str) -> None:
    text = dbsp.compile(DECLARATIONS + rule).explain()
    (step,) = (shown for shown in text.splitlines() if "multi-way join" in shown and "1. " in shown)
    assert step.endswith(line)


def test_a_change_reaches_only_rows_within_the_limits() -> None:
    program = dbsp.compile(DECLARATIONS + RULES[0])
    run = program.start()
    nodes = [*range(100), 400, *range(700, 800)]
    run.step({"e": [(399, node) for node in nodes] + [(node, 401) for node in nodes]})
    (before,) = run.join_terms().values()
    assert run.step({"e": [(399, 401)]})["o"].to_dict() == {(399, 400, 401): 1}
    (after,) = run.join_terms().values()
    assert [b.levels[0][1] - a.levels[0][1] for a, b in zip(before, after, strict=True)] == [0, 0, 1]
