"""A compiled query that is remembered keeps no database alive."""

from __future__ import annotations

import gc
import weakref

from dbsp.datomic import connect, q


def test_an_answer_keeps_no_database_alive() -> None:
    conn = connect(schema={":name": {}})
    conn.transact([{":name": "Ada"}])
    database = conn.db()
    assert q("[:find [?n ...] :where [_ :name ?n]]", database) == ["Ada"]
    alive = weakref.ref(database.facts)
    conn.transact([{":name": "Eva"}])
    del database
    gc.collect()
    assert alive() is None
