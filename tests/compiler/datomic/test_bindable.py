"""What clauses bind and what they need from outside."""

from __future__ import annotations

import pytest

from dbsp.compiler.datomic.meaning.bindable import Bindings, binds, shared_variables, variables_of
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.compiler.datomic.tree import query_tree as tree


def clause(text: str) -> tree.Clause:
    (found,) = parse_query(f"[:find ?x :in $ % :where {text}]").where
    return found


def bindings(rules: str = "") -> Bindings:
    found: dict[str, list[tree.RuleDefinition]] = {}
    for definition in parse_rules(f"[{rules}]").definitions if rules else ():
        found.setdefault(definition.name, []).append(definition)
    return Bindings(found)


@pytest.mark.parametrize(
    ("text", "required", "bound"),
    [
        ("[?x :a ?y ?t]", "", "?t ?x ?y"),
        ("[_ :a 1]", "", ""),
        ("[(< ?x 1 ?y)]", "?x ?y", ""),
        ("[(+ ?x 1) ?y]", "?x", "?y"),
        ("[(f ?x) [?a [?b ...] _]]", "?x", "?a ?b"),
        ("[(f ?x) [[?a _ ?b]]]", "?x", "?a ?b"),
        ("(not [?x :a ?y])", "", ""),
        ("(not [?x :a ?y] [(< ?y ?z)])", "?z", ""),
        ("(not [(< ?y ?z)])", "?y ?z", ""),
        ("(not [(+ ?y 1) ?z] [?x :a ?z])", "?y", ""),
        ("(not [?x :a] (not [?x :b ?own]))", "", ""),
        ("(not [?x :a] (not [?x :b ?own] [(< ?own ?y)]))", "?y", ""),
        ("(not-join [?x ?y] [?x :a ?own] [?y :a ?own])", "?x ?y", ""),
        ("(or [?x :a ?y] [?y :b ?x])", "", "?x ?y"),
        ("(or [?x :a ?y] (and [?x :b] [(< ?x ?y)]))", "?y", "?x ?y"),
        ("(or [?x :a] (not [?x :b]))", "?x", "?x"),
        ("(or-join [?x] [?x :a ?y] [?x :b])", "", "?x"),
        ("(or-join [?x ?y] [?x :a ?y] [?x :b])", "?y", "?x ?y"),
        ("(or-join [[?y] ?x] [?x :a ?y] [?x :b])", "?y", "?x ?y"),
        ("(or-join [?x ?y] [(+ ?x 1) ?y] [(+ ?y 1) ?x])", "?x ?y", "?x ?y"),
        ("(or-join [?x ?y] (and [(+ ?z 1) ?y] [(inc ?x) ?z]) [?x :a ?y])", "?x", "?x ?y"),
    ],
)
def test_clauses(text: str, required: str, bound: str) -> None:
    found = clause(text)
    assert sorted(bindings().required(found)) == required.split()
    assert sorted({*binds(found)}) == bound.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(not [?x :a ?y] (not [?x :b ?z]))", "?x ?y ?z"),
        ("(not-join [?x] [?x :a ?y])", "?x"),
        ("(or-join [[?y] ?x] [?x :a ?y ?t])", "?x ?y"),
        ("(or (and [?x :a] [?y :b]) (and [?x :b] [?y :a]))", "?x ?y"),
        ("(r ?x 1 _ ?y)", "?x ?y"),
        ("[(f ?x ?y) ?z]", "?x ?y ?z"),
    ],
)
def test_variables(text: str, expected: str) -> None:
    assert sorted({*variables_of(clause(text))}) == expected.split()


def test_the_shared_variables_of_an_or_come_once_and_in_order() -> None:
    found = clause("(or (and [?y :a ?x] [?x :b ?y]) [?x :a ?y])")
    assert isinstance(found, tree.Or)
    assert list(shared_variables(found)) == ["?y", "?x"]


@pytest.mark.parametrize(
    ("rules", "needed"),
    [
        ("[(r ?x ?y) [?x :a ?y]]", []),
        ("[(r ?x ?y) [?x :a] [(< ?x ?y)]]", [1]),
        ("[(r [?x] ?y) [?x :a ?y]]", [0]),
        ("[(r ?x ?y) [?x :a ?y]] [(r ?x ?y) [?x :b]  [(< ?x ?y)]]", [1]),
        ("[(r ?x ?y) (s ?y ?x)] [(s ?x ?y) [?y :a] [(< ?x ?y)]]", [1]),
        ("[(r ?x ?y) (s ?x ?y)] [(s ?x ?y) (r ?y ?x)] [(s ?x ?y) [?x :a] [(< ?x ?y)]]", [0, 1]),
        ("[(r ?x ?y) [?x :a] (not [?y :b])]", [1]),
        ("[(r ?x ?y) [?y :a] [(< ?x ?y)]] [(r ?x ?y) (r ?x ?y) (not [(< ?y 2)])]", [0]),
        ("[(r ?x ?y) [?x :a ?y] (not (s ?x ?y))] [(s ?x ?y) [(< ?x ?y)]]", []),
    ],
)
def test_rules(rules: str, needed: list[int]) -> None:
    assert sorted(bindings(rules).needed_of_rule("r")) == needed


def test_a_call_requires_what_its_rule_needs() -> None:
    rules = "[(r ?x ?y) [?x :a] [(< ?x ?y)]]"
    assert sorted(bindings(rules).required(clause("(r ?p ?q)"))) == ["?q"]
    assert sorted(bindings(rules).required(clause("(r ?p 3)"))) == []


@pytest.mark.parametrize("negation", ["(not {})", "(or (not {}) [(= ?x 1)])", "(not-join [?x] {})"])
def test_deep_nesting_takes_no_exponential_time(negation: str) -> None:
    text = "[(= ?x 3)]"
    for _ in range(40):
        text = negation.format(text)
    assert bindings().required(clause(text)) == {"?x"}
