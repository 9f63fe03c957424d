"""Traversal of terms and formulas, including a kind of term that no pass knows."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field, replace

import pytest

from dbsp.compiler.datalog.meaning.dependencies import uses
from dbsp.compiler.datalog.meaning.show import show_literal, show_rule, show_term
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import UNTYPED, AnyKind, Kind
from dbsp.compiler.datalog.tree.traversal import (
    children,
    find,
    free_variables,
    map_children,
    rename,
    substitute,
    variables,
    walk,
)
from dbsp.diagnostics import SourceSpan
from tests.compiler.support import checked_program, parsed_items

AT = SourceSpan("t.dl", 1)
DECLARATIONS = ".decl r(x: number, y: number)\n.decl p(x: number)\n.output p\n"


def rule_of(text: str):
    (rule,) = checked_program(DECLARATIONS + text).rules
    return rule


def variable(name: str) -> syntax.Variable:
    return syntax.Variable(name, AT, Kind.NUMBER)


@dataclass(frozen=True, slots=True)
class Choose(syntax.Node):
    """A kind of term that only this test knows: `condition ? first : others...`"""

    condition: syntax.Literal
    first: syntax.Term
    others: tuple[syntax.Term, ...]
    label: str
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED


@pytest.fixture
def choose() -> Choose:
    condition = syntax.Comparison("<", variable("a"), variable("b"), AT)
    return Choose(condition, variable("c"), (variable("a"), syntax.Wildcard(AT)), "x", AT)


def test_a_new_kind_of_term_needs_no_change_of_the_traversal(choose: Choose) -> None:
    call = syntax.Call("f", (choose,), AT)  # type: ignore[arg-type]
    assert children(choose) == [choose.condition, choose.first, *choose.others]
    assert variables(call) == {"a", "b", "c"}
    renamed = rename(call, {"a": "z"})
    assert [one.name for one in find(renamed, syntax.Variable)] == ["z", "b", "c", "z"]
    three = syntax.Constant(3, AT, Kind.NUMBER)
    assert [one.value for one in find(substitute(call, {"c": three}), syntax.Constant)] == [3]


def test_nodes_are_in_the_order_of_the_text() -> None:
    rule = rule_of("p(x + y) :- r(x, _), !r(x, 1), y = sum z : { r(z, w), w < x }.")
    names = [one.name.split("#")[0] for one in find(rule, syntax.Variable)]
    assert names == ["x", "y", "x", "x", "y", "z", "z", "w", "w", "x"]
    outside = [one.name for one in find(rule, syntax.Variable, into_aggregates=False)]
    assert outside == ["x", "y", "x", "x", "y"]
    assert [atom.relation for atom in find(rule, syntax.Atom)] == ["p", "r", "r", "r"]
    assert walk(rule)[0] is rule
    assert walk(rule) == walk(rule)
    (aggregate,) = find(rule, syntax.Aggregate)
    assert walk(aggregate, into_aggregates=False) == [aggregate]
    assert walk(rule.head, into_aggregates=False) == walk(rule.head)


def test_what_was_found_about_a_node_is_not_kept_by_its_copies() -> None:
    rule = rule_of("p(x) :- r(x, y), p(y).")
    assert variables(rule) == {"x", "y"}
    assert [atom.relation for atom in uses(rule)] == ["r", "p"]
    shorter = replace(rule, body=rule.body[:1], head=rule.body[1])
    assert variables(shorter) == {"x", "y"}
    assert [atom.relation for atom in uses(shorter)] == ["r"]
    assert len(walk(shorter)) == 1 + 3 + 2
    for copied in (pickle.loads(pickle.dumps(rule)), copy.copy(rule), copy.deepcopy(rule)):
        assert copied == rule
        assert hash(copied) == hash(rule)
        assert not hasattr(copied, "_descendants")
        assert [atom.relation for atom in uses(copied)] == ["r", "p"]


def test_injected_variables_of_an_aggregate_are_free() -> None:
    rule = rule_of("p(y) :- r(x, _), y = sum z : { r(z, w), w < x, z != x }.")
    shared = [one.name for literal in rule.body for one in free_variables(literal)]
    assert shared == ["x", "y", "x"]
    (aggregate,) = find(rename(rule, {"x": "k"}), syntax.Aggregate)
    assert aggregate.injected == ("k",)
    one = syntax.Constant(1, AT, Kind.NUMBER)
    (aggregate,) = find(substitute(rule, {"x": one}), syntax.Aggregate)
    assert aggregate.injected == ()
    assert "w < 1" in show_term(aggregate)


def test_an_unchanged_node_is_the_same_object() -> None:
    rule = rule_of("p(y) :- r(x, _), y = sum z : { r(z, w), w < x }.")
    assert rename(rule, {"other": "k"}) is rule
    assert map_children(rule, lambda part: part) is rule
    assert show_rule(rename(rule, {"x": "k"})) == "p(y) :- r(k, _), y = sum z : { r(z, w), w < k }."


def test_parsed_and_checked_programs_have_the_same_nodes() -> None:
    text = "p(x) :- r(x, y), y = count : { r(_, _) }, x != 2."
    (clause,) = parsed_items(text)
    rule = rule_of(text)
    parsed_body = clause.body.parts  # type: ignore[union-attr]
    assert [type(one) for one in parsed_body] == [type(one) for one in rule.body]
    assert list(map(show_literal, parsed_body)) == list(map(show_literal, rule.body))
    terms = (syntax.Variable, syntax.Wildcard, syntax.Call, syntax.Aggregate)
    assert all(one.kind == UNTYPED for one in walk(clause) if isinstance(one, terms))
    assert all(one.kind is Kind.NUMBER for one in walk(rule) if isinstance(one, terms))
    assert not list(find(rule, syntax.NumberLiteral))
