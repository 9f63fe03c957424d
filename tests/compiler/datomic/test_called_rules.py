"""Which rules call which, and which calls are replaced by clauses."""

from __future__ import annotations

import pytest

from dbsp.compiler.datomic.meaning.called_rules import MAX_INLINED, inlined_rules, rule_components
from dbsp.compiler.datomic.meaning.clause_variables import definitions_of
from dbsp.compiler.datomic.text.rule_parser import parse_rules


def components(rules: str) -> dict[str, frozenset[str]]:
    return rule_components(definitions_of(parse_rules(f"[{rules}]").definitions))


def inlined(rules: str) -> str:
    definitions = definitions_of(parse_rules(f"[{rules}]").definitions)
    return " ".join(sorted(inlined_rules(definitions, rule_components(definitions))))


def test_a_recursion_has_the_rules_that_call_each_other() -> None:
    found = components(
        "[(a ?x) (b ?x)] [(b ?x) [?x :f] (not (c ?x))] [(c ?x) (or [?x :g] (d ?x))] [(d ?x) (c ?x)]"
        "[(e ?x) (e ?x)]"
    )
    assert found == {
        "a": frozenset(),
        "b": frozenset(),
        "c": {"c", "d"},
        "d": {"c", "d"},
        "e": {"e"},
    }


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("[(a ?x) [?x :f]]", "a"),
        ("[(a ?x) [?x :f]] [(a ?x) [?x :g]]", ""),
        ("[(a ?x) [?x :f] (a ?x)]", ""),
        ("[(b ?x) (a ?x)] [(a ?x) [?x :f]] [(a ?x) [?x :g]]", "b"),
        ("[(b ?x) (or (b ?x) [?x :f])]", ""),
    ],
)
def test_inlined(rules: str, expected: str) -> None:
    assert inlined(rules) == expected


def test_the_clauses_of_inlined_rules_count() -> None:
    # r1 has 2 clauses, r2 4, r3 8, ...
    rules = "[(r1 ?x) [?x :f] [?x :g]]" + "".join(
        f"[(r{n} ?x) (r{n - 1} ?x) (r{n - 1} ?x)]" for n in range(2, 8)
    )
    assert 2**5 <= MAX_INLINED < 2**6
    assert inlined(rules) == "r1 r2 r3 r4 r5 r7"  # r7 has two calls of r6
    clauses = "[?x :f] " * MAX_INLINED
    assert inlined(f"[(a ?x) {clauses}]") == "a"
    assert inlined(f"[(a ?x) {clauses} [?x :g]]") == ""
