"""The passes between the parser and the plan, one section each."""

from __future__ import annotations

import pytest

import dbsp
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.errors import CompileError
from dbsp.expressions.regex import RegexWarning
from tests.compiler.support import checked_program

GRAPH = ".decl edge(x: number, y: number)\n.decl p(x: number, y: number)\n.decl q(x: number)\n"


def rules(text: str) -> list[str]:
    return [show_rule(rule) for rule in checked_program(GRAPH + text).rules]


# --- expand ---------------------------------------------------------------------------------------


def test_several_heads_and_alternatives_are_expanded() -> None:
    assert rules("p(x, y), q(x) :- edge(x, y), (x < 1; y < 1).") == [
        "p(x, y) :- edge(x, y), x < 1.",
        "p(x, y) :- edge(x, y), y < 1.",
        "q(x) :- edge(x, y), x < 1.",
        "q(x) :- edge(x, y), y < 1.",
    ]


def test_negations_move_inwards() -> None:
    assert rules("q(x) :- edge(x, y), !(x < 1, edge(y, x)).") == [
        "q(x) :- edge(x, y), x >= 1.",
        "q(x) :- edge(x, y), !edge(y, x).",
    ]
    assert rules("q(x) :- edge(x, y), !(x = 1; !edge(y, x); x > 3; false).") == [
        "q(x) :- edge(x, y), x != 1, edge(y, x), x <= 3, true.",
    ]


def test_an_expanded_rule_keeps_the_place_of_its_clause() -> None:
    program = checked_program(GRAPH + "q(x) :- edge(x, _); edge(_, x).")
    assert [(rule.number, str(rule.span)) for rule in program.rules] == [(1, "t.dl:4:1"), (2, "t.dl:4:1")]


# --- localise -------------------------------------------------------------------------------------


def aggregate(text: str) -> syntax.Aggregate:
    (rule,) = checked_program(GRAPH + text).rules
    for literal in rule.body:
        if isinstance(literal, syntax.Comparison):
            for side in (literal.left, literal.right):
                if isinstance(side, syntax.Aggregate):
                    return side
    raise AssertionError("no aggregate")


def test_variables_bound_outside_are_injected() -> None:
    one = aggregate("p(x, n) :- edge(x, _), n = count : { edge(x, y), y > 0 }.")
    assert one.injected == ("x",)
    assert syntax.Variable("y#1", one.span, Kind.NUMBER) in {
        term for literal in one.body if isinstance(literal, syntax.Atom) for term in literal.arguments
    }


def test_variables_of_the_target_expression_are_local() -> None:
    one = aggregate("p(x, n) :- edge(x, y), n = sum y : { edge(x, y) }.")
    assert one.injected == ("x",)
    assert one.value == syntax.Variable("y#1", one.span, Kind.NUMBER)


def test_variables_used_in_conditions_only_are_injected() -> None:
    assert aggregate("p(x, n) :- edge(x, y), n = count : { q(z), z < x, z != y }.").injected == ("x", "y")


def test_the_result_of_another_aggregate_may_be_injected() -> None:
    one = aggregate("q(n) :- n = count : { edge(z, _), z < m }, m = max z : { edge(z, _) }.")
    assert one.injected == ("m",)


def test_equal_names_in_two_aggregates_are_two_variables() -> None:
    (rule,) = checked_program(GRAPH + "p(n, m) :- n = count : { edge(z, _) }, m = count : { q(z) }.").rules
    assert show_rule(rule) == "p(n, m) :- n = count : { edge(z, _) }, m = count : { q(z) }."
    assert "z#1" in repr(rule)
    assert "z#2" in repr(rule)


# --- infer ----------------------------------------------------------------------------------------

TYPED = """
.decl n(x: number)
.decl u, u2(x: unsigned)
.decl f(x: float)
.decl s(x: symbol)
"""


def head_kind(text: str) -> Kind:
    (rule,) = checked_program(TYPED + text).rules
    return rule.head.arguments[0].kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("n(x + 1) :- n(x).", Kind.NUMBER),
        ("u(x + 1) :- u(x).", Kind.UNSIGNED),
        ("f(x + 1) :- f(x).", Kind.FLOAT),
        ("f(y) :- y = 2 * x, f(x).", Kind.FLOAT),
        ("s(x + y) :- s(x), s(y).", Kind.SYMBOL),
        ("f(m) :- m = mean x : { n(x) }.", Kind.FLOAT),
        ("u(m) :- m = sum x : { u2(x) }.", Kind.UNSIGNED),
        ("n(m) :- m = count : { s(_) }.", Kind.NUMBER),
        ("n(to_number(x)) :- s(x).", Kind.NUMBER),
        ("s(to_string(x)) :- u(x).", Kind.SYMBOL),
        ("n(strlen(cat(x, x))) :- s(x).", Kind.NUMBER),
        ("s(max(x, y)) :- s(x), s(y).", Kind.SYMBOL),
        ("n(ord(x)) :- f(x).", Kind.NUMBER),
        ("f(to_float(1)) :- true.", Kind.FLOAT),
    ],
)
def test_kinds(text: str, kind: Kind) -> None:
    assert head_kind(text) is kind


