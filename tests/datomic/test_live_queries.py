"""Live queries: what they store, what a failing one does, interrupts, callbacks and threads."""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from typing import Any

import pytest

from benchmarks.faults import Injector
from dbsp.datomic import Connection, connect, q
from dbsp.datomic.subscription import QueryDelta, Subscription
from dbsp.errors import DbspError, EvaluationError

SCHEMA: dict[str, Any] = {
    **{f":a{n}": {":db/valueType": ":db.type/long"} for n in range(5)},
    ":name": {":db/valueType": ":db.type/string"},
    ":next": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
}
STAR = "[:find ?e ?v0 :where [?e :a0 ?v0] [?e :a1 ?v1] [?e :a2 ?v2] [?e :a3 ?v3] [?e :a4 ?v4]]"


def facts(first: int, last: int) -> list[Any]:
    return [
        {":db/id": n, ":name": f"n{n}", **{f":a{at}": n + at for at in range(5)}} for n in range(first, last)
    ]


@pytest.fixture
def conn() -> Connection:
    conn = connect(schema=SCHEMA)
    conn.transact(facts(1, 201))
    return conn


def stored(live: Subscription) -> int:
    """Return the number of rows that the circuit of a live query stores, without its result."""
    run = live._live._run
    return run.state_rows - len(run.view("find").rows())


def check(live: Subscription, conn: Connection, query: str, *inputs: Any) -> None:
    assert sorted(live.rows(), key=repr) == sorted(q(query, conn.db(), *inputs), key=repr)


# --- stored rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        STAR,
        "[:find ?n :where [?e :name ?n]]",
        "[:find ?n ?m :where [?e :a0 ?x] [?f :a1 ?x] [?e :name ?n] [?f :name ?m]]",
        "[:find ?e ?f :where [?e :next ?f] [?f :next ?g] [?g :next ?e]]",
        "[:find ?e :where [?e :a0 ?x] [?e :a1 ?y] [(< ?x 50)] [(< ?y ?x)]]",
    ],
)
def test_a_join_stores_the_row_of_the_query_and_its_result(conn: Connection, query: str) -> None:
    live = conn.subscribe(query)
    assert stored(live) <= 5
    conn.transact(facts(150, 400))
    conn.transact([[":db/retractEntity", 160]])
    # The result keeps the retracted rows until its runs are merged.
    assert stored(live) <= 10
    check(live, conn, query)


def test_live_queries_share_the_indices(conn: Connection) -> None:
    keys = {key: id(relation) for key, relation in conn._indices._relations.items()}
    before = sum(len(relation.traces) for relation in conn._indices._relations.values())
    queries = [f"[:find ?e ?x :where [?e :a{n % 5} ?x] [?e :name] [(< ?x {n * 10})]]" for n in range(20)]
    live = [conn.subscribe(query) for query in queries]
    after = sum(len(relation.traces) for relation in conn._indices._relations.values())
    assert after - before <= 6, "each order of a relation is stored once"
    assert {key: id(relation) for key, relation in conn._indices._relations.items() if key in keys} == keys
    conn.transact(facts(100, 300))
    assert sum(map(stored, live)) <= 5 * len(live)
    for query, one in zip(queries, live, strict=True):
        check(one, conn, query)


def test_a_negation_stores_only_what_depends_on_the_rows_so_far(conn: Connection) -> None:
    query = '[:find ?e :where [?e :name "n7"] (not [?e :a0 8])]'
    live = conn.subscribe(query)
    few = stored(live)
    conn.transact(facts(300, 600))
    assert stored(live) == few <= 10
    conn.transact([[":db/add", 7, ":a0", 8]])
    check(live, conn, query)
    assert live.rows() == []


# --- errors ---------------------------------------------------------------------------------------


def inverse(number: int) -> float:
    return 1 / number


FAILING = "[:find ?e ?y :where [?e :a0 ?x] [(my/inverse ?x) ?y]]"


