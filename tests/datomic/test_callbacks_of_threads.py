"""Several threads transact: the callbacks of live queries get the changes in their order."""

from __future__ import annotations

import threading
import time

import pytest

from dbsp.datomic import QueryDelta, connect

SCHEMA = {":name": {":db/valueType": ":db.type/string"}}
NAMES = "[:find ?n :where [_ :name ?n]]"


def test_a_slow_callback_is_not_overtaken_by_another_thread() -> None:
    conn = connect(schema=SCHEMA)
    started, seen = threading.Event(), []

    def on_delta(delta: QueryDelta) -> None:
        if delta.t == 2:
            started.set()
            time.sleep(0.2)  # the other thread commits in this time
        seen.append(delta.t)

    conn.subscribe(NAMES, on_delta=on_delta)
    first = threading.Thread(target=conn.transact, args=([{":name": "Ada"}],))
    first.start()
    assert started.wait(60)
    conn.transact([{":name": "Eva"}])
    assert seen == [2, 3], "transact returns when the callbacks have its change"
    first.join()


def test_many_threads() -> None:
    conn = connect(schema=SCHEMA)
    seen: list[int] = []
    errors: list[BaseException] = []

    def on_delta(delta: QueryDelta) -> None:
        time.sleep(0.001)
        seen.append(delta.t)

    def work(thread: int) -> None:
        try:
            for number in range(20):
                report = conn.transact([{":name": f"{thread}/{number}"}])
                assert report.t in seen
        except BaseException as error:
            errors.append(error)

    conn.subscribe(NAMES, on_delta=on_delta)
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert seen == list(range(2, 82))


def test_a_callback_may_transact() -> None:
    conn = connect(schema=SCHEMA)
    seen: list[int] = []

    def on_delta(delta: QueryDelta) -> None:
        seen.append(delta.t)
        if delta.t < 5:
            conn.transact([{":name": str(delta.t)}])

    conn.subscribe(NAMES, on_delta=on_delta)
    conn.transact([{":name": "Ada"}])
    assert seen == [2, 3, 4, 5]


def test_a_callback_that_fails_during_the_replay_is_called_no_more() -> None:
    conn = connect(schema=SCHEMA)
    conn.transact([{":name": "Ada"}])
    seen: list[int] = []

    def on_delta(delta: QueryDelta) -> None:
        seen.append(delta.t)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        conn.subscribe(NAMES, since=1, on_delta=on_delta)
    conn.transact([{":name": "Eva"}])
    assert seen == [2]


def test_a_second_close_does_nothing() -> None:
    conn = connect(schema=SCHEMA)
    live = conn.subscribe(NAMES)
    other = conn.subscribe(NAMES)
    live.close()
    live.close()
    conn.transact([{":name": "Ada"}])
    assert live.rows() == []
    assert other.rows() == [("Ada",)]
