"""The rules that rewriting passes return, and their equal meaning."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.compiler_passes import REWRITES as NAMES
from dbsp.compiler.datalog.meaning.show import show_rule
from tests.compiler.support import checked_program, rewrite
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_datalog import programs
from tests.test_programs import VALUES, program_changes

GRAPH = """
.decl e(x: number, y: number)  .decl f(x: number, y: number)  .decl n(x: number)
.decl p(x: number, y: number)  .decl q(x: number, y: number)  .decl r(x: number)
.decl o(x: number)  .decl oo(x: number, y: number)
.input e, f, n
.output o, oo
"""


def rewritten(text: str, *names: str) -> list[str]:
    program, _ = rewrite(checked_program(GRAPH + text), names or NAMES)
    return [show_rule(rule) for rule in program.rules]


def told(text: str, *names: str) -> list[str]:
    _, applied = rewrite(checked_program(GRAPH + text), names or NAMES)
    return [change for one in applied for change in one.changes]


# --- constants ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "simple"),
    [
        ("o(y) :- e(x, y), x = 5.", "o(y) :- e(5, y)."),
        ("oo(x, y) :- x = 5, e(x, y).", "oo(5, y) :- e(5, y)."),
        ("oo(x, y) :- e(x, y), x = y.", "oo(x, x) :- e(x, x)."),
        ("o(x) :- e(x, y), y = z, z = w, 3 = w.", "o(x) :- e(x, 3)."),
        ("o(z) :- e(x, _), x = 2, z = x * 3 + 1.", "o(7) :- e(2, _)."),
        ("o(x + 2) :- x = 3.", "o(5)."),
        ("o(x) :- n(x), true, 1 < 2, x = x.", "o(x) :- n(x)."),
        # A function without a value stays, and is an error of the ticks.
        ("o(z) :- n(x), x = 0, z = 1 / x.", "o(z) :- n(0), z = 1 / 0."),
        ("o(z) :- n(_), z = 9223372036854775807 + 1.", "o(z) :- n(_), z = 9223372036854775807 + 1."),
        # Constants are inserted into aggregates; equations of the aggregate itself stay.
        ("o(c) :- n(x), x = 1, c = count : { e(x, y) }.", "o(c) :- n(1), c = count : { e(1, y) }."),
        ("o(c) :- n(x), x = y, c = count : { e(y, z), z = 1 + 2 }.",
         "o(c) :- n(x), c = count : { e(x, z), z = 3 }."),
        ("o(x) :- n(x), !e(x, y), y = 4.", "o(x) :- n(x), !e(x, 4)."),
    ],
)  # fmt: skip
def test_constants_are_propagated(rule: str, simple: str) -> None:
    assert rewritten(rule, "propagate_constants") == [simple]


@pytest.mark.parametrize("body", ["x = 1, x = 2", "x > 3, x = 2", "false", "x = 1, 2 = x + 2", '"a" < "B"'])
def test_bodies_that_contradict_themselves(body: str) -> None:
    assert rewritten(f"o(x) :- n(x), {body}.") == []
    assert told(f"o(x) :- n(x), {body}.")[0].startswith("rule 1 at t.dl:7:1 never holds: ")


def test_a_value_that_only_a_run_knows_is_not_computed() -> None:
    assert rewritten('o(ord("a")) :- n(_).') == ['o(ord("a")) :- n(_).']


def test_functions_are_computed_as_a_run_does() -> None:
    text = """.decl s(i: number, t: symbol, f: float, u: unsigned)
    .output s
    s(-7 / 2, cat("a", to_string(1.5)), 0.5 * 3, 7u - 5u).
    s(-7 % 2, substr("abc", 1, 9), 2.0 ^ 0.5, 2u ^ 3u) :- true.
    s(2 ^ 62 + (2 ^ 62 - 1), to_string(-3), to_float("2.5"), max(1u, 3u)) :- 1 < 2.
    s(to_number("12"), "", -1.0 * 0.0, 1u - 2u) :- 1 > 2.
    """
    plain = dbsp.compile(text, rewrites=False).start().view("s").rows()
    assert dbsp.compile(text).start().view("s").rows() == plain
    rules, _ = rewrite(checked_program(text))
    assert [show_rule(rule) for rule in rules.rules] == [
        's(-3, "a1.500000", 1.5, 2).',
        's(-1, "bc", 1.4142135623730951, 8).',
        's(9223372036854775807, "-3", 2.5, 3).',
    ]


# --- dead rules ---------------------------------------------------------------------------------


def test_relations_that_no_output_depends_on_are_removed() -> None:
    text = "p(x, y) :- e(x, y). q(x, y) :- p(x, y), f(x, y). r(x) :- q(x, _). o(x) :- n(x)."
    assert rewritten(text, "drop_dead") == ["o(x) :- n(x)."]
    assert told(text) == [f"{name} is left out: no output depends on it" for name in "pqr"]


def test_a_relation_that_stays_empty_fires_no_rule() -> None:
    text = """
        p(x, y) :- q(y, x).  q(x, y) :- p(x, y).
        o(x) :- n(x), p(x, _).  o(x) :- n(x), !q(x, x).
        oo(x, c) :- n(x), c = count : { q(x, _) }.
    """
    assert rewritten(text) == ["o(x) :- n(x).", "oo(x, c) :- n(x), c = count : { q(x, _) }."]
    run = dbsp.compile(GRAPH + text).start({"n": [(4,)]})
    assert (run.view("o").rows(), run.view("oo").rows()) == ([(4,)], [(4, 0)])


@pytest.mark.parametrize("rewrites", [True, False, [name for name in NAMES if name != "drop_dead"]])
@pytest.mark.parametrize(
    "rules",
    [
        "o(x) :- n(x), same(x, _).  o(x) :- n(x), same(x, y), n(y).",
        "o(x) :- n(x), !same(x, _).  oo(x, y) :- e(x, y), !same(x, y).",
        "oo(x, c) :- n(x), c = count : { same(x, _) }.  o(c) :- c = count : { same(_, _) }.",
        "oo(x, y) :- e(x, y).  oo(x, z) :- oo(x, y), same(y, z).",
        "p(x, y) :- same(y, x).  same(x, y) :- p(x, y), n(x).  o(x) :- p(x, _).  oo(x, y) :- same(x, y).",
        ".decl other(x: number, y: number) eqrel  .output other, same\n"
        "other(x, y) :- e(x, y).  other(x, z) :- other(x, y), same(y, z).",
    ],
)
def test_readers_of_an_equivalence_that_stays_empty(rules: str, rewrites: bool | list[str]) -> None:
    equivalence = ".decl same(x: number, y: number) eqrel  same(x, y) :- same(y, x), n(x).\n"
    live = Subject(GRAPH + equivalence + rules, rewrites=rewrites).start([("n", (1,), 1)])
    live.tick([("n", (2,), 1), ("e", (1, 2), 1)])
    live.tick([("n", (1,), -1)])


def test_an_output_without_rules_that_fire_is_empty() -> None:
    run = dbsp.compile(GRAPH + "o(x) :- o(x), n(x). oo(x, y) :- e(x, y), x = 1, x = 2.").start({"n": [(1,)]})
    assert run.view("o").rows() == run.view("oo").rows() == []


# --- constants of all uses ----------------------------------------------------------------------


def test_a_constant_shared_by_all_uses_moves_into_a_recursion() -> None:
    text = """
        p(x, y) :- e(x, y).
        p(x, z) :- p(x, y), e(y, z).
        o(y) :- p(7, y).
        oo(x, y) :- e(x, y), !p(7, y).
    """
    assert rewritten(text) == [
        "p(7, y) :- e(7, y).",
        "p(7, z) :- p(7, y), e(y, z).",
        "o(y) :- p(7, y).",
        "oo(x, y) :- e(x, y), !p(7, y).",
    ]
    line = [(n, n + 1) for n in range(40)]
    rows = [dbsp.compile(GRAPH + text, rewrites=on).start({"e": line}).state_rows for on in (True, False)]
    assert rows[0] * 8 < rows[1]


@pytest.mark.parametrize(
    "rules",
    [
        "p(x, y) :- e(x, y). o(y) :- p(7, y). oo(x, y) :- p(x, y), n(x).",  # not all uses have it
        "p(x, y) :- e(x, y). o(y) :- p(7, y). o(y) :- p(8, y).",  # two constants
        "p(x, y) :- e(x, y). p(x, z) :- e(x, y), p(y, z). o(y) :- p(7, y).",  # not passed on
        "p(x, x / y) :- e(x, y). o(y) :- p(7, y). o(y) :- p(7, y), n(y).",  # 1 / 0 must stay an error
        ".output p\np(x, y) :- e(x, y). o(y) :- p(7, y).",
        ".input p\np(x, y) :- e(x, y). o(y) :- p(7, y).",
    ],
)
def test_constants_that_stay_where_they_are(rules: str) -> None:
    assert told(rules, "specialise") == []


def test_a_rule_for_another_constant_is_dead() -> None:
    assert rewritten("p(1, y) :- n(y). p(2, y) :- e(y, _). o(y) :- p(1, y), n(y). o(y) :- p(1, y).") == [
        "p(1, y) :- n(y).", "o(y) :- p(1, y), n(y).", "o(y) :- p(1, y).",
    ]  # fmt: skip


# --- inlining -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "result"),
    [
        # No row has two derivations: join all atoms at once.
        (
            "p(x, y) :- e(x, y), f(y, x). oo(x, z) :- p(x, y), e(y, z), y < z.",
            ["oo(x, z) :- e(x, y), f(y, x), e(y, z), y < z."],
        ),
        # Clashing variables are renamed.
        (
            "p(a, y) :- e(a, x), f(x, y), x = a. oo(x, y) :- p(y, x), n(x).",
            ["oo(x, y) :- e(y, y), f(y, x), n(x)."],
        ),
        # A projection only: every alternative is inlined.
        (
            "r(x) :- e(x, _). r(x) :- e(_, x), f(x, y), !n(y). o(x) :- r(x), x > 3.",
            ["o(x) :- e(x, _), x > 3.", "o(x) :- e(_, x), f(x, y), !n(y), x > 3."],
        ),
        # Head terms become equations.
        ("p(x, 3) :- n(x). oo(x, y) :- p(x, y), e(x, y).", ["oo(x, 3) :- n(x), e(x, 3)."]),
        ("p(x, x) :- n(x). oo(x, y) :- p(x, y), e(x, y).", ["oo(x, x) :- n(x), e(x, x)."]),
        # A chain of relations.
        (
            "p(x, y) :- e(x, y). q(x, y) :- p(y, x), x > 1. oo(x, y) :- q(x, y).",
            ["oo(x, y) :- e(y, x), x > 1."],
        ),
        # Only selections are inlined into a recursion.
        (
            "p(x, y) :- e(x, y). oo(x, y) :- f(x, y). oo(x, z) :- oo(x, y), p(y, z).",
            ["oo(x, y) :- f(x, y).", "oo(x, z) :- oo(x, y), e(y, z)."],
        ),
    ],
)  # fmt: skip
def test_relations_used_once_are_inlined(rules: str, result: list[str]) -> None:
    assert rewritten(rules) == result


@pytest.mark.parametrize(
    "rules",
    [
        "r(x) :- e(x, _). oo(x, y) :- r(x), f(x, y).",  # r(x) has one row, not one for every e(x, _)
        "p(x, y) :- e(x, y). o(x) :- p(x, y), p(y, x).",  # twice
        "p(x, y) :- e(x, y). oo(x, y) :- f(x, y), !p(x, y).",
        "p(x, y) :- e(x, y). oo(x, c) :- n(x), c = count : { p(x, _) }.",
        "p(x, y) :- e(x, z), f(z, y). oo(x, z) :- oo(x, y), p(y, z). oo(x, x) :- n(x).",  # a join
        "p(x, y) :- e(x, y), e(y, x). oo(x, z) :- p(x, y), e(y, z), e(z, x).",  # a cycle
        "p(x, x / 2) :- n(x). oo(x, y) :- p(x, y), e(x, y).",  # an error would occur later
        "p(x, x + 1) :- n(x). oo(x, y) :- p(x, y), e(x, y).",  # and at another place
        "p(x, y) :- e(x, y). oo(x, z) :- p(x, y), f(y, z). .plan 0: (2, 1)",
        ".output p\np(x, y) :- e(x, y). oo(x, z) :- p(x, y), f(y, z).",
        "p(1, 1). p(x, y) :- e(x, y). oo(x, z) :- p(x, y), f(y, z).",
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). oo(x, y) :- p(x, y).",
    ],
)
def test_relations_that_stay(rules: str) -> None:
    assert told(rules) == []


def test_a_record_is_a_simple_term() -> None:
    found = rewritten(
        ".type P = [x: number, y: number]  .decl h(p: P, x: number)  .decl out(p: P)  .output out\n"
        "h([x, y], x) :- e(x, y).  out(p) :- h(p, x), x > 1."
    )
    assert found == ["out(p) :- e(x, y), [x, y] = p, x > 1."]


def test_a_chain_of_many_relations() -> None:
    chain = "".join(f".decl c{i}(x: number)\nc{i}(x) :- c{i - 1}(x), x != {i}.\n" for i in range(1, 400))
    text = f".decl c0(x: number)\n.input c0\n{chain}.decl end(x: number)\n.output end\nend(x) :- c399(x).\n"
    assert len(rewrite(checked_program(text))[0].rules) == 11


# --- aggregates ---------------------------------------------------------------------------------


def test_an_aggregate_over_a_product_does_not_multiply_it_out() -> None:
    """Unused columns are dropped before the join, and equal rows become one row with a weight."""
    text = GRAPH + "oo(x, c) :- n(x), c = count : { e(x, _), f(_, x) }."
    star = [(0, n) for n in range(500)]
    run = dbsp.compile(text).start({"n": [(0,)], "e": star, "f": [(y, x) for x, y in star]})
    assert run.view("oo").rows() == [(0, 250_000)]
    assert run.state_rows < 1_100


# --- shared joins -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "second"),
    [
        # Different names and a different order.
        ("oo(x, z) :- e(x, y), f(y, z), n(z), x < z. oo(i, k) :- n(k), i != 3, f(j, k), e(i, j).",
         "oo(x, z) :- e(x, y), f(y, z), n(z), x != 3."),
        # The order stays when there are other atoms.
        ("oo(x, z) :- e(x, y), f(y, z), n(z). oo(i, l) :- p(k, l), f(j, k), e(i, j).",
         "oo(x, l) :- p(z, l), f(y, z), e(x, y)."),
        # A name that the earlier rule uses for another variable is replaced.
        ("oo(x, z) :- e(x, y), f(y, z), n(z). oo(y, x) :- e(y, w), f(w, z), p(z, x).",
         "oo(x, x1) :- e(x, y), f(y, z), p(z, x1)."),
        # As many atoms as possible, with equal constants and wildcards.
        ("o(x) :- e(x, y), f(y, _), p(y, 3), n(x). o(b) :- n(b), p(a, 3), f(a, _), e(b, a), p(a, b).",
         "o(x) :- n(x), p(y, 3), f(y, _), e(x, y), p(y, x)."),
        # The same relation twice.
        ("oo(x, z) :- e(x, y), e(y, z). oo(a, c) :- e(b, c), e(a, b), n(b).",
         "oo(x, z) :- e(y, z), e(x, y), n(y)."),
    ],
)  # fmt: skip
def test_rules_are_written_as_earlier_ones_are(rules: str, second: str) -> None:
    assert rewritten(rules, "share")[1] == second


@pytest.mark.parametrize(
    "second",
    [
        "oo(a, c) :- f(b, c), e(b, a).",  # another join
        "oo(a, c) :- e(a, b), f(d, c), n(b), n(d).",  # nothing in common
        "oo(a, c + 1) :- e(a, b), f(b, c).",  # an error shows names
        "oo(a, c) :- e(a, b), f(b, c), n(c). .plan 0: (3, 2, 1)",
        "oo(a, a) :- e(a, b), f(b, a).",  # two variables would become one
        "oo(a, c) :- e(a, b), f(b, c), n(7), c = 1 / a.",
    ],
)
def test_rules_that_are_not_alike(second: str) -> None:
    assert told(f"oo(x, z) :- e(x, y), f(y, z). {second}", "share") == []


@pytest.mark.parametrize(
    ("second", "alike"),
    [
        ("e(a, b), f(b, c), e(c, d)", "e(x, y), f(y, z), e(z, w)"),
        ("f(c, d), a < d, f(b, c), e(a, b)", "e(x, y), f(y, z), f(z, w), x < w"),
    ],
)
def test_rules_written_alike_share_their_join(second: str, alike: str) -> None:
    def nodes(rules: str, rewrites: bool = True) -> int:
        return sum(1 for _ in dbsp.compile(GRAPH + rules, rewrites=rewrites).circuit("physical").walk())

    first = "oo(x, w) :- e(x, y), f(y, z), f(z, w). "
    wanted = nodes(f"{first} oo(x, w) :- {alike}.")
    assert nodes(f"{first} oo(a, d) :- {second}.") == wanted
    assert nodes(f"{first} oo(a, d) :- {second}.", rewrites=False) > wanted


# --- all of them --------------------------------------------------------------------------------


def test_passes_are_chosen_by_name() -> None:
    text = GRAPH + "p(x, y) :- e(x, y), x = 1. oo(x, y) :- p(x, y). r(x) :- n(x)."
    assert dbsp.compile(text, rewrites=False).rewrites == ()
    assert [one.name for one in dbsp.compile(text, rewrites=["inline_once"]).rewrites] == ["inline_once"]
    with pytest.raises(
        dbsp.ArgumentError,
        match=r"rewrites= names an unknown rewriting 'inlining'.*\(the rewritings are propagate_constants, ",
    ):
        dbsp.compile(text, rewrites=["inlining"])


def test_explain_lists_the_rewritings() -> None:
    report = dbsp.compile(GRAPH + "p(x, y) :- e(x, y), x = 1. oo(3, y) :- p(_, y).").explain()
    assert report.startswith(
        "rewritten by propagate_constants\n"
        "  rule 1 at <program>:7:1: x = 1\n"
        "rewritten by inline_once\n"
        "  p is inlined into rule 2 at <program>:7:28, the only rule that uses it\n\n"
    )


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(hidden=True), st.data())
def test_random_programs_mean_the_same(text: str, data: st.DataObject) -> None:
    """Compare with the reference, which interprets the checked program."""
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)
