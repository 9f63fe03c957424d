"""The joins of a rule: multi-way for cyclic cores, two-way for the rest, or as requested."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dbsp
from dbsp.compiler.datalog.plans.plan_steps import PlannedMultiwayJoin, all_steps
from dbsp.operators.planner.statistics import Statistics

RELATIONS = """
.decl e(x: number, y: number)  .decl n(x: number)  .decl t(x: number, y: number, z: number)
.decl u(x: unsigned)  .decl uu(x: unsigned, y: unsigned)
.decl o(x: number)  .decl oo(x: number, y: number)  .decl ooo(x: number, y: number, z: number)
.decl flag()  .decl ou(x: unsigned)
.output o, oo, ooo, flag, ou
"""


def compiled(rule: str, strategy: str = "auto") -> dbsp.Program:
    return dbsp.compile(RELATIONS + rule, strategy)


def steps(rule: str, strategy: str = "auto") -> list[str]:
    """Return the numbered steps of one rule."""
    return re.findall(r"^ +\d+\. (.*)$", compiled(rule, strategy).explain(), re.MULTILINE)


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ("ooo(x, y, z) :- e(x, y), e(y, z), e(x, z).", ["multi-way join e(x, y), e(y, z), e(x, z)"]),
        (
            "oo(x, z) :- e(x, y), e(y, z), e(z, w), e(w, x).",
            ["multi-way join e(x, y), e(y, z), e(z, w), e(w, x)"],
        ),
        (
            "o(x) :- e(x, y), e(x, z), e(x, w), e(y, z), e(y, w), e(z, w).",
            ["multi-way join e(x, y), e(x, z), e(x, w), e(y, z), e(y, w), e(z, w)"],
        ),
        # A path is acyclic, and so is a triangle with a constant corner.
        (
            "oo(x, w) :- e(x, y), e(y, z), e(z, w).",
            ["scan e(x, y)", "join e(y, z) on y", "join e(z, w) on z"],
        ),
        (
            "oo(y, z) :- e(x, y), e(y, z), e(x, z), x = 3.",
            ["scan e(3, y)", "join e(y, z) on y", "join e(3, z) on z"],
        ),
        # A multi-way join of the core; the other atoms are joined to it.
        (
            "oo(x, w) :- e(z, w), e(x, y), e(y, z), e(x, z).",
            ["multi-way join e(x, y), e(y, z), e(x, z)", "join e(z, w) on z"],
        ),
        # Two triangles with an edge between them: the second one is a sub-plan.
        (
            "oo(x, u) :- e(x, y), e(y, z), e(z, x), e(x, u), e(u, v), e(v, w), e(w, u).",
            [
                "multi-way join e(x, y), e(y, z), e(z, x)",
                "join e(x, u) on x",
                "join [u: multi-way join e(u, v), e(v, w), e(w, u)] on u",
            ],
        ),
        # The join evaluates conditions, except those that may have no value.
        (
            "o(z) :- e(x, y), e(y, z), e(x, z), x < y, v = z / y, v > 1, !n(z).",
            [
                "multi-way join e(x, y), e(y, z), e(x, z) with x < y",
                "keep rows without n(z)",
                "let v = z / y",
                "keep rows with v > 1",
            ],
        ),
        # An equation may close the cycle, and binds its variable inside the join.
        (
            "o(z) :- e(x, y), e(y, z), e(z, w), w = x + 1.",
            ["multi-way join e(x, y), e(y, z), e(z, w); let w = x + 1"],
        ),
        # A difference of unsigned numbers is computed after the conditions.
        (
            "ou(d) :- uu(x, y), uu(y, z), uu(x, z), x >= y, d = x - y.",
            ["multi-way join uu(x, y), uu(y, z), uu(x, z) with x >= y", "let d = x - y"],
        ),
        # The join evaluates constants and repeated variables, so that traces are shared.
        (
            "o(x) :- t(x, x, y), e(y, z), t(z, x, 3), e(x, z).",
            ["multi-way join t(x, x, y), e(y, z), t(z, x, 3), e(x, z)"],
        ),
        # Parts without a common variable are planned separately.
        (
            "oo(x, a) :- e(x, y), e(y, z), e(z, x), e(a, b), e(b, c), e(c, a).",
            [
                "multi-way join e(x, y), e(y, z), e(z, x)",
                "cross product with [a: multi-way join e(a, b), e(b, c), e(c, a)]",
            ],
        ),
        # In an aggregate, with and without values of the outer rule.
        (
            "oo(x, c) :- n(x), c = count : { e(x, y), e(y, z), e(z, x) }.",
            [
                "scan n(x)",
                "let #1 = count per x (0 for no rows) over: multi-way join e(x, y), e(y, z), e(z, x)",
                "let c = #1",
            ],
        ),
        (
            "o(c) :- n(x), n(w), c = count : { e(x, y), e(y, w), y / x > 1 }.",
            [
                "scan n(x)",
                "cross product with n(w)",
                "let #1 = count per x, w, for the values found so far (0 for no rows) over: "
                "multi-way join e(x, y), e(y, w), the rows so far (x, w); keep rows with y / x > 1",
                "let c = #1",
            ],
        ),
    ],
)
def test_by_the_shape_of_the_rule(rule: str, lines: list[str]) -> None:
    assert steps(rule) == lines


TRIANGLE = "ooo(x, y, z) :- e(x, y), e(y, z), e(x, z)."


def test_a_strategy_is_for_all_rules() -> None:
    assert steps(TRIANGLE, "binary") == ["scan e(x, y)", "join e(y, z) on y", "join e(x, z) on x, z"]
    assert steps("oo(x, z) :- e(x, y), e(y, z).", "wcoj") == ["multi-way join e(x, y), e(y, z)"]
    with pytest.raises(
        dbsp.ArgumentError, match="strategy= expects one of 'auto', 'binary', 'wcoj', got 'both'"
    ):
        dbsp.compile(RELATIONS, "both")


def test_a_plan_is_an_order_of_the_atoms_of_its_rule() -> None:
    order = ["scan e(x, z)", "join e(y, z) on z", "keep rows without n(y)", "join e(x, y) on x, y"]
    rule = "ooo(x, y, z) :- e(x, y), !n(y), e(y, z), e(x, z)."
    for strategy in ("auto", "binary", "wcoj"):
        assert steps(f"{rule}\n.plan 0: (3, 2, 1)", strategy) == order
    assert "two-way joins in the requested order" in compiled(f"{rule} .plan 0:(3,2,1)").explain()
    # The next rule is planned as usual.
    assert steps(f"{rule}\n.plan 0: (3, 2, 1)\n{TRIANGLE}")[4:] == [
        "multi-way join e(x, y), e(y, z), e(x, z)"
    ]


def test_other_versions_of_a_plan_are_not_used() -> None:
    program = compiled(f"{TRIANGLE} .plan 1:(1,2,3), 0:(2,1,3), 2:(2,1,3)\n")
    (warning,) = program.warnings
    assert warning.message == "version 1 of the plan is not used"
    assert "the order of version 0" in str(warning.hint)
    assert (warning.span.line, warning.span.column) == (7, 50)
    assert program.plans[1].rule.rule.order == (1, 0, 2)


def test_a_plan_applies_to_every_rule_of_its_clause() -> None:
    rule = "o(x), o(z) :- e(x, y), (e(y, z); e(z, y)). .plan 0:(2,1)"
    assert [s for s in steps(rule) if s.startswith("scan")] == ["scan e(y, z)", "scan e(z, y)"] * 2


def counted(rule: str, rows: list[tuple[int, int]], strategy: str = "auto") -> list[str]:
    """Return the steps of a rule when `e` has these rows and `n` the even numbers below 10."""
    program = compiled(rule, strategy)
    known = {"e": np.array(rows, np.int64), "n": np.arange(0, 10, 2, dtype=np.int64)[:, None]}
    plans = program.plans_for(Statistics(known.get))
    return re.findall(r"^ +\d+\. (.*)$", program.explain(plans=plans), re.MULTILINE)


def test_counted_rows_decide() -> None:
    star = [(0, i) for i in range(1, 200)] + [(i, 0) for i in range(1, 200)]
    assert counted(TRIANGLE, star) == ["multi-way join e(x, y), e(y, z), e(x, z)"]
    # The smallest relation comes first, in any order of the body.
    line = [(i, i + 1) for i in range(1000)]
    assert counted("o(z) :- e(x, y), e(y, z), n(z).", line)[-1].startswith("join e(x, y)")
    assert counted("o(z) :- e(x, y), e(y, z), n(x).", line)[-1].startswith("join e(y, z)")
    assert len(counted(TRIANGLE, star, "binary")) == 3


def test_unused_columns_are_projected_away() -> None:
    program = compiled("o(x) :- e(x, y), e(y, z), e(z, x), t(x, _, w), t(y, _, _).")
    (step,) = (one for one in all_steps(program.plans[1].steps or ()) if isinstance(one, PlannedMultiwayJoin))
    assert step.used_variables == {"x", "y", "z"}
    assert step.keep == ("x",)
    run = program.start()
    triangle = {(1, 2): 1, (2, 3): 1, (3, 1): 1}
    many = {(1, i, i): 1 for i in range(50)} | {(2, i, 0): 1 for i in range(50)}
    assert run.step({"e": triangle, "t": many})["o"].to_dict() == {(1,): 1}
    # Deleting all rows but one changes nothing if only existence matters.
    gone = {(2, i, 0): -1 for i in range(49)}
    assert not run.step({"t": gone})["o"]
    assert run.step({"t": {(2, 49, 0): -1}})["o"].to_dict() == {(1,): -1}


def test_a_join_without_used_columns() -> None:
    run = compiled("flag() :- e(x, y), e(y, z), e(z, x), 1 < 2.").start()
    assert run.step({"e": {(1, 2): 1, (2, 3): 1, (3, 1): 1, (3, 3): 1}})["flag"].to_dict() == {(): 1}
    assert not run.step({"e": {(1, 2): -1}})["flag"]
    assert run.step({"e": {(3, 3): -1}})["flag"].to_dict() == {(): -1}


def test_explain_shows_the_rows_of_a_run() -> None:
    program = compiled(TRIANGLE)
    run = program.start()
    run.step({"e": [(1, 2), (2, 3), (1, 3), (3, 4), (2, 4)]})
    run.step({"e": [(1, 4)]})
    text = program.explain(run)
    (met,) = re.findall(r"rows of the join of e\(x, y\), e\(y, z\), e\(x, z\)\n((?: {8}.*\n)*)", text)
    assert [line.strip() for line in met.splitlines()] == [
        "change of e(x, y): 6 rows, z: 0",
        "change of e(y, z): 6 rows, x: 0",
        "change of e(x, z): 6 rows, y: 4",
    ]
    assert "  e by (x, y) shared by itself, rule 1; 6 rows, 144 bytes" in text
    assert run.join_terms().keys() < set(run.graph.walk())
    (terms,) = run.join_terms().values()
    assert [(term.atom, term.changed, term.levels) for term in terms] == [
        (0, 6, (("z", 0),)),
        (1, 6, (("x", 0),)),
        (2, 6, (("y", 4),)),
    ]


def test_explain_compares_counted_with_expected_rows() -> None:
    program = compiled(TRIANGLE)
    edges = [(i, j) for i in range(12) for j in range(12) if i < j]
    program.plans = program.plans_for(Statistics({"e": np.array(edges)}.get))
    run = program.start({"e": edges})
    text = program.explain(run)
    assert re.search(r"at most n\^1\.5 rows for n rows each, 536 for the row counts", text)
    met = re.findall(r"change of e\(\w, \w\): 66 rows, \w: (\d+) of (\d+) expected", text)
    assert sorted(int(number) for number, _ in met) == [0, 0, 220]
    assert all(pytest.approx(int(expected), rel=0.2) == 220 for _, expected in met)


def test_a_program_counts_its_relations() -> None:
    """Count derived relations, facts, and text, whose codes differ between runs."""
    program = dbsp.compile(
        """
        .decl e(x: symbol, y: symbol)  .decl p(x: symbol, y: symbol)  .decl t(x: symbol)
        .input e
        .output t
        e("a", "b").
        p(x, z) :- e(x, y), e(y, z).
        t(x) :- p(x, y), e("a", x), e(y, x).
        """
    )
    counts = program.counted({"e": [("b", "c"), ("c", "a"), ("b", "d")]})
    assert [counts.rows(name) for name in ("e", "p", "t", "other")] == [4, 4, 1, None]
    plans = program.plans_for(counts)
    run = program.start({"e": [("b", "c"), ("c", "a"), ("b", "d")]}, plans=plans)
    assert run.view("t").rows() == [("b",)]
    assert "t(x) :-" in program.explain(run, plans)


def test_a_rule_of_very_many_atoms_is_planned() -> None:
    """Soufflé has a test with over a hundred atoms; the search examines each pair of plans once."""
    names = [f"r{number}" for number in range(60)]
    declared = "".join(f".decl {name}(x: number)\n.input {name}\n" for name in names)
    body = ", ".join(f"{name}(x)" for name in names)
    program = dbsp.compile(f"{declared}.decl o(x: number)\n.output o\no(x) :- {body}.\n")
    run = program.start({name: [(1,), (number,)] for number, name in enumerate(names)})
    assert run.view("o").rows() == [(1,)]
    assert run.step({"r3": {(1,): -1}})["o"].to_dict() == {(1,): -1}
