"""Proofs and refusals of rows of queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dbsp.compiler.why.proof import Proof
from dbsp.compiler.why.refusal import LiteralStatus, Refusal
from dbsp.datomic import Database, connect, why
from dbsp.datomic.compiled_query import query_cache
from dbsp.datomic.query import bind_query
from dbsp.edn import Keyword, read
from dbsp.errors import InputError

from .live_cases import CASES, Twin, engine_inputs
from .oracle import Source, rows
from .random_queries import RULES, SCHEMA, TUPLES, queries, text_of, transactions
from .results import as_set, value_key

FAMILY = """[
 [(ancestor ?a ?b) [?b :parent ?a]]
 [(ancestor ?a ?b) [?b :parent ?p] (ancestor ?a ?p)]
 [(childless ?p) [?p :name _] (not [_ :parent ?p])]
]"""


def database() -> Database:
    """Ada (1) is the parent of Bo (2), Bo of Cy (3) and Di (4), Cy of Ed (5)."""
    conn = connect(
        schema={
            ":name": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
            ":age": {":db/valueType": ":db.type/long"},
            ":parent": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
            ":any": {":db/cardinality": ":db.cardinality/many"},
        }
    )
    conn.transact(
        """[{:db/id 1 :name "Ada" :age 90 :any [1 1.0 true]}
            {:db/id 2 :name "Bo" :age 60 :parent 1}
            {:db/id 3 :name "Cy" :age 30 :parent 2}
            {:db/id 4 :name "Di" :parent 2}
            {:db/id 5 :name "Ed" :age 3 :parent 3 :db/ident :person/ed}]"""
    )
    return conn.db()


def shown(found: Proof | Refusal) -> list[str]:
    """The lines of an explanation without the line of the query."""
    return [line.strip() for line in str(found).split("\n") if "query:1:1:" not in line]


def statuses(found: Proof | Refusal, attempt: int = 0, match: int = 0) -> list[LiteralStatus]:
    assert isinstance(found, Refusal), str(found)
    return list(found.attempts[attempt].matches[match].parts)


def failing(found: Proof | Refusal) -> list[str]:
    return [f"{part.text}   {part.detail}" for part in statuses(found) if part.status == "fails"]


def leaves(proof: Proof) -> list[tuple[Any, ...]]:
    return [step.key[1] for step in proof.steps.values() if (step.leaf or "").startswith("datom")]


# --- proofs ------------------------------------------------------------------------------------


def test_a_row_is_proved_by_datoms_and_conditions() -> None:
    text = "[:find ?n :where\n [?p :name ?n]\n [?p :age ?a]\n [(> ?a 18)]]"
    proof = why(text, database(), row=("Bo",))
    assert str(proof).split("\n") == [
        '["Bo"]',
        "│  query:1:1: [:find ?n :where [?p :name ?n] [?p :age ?a] [(> ?a 18)]]",
        '├─ [2 :name "Bo"]   datom by query:2:2',
        "├─ [2 :age 60]   datom by query:3:2",
        "└─ [(> 60 18)]   by query:4:2",
    ]
    assert isinstance(proof, Proof)
    assert proof.complete
    assert proof.height == 1


def test_a_recursive_rule_has_a_shortest_proof() -> None:
    text = "[:find ?a ?b :in $ % :where (ancestor ?a ?b)]"
    proof = why(text, database(), FAMILY, row=(1, 5))
    assert isinstance(proof, Proof)
    assert proof.height == 4
    assert shown(proof) == [
        "[1 5]",
        "└─ (ancestor 1 5)",
        "│  rules:3:2: [(ancestor ?a ?b) [?b :parent ?p] (ancestor ?a ?p)]",
        "├─ [5 :parent 3]   datom by rules:3:20",
        "└─ (ancestor 1 3)",
        "│  rules:3:2: [(ancestor ?a ?b) [?b :parent ?p] (ancestor ?a ?p)]",
        "├─ [3 :parent 2]   datom by rules:3:20",
        "└─ (ancestor 1 2)",
        "│  rules:2:2: [(ancestor ?a ?b) [?b :parent ?a]]",
        "└─ [2 :parent 1]   datom by rules:2:20",
    ]
    cut = why(text, database(), FAMILY, row=(1, 5), depth=1)
    assert shown(cut) == ["[1 5]", "└─ (ancestor 1 5)   ... proof of height 3 not shown"]


def test_the_shortest_of_several_paths_is_taken() -> None:
    conn = connect(
        schema={":r": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}}
    )
    conn.transact("[[:db/add 1 :r 2] [:db/add 2 :r 3] [:db/add 3 :r 4] [:db/add 1 :r 5] [:db/add 5 :r 4]]")
    path = "[[(path ?a ?b) [?a :r ?b]] [(path ?a ?b) (path ?a ?c) (path ?c ?b)]]"
    proof = why("[:find ?b :in $ % :where (path 1 ?b)]", conn.db(), path, row=(4,))
    assert isinstance(proof, Proof)
    assert proof.height == 3
    assert sorted(leaves(proof)) == [(1, Keyword("r"), 5), (5, Keyword("r"), 4)]


def test_a_long_chain_is_proved() -> None:
    conn = connect(schema={":r": {":db/valueType": ":db.type/ref"}})
    conn.transact([[":db/add", at, ":r", at + 1] for at in range(1, 400)])
    path = "[[(path ?a ?b) [?a :r ?b]] [(path ?a ?b) [?a :r ?c] (path ?c ?b)]]"
    text = "[:find ?b :in $ % :where (path 1 ?b)]"
    proof = why(text, conn.db(), path, row=(400,))
    assert isinstance(proof, Proof)
    assert proof.height == 400
    assert isinstance(why(text, conn.db(), path, row=(401,)), Refusal)


@pytest.mark.parametrize(
    ("where", "name", "expected"),
    [
        ("(not [?p :parent _])", "Ada", ["(not [1 :parent _])   no row matches"]),
        (
            "(not-join [?p] [?c :parent ?p] [?c :age ?a])",
            "Di",
            ["(not-join [4] [?c :parent 4] [?c :age ?a])   no row matches"],
        ),
        ("(or [?p :age 3] [?p :age 30])", "Cy", ["(or [3 :age 3] [3 :age 30])", "[3 :age 30]   datom"]),
        (
            "(or-join [?p] [?p :age 1] (and [?p :parent ?q] [?q :age 90]))",
            "Bo",
            [
                "(or-join [2] [2 :age 1] (and [2 :parent ?q] [?q :age 90]))",
                "[2 :parent 1]   datom",
                "[1 :age 90]   datom",
            ],
        ),
        ("[(missing? $ ?p :age)]", "Di", ["[(missing? $ 4 :age)]   no row matches"]),
        ("[(get-else $ ?p :age 7) ?a] [(< ?a 8)]", "Di", ["[(get-else $ 4 :age 7) 7]", "[(< 7 8)]"]),
        (
            "[(get-else $ ?p :age 7) ?a] [(< ?a 8)]",
            "Ed",
            ["[(get-else $ 5 :age 7) 3]", "[5 :age 3]   datom", "[(< 3 8)]"],
        ),
        (
            "[(get-some $ ?p :any :age) [_ ?a]] [(= ?a 3)]",
            "Ed",
            ["[(get-some $ 5 :any :age) [_ 3]]", "[5 :age 3]   datom", "[(= 3 3)]"],
        ),
        (
            "[(count ?n) ?k] [(ground [2 4]) [?k ...]]",
            "Ed",
            ['[(count "Ed") 2]', "[(ground [2 4]) [2 ...]]"],
        ),
        ('[[:name "Cy"] :parent ?p]', "Bo", ["[3 :parent 2]   datom"]),
        ("[:person/ed :parent ?p]", "Cy", ["[5 :parent 3]   datom"]),
        ("[?p ?a 60] [?a :db/ident :age]", "Bo", ["[2 :age 60]   datom", None]),
        ("[?p :any 1.0]", "Ada", ["[1 :any 1.0]   datom"]),
        ("[?p :age ?a _ true] [(= ?a 3)]", "Ed", [None, "[(= 3 3)]"]),
    ],
)
def test_every_kind_of_clause_is_proved(where: str, name: str, expected: list[str | None]) -> None:
    proof = why(f"[:find ?n :where [?p :name ?n] {where}]", database(), row=(name,))
    assert isinstance(proof, Proof), str(proof)
    lines = [
        re.sub("   by query:[0-9:]+| by query:[0-9:]+", "", line[3:]) for line in str(proof).split("\n")[3:]
    ]
    assert len(lines) == len(expected)
    assert all(line == wanted for line, wanted in zip(lines, expected, strict=True) if wanted is not None)


def test_arguments_and_other_sources() -> None:
    text = (
        "[:find ?n ?c :in $ $cities [?n ...] ?least "
        ":where [?p :name ?n] [?p :age ?a] [(<= ?least ?a)] [$cities ?n ?c]]"
    )
    cities = [("Bo", "Oslo"), ("Cy", "Rome")]
    proof = why(text, database(), cities, ["Bo", "Ed"], 18, row=("Bo", "Oslo"))
    lines = [line[3:].partition("   by")[0] for line in shown(proof)[1:]]
    assert isinstance(proof, Proof)
    assert lines == [
        ':in [?n ...] with ?n = "Bo"',
        '[2 :name "Bo"]   datom by query:1:51',
        "[2 :age 60]   datom by query:1:65",
        "[(<= 18 60)]",
        '[$cities "Bo" "Oslo"]   tuple of $cities by query:1:95',
    ]
    assert failing(why(text, database(), cities, ["Bo", "Ed"], 18, row=("Cy", "Rome"))) == [
        ':in [?n ...] with ?n = "Cy"   is not among the arguments   by query:1:28'
    ]
    assert failing(why(text, database(), cities, ["Bo"], 70, row=("Bo", "Oslo"))) == [
        "[(<= 70 60)]   the value is false   by query:1:78"
    ]
    assert failing(why(text, database(), cities, ["Bo"], 18, row=("Bo", "Rome"))) == [
        '[$cities "Bo" "Rome"]   is missing   by query:1:95'
    ]


def test_databases_of_other_times() -> None:
    conn = connect(schema={":n": {":db/valueType": ":db.type/long"}})
    first = conn.transact([[":db/add", 1, ":n", 1]])
    conn.transact([[":db/add", 1, ":n", 2]])
    text = "[:find ?v :where [1 :n ?v]]"
    assert isinstance(why(text, conn.db(), row=(1,)), Refusal)
    assert isinstance(why(text, conn.db().as_of(first.t), row=(1,)), Proof)
    past = why("[:find ?v ?t ?s :where [1 :n ?v ?t ?s]]", conn.db().history(), row=(1, ..., False))
    assert isinstance(past, Proof)
    assert [leaf[0:3] + leaf[4:] for leaf in leaves(past)] == [(1, Keyword("n"), 1, False)]


def test_a_user_function() -> None:
    text = "[:find ?n :in $ ?even :where [_ :age ?n] [(?even ?n)] [(double ?n) ?k]]"
    given = {"double": lambda number: 2 * number}
    proof = why(text, database(), lambda number: number % 2 == 0, row=(30,), functions=given)
    assert shown(proof)[2:] == ["├─ [(?even 30)]   by query:1:42", "└─ [(double 30) 60]   by query:1:55"]
    broken = why(text, database(), lambda number: 1 / 0, row=(30,), functions=given)
    assert failing(broken) == ["[(?even 30)]   has no value: division by zero   by query:1:42"]


def test_a_value_of_another_type_is_another_value() -> None:
    text = "[:find ?v :where [1 :any ?v]]"
    for value in (1, 1.0, True):
        proof = why(text, database(), row=(value,))
        assert isinstance(proof, Proof)
        assert value_key(leaves(proof)[0][2]) == value_key(value)
    assert isinstance(why(text, database(), row=(False,)), Refusal)


# --- aggregates and pull -----------------------------------------------------------------------


def test_aggregates_are_proved_by_the_rows_of_the_group() -> None:
    text = "[:find ?n (count ?c) (max 1 ?c) :where [?p :name ?n] [?c :parent ?p]]"
    proof = why(text, database(), row=("Bo", 2, (4,)))
    assert [line for line in shown(proof) if "by" not in line] == [
        '["Bo" 2 [4]]',
        "├─ (count ?c) = 2 of 2 rows",
        "├─ (max 1 ?c) = [4] of 2 rows",
        '├─ ["Bo" 3]',
        '└─ ["Bo" 4]',
    ]
    assert isinstance(proof, Proof)
    assert proof.height == 2
    assert [(p.text, p.status, p.detail) for p in statuses(why(text, database(), row=("Bo", 2, (3,))))] == [
        ('?n = "Bo"', "holds", ""),
        ("(count ?c) = 2", "holds", "of 2 rows"),
        ("(max 1 ?c) = [3]", "fails", "is [4] of 2 rows"),
    ]
    assert failing(why(text, database(), row=("Di", 1, ...))) == [
        "[?c :parent 4]   is missing   by query:1:54"
    ]


def test_the_row_of_a_pull_expression_is_of_its_entity() -> None:
    text = "[:find ?a (pull ?p [:db/id :name]) :where [?p :age ?a]]"
    for entity in (2, (":name", "Bo"), {Keyword("db/id"): 2, Keyword("name"): "Bo"}):
        proof = why(text, database(), row=(60, entity))
        assert isinstance(proof, Proof)
        assert leaves(proof) == [(2, Keyword("age"), 60)]
    with pytest.raises(InputError, match="got a map without :db/id: "):
        why(text, database(), row=(60, {Keyword("name"): "Bo"}))
    assert isinstance(why(text, database(), row=(60, (":name", "Nobody"))), Refusal)


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "name", "expected"),
    [
        ("[?p :age ?a]", "Di", ["[4 :age ?a]   is missing"]),
        ("[?p :age ?a] [(> ?a 80)]", "Bo", ["[(> 60 80)]   the value is false"]),
        ("[?p :age ?a] [(+ ?a 1) ?b] [(= ?b 31)]", "Bo", ["[(= 61 31)]   the value is false"]),
        ("[?p :age ?a] [(dec ?a) ?b] [(ground 29) ?b]", "Bo", ["[(dec 60) 29]   the value is 59"]),
        ("[(subs ?n 5) ?x]", "Bo", ["has no value"]),
        ("(not [?p :parent ?q])", "Bo", ["(not [2 :parent ?q])   [2 :parent 1] holds"]),
        (
            "(not-join [?p] [?c :parent ?p] [?c :age 3])",
            "Cy",
            ["(not-join [3] [?c :parent 3] [?c :age 3])   [5 :parent 3], [5 :age 3] hold"],
        ),
        ("(or [?p :age 3] [?p :age 30])", "Bo", ["(or [2 :age 3] [2 :age 30])   no branch holds"]),
        ("[(missing? $ ?p :age)]", "Bo", ["[(missing? $ 2 :age)]   the entity has a value"]),
        ("[(get-else $ ?p :age 7) ?a] [(ground 8) ?a]", "Di", ["[(get-else $ 4 :age 7) 8]   the value is 7"]),
        ("[:person/nobody :parent ?p]", "Bo", ["[:person/nobody :parent 2]   is missing"]),
        ("(ancestor ?p 2)", "Cy", ["(ancestor 3 2)   is missing"]),
        ("(childless ?p)", "Cy", ["(childless 3)   is missing"]),
    ],
)
def test_every_kind_of_clause_fails(where: str, name: str, expected: list[str]) -> None:
    text = f"[:find ?n :in $ % :where [?p :name ?n] {where}]"
    found = failing(why(text, database(), FAMILY, row=(name,)))
    assert len(found) == len(expected)
    assert all(wanted in line for line, wanted in zip(found, expected, strict=True)), found


def test_missing_rows_of_rules_are_explained_too() -> None:
    text = "[:find ?n :in $ % :where [?p :name ?n] (childless ?p)]"
    found = why(text, database(), FAMILY, row=("Cy",), depth=2)
    assert isinstance(found, Refusal)
    assert [cause.text for cause in found.causes] == ["(childless 3)"]
    assert failing(found.causes[0]) == ["(not [_ :parent 3])   [5 :parent 3] holds   by rules:4:31"]
    assert str(found).split("\n")[4:] == [
        "",
        "(childless 3)   is missing",
        "   rules:4:2: [(childless ?p) [?p :name _] (not [_ :parent ?p])]",
        '      + [3 :name "Cy"]   by rules:4:18',
        "      - (not [_ :parent 3])   [5 :parent 3] holds   by rules:4:31",
    ]


def test_a_clause_without_the_values_that_it_needs_is_open() -> None:
    found = why("[:find ?n :where [?p :name ?n] [?p :age ?a] [(> ?a 80)]]", database(), row=("Di",))
    assert [(part.status, part.text) for part in statuses(found)] == [
        ("holds", '[4 :name "Di"]'),
        ("fails", "[4 :age ?a]"),
        ("open", "[(> ?a 80)]"),
    ]


def test_a_row_of_another_form_is_refused() -> None:
    with pytest.raises(InputError, match="expected a row of the query as a tuple of 2 values, one for each"):
        why("[:find ?n ?p :where [?p :name ?n]]", database(), row=("Bo",))
    twice = why("[:find ?n ?n :where [_ :name ?n]]", database(), row=("Bo", "Cy"))
    assert failing(twice) == ['["Bo" "Cy"]   a variable has two values in this row']


def test_a_live_query_explains_its_rows_now() -> None:
    conn = connect(schema={":n": {":db/valueType": ":db.type/long"}})
    live = conn.subscribe("[:find ?v :where [1 :n ?v]]")
    assert failing(live.why((1,))) == ["[1 :n 1]   is missing   by query:1:18"]
    conn.transact([[":db/add", 1, ":n", 1]])
    assert isinstance(live.why((1,)), Proof)
    conn.transact([[":db/add", 1, ":n", 2]])
    assert isinstance(live.why((1,)), Refusal)
    assert isinstance(live.why((2,)), Proof)


# --- against the engine and the reference evaluator ----------------------------------------------


def rows_of(inputs: list[Any], query: Any) -> list[tuple[Any, ...]]:
    """The rows of a query, one tuple for each."""
    bound = bind_query(query, inputs, {}, query_cache())
    return bound.rows()


def others(found: list[tuple[Any, ...]], random: Random) -> Iterator[tuple[Any, ...]]:
    """Yield a few rows with values of the columns that are not in the result."""
    known = {value_key(row) for row in found}
    for _ in range(4 if found else 0):
        row = tuple(random.choice(found)[at] for at in range(len(found[0])))
        if value_key(row) not in known:
            yield row


def expect_explained(query: Any, inputs: list[Any], random: Random, most: int) -> list[Proof]:
    """Check that rows are proved and others refused; return the proofs."""
    found = rows_of(inputs, query)
    proofs = []
    for row in random.sample(found, min(most, len(found))):
        proof = why(query, *inputs, row=row)
        assert isinstance(proof, Proof), f"{query}\n{row}\n{proof}"
        assert proof.complete
        proofs.append(proof)
    for row in others(found, random):
        refusal = why(query, *inputs, row=row)
        assert isinstance(refusal, Refusal), f"{query}\n{row}\n{refusal}"
        parts = [part for attempt in refusal.attempts for match in attempt.matches for part in match.parts]
        assert any(part.status == "fails" for part in parts), f"{query}\n{row}\n{refusal}"
    return proofs


@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**32))
def test_random_queries_are_explained(seed: int) -> None:
    """The datoms of a proof alone derive its row again, by the reference evaluator."""
    random = Random(seed)
    twin = Twin(read(SCHEMA))
    for transaction in transactions(random):
        twin.transact(transaction)
    source = twin.model.source()
    facts = {value_key(tuple(fact[:3])): fact for fact in source.datoms}
    for _ in range(3):
        clauses, elements, third, value = queries(random)
        text = text_of(clauses, elements, third)
        rest = [TUPLES, read(RULES), value]
        if "get-else" not in text:  # which of several past values it takes is not defined
            expect_explained(text, [twin.conn.db().history(), *rest], random, 1)
        for proof in expect_explained(text, [twin.conn.db(), *rest], random, 3):
            used = [facts[value_key(leaf[:3])] for leaf in leaves(proof)]
            if "(" not in elements:
                again = as_set(rows(text, Source(used, source.schema, source.known), *rest))
                assert value_key(tuple(proof.goal[1])) in again, f"{text}\n{proof}"


@pytest.mark.parametrize("file", sorted({case.file for case in CASES}))
def test_the_rows_of_the_fixtures_are_explained(file: str) -> None:
    for case in CASES:
        if case.file == file and case.error is None and "(pull" not in case.query:
            expect_explained(case.query, engine_inputs(case), Random(1), 2)
