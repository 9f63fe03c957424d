"""The kinds of the variables of draft rules."""

from __future__ import annotations

import pytest

from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind
from dbsp.compiler.datomic.meaning.base_relations import BaseRelation
from dbsp.compiler.datomic.meaning.draft_rules import (
    QUERY,
    DraftAtom,
    DraftCall,
    DraftLiteral,
    DraftQuery,
    DraftRule,
    DraftSeries,
)
from dbsp.compiler.datomic.meaning.value_kinds import ValueKinds, arithmetic
from dbsp.diagnostics import SourceSpan

SPAN = SourceSpan("query", 1, 1, 1, 2)
NUMBER, FLOAT, SYMBOL = Kind.NUMBER, Kind.FLOAT, Kind.SYMBOL


def atom(relation: str, *arguments: str) -> DraftAtom:
    return DraftAtom(relation, arguments, SPAN)


def datoms(kind: AnyKind, *arguments: str, columns: tuple[str, ...] = ("e", "v")) -> DraftAtom:
    base = BaseRelation("$", 1, columns, kind=kind, label=":a")
    return DraftAtom(base.name, arguments, SPAN, base)


def call(
    function: str, result: str | None, *arguments: str, native: bool = True, gives: str = "value"
) -> DraftCall:
    return DraftCall(function, lambda *given: given, arguments, result, SPAN, native, gives)


def rule(head: str, arguments: str, *body: DraftLiteral, **parameters: int) -> DraftRule:
    return DraftRule(head, tuple(arguments.split()), list(body), SPAN, parameters)


def kinds(*rules: DraftRule, **inputs: list[AnyKind | None]) -> ValueKinds:
    return ValueKinds(DraftQuery(list(rules)), {QUERY: [], **inputs})


def test_a_variable_has_the_kind_of_the_columns_that_bind_it() -> None:
    found = kinds(rule("r", "x y", datoms(FLOAT, "x", "y"), datoms(SYMBOL, "x", "z")))
    assert [found.of_variable(0, name) for name in "xyz"] == [NUMBER, FLOAT, SYMBOL]
    assert [found.of_column("r", at) for at in (0, 1)] == [NUMBER, FLOAT]


@pytest.mark.parametrize("columns", [("e", "v"), ("v", "e")])
def test_columns_that_differ_make_a_value(columns: tuple[str, ...]) -> None:
    found = kinds(rule("r", "x", datoms(FLOAT, "x", "x", columns=columns)))
    assert found.of_variable(0, "x") == found.of_column("r", 0) == VALUE


def test_the_columns_of_a_datom() -> None:
    columns = ("e", "a", "v", "tx", "added")
    found = kinds(rule("r", "e", datoms(SYMBOL, *columns, columns=columns)))
    assert [found.of_variable(0, name) for name in columns] == [NUMBER, NUMBER, SYMBOL, NUMBER, NUMBER]


def test_rules_share_the_kinds_of_their_relations() -> None:
    found = kinds(
        rule("r", "x", atom("s", "x")),
        rule("s", "y", datoms(FLOAT, "_", "y")),
        rule("t", "z", atom("r", "z")),
    )
    assert {found.of_variable(0, "x"), found.of_variable(2, "z"), found.of_column("t", 0)} == {FLOAT}
    # The same name in another rule is another variable.
    assert found.of_variable(1, "x") == VALUE


def test_a_conflict_in_one_rule_reaches_all_rules() -> None:
    found = kinds(
        rule("r", "x", datoms(FLOAT, "_", "x")),
        rule("r", "x", datoms(SYMBOL, "_", "x")),
        rule("s", "y", atom("r", "y"), datoms(NUMBER, "y", "n")),
    )
    assert found.of_variable(0, "x") == found.of_variable(1, "x") == found.of_variable(2, "y") == VALUE
    assert found.of_variable(2, "n") == NUMBER


def test_inputs_have_the_kinds_of_the_arguments() -> None:
    found = kinds(
        rule("r", "a b c", atom("in1", "a", "b", "c"), datoms(FLOAT, "_", "b"), datoms(FLOAT, "_", "c")),
        in1=[SYMBOL, NUMBER, None],
    )
    assert [found.of_column("in1", at) for at in range(3)] == [SYMBOL, VALUE, FLOAT]


def test_parameters_are_columns_of_the_query() -> None:
    found = ValueKinds(
        DraftQuery(
            [rule("r", "x", datoms(FLOAT, "_", "x"), x=1), rule("s", "y", datoms(SYMBOL, "_", "y"), y=0)]
        ),
        {QUERY: [None, FLOAT]},
    )
    assert [found.of_column(QUERY, at) for at in (0, 1)] == [SYMBOL, FLOAT]
    found = ValueKinds(DraftQuery([rule("r", "x", datoms(FLOAT, "_", "x"), x=0)]), {QUERY: [NUMBER]})
    assert found.of_variable(0, "x") == found.of_column(QUERY, 0) == VALUE


