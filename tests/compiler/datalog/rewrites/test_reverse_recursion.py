"""Right-linear recursions on demand start from the demanded values."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import CHECKED, COMPILER, REWRITES, CompileContext, SourceText
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.text.preprocess import Sources
from tests.compiler.support import checked_program, rewrite
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_rules import right_linear_programs
from tests.test_programs import VALUES, program_changes

GRAPH = """
.decl e(x: number, y: number)  .decl f(x: number, y: number)  .decl n(x: number)
.decl p(x: number, y: number)  .decl q(x: number, y: number)
.decl p3(x: number, y: number, z: number)  .decl e3(x: number, y: number, z: number)
.decl o(x: number)  .decl oo(x: number, y: number)
.input e, f, n, e3
.output o, oo
"""
BASE = "p(x, y) :- f(x, y).\n"
STEP = "p(x, z) :- e(x, y), p(y, z).\n"
CLOSURE = "p(x, y) :- e(x, y).\n" + STEP
ONE = "o(y) :- p(5, y).\n"
"""A use with one demanded value."""
MANY = "o(y) :- n(x), p(x, y).\n"


def reversed_rules(text: str, *names: str) -> list[str]:
    program, _ = rewrite(checked_program(GRAPH + text), ["reverse_recursion"], names or ["p", "p3"])
    return [show_rule(rule) for rule in program.rules]


def demanded_rules(text: str, *names: str) -> list[str]:
    program, _ = rewrite(checked_program(GRAPH + text), [], names or ["p", "p3"])
    return [show_rule(rule) for rule in program.rules]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        # The bases are the steps: the relation itself has the values that a start reaches.
        (CLOSURE + MANY,
         ["p(x, y) :- p#demand(x), e(x, y).", "p(x0, y) :- p(x0, x), e(x, y).",
          "o(y) :- n(x), p(x, y).", "p#demand(x) :- n(x)."]),
        # The last column is demanded; names and the place of the recursive atom do not matter.
        ("p(a, b) :- e(a, b). p(z, b) :- p(z, x), e(x, b). o(x) :- p(x, 5).",
         ["p(a, b) :- p#demand(b), e(a, b).", "p(x, y) :- p(b, y), e(x, b).",
          "o(x) :- p(x, 5).", "p#demand(5)."]),
        # Two steps, with conditions, negations and parts that share no variable.
        ("p(x, y) :- e(x, y), !f(x, y). p(x, y) :- f(y, x), x != y, n(_). "
         "p(x, z) :- e(x, y), !f(x, y), p(y, z). p(x, z) :- f(y, x), x != y, n(_), p(y, z)." + MANY,
         ["p(x, y) :- p#demand(x), e(x, y), !f(x, y).",
          "p(x, y) :- p#demand(x), f(y, x), x != y, n(_).",
          "p(x0, y) :- p(x0, x), e(x, y), !f(x, y).",
          "p(x0, y) :- p(x0, x), f(y, x), x != y, n(_).",
          "o(y) :- n(x), p(x, y).", "p#demand(x) :- n(x)."]),
        # The variables x0 are new ones.
        ("p(x, y) :- e(x, x0), e(x0, y). p(x, z) :- e(x, x0), e(x0, y), p(y, z)." + MANY,
         ["p(x, y) :- p#demand(x), e(x, x0), e(x0, y).", "p(x1, y) :- p(x1, x), e(x, x0), e(x0, y).",
          "o(y) :- n(x), p(x, y).", "p#demand(x) :- n(x)."]),
        # Another base: a relation of the values that the start reaches.
        (BASE + STEP + ONE,
         ["p(x0, y) :- p#reach(x0, x), f(x, y).", "p#reach(x0, y) :- p#reach(x0, x), e(x, y).",
          "o(y) :- p(5, y).", "p#demand(5).", "p#reach(x, x) :- p#demand(x)."]),
        # With a base for each step, there are as many rows as before also for many starts.
        (CLOSURE + BASE + MANY,
         ["p(x0, y) :- p#reach(x0, x), e(x, y).", "p#reach(x0, y) :- p#reach(x0, x), e(x, y).",
          "p(x0, y) :- p#reach(x0, x), f(x, y).",
          "o(y) :- n(x), p(x, y).", "p#demand(x) :- n(x).", "p#reach(x, x) :- p#demand(x)."]),
        # Bases with constants, with the demanded value, and with a function.
        ("p(5, y) :- n(y). p(x, x) :- n(x). p(x, y + 1) :- f(x, y)." + STEP + ONE,
         ["p(x, y) :- p#reach(x, 5), n(y).", "p(x0, x) :- p#reach(x0, x), n(x).",
          "p(x0, y + 1) :- p#reach(x0, x), f(x, y).",
          "p#reach(x0, y) :- p#reach(x0, x), e(x, y).",
          "o(y) :- p(5, y).", "p#demand(5).", "p#reach(x, x) :- p#demand(x)."]),
        # Several demanded and several free columns.
        ("p3(x, y, z) :- e3(x, z, y). p3(x, v, w) :- e(x, y), p3(y, v, w). oo(y, z) :- p3(1, y, z).",
         ["p3(x0, y, z) :- p3#reach(x0, x), e3(x, z, y).", "p3#reach(x0, y) :- p3#reach(x0, x), e(x, y).",
          "oo(y, z) :- p3(1, y, z).", "p3#demand(1).", "p3#reach(x, x) :- p3#demand(x)."]),
        ("p3(x, y, z) :- e3(x, z, y). p3(x, v, w) :- e3(x, w, y), p3(y, v, 7), f(w, _). o(y) :- p3(1, y, 2).",
         ["p3(x0, y, z0) :- p3#reach(x0, z0, x, z), e3(x, z, y).",
          "p3#reach(x0, z0, y, 7) :- p3#reach(x0, z0, x, w), e3(x, w, y), f(w, _).",
          "o(y) :- p3(1, y, 2).", "p3#demand(1, 2).", "p3#reach(x, z, x, z) :- p3#demand(x, z)."]),
        # No column is free.
        ("p(x, y) :- f(x, y). p(x, y) :- e(x, v), e(y, w), p(v, w). o(1) :- p(2, 3).",
         ["p(x0, y0) :- p#reach(x0, y0, x, y), f(x, y).",
          "p#reach(x0, y0, v, w) :- p#reach(x0, y0, x, y), e(x, v), e(y, w).",
          "o(1) :- p(2, 3).", "p#demand(2, 3).", "p#reach(x, y, x, y) :- p#demand(x, y)."]),
        # The demand of another relation follows from the values that are reached.
        ("q(x, y) :- f(x, y). q(x, y) :- e(x, y). p(x, y) :- q(x, y). p(x, z) :- q(x, y), p(y, z)." + MANY,
         ["q(x, y) :- q#demand(x), f(x, y).", "q(x, y) :- q#demand(x), e(x, y).",
          "p(x, y) :- p#demand(x), q(x, y).", "p(x0, y) :- p(x0, x), q(x, y).",
          "o(y) :- n(x), p(x, y).", "q#demand(x) :- p#demand(x).", "p#demand(x) :- n(x).",
          "q#demand(x) :- p(_, x)."]),
        ("q(x, y) :- f(x, y). p(x, y) :- q(x, y). p(x, z) :- e(x, y), p(y, z)." + ONE,
         ["q(x, y) :- q#demand(x), f(x, y).",
          "p(x0, y) :- p#reach(x0, x), q(x, y).", "p#reach(x0, y) :- p#reach(x0, x), e(x, y).",
          "o(y) :- p(5, y).", "q#demand(x) :- p#reach(_, x).", "p#demand(5).",
          "p#reach(x, x) :- p#demand(x)."]),
    ],
)  # fmt: skip
def test_reversed_recursions(text: str, rules: list[str]) -> None:
    assert reversed_rules(text, "p", "p3", "q") == rules


def test_changes_are_described() -> None:
    _, applied = rewrite(checked_program(GRAPH + CLOSURE + MANY), ["reverse_recursion"], ["p"])
    assert applied[-1].name == "reverse_recursion"
    assert applied[-1].changes == (
        "p: the recursion starts from the needed values of x",
        "  p(x0, y) :- p(x0, x), e(x, y). (rule 2 at t.dl:9:1)",
    )
    report = dbsp.compile(GRAPH + CLOSURE + MANY, magic=["p"]).explain()
    assert "rewritten by reverse_recursion\n  p: the recursion starts from the needed values of x\n" in report
    without = [name for name in REWRITES if name != "reverse_recursion"]
    assert "reverse_recursion" not in dbsp.compile(GRAPH + CLOSURE, magic=["p"], rewrites=without).explain()


# --- recursions that stay -------------------------------------------------------------------------

LINE = {"e": [(5, 6), (6, 7), (7, 8)], "f": [(8, 1), (7, 2), (5, 3)], "n": [(1,), (6,)]}


@pytest.mark.parametrize(
    ("rules", "wrong", "question"),
    [
        # A free variable in a step: every step restricts the row, not only the last one.
        (BASE + "p(x, z) :- e(x, y), n(z), p(y, z).",
         "p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y), n(_).", ONE),
        (BASE + "p(x, z) :- e(x, y), z > 1, p(y, z).",
         "p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y).", ONE),
        # A free argument that changes, or is computed, or is a constant.
        (BASE + "p(x, z) :- e(x, y), p(y, w), z = w + 1.",
         "p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y).", ONE),
        (BASE + "p(x, z + 1) :- e(x, y), p(y, z).",
         "p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y).", ONE),
        (BASE + "p(x, 1) :- e(x, y), p(y, 1).",
         "p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y).", ONE),
        # Free arguments that are passed in another order, or are equal.
        ("p3(x, y, z) :- f(x, y), f(x, z). p3(x, y, z) :- f(x, y), n(z)."
         "p3(x, v, w) :- e(x, y), p3(y, w, v).",
         "p3(s, y, z) :- reach(s, x), f(x, y), f(x, z). p3(s, y, z) :- reach(s, x), f(x, y), n(z)."
         "reach(s, y) :- reach(s, x), e(x, y).", "oo(y, z) :- p3(5, y, z)."),
        ("p3(x, y, z) :- f(x, y), n(z). p3(x, w, w) :- e(x, y), p3(y, w, w).",
         "p3(s, y, z) :- reach(s, x), f(x, y), n(z). reach(s, y) :- reach(s, x), e(x, y).",
         "oo(y, z) :- p3(5, y, z)."),
        # Another atom of the relation in a step: it has no rows for values in between.
        (BASE + "p(x, z) :- e(x, y), p(y, z), p(y, 2).",
         "p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y), p(y, 2).", ONE),
        # A fact belongs to a value that is not a start.
        (BASE + "p(7, 9). " + STEP,
         "p(7, 9). p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y).", ONE),
        # The demand of another relation follows from rows in between.
        (BASE + "q(x, y) :- f(x, y). q(x, y) :- e(x, y). p(x, z) :- e(x, y), p(y, z), q(y, _).",
         "p(s, z) :- reach(s, x), f(x, z). reach(s, y) :- reach(s, x), e(x, y), q(y, _)."
         "q(x, y) :- need(x), f(x, y). q(x, y) :- need(x), e(x, y)."
         ".decl need(x: number) need(y) :- reach(_, x), e(x, y), p(y, _).", ONE),
    ],
)  # fmt: skip
def test_other_recursions_stay(rules: str, wrong: str, question: str) -> None:
    """`wrong` are the rules that a reversal would give."""
    assert reversed_rules(rules + question, "p", "p3", "q") == demanded_rules(
        rules + question, "p", "p3", "q"
    )
    output = "oo" if question.startswith("oo") else "o"
    reach = ".decl reach(x0: number, x: number) reach(5, 5).\n"
    expected = dbsp.compile(GRAPH + rules + question, magic=False).start(LINE).view(output)
    assert dbsp.compile(GRAPH + rules + question, magic=True).start(LINE).view(output) == expected
    assert dbsp.compile(GRAPH + reach + wrong + question, magic=False).start(LINE).view(output) != expected


@pytest.mark.parametrize(
    "text",
    [
        # Left-linear, and both.
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z)." + ONE,
        CLOSURE + "p(x, z) :- p(x, y), f(y, z)." + ONE,
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z)." + ONE,
        # Not recursive.
        BASE + ONE,
        # A recursion through another relation.
        "p(x, z) :- e(x, y), q(y, z). q(x, y) :- p(x, y). q(x, y) :- f(x, y)." + ONE,
        BASE + STEP + "q(x, z) :- f(x, y), p(y, z). p(x, z) :- n(x), q(x, z)." + ONE,
        # A rule that demands no other values.
        CLOSURE + "p(x, z) :- n(x), p(x, z)." + ONE,
        # A step that can fail, maybe for a value without rows; and one with a `.plan`.
        BASE + "p(x, z) :- e(x, y), 10 / y > 1, p(y, z)." + ONE,
        BASE + "p(x, z) :- e(x, y), y * y > 1, p(y, z)." + ONE,
        BASE + "p(x, z) :- e(x, y), 1 < count : { f(y, _) }, p(y, z)." + ONE,
        BASE + STEP + ".plan 0: (2, 1)\n" + ONE,
        BASE + ".plan 0: (1)\n" + STEP + ONE,
        # All rows are needed, of which the demand pass takes care.
        CLOSURE + "oo(x, y) :- p(x, y).",
        CLOSURE + ".output p\n" + ONE,
    ],
)
def test_recursions_of_another_form_stay(text: str) -> None:
    assert reversed_rules(text, "p", "p3", "q") == demanded_rules(text, "p", "p3", "q")


@pytest.mark.parametrize(
    ("uses", "few"),
    [
        (ONE, True),
        ("".join(f"o(y) :- p({n}, y).\n" for n in range(8)), True),
        ("".join(f"o(y) :- p({n}, y).\n" for n in range(9)), False),
        (MANY, False),
        # The values that a start reaches demand more of them.
        ("oo(y, z) :- p(5, y), p(y, z).", False),
    ],
)
def test_each_of_many_starts_would_keep_its_values(uses: str, few: bool) -> None:
    assert ("p#reach" in "".join(reversed_rules(BASE + STEP + uses))) == few


def test_an_input_of_one_row_is_one_start() -> None:
    program = checked_program(GRAPH + BASE + STEP + MANY)
    for single in ((), ("n",)):
        options = CompileOptions(magic=("p",), single=frozenset(single), disabled=frozenset({"inline_once"}))
        context = CompileContext.of(SourceText("", "t.dl", Sources()), options)
        found = COMPILER.run(program, context, start=CHECKED, until="stratify")
        assert ("p#reach" in found.relations) == bool(single)


def test_an_unstratifiable_reversal_is_not_used() -> None:
    """The demand of q would follow from p, which negates q."""
    rules = "p(x, z) :- n(x), n(z), !q(x, 1). p(x, z) :- n(x), n(y), !q(x, 1), p(y, z)."
    text = "q(x, y) :- f(x, y)." + rules + MANY
    assert reversed_rules(text, "p", "q") == demanded_rules(text, "p", "q")
    rows = {"n": [(1,), (2,)], "f": [(1, 1)]}
    views = [dbsp.compile(GRAPH + text, magic=magic).start(rows).view("o").rows() for magic in (False, True)]
    assert views == [[(1,), (2,)]] * 2


# --- runs -----------------------------------------------------------------------------------------


def test_only_the_rows_of_the_starts_are_kept() -> None:
    text = GRAPH + CLOSURE + "oo(x, y) :- n(x), p(x, y)."
    others = [name for name in REWRITES if name != "reverse_recursion"]
    line = {"e": [(i, i + 1) for i in range(200)], "n": [(100,)]}
    runs = [dbsp.compile(text, rewrites=names, magic=True).start(line) for names in (others, True)]
    assert [len(run.view("oo")) for run in runs] == [100, 100]
    assert runs[0].state_rows > 100 * 100 / 2
    assert runs[1].state_rows < 2_000
    for run in runs:
        assert run.step({"e": {(150, 151): -1}})["oo"].to_dict() == {(100, y): -1 for y in range(151, 201)}
        assert run.step({"e": [(150, 151)], "n": [(198,)]})["oo"].to_dict() == {
            **{(100, y): 1 for y in range(151, 201)},
            **{(198, y): 1 for y in (199, 200)},
        }


def test_why_uses_the_rules_as_written() -> None:
    program = dbsp.compile(GRAPH + BASE + STEP + ONE, magic=["p"])
    run = program.start(LINE)
    assert "p#reach" in "".join(reversed_rules(BASE + STEP + ONE))
    text = str(program.why(run, "o", (1,)))
    assert not re.search(r"#|x0", text)
    assert [word in text for word in ("p(5, 1)", "p(6, 1)", "p(7, 1)", "p(8, 1)", "f(8, 1)")] == [True] * 5
    assert "p(5, 9)" in str(program.why_not(run, "o", (9,)))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(right_linear_programs(), st.data())
def test_random_recursions_mean_the_same(text: str, data: st.DataObject) -> None:
    """Compare every tick with the reference, which interprets the checked program."""
    subject = Subject(text, magic=True)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)


def test_most_random_recursions_are_reversed() -> None:
    found: list[bool] = []

    @settings(max_examples=examples(100), database=None, deadline=None, derandomize=True)
    @given(right_linear_programs())
    def count(text: str) -> None:
        found.append("reverse_recursion" in dbsp.compile(text, magic=True).explain())

    count()
    assert 0.4 < sum(found) / len(found) < 0.9