def test_a_literal_takes_the_kind_of_its_place() -> None:
    program = checked_program(TYPED + 'n(1). u(1). f(1). f(1.5). u(2u). s("a").')
    assert [fact.row for fact in program.facts] == [(1,), (1,), (1.0,), (1.5,), (2,), ("a",)]
    assert [type(fact.row[0]) for fact in program.facts] == [int, int, float, float, int, str]


def test_an_open_literal_becomes_a_number() -> None:
    (rule,) = checked_program(TYPED + "s(to_string(1)) :- n(_).").rules
    (call,) = rule.head.arguments
    assert isinstance(call, syntax.Call)
    assert call.arguments[0].kind is Kind.NUMBER


def test_subtypes_flow_upwards() -> None:
    types = ".type City <: symbol .type Capital <: City .type Place = City | Capital .type Alias = City\n"
    relations = ".decl city(c: City) .decl capital(c: Capital) .decl place(p: Place) .decl s(x: symbol)\n"
    program = checked_program(
        types
        + relations
        + """.decl alias(x: Alias)
        city(x) :- capital(x). s(x) :- city(x). place(x) :- capital(x). capital(x) :- city(x), capital(x).
        alias(x) :- city(x). city(x) :- alias(x). city(cat(x, "!")) :- s(x). capital("Rome").
        capital(x) :- s(x), capital(y), x = y.
        """
    )
    assert len(program.rules) == 8


def test_attributes_have_their_declared_type_and_kind() -> None:
    program = checked_program(".type City <: symbol\n.decl city(c: City, since: unsigned)\n")
    assert [(a.name, a.type_name, a.kind) for a in program.relations["city"].attributes] == [
        ("c", "City", Kind.SYMBOL),
        ("since", "unsigned", Kind.UNSIGNED),
    ]


# --- stratify -------------------------------------------------------------------------------------


def test_strata_follow_the_dependencies() -> None:
    program = checked_program(
        """
        .decl node(x: number)  .decl edge(x: number, y: number)
        .decl unreached(x: number)  .decl reach(x: number)
        .decl even(x: number)  .decl odd(x: number)  .decl n(c: number)
        n(c) :- c = count : { unreached(_) }.
        unreached(x) :- node(x), !reach(x).
        reach(1).
        reach(y) :- reach(x), edge(x, y).
        even(x) :- odd(y), edge(y, x).
        odd(x) :- even(y), edge(y, x), !unreached(x).
        even(0).
        """
    )
    assert [(stratum.relations, stratum.recursive) for stratum in program.strata] == [
        (("reach",), True),
        (("unreached",), False),
        (("even", "odd"), True),
        (("n",), False),
    ]
    assert program.inputs == ("node", "edge", "reach", "even")


def test_negation_of_a_lower_stratum_inside_recursion_is_fine() -> None:
    (stratum,) = checked_program(
        GRAPH + "p(x, y) :- edge(x, y). p(x, z) :- p(x, y), edge(y, z), !q(z)."
    ).strata
    assert stratum.recursive


def test_inputs_are_relations_with_input_facts_or_no_rules() -> None:
    program = checked_program(
        """
        .decl a(x: number) .decl b(x: number) .decl c(x: number) .decl d(x: number)
        .input a
        .output c, d
        .printsize d
        a(x) :- b(x).
        c(x) :- a(x).
        d(x) :- c(x).
        d(7).
        """
    )
    assert program.inputs == ("a", "b", "d")
    assert (program.outputs, program.sizes) == (("c", "d"), ("d",))


def test_a_fact_that_must_be_computed_is_a_rule() -> None:
    program = checked_program(GRAPH + "q(1 + 2). q(-3). q(count : { edge(_, _) }).")
    assert [fact.row for fact in program.facts] == [(-3,)]
    assert [show_rule(rule) for rule in program.rules] == ["q(1 + 2).", "q(count : { edge(_, _) })."]


# --- warnings -------------------------------------------------------------------------------------


