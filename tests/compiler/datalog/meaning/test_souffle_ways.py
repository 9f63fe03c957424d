"""What Soufflé accepts and refuses, beyond the programs of `tests/programs`."""

from __future__ import annotations

import pytest

import dbsp
from dbsp.errors import CompileError
from tests.compiler.support import checked_program

FACT = ".decl a(x: number)\na(1).\n.output a\n"


def first_error(text: str, **options: bool) -> tuple[str, str | None, str | None]:
    """The message, the hint and the code of the only error of a program."""
    with pytest.raises(CompileError) as refused:
        dbsp.compile(text, **options)  # type: ignore[arg-type]
    (found,) = refused.value.diagnostics
    return found.message, found.hint, found.code


# --- legacy ---------------------------------------------------------------------------------------

SUBTYPE = """.type Var <: symbol
.type Heap <: symbol
.decl raw(x: symbol)
.input raw
.decl v(x: Var)
.output v
v(x) :- raw(x).
"""


def test_a_head_needs_a_subtype() -> None:
    assert first_error(SUBTYPE) == (
        "'x' is of type 'symbol', which is not a subtype of 'Var', the type of column 'x' of 'v'",
        "write as(x, Var), or run an old Soufflé program with --legacy",
        "type-mismatch",
    )
    assert dbsp.compile(SUBTYPE.replace("v(x)", "v(as(x, Var))")).warnings == ()


@pytest.mark.parametrize("in_program", [True, False])
def test_a_legacy_program_accepts_every_symbol_in_a_head(in_program: bool) -> None:
    pragma = '.pragma "legacy"\n' if in_program else ""
    program = dbsp.compile(pragma + SUBTYPE, legacy=not in_program)
    assert program.start({"raw": [("a",)]}).view("v").rows() == [("a",)]


def test_a_legacy_program_has_no_warnings_about_old_forms() -> None:
    text = ".type Var\n.decl v(x: Var) output\n"
    assert [warning.code for warning in dbsp.compile(text).warnings] == ["deprecated", "deprecated"]
    assert dbsp.compile(text, legacy=True).warnings == ()


def test_a_legacy_program_still_checks_primitive_types_and_bodies() -> None:
    message, _, _ = first_error(SUBTYPE + ".decl n(x: number)\nn(x) :- raw(x).\n", legacy=True)
    assert message == "type mismatch: 'x' is a number, but column 'x' of 'raw' is a symbol"
    text = SUBTYPE + ".decl h(x: Heap)\n.input h\nv(x) :- v(x), h(x).\n"
    message, _, _ = first_error(text, legacy=True)
    assert message == "'x' cannot be both of type 'Var' and of type 'Heap'"


# --- names of components and instances ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            ".comp c { .decl q(x: number) }\n.init c = c\n",
            "instance 'c' has the name of a component",
            "rename one of them; the component is declared at <program>:4",
        ),
        (
            ".comp a { }\n",
            "component 'a' has the name of a relation",
            "rename one of them; the relation is declared at <program>:1",
        ),
        (
            ".type t <: number\n.comp t { }\n",
            "component 't' has the name of a type",
            "rename one of them; the type is declared at <program>:4",
        ),
        (
            ".comp C { }\n.init a = C\n",
            "instance 'a' has the name of a relation",
            "rename one of them; the relation is declared at <program>:1",
        ),
        (
            ".comp C { }\n.init t = C\n.type t <: symbol\n",
            "instance 't' has the name of a type",
            "rename one of them; the type is declared at <program>:6",
        ),
    ],
)
def test_names_of_components_and_instances_are_their_own(text: str, message: str, hint: str) -> None:
    assert first_error(FACT + text) == (message, hint, "duplicate-definition")


def test_names_within_a_component_may_repeat_others() -> None:
    text = ".comp C { .comp a { .decl r(x: number) } .init C = a }\n.init i = C\n.output i.C.r\n"
    assert set(dbsp.compile(FACT + text).checked.relations) == {"a", "i.C.r"}


# --- components without an instance ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "hint", "code"),
    [
        (
            ".comp E : E { }\n",
            "component 'E' inherits from itself",
            "remove one of these bases: E : E",
            "recursive-component",
        ),
        (
            ".comp F : G { }\n.comp G : F { }\n",
            "component 'F' inherits from itself",
            "remove one of these bases: F : G : F",
            "recursive-component",
        ),
        (
            ".comp Out { .comp F : G { } .comp G : H { } .comp H : G { } }\n",
            "component 'G' inherits from itself",
            "remove one of these bases: G : H : G",
            "recursive-component",
        ),
        (
            ".comp B<X> { }\n.comp D<M> : B<M, M> { }\n",
            "component 'B' has 1 type parameter, but 2 are given",
            "declared at <program>:4",
            "wrong-arity",
        ),
        (
            ".comp B<X, Y> { }\n.comp D<M> { .init b = B<M> }\n",
            "component 'B' has 2 type parameters, but 1 is given",
            "declared at <program>:4",
            "wrong-arity",
        ),
        (
            ".comp Base { }\n.comp D : Bse { }\n",
            "undefined component 'Bse'",
            "did you mean 'Base'?",
            "unknown-component",
        ),
        (
            ".comp Base { }\n.comp D { .init b = Bas }\n",
            "undefined component 'Bas'",
            "did you mean 'Base'?",
            "unknown-component",
        ),
    ],
)
def test_a_component_is_checked_without_an_instance(text: str, message: str, hint: str, code: str) -> None:
    assert first_error(FACT + text) == (message, hint, code)