def test_a_failing_function_stops_its_query_alone(conn: Connection) -> None:
    seen: list[QueryDelta] = []
    first = conn.subscribe("[:find ?e :where [?e :a0 0]]")
    failing = conn.subscribe(FAILING, functions={"my/inverse": inverse}, on_delta=seen.append)
    pending = conn.subscribe(FAILING, functions={"my/inverse": inverse})
    last = conn.subscribe("[:find (count ?e) . :where [?e :a0]]")
    before = failing.t
    conn.transact([[":db/add", 1, ":a0", 4]])
    report = conn.transact([[":db/add", 9, ":a0", 0]])
    # The transaction is committed, and the other live queries have it.
    assert conn.db().basis_t == report.t == before + 2
    assert q("[:find [?e ...] :where [?e :a0 0]]", conn.db()) == [9]
    assert first.rows() == [(9,)] and first.t == report.t
    assert last.result() == 200 and last.t == report.t
    assert [Counter(dict(delta.rows)) for delta in seen] == [{(1, 1.0): -1, (1, 0.25): 1}]
    assert [delta.t for delta in pending.deltas()] == [before + 1]
    for method in (failing.rows, failing.result, failing.deltas, pending.deltas, pending.rows):
        with pytest.raises(EvaluationError) as caught:
            method()
        assert f"stopped after transaction {before + 1}" in " ".join(caught.value.__notes__)
        assert len(caught.value.__notes__) == len(set(caught.value.__notes__))
    assert failing.t == before + 1
    conn.transact([[":db/add", 10, ":a0", 0]])
    assert len(first.rows()) == 2 and len(seen) == 1
    failing.close()
    again = "[:find ?e ?y :where [?e :a1 ?x] [(my/inverse ?x) ?y]]"
    live = conn.subscribe(again, functions={"my/inverse": inverse})
    assert len(live.rows()) == 200


def test_a_query_that_fails_at_its_start_is_not_subscribed(conn: Connection) -> None:
    conn.transact([[":db/add", 9, ":a0", 0]])
    with pytest.raises(EvaluationError):
        conn.subscribe(FAILING, functions={"my/inverse": inverse})
    assert conn._listeners == []


@pytest.mark.parametrize(
    ("query", "inputs"),
    [
        ("[:find ?x :where [?e :none ?x]]", ()),
        ("[:find ?x :where [?e :a0 ?x]", ()),
        ("[:find ?y :where [?e :a0 ?x]]", ()),
        ("[:find ?x :in $ ?e :where [?e :a0 ?x]]", ([":none", 1],)),
        ("[:find (pull ?e [:none]) :where [?e :a0]]", ()),
        ("[:find ?x :where [?e :name ?x] [(odd? ?x)]]", ()),
    ],
)
def test_the_error_of_a_query_ends_at_the_caller(
    conn: Connection, query: str, inputs: tuple[Any, ...]
) -> None:
    for ask in (conn.db().q, conn.subscribe):
        with pytest.raises(DbspError) as caught:
            ask(query, *inputs)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert [frame.filename for frame in frames] == [__file__]
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize("has_rows", [True, False])
@pytest.mark.parametrize(
    "query",
    [
        "[:find ?e :where [?e :name ?n]]",
        "[:find ?n :where [?e :a0 ?x] [(get-else $ ?e :name 0) ?n]]",
        "[:find ?e :where (named ?e) :rules [(named ?e) [?e :name]]]",
        "[:find (pull ?e [:name]) :where [?e :a0 7]]",
    ],
)
def test_a_live_query_stops_when_q_does_not_know_a_name(query: str, has_rows: bool) -> None:
    conn = connect(schema=SCHEMA)
    if has_rows:
        conn.transact(facts(1, 10))
    live = conn.subscribe(query)
    other = conn.subscribe(f"[:find ?e :where [?e {conn.db().entid(':name')} ?n]]")
    t = conn.transact([[":db/add", ":name", ":db/doc", "what it is called"]]).t
    check(live, conn, query)
    conn.transact([[":db/add", ":name", ":db/ident", ":title"]])
    for ask in (lambda: q(query, conn.db()), live.rows):
        with pytest.raises(DbspError, match="attribute :name") as caught:
            ask()
        assert "[unknown-attribute]" in str(caught.value)
    assert live.t == t
    # The name may be that of another attribute now.
    conn.transact([{":db/ident": ":name", ":db/valueType": ":db.type/long"}])
    with pytest.raises(DbspError, match="unknown-attribute"):
        live.rows()
    conn.transact([{":db/id": 99, ":title": "z"}])
    assert (99,) in other.rows()


