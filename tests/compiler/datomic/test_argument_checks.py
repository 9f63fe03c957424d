"""The arguments of a query: those that match `:in`, and the rows that bindings make of them."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.compiler.datomic.meaning.argument_checks import check_arguments, input_text
from dbsp.compiler.datomic.meaning.binding_values import binding_rows, binding_text
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.compiler.datomic.tree.query_tree import Binding, BindingInput
from dbsp.edn.edn_values import EdnMap, Keyword
from dbsp.errors import EvaluationError
from tests.compiler.datomic.mistakes import Mistake, mistakes

DATABASE = object()
CODE = "query-arguments"


def binding_of(text: str) -> Binding:
    given = parse_query(f"[:find ?a :in {text}]").inputs[0]
    assert isinstance(given, BindingInput)
    return given.binding


@pytest.mark.parametrize(
    ("text", "value", "rows"),
    [
        ("?a", 3, [(3,)]),
        ("?a", [1, 2], [([1, 2],)]),
        ("?a", None, []),
        ("_", 3, [()]),
        ("[?a ?b]", (1, 2), [(1, 2)]),
        ("[?a _ ?b]", [1, 2, 3], [(1, 3)]),
        ("[?a]", (1, 2), [(1,)]),
        ("[?a ?b]", (1, None), []),
        ("[?a ?b]", None, []),
        ("[?a ...]", [1, 2], [(1,), (2,)]),
        ("[?a ...]", [1, None], [(1,)]),
        ("[?a ...]", None, []),
        ("[?a ...]", {3, 1, 2}, [(1,), (2,), (3,)]),
        ("[?a ...]", {"b", 1}, [(1,), ("b",)]),
        ("[?a ...]", range(2), [(0,), (1,)]),
        ("[?a ...]", EdnMap({Keyword("k"): 1}), [((Keyword("k"), 1),)]),
        ("[[?a ?b]]", [(1, 2), (3, 4)], [(1, 2), (3, 4)]),
        ("[[?a ?b]]", {Keyword("k"): 1}, [(Keyword("k"), 1)]),
        ("[[?a [?b ...]]]", [(1, [2, 3]), (4, [])], [(1, 2), (1, 3)]),
        ("[[?a ...] [?b ...]]", ([1, 2], [3, 4]), [(1, 3), (1, 4), (2, 3), (2, 4)]),
        ("[[?a _] ...]", [(1, 2)], [(1,)]),
        ("[[_ _]]", [(1, 2)], [()]),
    ],
)
def test_rows(text: str, value: Any, rows: list[tuple[Any, ...]]) -> None:
    binding = binding_of(text)
    assert list(binding_rows(binding, value)) == rows
    assert binding_text(binding) == text


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("[?a ?b]", 3, "the binding [?a ?b] expects a tuple of 2, got 3"),
        ("[?a ?b]", "xy", "the binding [?a ?b] expects a tuple of 2, got 'xy'"),
        ("[?a ?b]", (1,), "the binding [?a ?b] expects a tuple of at least 2 values, got (1,)"),
        ("[?a ...]", "xy", "the binding [?a ...] expects a collection, got 'xy'"),
        ("[[?a ?b]]", [(1, 2), 3], "the binding [[?a ?b]] expects a tuple of 2, got 3"),
        ("[[?a [?b ...]]]", [(1, 2)], "the binding [?b ...] expects a collection, got 2"),
    ],
)
def test_values_of_another_form(text: str, value: Any, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        list(binding_rows(binding_of(text), value))
    assert (caught.value.code, caught.value.message) == ("binding-mismatch", message)


@pytest.mark.parametrize(
    ("inputs", "arguments"),
    [
        ("$", [DATABASE]),
        ("$ $2", [DATABASE, [(1, 2)]]),
        ("$ %", [DATABASE, "[[(r ?x) [?x]]]"]),
        ("$ %", [DATABASE, parse_rules("[[(r ?x) [?x]]]")]),
        ("$ ?a", [DATABASE, 3]),
        ("$ ?a", [DATABASE, ["a", "list"]]),
        ("$ [?a ...]", [DATABASE, []]),
        ("$ p", [DATABASE, ["*"]]),
        ("$ p", [DATABASE, "[*]"]),
        ("?f", [len]),
    ],
)
def test_arguments(inputs: str, arguments: list[Any]) -> None:
    calls = "[(?f 1)]" if "?f" in inputs else ""
    check_arguments(parse_query(f"[:find ?a :in {inputs} :where {calls}]"), arguments)
    check_arguments(parse_query("[:find ?e :where [?e]]"), [DATABASE])


@pytest.mark.parametrize(
    ("inputs", "arguments", "mistake"),
    [
        (
            "$ ?a ?b",
            [DATABASE],
            Mistake(CODE, "expected 3 arguments ($ ?a ?b), got 1", "?a", "the argument for ?a is missing"),
        ),
        (
            "$ [[?a _]] [?b ?c] % p",
            [DATABASE],
            Mistake(
                CODE,
                "expected 5 arguments ($ [[?a _]] [?b ?c] % p), got 1",
                "[[?a _]]",
                "the argument for [[?a _]] is missing",
            ),
        ),
        (
            "$",
            [DATABASE, 3],
            Mistake(
                CODE,
                "expected 1 argument ($), got 2",
                "?a (?agg ?a)",
                "remove 3, or add an input to :in",
            ),
        ),
        (
            "$",
            [None],
            Mistake(CODE, "expected a database or a collection of tuples as $, got None", "$"),
        ),
        (
            "$",
            ["db"],
            Mistake(CODE, "expected a database or a collection of tuples as $, got 'db'", "$"),
        ),
        ("%", [3], Mistake(CODE, "expected rules as %, got 3", "%")),
        ("p", [3], Mistake(CODE, "expected a pull pattern as p, got 3", "p")),
        ("?a", [None], Mistake(CODE, "expected a value of ?a, got None, which nothing is equal to", "?a")),
        (
            "[[_ ?a]]",
            [[(None, 1), (1, None)]],
            Mistake(CODE, "expected a value of ?a, got None, which nothing is equal to", "[[_ ?a]]"),
        ),
        (
            "[?a ...]",
            [None],
            Mistake(CODE, "the binding [?a ...] expects a collection, got None", "[?a ...]"),
        ),
        (
            "?a",
            [len],
            Mistake(CODE, "the query does not call ?a, which is the function <built-in function len>", "?a"),
        ),
        ("?f", [3], Mistake(CODE, "expected a Python function as ?f, got 3", "?f")),
        ("?agg", [3], Mistake(CODE, "expected a Python function as ?agg, got 3", "?agg")),
        ("[?a ...]", [3], Mistake(CODE, "the binding [?a ...] expects a collection, got 3", "[?a ...]")),
    ],
)
def test_wrong_arguments(inputs: str, arguments: list[Any], mistake: Mistake) -> None:
    query = parse_query(f"[:find ?a (?agg ?a) :in {inputs} :where [(?f 1)]]")
    assert mistakes(lambda: check_arguments(query, arguments)) == [mistake]


def test_a_query_without_in_has_one_argument() -> None:
    query = parse_query("[:find ?e :where [?e]]")
    expected = Mistake(CODE, "expected 1 argument ($), got 0", "?e", "the argument for $ is missing")
    assert mistakes(lambda: check_arguments(query, [])) == [expected]


def test_texts_of_inputs() -> None:
    text = "$ $2 % ?x _ [?a ...] [[?b ?c]] [?d _] pat"
    assert " ".join(map(input_text, parse_query(f"[:find ?x :in {text}]").inputs)) == text
