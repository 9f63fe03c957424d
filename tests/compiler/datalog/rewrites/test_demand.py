"""Magic sets: the demand of relations, the rows that are not derived, and equal outputs."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.errors import CompileError
from tests.compiler.support import checked_program, rewrite
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_datalog import programs
from tests.test_programs import VALUES, program_changes

GRAPH = """
.decl e(x: number, y: number)  .decl n(x: number)
.decl p(x: number, y: number)  .decl q(x: number, y: number)
.decl o(x: number)  .decl oo(x: number, y: number)
.input e, n
.output o, oo
"""
CLOSURE = "p(x, y) :- e(x, y). p(x, z) :- e(x, y), p(y, z).\n"


def on_demand(text: str, *names: str) -> tuple[list[str], list[str]]:
    """Return the rewritten rules, and the changes that the demand pass describes."""
    checked = checked_program(GRAPH + text)
    program, applied = rewrite(checked, (), names or checked.relations)
    return [show_rule(rule) for rule in program.rules], list(applied[-1].changes)


def reason_in_full(text: str, *names: str) -> str:
    """Return the reason why p is derived in full."""
    rules, changes = on_demand(text, *names)
    assert not any("p#demand" in rule for rule in rules)
    (why,) = (change for change in changes if change.startswith("p is derived in full: "))
    return why.removeprefix("p is derived in full: ")


# --- the demand ---------------------------------------------------------------------------------


def test_a_right_recursion_passes_its_demand_on() -> None:
    rules, changes = on_demand(CLOSURE + "o(y) :- p(5, y).")
    assert rules == [
        "p(x, y) :- p#demand(x), e(x, y).",
        "p(x, z) :- p#demand(x), e(x, y), p(y, z).",
        "o(y) :- p(5, y).",
        "p#demand(y) :- p#demand(x), e(x, y).",
        "p#demand(5).",
    ]
    assert changes == [
        "o is derived in full: it is an output",
        "p: only rows whose x is needed are derived",
        "  p#demand(y) :- p#demand(x), e(x, y). (rule 4 at t.dl:7:21)",
        "  p#demand(5). (rule 5 at t.dl:8:1)",
    ]


@pytest.mark.parametrize(
    ("text", "demand_rules"),
    [
        # A left recursion has the same demand.
        ("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). o(y) :- n(x), p(x, y).", ["p#demand(x) :- n(x)."]),
        # The second column, whatever the order of the body.
        ("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). o(x) :- p(x, 3).",
         ["p#demand(y) :- p#demand(z), e(y, z).", "p#demand(3)."]),
        # Both columns, bound by connected atoms and conditions before the atom.
        ("p(x, y) :- e(x, y). o(x) :- p(x, y), e(y, x), n(z), x < y, z > 2.",
         ["p#demand(x, y) :- e(y, x), x < y."]),
        # Only the columns that all uses bind.
        ("p(x, y) :- e(x, y). o(x) :- p(x, y), e(y, x). o(y) :- n(x), p(x, y).",
         ["p#demand(x) :- e(y, x).", "p#demand(x) :- n(x)."]),
        # Through another relation; its negated atoms do not restrict the demand.
        ("p(x, y) :- q(y, x), !n(x). q(x, y) :- e(x, y). o(x) :- p(x, 1).",
         ["q#demand(y) :- p#demand(y).", "p#demand(1)."]),
        # A negated atom follows the positive atoms and their conditions.
        ("p(x, y) :- e(x, y). o(x) :- !p(x, 1), n(x), x < 5.", ["p#demand(x, 1) :- n(x), x < 5."]),
        # Aggregates: in the body with its local atoms, in the head, nested, and with a negation.
        ("p(x, y) :- e(x, y). oo(x, c) :- n(x), c = count : { e(x, y), p(y, _) }.",
         ["p#demand(y) :- n(x), e(x, y)."]),
        ("p(x, y) :- e(x, y). oo(x, sum y : { p(x, y) }) :- n(x).", ["p#demand(x) :- n(x)."]),
        ("p(x, y) :- e(x, y). oo(x, c) :- n(x), c = sum z + count : { p(z, _) } : { e(x, z) }.",
         ["p#demand(z) :- n(x), e(x, z)."]),
        ("p(x, y) :- e(x, y). oo(x, c) :- n(x), c = count : { e(x, y), !p(y, x) }.",
         ["p#demand(y, x) :- n(x), e(x, y)."]),
        # What the uses bind is known before the recursion, which would bind z rather than y.
        ("p(x, z) :- p3(x, y, _), p(y, z). p(x, y) :- e(x, y)."
         ".decl p3(x: number, y: number, z: number) p3(x, y, x) :- e(x, y). o(y) :- p(4, y).",
         ["p#demand(4).", "p#demand(y) :- p#demand(x), p3(x, y, _).", "p3#demand(x) :- p#demand(x)."]),
        # Computed values are not passed on.
        ("p(x + 1, y) :- e(x, y), q(y, x). q(x, y) :- e(x, y). o(x) :- p(4, x).",
         ["q#demand(y, x) :- e(x, y).", "p#demand(4)."]),
    ],
)  # fmt: skip
def test_demand_rules(text: str, demand_rules: list[str]) -> None:
    rules, _ = on_demand(text)
    assert sorted(rule for rule in rules if "#demand" in rule.split(" :- ")[0]) == sorted(demand_rules)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            CLOSURE + "o(y) :- p(5, y). oo(x, y) :- p(x, y).",
            "rule 4 at t.dl:8:18 binds none of its columns",
        ),
        (CLOSURE + "o(x) :- n(x), !p(_, _).", "rule 3 at t.dl:8:1 binds none of its columns"),
        (CLOSURE + "o(c) :- n(_), c = count : { p(_, _) }.", "rule 3 at t.dl:8:1 binds none of its columns"),
        # A computed value is not passed to a negation either.
        (CLOSURE + "o(x) :- n(x), !p(x + 1, _).", "rule 3 at t.dl:8:1 binds none of its columns"),
        (CLOSURE + ".output p\no(y) :- p(5, y).", "it is an output"),
        (CLOSURE + ".input p\no(y) :- p(5, y).", "it is an input or has a qualifier"),
    ],
)
def test_relations_derived_in_full(text: str, why: str) -> None:
    assert reason_in_full(text) == why


def test_an_unstratifiable_demand_is_not_used() -> None:
    """The demand of p would negate t, which depends on p: t would depend on its own negation."""
    text = """
        .decl t(x: number)  .decl r(x: number)
        p(x, y) :- e(x, y).
        t(y) :- n(x), p(x, y).
        r(x) :- e(x, _), !t(x).
        oo(x, y) :- r(x), p(x, y).
    """
    why = reason_in_full(text, "p")
    assert why == "the rows to derive would depend on missing rows of the same relation"
    run = dbsp.compile(GRAPH + text, magic=True).start({"e": [(1, 2), (2, 3)], "n": [(1,)]})
    assert run.view("oo").rows() == [(1, 2)]


def test_of_a_cycle_only_the_negated_relation_is_derived_in_full() -> None:
    """The demand of p depends on p, and so would the demand of q, which p negates."""
    text = """
        q(x, y) :- e(x, y). q(x, z) :- e(x, y), q(y, z).
        p(x, y) :- e(x, y), !q(y, x). p(x, z) :- p(x, y), p(y, z).
        oo(x, y) :- n(x), p(x, y).
    """
    rules, changes = on_demand(text, "p", "q")
    assert (
        "q is derived in full: the rows to derive would depend on missing rows of the same relation"
        in changes
    )
    assert [rule for rule in rules if rule.startswith("p")] == [
        "p(x, y) :- p#demand(x), e(x, y), !q(y, x).",
        "p(x, z) :- p(x, y), p(y, z).",
        "p#demand(y) :- p#demand(x), p(x, y).",
        "p#demand(x) :- n(x).",
    ]


def test_a_rule_that_keeps_the_values_has_no_guard() -> None:
    left = "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). oo(x, y) :- n(x), p(x, y)."
    assert "p(x, z) :- p(x, y), e(y, z)." in on_demand(left)[0]
    assert "p(x, z) :- p#demand(x), p(x, y), e(y, z)." in on_demand("p(7, 8). " + left)[0]


# --- live ---------------------------------------------------------------------------------------


def test_rows_come_and_go_with_the_demand() -> None:
    text = GRAPH + CLOSURE + "oo(x, y) :- n(x), p(x, y)."
    line = [(i, i + 1) for i in range(100)]
    full_run, run = (dbsp.compile(text, magic=magic).start({"e": line}) for magic in (False, True))
    idle = run.state_rows
    assert idle * 10 < full_run.state_rows
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
    assert "  p: only rows whose x is needed are derived\n" in report
    assert "  q: only rows whose x is needed are derived\n" in report
    with pytest.raises(CompileError, match=r"unknown relation 'pp' in 'magic'.*\[unknown-relation\]"):
        dbsp.compile(text, magic=["pp"])


def test_declarations_select_relations() -> None:
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
    assert relations("magic", False) == set()  # q is derived in full, and needs all of p


def test_negation_and_aggregates_follow_the_demand() -> None:
    """Few rows are stored, and every change of an input is seen through !p and count."""
    text = (
        GRAPH
        + CLOSURE
        + """
        o(x) :- n(x), !p(x, 50).
        oo(x, c) :- n(x), c = count : { p(x, _) }.
    """
    )
    line = [(i, i + 1) for i in range(100)]
    full_run, run = (dbsp.compile(text, magic=magic).start({"e": line}) for magic in (False, True))
    ticks: list[dict[str, dict[tuple[int, ...], int]]] = [
        {"n": {(45,): 1, (97,): 1}},
        {"e": {(47, 48): -1}},
        {},
        {"e": {(45, 50): 1}, "n": {(97,): -1}},
        {"e": {(45, 50): -1, (47, 48): 1}, "n": {(99,): 1, (200,): 1}},
    ]
    for tick in ticks:
        full, on_demand = full_run.step(tick), run.step(tick)
        assert {name: full[name].to_dict() for name in full} == {
            name: on_demand[name].to_dict() for name in on_demand
        }
    assert run.view("o").rows() == [(99,), (200,)]
    assert run.view("oo").rows() == [(45, 55), (99, 1), (200, 0)]
    assert run.state_rows * 2 < full_run.state_rows


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(hidden=True), st.data())
def test_random_programs_on_demand(text: str, data: st.DataObject) -> None:
    """Compare with the reference, which derives all rows."""
    subject = Subject(text, magic=True)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)