def test_warnings() -> None:
    program = checked_program(GRAPH + "q(x) :- edge(x, typo).\nq(x) :- edge(x, _meant).\n")
    assert [str(warning) for warning in program.warnings] == [
        "t.dl:4:1: warning: the program has rules but no output [no-output]\n"
        "    q(x) :- edge(x, typo).\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^\n"
        "    hint: add an .output or a .printsize directive",
        "t.dl:4:17: warning: variable 'typo' is used only once [unused-variable]\n"
        "    q(x) :- edge(x, typo).\n"
        "                    ^^^^\n"
        "    hint: write '_' if that is intended",
    ]


# --- limits ---------------------------------------------------------------------------------------


def test_large_programs_compile_in_reasonable_time() -> None:
    chain = "\n".join(f".decl r{i}(x: number)\nr{i}(x) :- r{i - 1}(x)." for i in range(1, 1_500))
    program = checked_program(".decl r0(x: number)\n" + chain)
    assert len(program.strata) == 1_499


def test_unions_of_unions_do_not_explode() -> None:
    text = ".type A0 <: symbol\n.type B0 <: symbol\n"
    for i in range(1, 60):
        text += f".type A{i} = A{i - 1} | B{i - 1}\n.type B{i} = B{i - 1} | A{i - 1}\n"
    text += ".decl a(x: A59)\n.decl b(x: B59)\na(x) :- b(x).\n"
    assert len(checked_program(text).rules) == 1


@pytest.mark.parametrize("form", ["<:", "="])
def test_long_chains_of_types(form: str) -> None:
    chain = [f".type T{i} {form} T{i - 1}\n" for i in range(1, 3_000)]
    text = "".join(reversed(chain)) + ".type T0 <: symbol\n.decl r(x: T2999)\n.decl s(x: T0)\ns(x) :- r(x).\n"
    assert checked_program(text).relations["r"].attributes[0].kind is Kind.SYMBOL


def test_many_equations() -> None:
    body = ", ".join(f"x{i} = x{i + 1} + 1" for i in range(150))
    (rule,) = checked_program(GRAPH + f"q(x0) :- {body}, q(x150).").rules
    assert len(rule.body) == 151


def test_only_very_deep_terms_are_an_error() -> None:
    assert len(checked_program(GRAPH + "q(" + " + ".join(["1"] * 100) + ").").rules) == 1
    with pytest.raises(CompileError, match="nested more than 120 levels"):
        checked_program(GRAPH + "q(" + " + ".join(["1"] * 5_000) + ").")
    with pytest.raises(CompileError, match="nested more than 120 levels"):
        checked_program(GRAPH + "q(x) :- q(x), " + "!(" * 5_000 + "q(x)" + ")" * 5_000 + ".")
    assert len(checked_program(GRAPH + f"q({'-' * 115}x) :- q(x).").rules) == 1
    with pytest.raises(CompileError, match="nested more than 120 levels"):
        checked_program(GRAPH + f"q({'-' * 116}x) :- q(x).")


def test_facts_are_the_same_with_and_without_the_shortcut() -> None:
    """Plain facts are read without the grammar; a comment or a bracket makes no difference."""
    text = TYPED + 'n({0}1). u(2). f(3). f(4.5). s("a\\tb"). s("{0}"). n(-5). n(0x10). u(7u).'
    short = checked_program(text.format(""))
    long = checked_program(
        text.format("").replace("(1)", "((1))").replace('("a', '(("a').replace('b")', 'b"))')
    )
    assert [fact.row for fact in short.facts] == [fact.row for fact in long.facts]
    assert [fact.row for fact in short.facts] == [
        (1,), (2,), (3.0,), (4.5,), ("a\tb",), ("",), (-5,), (16,), (7,)
    ]  # fmt: skip


