"""Text to syntax tree: forms, precedence, positions, literals."""

from __future__ import annotations

import pytest

from dbsp.compiler.datalog.meaning.show import show_literal, show_term
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.errors import CompileError
from tests.compiler.support import parsed_items


def body_of(text: str) -> syntax.Formula:
    (clause,) = parsed_items(f"h(x) :- {text}.")
    assert isinstance(clause, parsed.Clause)
    assert clause.body is not None
    return clause.body


def term_of(text: str) -> syntax.Term:
    body = body_of(f"x = {text}")
    assert isinstance(body, syntax.Comparison)
    return body.right


def test_declarations_and_directives() -> None:
    items = parsed_items(
        """
        .type Person <: symbol   .type Old = Person   .type Any = Person | Old   .type Plain
        .decl r, s(x: number, p: Person) btree
        .decl flag()
        .input r, s(IO=file, filename="r.txt", headers=true, delimiter="\\t")
        .output r
        .printsize s
        """
    )
    types, relations, directives = items[:4], items[4:6], items[6:]
    assert [
        (t.form, [p.text for p in t.parents]) for t in types if isinstance(t, parsed.TypeDeclaration)
    ] == [
        ("subtype", ["symbol"]),
        ("alias", ["Person"]),
        ("union", ["Person", "Old"]),
        ("subtype", ["symbol"]),
    ]
    two, none = relations
    assert isinstance(two, parsed.RelationDeclaration)
    assert isinstance(none, parsed.RelationDeclaration)
    assert [name.text for name in two.names] == ["r", "s"]
    assert [(a.name, a.type_name) for a in two.attributes] == [("x", "number"), ("p", "Person")]
    assert [name.text for name in two.qualifiers] == ["btree"]
    assert none.attributes == ()
    read, write, size = directives
    assert isinstance(read, parsed.Directive)
    assert isinstance(write, parsed.Directive)
    assert isinstance(size, parsed.Directive)
    assert (read.kind, [name.text for name in read.relations]) == ("input", ["r", "s"])
    assert read.parameters == (
        ("IO", "file"),
        ("filename", "r.txt"),
        ("headers", "true"),
        ("delimiter", "\t"),
    )
    assert (write.kind, write.parameters, size.kind) == ("output", (), "printsize")


def test_comments_and_positions() -> None:
    (clause,) = parsed_items("// one\n/* two\n three */  p(x,\n  1) :- q(x). /* no end of it ** */ // last")
    assert isinstance(clause, parsed.Clause)
    assert (clause.span.line, clause.span.column, clause.span.end_line, clause.span.end_column) == (
        3,
        12,
        4,
        14,
    )
    one = clause.heads[0].arguments[1]
    assert (one.span.line, one.span.column, one.span.end_column) == (4, 3, 4)


def test_marks_of_the_preprocessor_are_skipped() -> None:
    assert len(parsed_items('# 1 "prog.dl"\n#line 7\np(1).\n')) == 1


def test_white_space_does_not_change_the_tree() -> None:
    assert parsed_items("p(x):-q(x),x<1.") == parsed_items("p( x ) :-\n  q(x), // why\n  x < 1 .")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1 + 2 * 3", "1 + 2 * 3"),
        ("(1 + 2) * 3", "(1 + 2) * 3"),
        ("1 - 2 - 3", "1 - 2 - 3"),
        ("1 - (2 - 3)", "1 - (2 - 3)"),
        ("2 ^ 3 ^ 2", "2 ^ 3 ^ 2"),
        ("(2 ^ 3) ^ 2", "(2 ^ 3) ^ 2"),
        ("-x ^ 2", "-x ^ 2"),
        ("(-x) ^ 2", "(-x) ^ 2"),
        ("-x * 3", "-x * 3"),
        ("2 ^ -x", "2 ^ (-x)"),
        ("1 - -2", "1 - -2"),
        ("a % b / c", "a % b / c"),
        ("min(a, b, c) + max(1, 2)", "min(a, b, c) + max(1, 2)"),
        ('cat("a", to_string(1))', 'cat("a", to_string(1))'),
        ("count : { q(_, y), y > 1 }", "count : { q(_, y), y > 1 }"),
        ("sum y * 2 : q(y)", "sum y * 2 : { q(y) }"),
        ("max (y) : { q(y) }", "max y : { q(y) }"),
        ("1 + count : { q(y) }", "1 + count : { q(y) }"),
    ],
)
def test_terms(written: str, meant: str) -> None:
    assert show_term(term_of(written)) == meant
    assert term_of(show_term(term_of(written))) == term_of(written)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0x1F", 31),
        ("0b101", 5),
        ("007", 7),
        ("-5", -5),
        ("- 5", -5),
        ("-9223372036854775808", -(2**63)),
        ("1.2.3.4", 0x01020304),
    ],
)
def test_numbers(written: str, value: int) -> None:
    assert term_of(written) == syntax.NumberLiteral(value, False, term_of(written).span)


