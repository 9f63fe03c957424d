"""Large queries and rules, as programs write them: no form takes exponential time."""

from __future__ import annotations

import pytest

from dbsp.datomic import Database, connect, q


@pytest.fixture(scope="module")
def database() -> Database:
    conn = connect(schema={":age": {}, ":next": {":db/valueType": ":db.type/ref"}})
    conn.transact([{":db/id": n, ":age": n, ":next": min(n + 1, 9)} for n in range(1, 10)])
    return conn.db()


def nested(form: str, inner: str, depth: int) -> str:
    for _ in range(depth):
        inner = form.format(inner)
    return inner


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (nested("(not {})", "[(< ?e 3)]", 100), [1, 2]),
        (nested("(not {})", "[(< ?e 3)]", 99), [3, 4, 5, 6, 7, 8, 9]),
        (nested("(not [?e :age] {})", "[?e :age 3]", 61), [1, 2, 4, 5, 6, 7, 8, 9]),
        (nested("(or (not {}) [(= ?e 1)])", "[(< ?e 3)]", 40), [1, 2]),
        (nested("(or-join [?e] (and [?e :age ?a] {}))", "[(< ?e 3)]", 40), [1, 2]),
        (" ".join(f"[?e :age ?a{n}]" for n in range(100)), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (" ".join(f"[(+ ?e{n} 1) ?e{n + 1}]" for n in range(100)).replace("?e0", "?e"), [*range(1, 10)]),
        (f"[?e :age 1] (or-join [?e] {' '.join(f'[?e :age {n}]' for n in range(50))})", [1]),
        (" ".join(f"(not [?e :age {n}])" for n in range(5, 55)), [1, 2, 3, 4]),
    ],
    ids=[
        "nots",
        "odd nots",
        "nots with patterns",
        "nots in ors",
        "ors",
        "star",
        "calls",
        "branches",
        "many nots",
    ],
)
def test_clauses(database: Database, clauses: str, expected: list[int]) -> None:
    query = f"[:find [?e ...] :where [?e :age] {clauses}]"
    assert sorted(q(query, database)) == expected


def chain(body: str, count: int) -> str:
    """Return rules r1, r2, ...; each calls the one before."""
    rules = [f"[(r{n} ?x ?y) {body.format(n - 1)}]" for n in range(2, count + 1)]
    return f"[[(r1 ?x ?y) [?x :next ?y]] {' '.join(rules)}]"


@pytest.mark.parametrize(
    ("count", "rules"),
    [
        (100, chain("(r{} ?x ?z) [?z :next ?y]", 100)),
        (40, chain("(r{0} ?x ?z) (r{0} ?z ?y)", 40)),
        (60, chain("(or-join [?x ?y] (and (r{0} ?x ?z) (r{0} ?z ?y)))", 60)),
        (100, chain("[?x :next ?z] (or-join [?z ?y] (r{0} ?z ?y) (r1 ?z ?y))", 100)),
    ],
    ids=["calls", "two calls", "two calls in or", "calls in or"],
)
def test_rules(database: Database, count: int, rules: str) -> None:
    # 9 leads to itself, so 9 is reached in any number of steps from 8 on.
    assert sorted(q(f"[:find [?x ...] :in $ % :where (r{count} ?x 9)]", database, rules)) == [*range(1, 10)]


def test_rules_that_all_call_each_other(database: Database) -> None:
    rules = " ".join(
        f"[(r{n} ?x ?y) [?x :next ?y]] [(r{n} ?x ?y) (r{(n + 1) % 50} ?x ?z) [?z :next ?y] (not [(= ?z 7)])]"
        for n in range(50)
    )
    assert sorted(q("[:find [?y ...] :in $ % :where (r0 5 ?y)]", database, f"[{rules}]")) == [6, 7]