def test_inlined_relations_leave_no_trace() -> None:
    text = """
        .decl a, p(x: number)
        .decl r, s(x: number) inline
        .input a
        .output p
        s(x) :- x > 1.
        r(x) :- s(x), x < 5.
        r(7).
        p(x) :- a(x), r(x).
        p(x) :- a(x), !r(x), r(x + 1).
    """
    program = checked_program(text)
    assert set(program.relations) == {"a", "p"}
    assert len(program.rules) == 2 + 2 * 2  # !(a, b) is two rules, and r(x + 1) two
    assert program.warnings == ()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            "r(x, 5) :- a(x, _).",
            "5:6: error: type mismatch: '5' is a number, but column 's' of 'r' is a symbol",
        ),
        ("r(1, 5).", "5:6: error: type mismatch: '5' is a number, but column 's' of 'r' is a symbol"),
        (
            "r(x, s) :- a(x, s), s < 5.",
            "5:25: error: type mismatch: '5' is a number, but must be a symbol because it is compared with "
            "'s'",
        ),
        (
            "r(x, s) :- a(s, x).",
            "5:14: error: type mismatch: 's' is a symbol, but column 'x' of 'a' is a number",
        ),
        (
            "r(x, s) :- q(x, s).\n.decl q(x: number, s: symbol) inline\nq(x, 3) :- a(x, _).",
            "7:6: error: type mismatch: '3' is a number, but column 's' of 'q' is a symbol",
        ),
        (
            ".type Id <: number\n.decl i(x: Id) inline\ni(x) :- a(x, _).",
            "7:3: error: 'x' is of type 'number', which is not a subtype of 'Id', the type of column 'x' of "
            "'i'",
        ),
    ],
)
@pytest.mark.parametrize(
    "use", ["p(x) :- a(x, _).", "p(x) :- a(x, _), r(x, _).", 'p(x) :- r(x, _), !r(x, "b").']
)
def test_rules_of_inlined_relations_are_checked_by_themselves(rules: str, message: str, use: str) -> None:
    text = (
        ".decl a(x: number, s: symbol)\n.decl p(x: number)\n.decl r(x: number, s: symbol) inline\n.input a\n"
    )
    with pytest.raises(CompileError) as refused:
        checked_program(f"{text}{rules}\n{use}\n.output p")
    assert [line for line in str(refused.value).split("\n") if "error:" in line] == [
        f"t.dl:{message} [type-mismatch]"
    ]


def test_errors_of_uses_of_inlined_relations_name_the_column() -> None:
    text = ".decl a(x: number, s: symbol)\n.decl r(x: number, s: symbol) inline\n.decl p(x: number)\n"
    for use, message in (
        (
            "p(x) :- r(x, 5).",
            "5:14: error: type mismatch: '5' is a number, but column 's' of 'r' is a symbol",
        ),
        (
            "p(1) :- a(_, s), r(s, _).",
            "5:20: error: type mismatch: 's' is a symbol, but column 'x' of 'r' is a",
        ),
    ):
        with pytest.raises(CompileError) as refused:
            checked_program(f"{text}r(x, s) :- a(x, s).\n{use}")
        assert f"t.dl:{message}" in str(refused.value)


def test_inlining_too_many_rules_is_an_error() -> None:
    declared = "".join(
        f".decl r{n}(x: number) inline\nr{n}(x) :- r{n - 1}(x), r{n - 1}(x).\n" for n in range(1, 40)
    )
    text = f".decl r0(x: number)\n.input r0\n.decl p(x: number)\n.output p\n{declared}p(x) :- r39(x).\n"
    with pytest.raises(CompileError, match=r"more than 10,000 rules of inline relations"):
        checked_program(text)


def test_components_become_plain_clauses() -> None:
    text = """
        .decl r(x: number)
        .comp A<T> {
            .type t = T
            .decl s(x: t)
            .comp In { r(1). s(x), r(x) :- q(x). }
            .decl q(x: T)
            .init i = In
            s(x) :- x = sum y : { q(y) }, q(x).
        }
        .comp B<U> : A<U> { .decl only(x: U) inline  only(x) :- q(x).  s(x) :- only(x), !r(x). }
        .init b = B<number>
        .output r, b.s
    """
    program = checked_program(text)
    assert list(program.relations) == ["r", "b.s", "b.q"]
    assert program.relations["b.s"].attributes[0].type_name == "b.t"
    assert [(fact.relation, fact.row) for fact in program.facts] == [("r", (1,))]
    assert [rule.head.relation for rule in program.rules] == ["b.s", "r", "b.s", "b.s"]
    assert program.inputs == ("r", "b.q")


def test_a_base_within_reach_of_a_parameter() -> None:
    text = """
        .comp Num { .decl e(x: number) e(1). }
        .comp Reach<G> : G { .decl n(x: number) n(x) :- e(x). .output n }
        .init r = Reach<Num>
    """
    assert checked_program(text).outputs == ("r.n",)


def test_an_invalid_pattern_is_a_warning() -> None:
    """As in Souffle, the program runs; neither `match` nor its negation holds."""
    text = ".decl a(s: symbol)\n.input a\n.decl b, c(s: symbol)\n.output b, c\n"
    program = dbsp.compile(text + 'b(s) :- a(s), match("x[", s).\nc(s) :- a(s), !match("x[", s).\n')
    message = "\"x[\" is not a regular expression: a '[' is never closed [invalid-pattern]"
    assert [str(one).split("\n")[0] for one in program.warnings] == [
        f"<program>:5:21: warning: {message}",
        f"<program>:6:22: warning: {message}",
    ]
    with pytest.warns(RegexWarning):
        run = program.start({"a": [("x",), ("x[",)]})
    assert run.view("b").rows() == run.view("c").rows() == []
