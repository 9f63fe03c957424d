"""Queries with `:rules` of their own, and with variables that have no question marks."""

from __future__ import annotations

import pytest

from dbsp.compiler.datomic.meaning.query_checks import check_query
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.errors import CompileError

RULES = "[[(reach ?a ?b) [?a :to ?b]] [(reach ?a ?b) [?a :to ?c] (reach ?c ?b)]]"


@pytest.mark.parametrize(
    ("plain", "marked"),
    [
        ("{:find [p] :where [[p :name n]]}", "{:find [?p] :where [[?p :name ?n]]}"),
        ("[:find [p ...] :where [p :name _]]", "[:find [?p ...] :where [?p :name _]]"),
        ("[:find p . :in $ [n ...] :where [p :name n]]", "[:find ?p . :in $ [?n ...] :where [?p :name ?n]]"),
        (
            "[:find p (max n) :with m :where [(inc n) m] (not [p :is n]) ($2 rule p)]",
            "[:find ?p (max ?n) :with ?m :where [(inc ?n) ?m] (not [?p :is ?n]) ($2 rule ?p)]",
        ),
        (
            "[:find p (pull p [*]) :where (or-join [p] (and [p :a b] [b :c]) [p :d])]",
            "[:find ?p (pull ?p [*]) :where (or-join [?p] (and [?p :a ?b] [?b :c]) [?p :d])]",
        ),
        ("{:find [p] :where [p :name n]}", "{:find [?p] :where [[?p :name ?n]]}"),
        (
            "{:find [p] :where [(r p)] :rules [[(r x) [x :a]]]}",
            "{:find [?p] :where [(r ?p)] :rules [[(r ?x) [?x :a]]]}",
        ),
        ("{:find [p] :where [[p :a ?p]]}", "{:find [?p] :where [[?p :a ?p]]}"),
    ],
)
def test_plain_names_are_variables(plain: str, marked: str) -> None:
    assert parse_query(plain) == parse_query(marked)


def test_an_unbound_plain_variable() -> None:
    with pytest.raises(CompileError, match=r"\?q is not bound"):
        check_query(parse_query("{:find [q] :where [[p :name n]]}"))


def test_rules_of_the_query() -> None:
    query = parse_query(f"{{:find [?a ?b] :where [(reach ?a ?b)] :rules {RULES}}}")
    assert query.rules == parse_rules(RULES)
    check_query(query)


def test_an_error_in_the_rules_of_the_query() -> None:
    with pytest.raises(CompileError, match=r"query:1:37: .*expected a rule.*\n.*\n +\^"):
        parse_query("{:find [?a] :where [(r ?a)] :rules [[r ?a]]}")


def test_rules_of_the_query_and_of_the_caller() -> None:
    with pytest.raises(CompileError, match="the query has :rules, and % in :in"):
        parse_query(f"{{:find [?a] :in [$ %] :where [(reach ?a ?a)] :rules {RULES}}}")