@pytest.mark.crash
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_live_query_is_right_or_says_that_it_stopped(kind: type[BaseException]) -> None:
    conn = connect(schema=SCHEMA)
    conn.transact(facts(1, 20))
    queries = [
        STAR,
        "[:find (sum ?x) . :with ?e :where [?e :a0 ?x] (not [?e :a1 5])]",
        "[:find ?e (pull ?e [:name]) :where [?e :a0 ?x] [(< ?x 9)]]",
    ]
    live: dict[str, Subscription] = {}
    right = stopped = 0
    for round_ in range(10_000):
        for query in queries:
            if query not in live:
                live[query] = conn.subscribe(query)
        injector = Injector(kind, 5 + 19 * round_, None, opcodes=False)
        data = facts(1 + round_ % 7, 4 + round_ % 9)
        error = injector.call(lambda data=data: conn.transact(data))
        if not injector.place:
            assert error is None
            break
        if conn._lock.locked():
            conn._lock.release()
        while conn._indices.lock._is_owned():  # type: ignore[attr-defined]
            conn._indices.lock.release()
        conn.db()  # completes the transaction, or undoes it
        for query, one in list(live.items()):
            if one.error is None:
                right += 1
                assert one.t == conn.db().basis_t, injector.place
                expected = q(query, conn.db())
                found = one.result()
                assert expected == found or Counter(map(repr, expected)) == Counter(map(repr, found))
            else:
                stopped += 1
                with pytest.raises((kind, DbspError, KeyboardInterrupt)):
                    one.rows()
                one.close()
                del live[query]
    assert right > 20 and stopped > 3


# --- callbacks and threads ------------------------------------------------------------------------


def test_a_callback_may_subscribe_query_and_close(conn: Connection) -> None:
    inner: list[Subscription] = []
    counts: list[int] = []

    def on_delta(delta: QueryDelta) -> None:
        counts.append(q("[:find (count ?e) . :where [?e :a0]]", conn.db()))
        inner.append(conn.subscribe("[:find ?e :where [?e :a0 ?x] [(> ?x 200)]]"))
        if len(inner) == 2:
            live.close()

    live = conn.subscribe("[:find ?e :where [?e :a0 ?x] [(> ?x 200)]]", on_delta=on_delta)
    for n in (300, 301, 302):
        conn.transact(facts(n, n + 1))
    assert counts == [201, 202]
    assert [sorted(one.rows()) for one in inner] == [[(300,), (301,), (302,)]] * 2
    assert [[delta.rows for delta in one.deltas()] for one in inner] == [
        [[((301,), 1)], [((302,), 1)]],
        [[((302,), 1)]],
    ]


def test_threads_query_and_subscribe_while_another_one_transacts(conn: Connection) -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def reads() -> None:
        try:
            while not stop.is_set():
                db = conn.db()
                rows = q("[:find ?e ?x ?y :where [?e :a0 ?x] [?e :a1 ?y]]", db)
                # Every transaction keeps the sum of both values of an entity.
                assert {x + y for e, x, y in rows if e <= 50} <= {1000}, rows
                assert q("[:find (count ?e) . :where [?e :name]]", db) == 200
        except BaseException as error:
            errors.append(error)

    conn.transact([[":db/add", n, f":a{at}", 500] for n in range(1, 51) for at in (0, 1)])
    threads = [threading.Thread(target=reads) for _ in range(2)]
    live = conn.subscribe("[:find ?e ?x ?y :where [?e :a0 ?x] [?e :a1 ?y]]")
    for thread in threads:
        thread.start()
    for n in range(40):
        entity = n % 50 + 1
        conn.transact([[":db/add", entity, ":a0", n], [":db/add", entity, ":a1", 1000 - n]])
        assert {x + y for e, x, y in live.rows() if e <= 50} == {1000}
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(live.deltas()) == 40