@pytest.mark.parametrize(
    "text",
    [
        ".comp A<T> { .init x = T }\n",  # T may be any component
        ".comp A<T> : T { .init x = Inner }\n",  # a component of T
        ".comp A { .comp Inner { } }\n.comp B : A { .init x = Inner }\n.comp C : B { .init y = Inner }\n",
        ".comp A { .comp B<T> { .init x = A } }\n",
    ],
)
def test_valid_components_without_an_instance(text: str) -> None:
    dbsp.compile(FACT + text)


def test_endless_instantiation_is_called_that() -> None:
    message = "endless instantiation: component 'A' contains an instance of itself"
    assert first_error(FACT + ".comp A<T> { .init x = T }\n.init i = A<A>\n") == (
        message,
        "type parameter 'T' stands for 'A'",
        "recursive-component",
    )
    assert first_error(FACT + ".comp A { .init x = A }\n.init i = A\n") == (
        message,
        "there are more than 100 levels of instances",
        "recursive-component",
    )


def test_an_instance_within_itself_may_end() -> None:
    text = ".comp P<T, U> { .init x = T<U, U> }\n.comp C<T, U> { .decl r(x: number) }\n.init i = P<P, C>\n"
    assert set(dbsp.compile(FACT + text).checked.relations) == {"a", "i.x.x.r"}


# --- relations and types --------------------------------------------------------------------------

INLINE = """.decl a(x: number)
a(1). a(2).
.decl d(x: number, y: number) inline no_inline
.decl c(x: number, y: number)
.output c
c(x, y) :- a(x), a(y), d(x, y).
"""


def test_no_inline_wins_over_inline() -> None:
    with pytest.raises(CompileError, match="unbound variable 'x' in the head"):
        dbsp.compile(INLINE + "d(x, y) :- x != y.")
    assert dbsp.compile(INLINE.replace(" no_inline", "") + "d(x, y) :- x != y.").warnings == ()
    bound = INLINE + ".output d\nd(x, y) :- a(x), a(y), x != y."
    assert dbsp.compile(bound).start().view("d").rows() == [(1, 2), (2, 1)]


def test_two_fields_of_a_branch_may_have_one_name() -> None:
    text = ".type E = Num { n: number } | Minus { e: E, e: E }\n.decl r(e: E)\n.output r\n"
    program = dbsp.compile(
        text + "r($Minus($Num(1), $Num(2))).\n.decl s(n: number) .output s\ns(y) :- r($Minus(_, $Num(y)))."
    )
    run = program.start()
    assert [str(row[0]) for row in run.view("r").rows()] == ["$Minus($Num(1), $Num(2))"]
    assert run.view("s").rows() == [(2,)]
    with pytest.raises(CompileError, match="field 'e' of 'R' is declared twice"):
        dbsp.compile(".type R = [e: number, e: number]\n.decl r(e: R)")


# --- witnesses ------------------------------------------------------------------------------------

WITNESS = """.decl B(x: number, y: number)
.decl D(x: number, y: number)
.input B, D
.decl F(n: number, witness: number)
.output F
"""
CHANGES = {"B": [(2, 1), (2, 2), (0, 1)], "D": [(1, 1), (1, 2), (5, 3)]}


def test_a_witness_of_an_inner_minimum_reaches_the_rule() -> None:
    rule = "F(n, witness) :- n = count : { B(x, _), x > min y : { D(y, witness) } }."
    program = dbsp.compile(WITNESS + rule)
    run = program.start(CHANGES)
    assert run.view("F").rows() == [(2, 1), (2, 2)]
    run.step({"D": {(1, 1): -1, (1, 2): -1, (-1, 7): 1}})
    assert run.view("F").rows() == [(3, 7)]


def test_a_witness_reaches_the_rule_through_two_aggregates() -> None:
    rule = "F(n, w) :- n = sum x : { B(x, _), 3 = count : { B(_, _), 4 < max y : { D(y, w) } } }."
    assert dbsp.compile(WITNESS + rule).start(CHANGES).view("F").rows() == [(4, 3)]


def test_a_witness_that_depends_on_the_rows_of_an_aggregate_is_unbound() -> None:
    rule = "F(n, w) :- n = count : { B(x, _), x > min y : { D(y, w), y < x } }."
    with pytest.raises(CompileError, match="unbound variable 'w' in the head"):
        checked_program(WITNESS + rule)
    with pytest.raises(CompileError, match="unbound variable 'w' in the head"):
        checked_program(WITNESS + "F(n, w) :- n = count : { B(w, _), w > min y : { D(y, w) } }.")
