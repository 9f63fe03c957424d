"""Parts of a body that share no variable with the rest are asked once; negations are shared."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.circuit.graph import Graph
from tests.compiler.datalog.rewrites.test_rewrites import GRAPH, rewritten, told
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_rules import factorable_programs, separable_programs
from tests.test_programs import VALUES, program_changes


@pytest.mark.parametrize(
    ("rule", "rules"),
    [
        ("o(x) :- n(x), e(y, z), f(z, y).",
         ["o(x) :- n(x), o#exists1().", "o#exists1() :- e(y, z), f(z, y)."]),
        ("o(x) :- e(y, _), n(x), y > 3.", ["o(x) :- n(x), o#exists1().", "o#exists1() :- e(y, _), y > 3."]),
        # A part without rows of its own, an aggregate, and a negation in a part.
        ("o(x) :- n(x), 3 < count : { e(_, _) }.",
         ["o(x) :- n(x), o#exists1().", "o#exists1() :- 3 < count : { e(_, _) }."]),
        ("o(x) :- n(x), n(y), !f(y, _).", ["o(x) :- n(x), o#exists1().", "o#exists1() :- n(y), !f(y, _)."]),
        # Several parts of a rule whose head has no variables.
        ("o(1) :- n(x), e(x, x), n(y), f(y, y).",
         ["o(1) :- o#exists1(), o#exists2().", "o#exists1() :- n(x), e(x, x).",
          "o#exists2() :- n(y), f(y, y)."]),
    ],
)  # fmt: skip
def test_independent_parts_are_asked_once(rule: str, rules: list[str]) -> None:
    assert rewritten(rule, "separate") == rules


@pytest.mark.parametrize(
    "rule",
    [
        "oo(x, y) :- n(x), e(y, z), f(z, y).",  # the result is a cross product
        "o(x) :- n(x), e(_, _).",  # a single atom
        "o(x) :- n(x), !e(1, _).",
        "o(1) :- e(y, z), f(z, y).",  # the part is the body
        "o(x) :- n(x), 1 < 2.",  # no rows are read
        "o(x) :- n(x), e(y, _), 10 / y > 2.",  # may fail, although n is empty
        "oo(x, autoinc()) :- n(x), e(y, z), f(z, y).",  # every binding has a number
        "o(x) :- n(x), e(y, z), f(z, y).\n.plan 0: (1, 2, 3)",
        "o(x) :- n(x), e(y, x), f(y, z).",
        "o(s) :- n(x), s = sum z : { e(x, y), f(z, w), e(z, w) }.",  # all bindings are summed
    ],
)
def test_other_parts_stay(rule: str) -> None:
    assert rewritten(rule, "separate") == rewritten(rule, "drop_dead")


def test_equal_parts_share_a_relation() -> None:
    rules = "o(x) :- n(x), e(y, z), f(z, y). oo(x, x) :- n(x), e(a, b), f(b, a)."
    assert rewritten(rules, "separate") == [
        "o(x) :- n(x), o#exists1().",
        "oo(x, x) :- n(x), o#exists1().",
        "o#exists1() :- e(y, z), f(z, y).",
    ]
    assert told(rules, "separate") == [
        "rule 1 at t.dl:7:1 asks once whether e(y, z), f(z, y)",
        "rule 2 at t.dl:7:33 asks once whether e(a, b), f(b, a)",
    ]


def test_the_iterations_of_a_recursion_do_not_join_the_part() -> None:
    """The state is that of the numbers and of the parts, not their product."""
    text = """
    .decl c(y: number)  .decl d(y: number)  .decl a(x: number)
    .input c, d
    .output a
    a(0).
    a(x + 1) :- a(x), c(y), d(y), x < 200.
    """
    rows = [(n,) for n in range(100)]
    program = dbsp.compile(text)
    assert "keep all rows if there is a row a#exists1()" in program.explain()
    run = program.start()
    run.step({"c": rows, "d": rows})
    assert len(run.view("a")) == 201
    assert run.state_rows < 1_500
    # The part still holds, so nothing else changes.
    assert run.step({"c": [(0,)]})["a"].to_dict() == {}
    assert run.step({"c": dict.fromkeys(rows, -1)})["a"].to_dict() == {(n,): -1 for n in range(1, 201)}
    assert run.step({"c": [(7,)]})["a"].to_dict() == {(n,): 1 for n in range(1, 201)}


def test_relations_that_depend_on_iterations_keep_their_rules() -> None:
    text = """
    .decl c(y: number) .decl m(x: number, y: number) choice-domain x, y
    .input c
    .output m
    m(0, 0).
    m(x + 1, y) :- m(x, _), c(y), c(z), z > 1, x < 5.
    """
    assert "separate" not in [one.name for one in dbsp.compile(text).rewrites]


# --- negations behind disjunctions ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "rules"),
    [
        ("o(x) :- (n(x); e(x, _)), !f(x, x).",
         ["o(x) :- o#either1(x), !f(x, x).", "o#either1(x) :- n(x).", "o#either1(x) :- e(x, _)."]),
        # The literals outside stay outside if the alternatives do not need them.
        ("oo(x, y) :- (n(x); f(x, x)), !f(x, _), e(x, y).",
         ["oo(x, y) :- oo#either1(x), !f(x, _), e(x, y).", "oo#either1(x) :- n(x).",
          "oo#either1(x) :- f(x, x)."]),
        ("o(z) :- n(x), (z = x + 0; e(x, z)), !n(z).", None),
        ("o(z) :- n(x), (z = x; e(x, z)), !f(z, z).",
         ["o(z) :- o#either1(z), !f(z, z).", "o#either1(z) :- n(x), z = x.",
          "o#either1(z) :- n(x), e(x, z)."]),
        # Both alternatives of two disjunctions.
        ("o(x) :- (n(x); f(x, _)), (e(x, 1); e(x, 2)), !r(x). r(x) :- f(x, x).",
         ["o(x) :- o#either1(x), !r(x).", "r(x) :- f(x, x).", "o#either1(x) :- n(x), e(x, 1).",
          "o#either1(x) :- n(x), e(x, 2).", "o#either1(x) :- f(x, _), e(x, 1).",
          "o#either1(x) :- f(x, _), e(x, 2)."]),
        # The rules begin with n(x), !f(x, _) in any case.
        ("oo(x, z) :- n(x), !f(x, _), (e(x, z); f(z, x)).", None),
        ("o(x) :- (n(x); o(x)), !f(x, x).", None),  # recursive
        ("o(x) :- n(x), !f(x, x). o(x) :- e(x, _), !f(x, x).", None),  # two clauses
    ],
)  # fmt: skip
def test_negations_behind_a_disjunction_are_evaluated_once(rule: str, rules: list[str] | None) -> None:
    assert rewritten(rule, "factor") == (rewritten(rule, "drop_dead") if rules is None else rules)


def test_the_circuit_has_one_antijoin() -> None:
    def antijoins(rewrites: bool) -> int:
        circuit: Graph = dbsp.compile(
            GRAPH + "o(x) :- (n(x); e(x, _)), !f(x, x).", rewrites=rewrites
        ).circuit("incremental")
        return sum(node.operator.name == "SemijoinTerms" for node in circuit.walk())

    assert (antijoins(rewrites=False), antijoins(rewrites=True)) == (2, 1)


# --- both -----------------------------------------------------------------------------------------


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(separable_programs(), factorable_programs()), st.data())
def test_random_rules_mean_the_same(text: str, data: st.DataObject) -> None:
    """Compare every tick with the reference, which interprets the checked program."""
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)
    live.tick([])