def test_nothing_known_is_a_value() -> None:
    assert kinds(rule("r", "x", atom("s", "x"))).of_column("r", 0) == VALUE
    assert kinds(rule("r", "x"), in0=[None]).of_column("in0", 0) == VALUE


@pytest.mark.parametrize(
    ("gives", "kind"), [("integer", NUMBER), ("string", SYMBOL), ("value", VALUE), ("number", VALUE)]
)
def test_results_of_functions(gives: str, kind: AnyKind) -> None:
    found = kinds(rule("r", "y", datoms(FLOAT, "_", "x"), call("f", "y", "x", gives=gives)))
    assert found.of_variable(0, "y") == kind


def test_a_result_joins_its_class() -> None:
    body = [datoms(FLOAT, "_", "x"), call("f", "y", "x", gives="integer"), datoms(SYMBOL, "_", "y")]
    assert kinds(rule("r", "y", *body)).of_variable(0, "y") == VALUE
    assert kinds(rule("r", "y", *body[:2], datoms(NUMBER, "y", "_"))).of_variable(0, "y") == NUMBER


def test_identity_shares_the_kind_in_both_directions() -> None:
    found = kinds(rule("r", "y", datoms(FLOAT, "_", "x"), call("identity", "y", "x")))
    assert found.of_variable(0, "y") == FLOAT
    found = kinds(
        rule("r", "y", datoms(FLOAT, "_", "x"), call("identity", "y", "x"), datoms(SYMBOL, "_", "y"))
    )
    assert found.of_variable(0, "x") == VALUE
    found = kinds(rule("r", "y", datoms(FLOAT, "_", "x"), call("identity", "y", "x", native=False)))
    assert found.of_variable(0, "y") == VALUE


@pytest.mark.parametrize("function", ["+", "-", "*"])
def test_arithmetic_has_the_kind_of_its_arguments(function: str) -> None:
    for kind, expected in [(NUMBER, NUMBER), (FLOAT, FLOAT), (SYMBOL, VALUE)]:
        body = [datoms(kind, "_", "x"), datoms(kind, "_", "y"), call(function, "z", "x", "y")]
        assert kinds(rule("r", "z", *body)).of_variable(0, "z") == expected
    mixed = [datoms(FLOAT, "_", "x"), datoms(NUMBER, "_", "y"), call(function, "z", "x", "y")]
    assert kinds(rule("r", "z", *mixed)).of_variable(0, "z") == VALUE
    single = [datoms(NUMBER, "_", "x"), call(function, "z", "x")]
    assert kinds(rule("r", "z", *single)).of_variable(0, "z") == VALUE


def test_arithmetic_on_results_in_any_order() -> None:
    body = [
        call("+", "c", "b", "b"),
        call("+", "b", "a", "a"),
        datoms(NUMBER, "_", "a"),
        call("*", "d", "c", "c"),
    ]
    found = kinds(rule("r", "d", *body))
    assert {found.of_variable(0, name) for name in "abcd"} == {NUMBER}
    found = kinds(rule("r", "d", *body, datoms(FLOAT, "_", "b")))
    assert [found.of_variable(0, name) for name in "abcd"] == [NUMBER, VALUE, VALUE, VALUE]


def test_a_counter_is_a_number() -> None:
    found = kinds(
        rule("r", "x", atom(QUERY, "one"), call("identity", "x", "one"), one=0),
        rule("r", "x", atom("r", "y"), call("+", "x", "y", "one"), one=0),
        **{QUERY: [NUMBER]},
    )
    assert found.of_column("r", 0) == NUMBER


def test_arithmetic_without_known_arguments_is_a_value() -> None:
    found = kinds(rule("r", "z", atom("s", "x"), call("+", "z", "x", "x")))
    assert found.of_variable(0, "z") == VALUE


def test_a_series_is_a_number() -> None:
    found = kinds(rule("r", "at", datoms(FLOAT, "_", "n"), DraftSeries("at", "n", SPAN)))
    assert found.of_variable(0, "at") == NUMBER


def test_arithmetic_kinds() -> None:
    assert arithmetic("+", [NUMBER, NUMBER, NUMBER]) == NUMBER
    assert arithmetic("+", [FLOAT, FLOAT]) == FLOAT
    assert arithmetic("+", [NUMBER, NUMBER, FLOAT]) is None
    assert arithmetic("+", [SYMBOL, SYMBOL]) is None
    assert arithmetic("-", [NUMBER]) is None
    assert arithmetic("+", [VALUE, VALUE]) is None