def test_other_literals() -> None:
    span = term_of("1").span
    assert term_of("12u") == syntax.NumberLiteral(12, True, span)
    assert term_of("0x10u") == syntax.NumberLiteral(16, True, span)
    assert term_of("1.5e3") == syntax.Constant(1500.0, span, Kind.FLOAT)
    assert term_of("-0.5") == syntax.Constant(-0.5, span, Kind.FLOAT)
    assert term_of(r'"a\tb\"c\\ // d"') == syntax.Constant('a\tb"c\\ // d', span, Kind.SYMBOL)
    assert term_of('"Grüße"') == syntax.Constant("Grüße", span, Kind.SYMBOL)


def test_a_rule_may_end_in_a_number() -> None:
    assert body_of("y = 1") == body_of("y = 1")
    assert len(parsed_items("p(1). p(2). q(x) :- x = 1. q(x) :- x = 1.5.")) == 4


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a(x), b(x); c(x)", "((a(x), b(x)); c(x))"),
        ("a(x), (b(x); c(x))", "(a(x), (b(x); c(x)))"),
        ("!a(x), !(b(x), x > 1)", "(!(a(x)), !((b(x), x > 1)))"),
        ("(x + 1) < 3, true, !false", "(x + 1 < 3, true, !(false))"),
        ("((a(x)))", "a(x)"),
    ],
)
def test_bodies(written: str, meant: str) -> None:
    assert show_literal(body_of(written)) == meant


def test_items_read_before_an_error_are_not_reported_again() -> None:
    with pytest.raises(CompileError) as refused:
        parsed_items("p(1).\np(2\n.decl p(x: number)\np(3).\nq(4,).\n")
    assert [d.span.line for d in refused.value.diagnostics] == [3, 5]


@pytest.mark.parametrize("text", ["", "   \n\t", "// nothing", "/* nothing */", "\ufeff"])
def test_empty_programs(text: str) -> None:
    assert parsed_items(text) == ()


@pytest.mark.parametrize(
    ("text", "value"), [("127.0.0.1", 2130706433), ("128.0.0.1", -2147483647), ("255.255.255.255", -1)]
)
def test_an_address_is_a_number_of_32_bits_with_a_sign(text: str, value: int) -> None:
    term = term_of(text)
    assert isinstance(term, syntax.NumberLiteral)
    assert (term.value, term.unsigned) == (value, False)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a lor b lxor c land d", "a lor (b lxor (c land d))"),
        ("a bor b bxor c band d", "a bor (b bxor (c band d))"),
        ("a band b bshl c + d * e", "a band (b bshl (c + (d * e)))"),
        ("a bshl b bshr c bshru d", "((a bshl b) bshr c) bshru d"),
        ("bnot a ^ b + lnot - c", "(bnot (a ^ b)) + (lnot (- c))"),
        ("a land b band c", "a land (b band c)"),
    ],
)
def test_bit_operators_bind_as_in_souffle(text: str, grouped: str) -> None:
    assert term_of(text) == term_of(grouped)
    assert term_of(show_term(term_of(text))) == term_of(text)
    assert "(" not in show_term(term_of(grouped))
