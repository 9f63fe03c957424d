"""Draft literals as literals of checked rules: what the engine evaluates, and what Python does."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind
from dbsp.compiler.datomic.meaning.base_relations import BaseRelation
from dbsp.compiler.datomic.meaning.checked_rules import (
    NIL,
    CheckedQuery,
    assignment,
    check_rules,
    condition,
    storable,
)
from dbsp.compiler.datomic.meaning.draft_rules import (
    QUERY,
    DraftAtom,
    DraftCall,
    DraftLiteral,
    DraftQuery,
    DraftRule,
    DraftSeries,
)
from dbsp.diagnostics import ProgramSources, SourceSpan
from dbsp.edn.edn_values import EdnList, EdnMap
from dbsp.errors import CompileError

SPAN = SourceSpan("query", 1, 1, 1, 2)
NUMBER, FLOAT, SYMBOL = Kind.NUMBER, Kind.FLOAT, Kind.SYMBOL


def variables(*kinds: AnyKind) -> tuple[syntax.Variable, ...]:
    return tuple(syntax.Variable(f"x{at}", SPAN, kind) for at, kind in enumerate(kinds))


def call(function: str, count: int, result: str | None = None, **options: Any) -> DraftCall:
    python = options.pop("python", lambda *given: given)
    return DraftCall(function, python, tuple(f"x{at}" for at in range(count)), result, SPAN, **options)


def text(literals: Any) -> list[str]:
    """Return native comparisons as `op left right`, others as `functor`."""
    found = []
    for literal in literals:
        assert isinstance(literal, syntax.Comparison)
        terms = [getattr(term, "name", None) or repr(term) for term in (literal.left, literal.right)]
        called = [term for term in (literal.left, literal.right) if isinstance(term, syntax.Call)]
        if any(term.functor is not None for term in called):
            found.append("functor")
        elif called:
            found.append("arithmetic")
        else:
            found.append(f"{literal.operator} {terms[0]} {terms[1]}")
    return found


@pytest.mark.parametrize(
    ("function", "kinds", "expected"),
    [
        ("<", (NUMBER, NUMBER), ["< x0 x1"]),
        (">=", (FLOAT, FLOAT), [">= x0 x1"]),
        ("<", (SYMBOL, SYMBOL), ["< x0 x1"]),
        ("<", (NUMBER, NUMBER, NUMBER), ["< x0 x1", "< x1 x2"]),
        ("<", (NUMBER, FLOAT), ["functor"]),
        ("<", (VALUE, VALUE), ["functor"]),
        ("<", (NUMBER,), ["functor"]),
        ("=", (NUMBER, NUMBER), ["= x0 x1"]),
        ("==", (FLOAT, FLOAT), ["= x0 x1"]),
        ("=", (SYMBOL, SYMBOL, SYMBOL), ["= x0 x1", "= x1 x2"]),
        ("=", (VALUE, VALUE), ["functor"]),
        ("=", (NUMBER, SYMBOL), ["functor"]),
        ("!=", (NUMBER, NUMBER), ["!= x0 x1"]),
        ("not=", (SYMBOL, SYMBOL), ["!= x0 x1"]),
        ("!=", (NUMBER, NUMBER, NUMBER), ["functor"]),
        ("even?", (NUMBER,), ["functor"]),
    ],
)
def test_conditions(function: str, kinds: tuple[AnyKind, ...], expected: list[str]) -> None:
    arguments = variables(*kinds)
    assert text(condition(call(function, len(kinds)), arguments)) == expected
    assert text(condition(call(function, len(kinds), native=False), arguments)) == ["functor"]


def functor(literals: Any) -> Any:
    (literal, *_) = literals
    for term in (literal.left, literal.right):
        if isinstance(term, syntax.Call):
            return term.functor
    raise AssertionError("no functor")


@pytest.mark.parametrize(
    ("value", "holds"), [(None, 0), (False, 0), (True, 1), (0, 1), ("", 1), ((), 1), (3.5, 1)]
)
def test_a_predicate_holds_unless_it_returns_nil_or_false(value: Any, holds: int) -> None:
    found = functor(condition(call("p", 1, python=lambda given: value), variables(NUMBER)))
    assert found.function(1) == holds
    assert found.result == NUMBER


def test_python_gets_none_for_nil() -> None:
    seen: list[Any] = []

    def note(*given: Any) -> bool:
        seen.extend(given)
        return True

    functor(condition(call("p", 2, python=note), variables(VALUE, NUMBER))).function(NIL, 1)
    functor(assignment(call("f", 2, "y", python=note), *split(VALUE, VALUE, VALUE))).function(NIL, (None, 1))
    assert seen == [None, 1, None, (None, 1)]
    assert repr(NIL) == "nil"


def split(result: AnyKind, *kinds: AnyKind) -> tuple[syntax.Variable, tuple[syntax.Variable, ...]]:
    return syntax.Variable("y", SPAN, result), variables(*kinds)


@pytest.mark.parametrize(
    ("function", "result", "kinds", "expected"),
    [
        ("+", NUMBER, (NUMBER, NUMBER), ["arithmetic"]),
        ("*", FLOAT, (FLOAT, FLOAT, FLOAT), ["arithmetic"]),
        ("-", NUMBER, (NUMBER, NUMBER), ["arithmetic"]),
        ("+", VALUE, (NUMBER, NUMBER), ["functor"]),
        ("+", VALUE, (NUMBER, FLOAT), ["functor"]),
        ("-", VALUE, (NUMBER,), ["functor"]),
        ("count", NUMBER, (SYMBOL,), ["functor"]),
        ("identity", SYMBOL, (SYMBOL,), ["= y x0"]),
    ],
)
def test_assignments(function: str, result: AnyKind, kinds: tuple[AnyKind, ...], expected: list[str]) -> None:
    found = call(function, len(kinds), "y")
    assert text(assignment(found, *split(result, *kinds))) == expected
    other = call(function, len(kinds), "y", native=False)
    assert text(assignment(other, *split(result, *kinds))) == ["functor"]


def test_a_difference_of_three_is_computed_from_left_to_right() -> None:
    (literal,) = assignment(call("-", 3, "y"), *split(NUMBER, NUMBER, NUMBER, NUMBER))
    assert isinstance(literal, syntax.Comparison)
    outer = literal.right
    assert isinstance(outer, syntax.Call)
    inner, last = outer.arguments
    assert isinstance(inner, syntax.Call)
    assert isinstance(last, syntax.Variable)
    assert (last.name, [getattr(term, "name", "") for term in inner.arguments]) == ("x2", ["x0", "x1"])


def test_a_result_that_is_nil_gives_no_row() -> None:
    options: dict[str, Any] = {"python": lambda given: None, "may_be_nil": True}
    value, some = assignment(call("f", 1, "y", **options), *split(VALUE, NUMBER))
    assert functor([value]).function(1) is NIL
    assert [functor([some]).function(given) for given in (NIL, None, 0, "")] == [0, 1, 1, 1]
    assert len(list(assignment(call("f", 1, "y", **options), *split(NUMBER, NUMBER)))) == 1
    assert len(list(assignment(call("f", 1, "y"), *split(VALUE, NUMBER)))) == 1


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, NIL),
        (1, 1),
        ([1, [2, None]], (1, (2, None))),
        ({1, 2}, frozenset({1, 2})),
        ({"a": [1]}, EdnMap({"a": (1,)})),
        (([1],), ((1,),)),
        (EdnList([[1]]), EdnList([(1,)])),
    ],
)
def test_values_are_stored_in_a_hashable_form(value: Any, stored: Any) -> None:
    found = storable(value)
    assert (found, type(found)) == (stored, type(stored))
    hash(found)


# --- rules ----------------------------------------------------------------------------------------


def checked(*rules: DraftRule, arity: dict[str, int], **inputs: list[AnyKind | None]) -> CheckedQuery:
    draft = DraftQuery(list(rules), arity=arity)
    return check_rules(draft, {QUERY: [NUMBER, SYMBOL], **inputs}, ("r",), ProgramSources({"query": "?"}))


def rule(head: str, arguments: str, *body: DraftLiteral, **parameters: int) -> DraftRule:
    return DraftRule(head, tuple(arguments.split()), list(body), SPAN, parameters)


def atom(relation: str, *arguments: str, negated: bool = False) -> DraftAtom:
    return DraftAtom(relation, arguments, SPAN, negated=negated)


def datoms(kind: AnyKind, *arguments: str, attribute: int | None = 1) -> DraftAtom:
    columns = ("e", "v") if attribute is not None else ("e", "a", "v")
    base = BaseRelation("$", attribute, columns, kind=kind, label=":a")
    return DraftAtom(base.name, arguments, SPAN, base)


def names(literal: Any) -> list[str]:
    assert isinstance(literal, syntax.Atom)
    return [term.name for term in literal.arguments if isinstance(term, syntax.Variable)]


def test_every_rule_reads_the_row_of_the_query() -> None:
    found = checked(
        rule("r", "x y", datoms(FLOAT, "x", "_"), y=1),
        rule("s", "x", atom("r", "x", "y")),
        rule("s", "x", datoms(FLOAT, "x", "_"), x=0),
        arity={"r": 2, "s": 1},
    )
    guards = [each.body[0] for each in found.program.rules]
    assert [getattr(guard, "relation", None) for guard in guards] == [QUERY] * 3
    assert [names(guard) for guard in guards] == [["query#0", "y"], ["query#0", "query#1"], ["x", "query#1"]]


def test_a_column_of_another_kind_is_boxed() -> None:
    found = checked(
        rule("r", "x", datoms(FLOAT, "e", "x"), datoms(SYMBOL, "e", "x")),
        rule("s", "x", datoms(FLOAT, "e", "x")),
        rule("t", "x", datoms(VALUE, "e", "x", attribute=1)),
        arity={"r": 1, "s": 1, "t": 1},
    )
    boxed = {name: sorted(base.boxed) for name, base in found.bases.items()}
    assert boxed == {"$ :a e v*": ["v"], "$ :a e v": []}
    assert found.program.relations["$ :a e v*"].attributes[1].kind == VALUE


def test_an_entity_that_is_compared_with_a_value_is_boxed() -> None:
    found = checked(rule("r", "x", datoms(SYMBOL, "x", "x")), arity={"r": 1})
    assert list(found.bases) == ["$ :a e* v*"]


def test_values_of_all_attributes_are_boxed() -> None:
    found = checked(rule("r", "x", datoms(VALUE, "e", "a", "x", attribute=None)), arity={"r": 1})
    assert [sorted(base.boxed) for base in found.bases.values()] == [["v"]]


def test_a_variable_twice_in_an_atom_is_a_comparison() -> None:
    found = checked(rule("r", "x", datoms(NUMBER, "x", "x")), arity={"r": 1})
    _, comparison, literal = found.program.rules[0].body
    assert isinstance(comparison, syntax.Comparison)
    assert comparison.operator == "="
    first, second = names(literal)
    assert first == "x"
    assert {getattr(comparison.left, "name", ""), getattr(comparison.right, "name", "")} == {first, second}


def test_negated_atoms_and_series() -> None:
    found = checked(
        rule("s", "x", datoms(NUMBER, "x", "_")),
        rule("r", "x", datoms(NUMBER, "x", "n"), DraftSeries("at", "n", SPAN), atom("s", "at", negated=True)),
        arity={"r": 1, "s": 1},
    )
    _, _, series, negation = found.program.rules[1].body
    assert isinstance(series, syntax.Comparison)
    assert isinstance(series.right, syntax.Call)
    assert (series.right.function, len(series.right.arguments)) == ("range", 2)
    assert isinstance(negation, syntax.Negation)


def test_rules_that_depend_on_their_own_absence_are_refused() -> None:
    with pytest.raises(CompileError, match="cannot be stratified"):
        checked(
            rule("r", "x", datoms(NUMBER, "x", "_"), atom("s", "x", negated=True)),
            rule("s", "x", atom("r", "x")),
            arity={"r": 1, "s": 1},
        )
