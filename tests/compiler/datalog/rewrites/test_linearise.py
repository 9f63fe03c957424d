"""Transitive relations are extended by one step."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.meaning.show import show_rule
from tests.compiler.support import AS_WRITTEN, checked_program, rewrite
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_rules import transitive_programs
from tests.test_programs import VALUES, program_changes

DECLARATIONS = """
.decl e(x: number, y: number)  .decl f(x: number, y: number)  .decl n(x: number)
.decl p(x: number, y: number)  .decl q(x: number, y: number)
.decl p3(g: number, x: number, y: number)  .decl e3(g: number, x: number, y: number)
.decl p4(a: number, b: number, c: number, d: number)
.input e, f, n, e3
.output p, q, p3, p4
"""
BASE = "p(x, y) :- e(x, y).\n"
TRANSITIVE = "p(x, z) :- p(x, y), p(y, z).\n"
CONVERSE = "p(y, x) :- p(x, y).\n"


def rules(text: str, *names: str) -> list[str]:
    program, _ = rewrite(checked_program(DECLARATIONS + text), names)
    return [show_rule(rule) for rule in program.rules]


@pytest.mark.parametrize(
    ("text", "linear"),
    [
        (BASE + TRANSITIVE, ["p(x, y) :- e(x, y).", "p(x0, y) :- p(x0, x), e(x, y)."]),
        # Other names, another order of the atoms, and rows from the end to the start.
        ("p(a, b) :- e(a, b). p(x, c) :- p(b, c), p(x, b).",
         ["p(a, b) :- e(a, b).", "p(x, b) :- p(x, a), e(a, b)."]),
        ("p(x, y) :- e(y, x). p(z, x) :- p(y, x), p(z, y).",
         ["p(x, y) :- e(y, x).", "p(x0, y) :- p(x0, x), e(y, x)."]),
        # Steps at the start, if the rows of an end are needed.
        (BASE + TRANSITIVE + "q(x, x) :- p(x, 5).",
         ["p(x, y) :- e(x, y).", "p(x, y0) :- p(y, y0), e(x, y).", "q(x, x) :- p(x, 5)."]),
        (BASE + TRANSITIVE + "q(x, x) :- p(x, 5). q(x, x) :- p(5, x).",
         ["p(x, y) :- e(x, y).", "p(x0, y) :- p(x0, x), e(x, y).", "q(x, x) :- p(x, 5).",
          "q(x, x) :- p(5, x)."]),
        # Several bases, with constants and conditions.
        (BASE + "p(x, 1) :- f(x, _), x < 9, !n(x). p(x, x) :- n(x)." + TRANSITIVE,
         ["p(x, y) :- e(x, y).", "p(x, 1) :- f(x, _), x < 9, !n(x).", "p(x, x) :- n(x).",
          "p(x0, y) :- p(x0, x), e(x, y).", "p(x0, 1) :- p(x0, x), f(x, _), x < 9, !n(x).",
          "p(x0, x) :- p(x0, x), n(x)."]),
        # A base whose variables have the names of columns.
        ("p(x0, x) :- e(x, x0)." + TRANSITIVE, ["p(x0, x) :- e(x, x0).", "p(x1, x) :- p(x1, x0), e(x, x0)."]),
        # Bases that are not evaluated for each row: joins, aggregates, functions that can fail.
        ("p(x, z) :- e(x, y), f(y, z)." + TRANSITIVE,
         ["p#step(x, z) :- e(x, y), f(y, z).", "p(x0, y) :- p(x0, x), p#step(x, y).",
          "p(x, y) :- p#step(x, y)."]),
        (BASE + "p(x, c) :- n(x), c = count : { f(x, _) }." + TRANSITIVE,
         ["p#step(x, y) :- e(x, y).", "p#step(x, c) :- n(x), c = count : { f(x, _) }.",
          "p(x0, y) :- p(x0, x), p#step(x, y).", "p(x, y) :- p#step(x, y)."]),
        ("p(x, y + 1) :- e(x, y)." + TRANSITIVE,
         ["p#step(x, y + 1) :- e(x, y).", "p(x0, y) :- p(x0, x), p#step(x, y).", "p(x, y) :- p#step(x, y)."]),
        ("p(x, 1) :- x = 5." + TRANSITIVE,
         ["p#step(x, 1) :- x = 5.", "p(x0, y) :- p(x0, x), p#step(x, y).", "p(x, y) :- p#step(x, y)."]),
        ("p(x, z) :- e(x, y), f(y, z). .plan 0: (2, 1)\n" + TRANSITIVE,
         ["p#step(x, z) :- e(x, y), f(y, z).", "p(x0, y) :- p(x0, x), p#step(x, y).",
          "p(x, y) :- p#step(x, y)."]),
        (BASE + ".plan 0: (1)\n" + TRANSITIVE,
         ["p#step(x, y) :- e(x, y).", "p(x0, y) :- p(x0, x), p#step(x, y).", "p(x, y) :- p#step(x, y)."]),
        # The converse, before and behind.
        (CONVERSE + TRANSITIVE + BASE,
         ["p#step(y, x) :- p#step(x, y).", "p(x0, y) :- p(x0, x), p#step(x, y).", "p#step(x, y) :- e(x, y).",
          "p(x, y) :- p#step(x, y)."]),
        # Rows of an input, alone and with rules.
        (".input p\n" + TRANSITIVE, ["p(x0, y) :- p(x0, x), p#step(x, y)."]),
        ("p(1, 2)." + BASE + TRANSITIVE,
         ["p#step(x, y) :- e(x, y).", "p(x0, y) :- p(x0, x), p#step(x, y).", "p(x, y) :- p#step(x, y)."]),
        # Columns that are passed on, and ends of several columns.
        ("p3(g, x, y) :- e3(g, x, y). p3(g, x, z) :- p3(g, x, y), p3(g, y, z).",
         ["p3(g, x, y) :- e3(g, x, y).", "p3(g, x0, y) :- p3(g, x0, x), e3(g, x, y)."]),
        ("p4(x, y, y, z) :- e3(x, y, z). p4(a, b, c, d) :- p4(a, b, u, v), p4(v, u, c, d).",
         ["p4(x, y, y, z) :- e3(x, y, z).", "p4(a, b, y, z) :- p4(a, b, y, x), e3(x, y, z)."]),
        ("p4(x, y, y, z) :- e3(x, y, z). p4(a, b, c, d) :- p4(a, u, c, v), p4(u, b, v, d).",
         ["p4(x, y, y, z) :- e3(x, y, z).", "p4(a, y, c, z) :- p4(a, x, c, y), e3(x, y, z)."]),
        # Two closures, one of the other.
        (BASE + TRANSITIVE + "q(x, y) :- p(y, x). q(x, z) :- q(x, y), q(y, z).",
         ["p(x, y) :- e(x, y).", "p(x0, y) :- p(x0, x), e(x, y).", "q(x, y) :- p(y, x).",
          "q(x0, y) :- q(x0, x), p(y, x)."]),
    ],
)  # fmt: skip
def test_closures(text: str, linear: list[str]) -> None:
    assert rules(text, "linearise") == linear


@pytest.mark.parametrize(
    "text",
    [
        # Not transitive: another path, columns or variables that are equal, constants, conditions.
        BASE + "p(x, z) :- p(y, x), p(y, z).",
        BASE + "p(x, z) :- p(x, y), p(z, y).",
        BASE + "p(z, x) :- p(x, y), p(y, z).",
        BASE + "p(x, x) :- p(x, y), p(y, x).",
        BASE + "p(x, z) :- p(x, x), p(x, z).",
        BASE + "p(x, z) :- p(x, y), p(_, z), n(y).",
        BASE + "p(x, z) :- p(x, 1), p(1, z).",
        BASE + "p(x, z) :- p(x, _), p(_, z).",
        BASE + "p(x, z) :- p(x, y), p(w, z).",
        BASE + "p(x, 1) :- p(x, y), p(y, 1).",
        BASE + "p(x, z) :- p(x, y), p(y, z), x != z.",
        BASE + "p(x, z) :- p(x, y), p(y, z), n(y).",
        BASE + "p(x, z) :- p(x, y), p(y, u), p(u, z).",
        "p3(g, x, y) :- e3(g, x, y). p3(g, x, z) :- p3(g, x, y), p3(h, y, z), e(g, h).",
        "p3(g, x, y) :- e3(g, x, y). p3(g, x, z) :- p3(g, x, y), p3(x, y, z).",
        "p3(g, x, y) :- e3(g, x, y). p3(g, x, z) :- p3(g, x, y), p3(y, g, z).",
        "p4(x, y, y, z) :- e3(x, y, z). p4(a, b, c, d) :- p4(a, b, c, u), p4(u, u, u, d).",
        # Each step exchanges the first two columns.
        "p4(a, b, x, z) :- p4(b, a, x, y), p4(b, a, y, z).",
        # Linear, without a recursion, and over another relation.
        BASE + "p(x, z) :- p(x, y), e(y, z).",
        "p(x, z) :- e(x, y), e(y, z).",
        BASE + "p(x, z) :- q(x, y), q(y, z). q(x, y) :- e(x, y).",
        # Another recursive rule, a recursion through another relation, two transitive rules.
        BASE + TRANSITIVE + "p(x, z) :- p(x, y), f(y, z).",
        BASE + TRANSITIVE + "p(x, y) :- p(y, x), n(x).",
        BASE + TRANSITIVE + "p(x, x) :- p(x, _).",
        BASE + TRANSITIVE + CONVERSE + "p(x, x) :- p(x, _).",
        BASE + TRANSITIVE + "q(x, y) :- p(x, y). p(x, y) :- q(y, x).",
        BASE + TRANSITIVE + "p(x, z) :- p(y, z), p(x, y).",
        # A plan, and rows that depend on more than the rules.
        BASE + TRANSITIVE + ".plan 0: (2, 1)",
        BASE + CONVERSE + ".plan 0: (1)\n" + TRANSITIVE,
        ".decl r(x: number, y: number) eqrel r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z). .output r",
        ".decl r(x: number, y: number) choice-domain x r(x, y) :- e(x, y). "
        "r(x, z) :- r(x, y), r(y, z). .output r",
        ".decl r(x: number, y: number) r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z). .limitsize r(n=3) "
        ".output r",
    ],
)
def test_other_rules_stay(text: str) -> None:
    assert rules(text, "linearise") == rules(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        # With a condition, the order of the compositions counts.
        (BASE + "p(x, z) :- p(x, y), p(y, z), x < z, x + z != 4.",
         BASE + "p(x, z) :- p(x, y), e(y, z), x < z, x + z != 4."),
        # The end is not the start of the next row.
        (BASE + "p(x, z) :- p(y, x), p(y, z).", BASE + "p(x, z) :- p(y, x), e(y, z)."),
        # Another recursive rule adds rows that are not steps.
        (BASE + TRANSITIVE + "p(x, x) :- p(x, _).", BASE + "p(x, z) :- p(x, y), e(y, z)."),
    ],
)  # fmt: skip
def test_linear_rules_would_mean_something_else(text: str, wrong: str) -> None:
    edges = {"e": [(1, 2), (2, 3), (3, 5), (5, 4), (4, 7)]}
    right, other = (dbsp.compile(DECLARATIONS + rules).start(edges).view("p") for rules in (text, wrong))
    assert right != other


def test_changes_are_described() -> None:
    _, applied = rewrite(checked_program(DECLARATIONS + BASE + TRANSITIVE), ["linearise"])
    assert [(one.name, one.changes) for one in applied] == [
        (
            "linearise",
            (
                "p: its rows are extended by one step, instead of by any of its rows",
                "  p(x0, y) :- p(x0, x), e(x, y). (rule 2 at t.dl:9:1)",
            ),
        )
    ]
    assert "linearise" in dbsp.compile(DECLARATIONS + BASE + TRANSITIVE).explain()
    assert "linearise" not in dbsp.compile(DECLARATIONS + BASE + TRANSITIVE, rewrites=AS_WRITTEN).explain()


# --- runs -----------------------------------------------------------------------------------------


def test_inserted_rows_are_steps() -> None:
    run = dbsp.compile(".decl p(x: number, y: number)\n.input p\n.output p\n" + TRANSITIVE).start()
    assert run.step({"p": [(1, 2), (2, 3), (3, 4)]})["p"].to_dict() == {
        (x, y): 1 for x in range(1, 5) for y in range(x + 1, 5)
    }
    # A derived row that is inserted, too, stays when its derivation goes.
    assert not run.step({"p": [(1, 3)]})["p"].to_dict()
    assert run.step({"p": {(2, 3): -1}})["p"].to_dict() == {(2, 3): -1, (2, 4): -1}
    assert run.step({"p": {(1, 3): -1}})["p"].to_dict() == {(1, 3): -1, (1, 4): -1}


def test_answers_on_demand() -> None:
    """A question with one end derives the rows of that end only."""
    n = 200
    for question, size in (("p(100, y)", n - 100), ("p(y, 100)", 100)):
        text = ".decl e(x: number, y: number)\n.input e\n.decl p(x: number, y: number)\n"
        text += f".decl o(y: number)\n.output o\no(y) :- {question}.\n" + BASE + TRANSITIVE
        run = dbsp.compile(text).start({"e": [(x, x + 1) for x in range(n)]})
        assert len(run.view("o")) == size
        assert run.state_rows < 10 * n


def test_why_uses_the_rules_as_written() -> None:
    program = dbsp.compile(DECLARATIONS + "p(x, z) :- e(x, y), f(y, z)." + CONVERSE + TRANSITIVE)
    run = program.start({"e": [(1, 2), (3, 4)], "f": [(2, 3), (4, 5)]})
    text = str(program.why(run, "p", (1, 5)))
    assert "#" not in text
    assert "p(1, 3)" in text and "p(3, 5)" in text


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(transitive_programs(), st.booleans() | st.none(), st.data())
def test_random_closures_mean_the_same(text: str, magic: bool | None, data: st.DataObject) -> None:
    """Compare every tick with the reference, which interprets the checked program."""
    subject = Subject(text, magic=magic)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)


def test_most_random_closures_are_linearised() -> None:
    found: list[bool] = []

    @settings(max_examples=100, database=None, deadline=None, derandomize=True)
    @given(transitive_programs())
    def count(text: str) -> None:
        found.append("linearise" in dbsp.compile(text).explain())

    count()
    assert 0.4 < sum(found) / len(found) < 0.95
