"""Aggregates bind their outer variables where their groups are the values that a rule needs."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_rules import grouped_programs
from tests.test_programs import VALUES, program_changes

DECLARATIONS = """
.decl e(k: number, v: number)  .decl d(k: number, v: number)  .decl c(k: number)
.decl o(k: number)  .decl oo(k: number, n: number)  .decl ooo(k: number, n: number, m: number)
.decl t(k: number, a: number, b: number)
.input e, d, c, t
.output o, oo, ooo
"""
JOINED = "oo(k, v) :- e(k, w), d(w, v), c(v). "


def steps(rules: str) -> list[str]:
    """Return the steps of the last rule."""
    report = dbsp.compile(DECLARATIONS + rules).explain()
    last = report[report.rindex("\n  rule ") :]
    return re.findall(r"^ +\d+\. (.*)$", last, re.MULTILINE)


def nodes(rules: str) -> list[str]:
    return [node.operator.name for node in dbsp.compile(DECLARATIONS + rules).circuit("physical").nodes]


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ("oo(k, n) :- e(k, _), n = count : { e(k, _) }.", ""),
        ("oo(k, n) :- e(k, 1), n = sum v : { e(k, 1), e(k, v) }, n > 0.", ""),
        ("oo(k, n) :- e(k, 1), e(k, w), n = max v : { e(k, v), e(k, 1) }, w < 3.", "e(k, w)"),
        ("oo(k, n) :- d(k, _), n = max v : { e(k, v), d(k, _) }.", ""),
        ("oo(k, n) :- c(k), n = count : { e(k, _), c(k) }, 1 <= n.", ""),
        ("oo(1, n) :- e(_, _), n = count : { e(_, _) }.", ""),
        ("oo(k, n) :- e(_, k), n = count : { e(k, k) }, n > 0.", ""),
        # The other atoms stay, and the groups are joined with them.
        ("ooo(k, w, n) :- e(k, _), d(k, w), n = count : { e(k, _) }.", "d(k, w)"),
        ("ooo(k, w, n) :- e(k, _), c(w), n = count : { e(k, _) }.", "c(w)"),
        # By the rules of the relation in the aggregate.
        (f"{JOINED} ooo(v, n, n) :- d(_, v), n = count : {{ oo(_, v) }}, n > 0.", ""),
        (f"{JOINED} ooo(v, n, n) :- e(v, _), c(_), n = min w : {{ oo(v, w) }}.", ""),
        (f"{JOINED} oo(k, 0) :- e(k, 0). ooo(v, n, n) :- e(v, _), n = min w : {{ oo(v, w) }}.", ""),
        (f"{JOINED} ooo(k, w, n) :- e(k, 7), oo(k, w), n = max v : {{ e(k, 7), e(k, v) }}.", "oo(k, w)"),
    ],
)
def test_atoms_that_every_group_implies_are_dropped(rules: str, kept: str) -> None:
    assert outer_atoms(rules) == kept


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        # The rule has a row for an empty group.
        ("oo(k, n) :- c(k), n = count : { e(k, _), c(k) }.", "c(k)"),
        ("oo(k, n) :- e(k, _), n = count : { e(k, v), v > 1 }.", "e(k, _)"),
        ("oo(k, n) :- e(k, _), n = count : { e(k, v), !c(v) }.", "e(k, _)"),
        ("oo(k, n) :- e(k, _), n = sum v : { e(k, v), c(v) }, n > -1.", "e(k, _)"),
        ("oo(k, n) :- e(k, _), n = count : { e(k, 1) }.", "e(k, _)"),
        ("oo(k, n) :- e(k, _), n = count : { e(_, k) }.", "e(k, _)"),
        # A group does not imply the atom.
        ("oo(k, n) :- e(k, 1), n = count : { e(k, _) }.", "e(k, 1)"),
        ("oo(k, n) :- e(k, 1), n = max v : { e(k, 2), e(k, v) }.", "e(k, 1)"),
        ("oo(k, n) :- e(k, k), n = count : { e(k, _) }.", "e(k, k)"),
        ("oo(k, n) :- d(k, _), n = count : { e(k, _) }, n > 0.", "d(k, _)"),
        ("oo(k, n) :- e(_, k), n = max v : { e(k, v) }.", "e(_, k)"),
        ("ooo(k, w, n) :- e(k, w), n = count : { e(k, _) }.", "e(k, w)"),
        ("oo(k, n) :- e(k, w), w > 1, n = count : { e(k, _) }.", "e(k, w)"),
        ("oo(k, n) :- t(k, _, _), n = count : { t(k, v, v) }.", "t(k, _, _)"),
        ("oo(k, n) :- c(k), e(w, w), n = max v : { e(k, v) }.", "e(w, w) c(k)"),
        # One of the rules does not derive the row from the atom, or the relation has other rows.
        (f"{JOINED} oo(k, 0) :- c(k). ooo(v, n, n) :- e(v, _), n = min w : {{ oo(v, w) }}.", "e(v, _)"),
        (f"{JOINED} oo(0, k) :- e(k, 0). ooo(v, n, n) :- e(v, _), n = min w : {{ oo(v, w) }}.", "e(v, _)"),
        (f"{JOINED} .input oo\nooo(v, n, n) :- e(v, _), n = min w : {{ oo(v, w) }}.", "e(v, _)"),
        (f"{JOINED} oo(1, 2). ooo(v, n, n) :- e(v, _), n = min w : {{ oo(v, w) }}.", "e(v, _)"),
        (f"{JOINED} oo(a, b) :- oo(b, a), e(a, b). ooo(v, n, n) :- e(v, _), n = min w : {{ oo(v, w) }}.",
         "e(v, _)"),
        ("oo(k + 1, v) :- e(k, v). ooo(v, n, n) :- e(v, _), n = min w : { oo(v, w) }.", "e(v, _)"),
        # An equivalence has more rows than its rules derive; a rule of a recursion keeps its atoms.
        (".decl same(a: number, b: number) eqrel\nsame(a, b) :- d(a, b). "
         "oo(a, b) :- same(a, b), c(a).\n.plan 0: (1, 2)\n"
         "ooo(v, n, n) :- d(v, _), n = max w : { oo(v, w) }.", "d(v, _)"),
        ("oo(k, 0) :- c(k). oo(k, n) :- oo(k, _), e(k, _), n = max v : { e(k, v) }.", "oo(k, _) e(k, _)"),
        # The body cannot be evaluated for all groups at once: the number v may be 0.
        ("oo(k, n) :- e(k, _), n = max 6 / v : { e(k, v) }.", "e(k, _)"),
        ("ooo(k, w, n) :- e(k, _), c(w), n = max v : { e(k, v), v < w }.", "c(w) e(k, _)"),
        # The rule counts its bindings, or has an order of its own.
        ("oo(k, autoinc()) :- e(k, _), n = count : { e(k, _) }, n > 0.", "e(k, #_1)"),
        ("ooo(k, w, n) :- e(k, _), c(w), n = count : { e(k, _) }.\n.plan 0: (2, 1)", "c(w) e(k, _)"),
    ],
)  # fmt: skip
def test_other_atoms_stay(rules: str, kept: str) -> None:
    assert outer_atoms(rules) == kept


def outer_atoms(rules: str) -> str:
    """Return the atoms of the last rule outside of aggregates, in the order of evaluation."""
    outside = [step for step in steps(rules) if not step.startswith("let ")]
    return " ".join(atom for step in outside for atom in re.findall(r"\b\w+\([^)]*\)", step))


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("n > 0", False), ("0 < n", False), ("n >= 1", False), ("1 <= n", False), ("n != 0", False),
        ("0 != n", False), ("n > -3", False), ("n > 1", True), ("2 <= n", True), ("n != 1", True),
        ("n < 5", True), ("n = 1", True), ("0 > n", True),
    ],
)  # fmt: skip
def test_conditions_that_hold_for_every_count_are_dropped(test: str, kept: bool) -> None:
    rule = f"oo(k, n) :- e(k, _), n = count : {{ e(k, _) }}, {test}."
    assert ("Filter" in nodes(rule)) == kept


def test_conditions_on_other_results_stay() -> None:
    assert "Filter" in nodes("oo(k, n) :- e(k, _), n = sum v : { e(k, v) }, n > 0.")
    assert "Filter" in nodes("oo(k, n) :- e(k, _), n = max v : { e(k, v) }, n >= 1.")


def test_no_zero_for_values_that_have_a_group() -> None:
    """q(k) implies a row of the aggregate, but not the reverse."""
    key = "o(k) :- e(k, v), d(k, v). "
    rule = f"{key} oo(k, n) :- o(k), n = count : {{ e(k, _) }}."
    assert "Antijoin" not in nodes(rule)
    assert outer_atoms(rule) == "o(k)"
    assert "Antijoin" in nodes(f"{key} oo(k, n) :- o(k), n = count : {{ e(k, k) }}.")


def test_totals_per_group_are_one_aggregate() -> None:
    """Neither a join with the groups, nor a set of rows that are one per group already."""
    rule = "ooo(k, n, t) :- e(k, _), n = count : { e(k, _) }, t = sum v : { e(k, v) }."
    used = [name for name in nodes(rule) if name not in ("Input", "Output", "Arrange")]
    assert used == ["Aggregate"]


def test_rows_with_several_derivations() -> None:
    """Retract one of two derivations of a row, then the other, then the rest of the group."""
    run = dbsp.compile(
        DECLARATIONS + JOINED + "ooo(v, n, n) :- d(_, v), n = count : { oo(_, v) }, n > 0."
    ).start({"e": [(1, 2), (1, 3), (4, 2)], "d": [(2, 5), (3, 5), (2, 6)], "c": [(5,)]})
    assert run.view("ooo").rows() == [(5, 2, 2)]
    assert run.step({"e": {(1, 2): -1}})["ooo"].to_dict() == {}
    assert run.step({"d": {(3, 5): -1}})["ooo"].to_dict() == {(5, 2, 2): -1, (5, 1, 1): 1}
    assert run.step({"c": {(6,): 1}})["ooo"].to_dict() == {(6, 1, 1): 1}
    assert run.step({"d": {(2, 5): -1}})["ooo"].to_dict() == {(5, 1, 1): -1}


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(grouped_programs(), st.data())
def test_random_aggregates_mean_the_same(text: str, data: st.DataObject) -> None:
    """Compare every tick with the reference, which interprets the checked program."""
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)
    live.tick([])
