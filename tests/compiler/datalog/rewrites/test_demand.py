"""Magic sets: what is asked for, what is not derived any more, and that the outputs are the same."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.errors import CompileError
from tests.compiler.support import checked_program, rewrite
from tests.live_program import Subject
from tests.random_datalog import programs
from tests.test_programs import VALUES, program_changes

SCALE = float(os.environ.get("DBSP_TEST_SCALE", "1"))

GRAPH = """
.decl e(x: number, y: number)  .decl n(x: number)
.decl p(x: number, y: number)  .decl q(x: number, y: number)
.decl o(x: number)  .decl oo(x: number, y: number)
.input e, n
.output o, oo
"""
CLOSURE = "p(x, y) :- e(x, y). p(x, z) :- e(x, y), p(y, z).\n"


def on_demand(text: str) -> tuple[list[str], list[str]]:
    """The rules that are run, and what is said of the demand."""
    checked = checked_program(GRAPH + text)
    program, applied = rewrite(checked, (), checked.relations)
    return [show_rule(rule) for rule in program.rules], list(applied[-1].changes)


def whole(text: str) -> str:
    """Why p is derived whole."""
    rules, changes = on_demand(text)
    assert not any("p#demand" in rule for rule in rules)
    (why,) = (change for change in changes if change.startswith("p is derived whole: "))
    return why.removeprefix("p is derived whole: ")


# --- what is asked for -----------------------------------------------------------------------------


def test_a_recursion_to_the_right_asks_from_row_to_row() -> None:
    rules, changes = on_demand(CLOSURE + "o(y) :- p(5, y).")
    assert rules == [
        "p(x, y) :- p#demand(x), e(x, y).",
        "p(x, z) :- p#demand(x), e(x, y), p(y, z).",
        "o(y) :- p(5, y).",
        "p#demand(y) :- p#demand(x), e(x, y).",
        "p#demand(5).",
    ]
    assert changes == [
        "o is derived whole: it is an output",
        "p: only rows whose x is asked for are derived",
        "  p#demand(y) :- p#demand(x), e(x, y). (rule 4 at t.dl:7:21)",
        "  p#demand(5). (rule 5 at t.dl:8:1)",
    ]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        # To the left it hands on what it was asked for.
        ("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). o(y) :- n(x), p(x, y).", ["p#demand(x) :- n(x)."]),
        # The second column, whatever the order of the body.
        ("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). o(x) :- p(x, 3).",
         ["p#demand(y) :- p#demand(z), e(y, z).", "p#demand(3)."]),
        # Both columns, by what comes before the atom and hangs together with it; conditions too.
        ("p(x, y) :- e(x, y). o(x) :- p(x, y), e(y, x), n(z), x < y, z > 2.",
         ["p#demand(x, y) :- e(y, x), x < y."]),
        # Only what all uses bind.
        ("p(x, y) :- e(x, y). o(x) :- p(x, y), e(y, x). o(y) :- n(x), p(x, y).",
         ["p#demand(x) :- e(y, x).", "p#demand(x) :- n(x)."]),
        # Through another relation; what is negated there does not matter to the demand.
        ("p(x, y) :- q(y, x), !n(x). q(x, y) :- e(x, y). o(x) :- p(x, 1).",
         ["q#demand(y) :- p#demand(y).", "p#demand(1)."]),
        # No value is passed on that has to be computed.
        ("p(x + 1, y) :- e(x, y), q(y, x). q(x, y) :- e(x, y). o(x) :- p(4, x).",
         ["q#demand(y, x) :- e(x, y).", "p#demand(4)."]),
    ],
)  # fmt: skip
def test_what_is_asked_for(text: str, asked: list[str]) -> None:
    rules, _ = on_demand(text)
    assert sorted(rule for rule in rules if "#demand" in rule.split(" :- ")[0]) == sorted(asked)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            CLOSURE + "o(y) :- p(5, y). oo(x, y) :- p(x, y).",
            "rule 4 at t.dl:8:18 asks for it with nothing bound",
        ),
        (
            CLOSURE + "o(y) :- p(5, y). o(x) :- n(x), !p(x, 1).",
            "rule 4 at t.dl:8:18 negates or aggregates it",
        ),
        (
            CLOSURE + "oo(x, c) :- n(x), c = count : { p(x, _) }.",
            "rule 3 at t.dl:8:1 negates or aggregates it",
        ),
        (CLOSURE + ".output p\no(y) :- p(5, y).", "it is an output"),
        (CLOSURE + ".input p\no(y) :- p(5, y).", "it is an input, or more than a set of rows"),
    ],
)
def test_what_is_derived_whole(text: str, why: str) -> None:
    assert whole(text) == why


def test_a_demand_that_depends_on_what_it_decides_is_left_out() -> None:
    """p would be asked for what is not in t, which is made of p: then t would depend on its negation."""
    text = """
        .decl t(x: number)  .decl r(x: number)
        p(x, y) :- e(x, y).
        t(y) :- n(x), p(x, y).
        r(x) :- e(x, _), !t(x).
        oo(x, y) :- r(x), p(x, y).
    """
    assert whole(text) == "its demand would depend on what is not in it"
    run = dbsp.compile(GRAPH + text, magic=True).start({"e": [(1, 2), (2, 3)], "n": [(1,)]})
    assert run.view("oo").rows() == [(1, 2)]


# --- live ------------------------------------------------------------------------------------------


def test_rows_come_and_go_with_the_demand() -> None:
    text = GRAPH + CLOSURE + "oo(x, y) :- n(x), p(x, y)."
    line = [(i, i + 1) for i in range(100)]
    whole_run, run = (dbsp.compile(text, magic=magic).start({"e": line}) for magic in (False, True))
    idle = run.state_rows
    assert idle * 10 < whole_run.state_rows
    assert len(run.step({"n": [(90,)]})["oo"]) == 10
    assert run.step({"e": {(95, 96): -1}})["oo"].to_dict() == {(90, y): -1 for y in range(96, 101)}
    assert run.step({"n": {(90,): -1, (97,): 1}})["oo"].to_dict() == {
        **{(90, y): -1 for y in range(91, 96)},
        **{(97, y): 1 for y in range(98, 101)},
    }
    run.step({"n": {(97,): -1}, "e": {(95, 96): 1}})
    run.compact()
    assert run.state_rows <= idle


def test_traces_are_named_after_the_relation() -> None:
    text = GRAPH + CLOSURE + "oo(x, y) :- n(x), p(x, y)."
    traces = dbsp.compile(text, magic=True).explain().split("\ntraces\n")[1]
    assert "  p by (x, y) for itself" in traces


def test_only_the_relations_named() -> None:
    text = GRAPH + CLOSURE + "q(x, y) :- p(x, y). o(y) :- q(5, y)."
    assert "q#demand" not in dbsp.compile(text, rewrites=False, magic=["p"]).explain()
    report = dbsp.compile(text, rewrites=False, magic=["p", "q"]).explain()
    assert "  p: only rows whose x is asked for are derived\n" in report
    assert "  q: only rows whose x is asked for are derived\n" in report
    with pytest.raises(CompileError, match="unknown relation 'pp' in magic"):
        dbsp.compile(text, magic=["pp"])


def test_declarations_say_it_too() -> None:
    text = GRAPH.replace(".decl p(x: number, y: number)", ".decl p(x: number, y: number) {}")
    text += CLOSURE + "q(x, y) :- p(x, y). o(y) :- q(5, y)."

    def relations(word: str, magic: bool | list[str]) -> set[str]:
        report = dbsp.compile(text.format(word), rewrites=False, magic=magic).explain()
        return set(re.findall(r"^stratum .*?(\w+)#demand", report, re.MULTILINE))

    assert relations("", False) == set()
    assert relations("", True) == relations("", ["*"]) == {"p", "q"}
    assert relations("no_magic", True) == {"q"}
    assert relations("no_magic", ["*", "p"]) == {"p", "q"}
    assert relations("magic", ["q"]) == {"p", "q"}
    assert relations("magic", False) == set()  # q is whole then, and asks for all of p


@pytest.mark.slow
@settings(max_examples=max(1, int(60 * SCALE)), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(hidden=True), st.data())
def test_random_programs_on_demand(text: str, data: st.DataObject) -> None:
    """Beside the reference, which derives everything."""
    subject = Subject(text, magic=True)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)
