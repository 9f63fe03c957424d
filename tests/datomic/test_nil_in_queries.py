"""nil in queries: as an argument, as a result, and inside of collections."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.datomic import Database, connect, q
from dbsp.edn.edn_values import EdnMap, Keyword


@pytest.fixture(scope="module")
def database() -> Database:
    conn = connect(":memory:", schema={":name": {}, ":age": {":db/valueType": ":db.type/long"}})
    conn.transact([{":name": "Ada"}, {":age": 5}])
    return conn.db()


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("[(vector nil ?n) ?x]", (None, "Ada")),
        ("[(hash-map :a nil) ?x]", EdnMap({Keyword("a"): None})),
        ("[(str ?n nil) ?x]", "Ada"),
        ("[(nil? nil) ?x]", True),
        ("[(nil? ?n) ?x]", False),
        ("[(nil? nil)] [(identity ?n) ?x]", "Ada"),
        ("[(not= ?n nil)] [(identity ?n) ?x]", "Ada"),
        ("[(= ?n nil)] [(identity ?n) ?x]", None),
        ("[(get {:a 1} :b) ?x]", None),
        ("[(get {:a 1} :b nil) ?x]", None),
        ("[(get {:a nil} :a :none) ?x]", None),
        ("[(ground nil) ?x]", None),
        ("[(identity nil) ?x]", None),
        ('[(clojure.string/index-of ?n "z") ?x]', None),
        ("[(tuple nil 1) [_ ?x]]", 1),
        ("[(tuple nil 1) [?x _]]", None),
        ("[(my/list ?n) ?x]", (None, (None, "Ada"))),
        ("[(my/list ?n) [?x _]]", None),
        ("[(my/map nil) ?x]", EdnMap({"n": (None,)})),
        ("[(my/none ?n) ?x]", None),
    ],
)
def test_nil(database: Database, clause: str, expected: Any) -> None:
    functions = {
        "my/list": lambda name: (None, [None, name]),
        "my/map": lambda value: {"n": [value]},
        "my/none": lambda name: None,
    }
    assert q(f"[:find ?x . :where [_ :name ?n] {clause}]", database, functions=functions) == expected


@pytest.mark.parametrize("call", ["(ground nil)", "(identity nil)", "(untuple nil)", "(first [])"])
def test_nil_gives_no_row(database: Database, call: str) -> None:
    assert q(f"[:find ?x :where [{call} ?x]]", database) == []
    assert q(f"[:find ?x :where [_ :age ?x] [{call} ?x]]", database) == []
    assert q(f"[:find ?n :where [_ :name ?n] (not-join [?n] [_ :name ?n] [{call} ?x])]", database) == [
        ("Ada",)
    ]
