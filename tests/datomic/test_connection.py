"""Connections: threads, processes, listeners, interrupts and failures of the disk."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from benchmarks.faults import Injector
from dbsp.data.batch import Batch
from dbsp.datomic import Connection, connect
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.relation_key import EV, RelationKey
from dbsp.datomic.transaction import PreparedTransaction
from dbsp.datomic.transaction_listener import TransactionListener
from dbsp.errors import CheckpointError, CheckpointWarning, CircuitError, InputError

from .fact_model import FactModel, Window, check_trace

SCHEMA = {
    ":number": {":db/valueType": ":db.type/long"},
    ":text": {":db/valueType": ":db.type/string", ":db/cardinality": ":db.cardinality/many"},
}


def numbers(conn: Connection) -> list[int]:
    return [datom.v for datom in conn.db().datoms(":aevt", ":number")]


def check_all(conn: Connection) -> None:
    """Compare relations with the log: of the connection, and of its database value."""
    log = conn._indices.log
    model = FactModel([tuple(row) for row in log.rows(0, log.count).tolist()])
    window = Window(-1, conn.db().basis_t)
    for name in (":number", ":text"):
        attribute = conn.db().schema.attribute(name).id
        for facts in (conn._indices, conn.db().facts, conn.db().history().facts):
            window.history = facts is not conn._indices and facts is not conn.db().facts
            for columns in (EV, ("e", "v", "tx"), ("e", "v", "tx", "added")):
                check_trace(facts, model, window, RelationKey(attribute, columns), columns[::-1])
    check_trace(
        conn._indices, model, Window(-1, window.until), RelationKey(None, ("e", "a", "v")), ("a", "v", "e")
    )


# --- interrupts -----------------------------------------------------------------------------------


class Counting(TransactionListener):
    """A live count of the numbers, which reads the traces as a live query does."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.attribute = conn.db().schema.attribute(":number").id
        self.total = len(numbers(conn))
        self.seen: list[int] = []
        self.commits = 0

    def step(self, prepared: PreparedTransaction, changes: dict[int, Batch]) -> None:
        trace = self.conn._indices.trace(RelationKey(self.attribute, EV), EV)
        change = changes.get(self.attribute)
        assert trace.fresh == (change is not None)
        if change is not None:
            self.total += int(change.weights.sum())
            assert trace.current[-1].rows.tolist() == change.rows.tolist()
        self.seen.append(prepared.t)

    def committed(self) -> None:
        assert not self.conn._indices.undecided
        self.commits += 1


def release_locks(conn: Connection) -> None:
    """Release the locks that an injected error has left.

    The injector raises between the last line of a `with` block and the release of its lock, where
    Python handles no signal and allocates nothing.
    """
    if conn._lock.locked():
        conn._lock.release()
    while conn._indices.lock._is_owned():  # type: ignore[attr-defined]
        conn._indices.lock.release()


@pytest.mark.crash
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("stored", [True, False])
def test_an_interrupted_transaction_is_complete_or_undone(
    tmp_path: Path, kind: type[BaseException], stored: bool
) -> None:
    conn = connect(tmp_path if stored else ":memory:", schema=SCHEMA)
    conn.transact([[":db/add", 1, ":number", 0], [":db/add", 2, ":number", 0]])
    conn._indices.trace(
        RelationKey(conn.db().schema.attribute(":text").id, ("e", "v", "tx")), ("tx", "e", "v")
    )
    at, ended, completed = 3, 0, 0
    again = [None, 5, 40]
    for round_ in range(10_000):
        if conn._listeners == []:
            conn._listeners.append(Counting(conn))
        before, past = conn.db(), numbers(conn)
        injector = Injector(kind, at, again[round_ % 3], opcodes=False)
        operations = [[":db/add", 1, ":number", round_ + 1], [":db/add", 3, ":text", f"text {round_}"]]
        error = injector.call(lambda operations=operations: conn.transact(operations))
        if not injector.place:
            assert error is None
            break
        release_locks(conn)
        # Python ignores an error in a generator that it closes.
        assert error is None or isinstance(error, kind | KeyboardInterrupt), injector.place
        # The first use afterwards completes or undoes the transaction.
        after = conn.db()
        assert after.basis_t in (before.basis_t, before.basis_t + 1), injector.place
        assert numbers(conn) == ([round_ + 1, 0] if after.basis_t > before.basis_t else past), injector.place
        ended, completed = ended + 1, completed + after.basis_t - before.basis_t
        if stored:
            with connect(tmp_path, read_only=True) as other:
                assert other.db().basis_t == after.basis_t and numbers(other) == numbers(conn), injector.place
        listener = conn._listeners[0]
        assert isinstance(listener, Counting)
        if listener.error is None:
            assert listener.total == len(numbers(conn)), injector.place
            assert conn.db().basis_t == max([*listener.seen, conn.db().basis_t]), injector.place
        else:
            conn._listeners.clear()
        check_all(conn)
        at += 23
    assert ended > 15 and 0 < completed < ended
    conn.close()


def test_a_listener_cannot_stop_a_transaction() -> None:
    conn = connect(schema=SCHEMA)
    failing, counting = TransactionListener(), Counting(conn)
    conn._listeners += [failing, counting]
    with mock.patch.object(failing, "step", side_effect=ZeroDivisionError):
        conn.transact([[":db/add", 1, ":number", 1]])
    assert isinstance(failing.error, ZeroDivisionError)
    with mock.patch.object(failing, "step", side_effect=AssertionError):
        conn.transact([[":db/add", 2, ":number", 1]])  # it gets no more transactions
    assert isinstance(failing.error, ZeroDivisionError)
    failing.error = None
    with mock.patch.object(failing, "step", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        conn.transact([[":db/add", 3, ":number", 1]])
    assert isinstance(failing.error, KeyboardInterrupt)
    assert (counting.total, counting.seen, counting.commits, len(numbers(conn))) == (3, [2, 3, 4], 2, 3)
    conn.transact([])
    assert counting.commits == 4  # the call after the interrupt makes up for it


def test_a_listener_may_transact_after_the_commit() -> None:
    conn = connect(schema=SCHEMA)

    class Chain(TransactionListener):
        def committed(self) -> None:
            if len(numbers(conn)) < 5:
                conn.transact([[":db/add", len(numbers(conn)) + 1, ":number", 1]])

    conn._listeners.append(Chain())
    report = conn.transact([[":db/add", 1, ":number", 1]])
    assert (report.t, conn.db().basis_t, len(numbers(conn))) == (2, 6, 5)


@pytest.mark.parametrize("name", ["transact", "sync", "close"])
def test_a_transaction_function_cannot_use_the_connection(name: str) -> None:
    conn = connect(schema=SCHEMA)

    def function(db: object) -> list[Any]:
        getattr(conn, name)(*([[]] if name == "transact" else []))
        return []

    with pytest.raises(Exception, match=f"{name}: a transaction is running and has called this method; call"):
        conn.transact([[function]])
    assert conn.transact([[":db/add", 1, ":number", 1]]).t == 2
    conn._listeners.append(listener := TransactionListener())
    with mock.patch.object(listener, "step", side_effect=lambda *_: function(None)):
        conn.transact([])
    assert isinstance(listener.error, CircuitError) and listener.error.code == "transaction-in-progress"


# --- failures of the disk -------------------------------------------------------------------------


class FailingFile:
    """A file of SQLite that fails at some statements."""

    def __init__(self, file: sqlite3.Connection, statement: str, after: bool) -> None:
        self._file = file
        self._statement = statement
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if not statement.startswith(self._statement):
            return self._file.execute(statement, *values)
        if self._after:
            self._file.execute(statement, *values)
            raise KeyboardInterrupt
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO transactions", "COMMIT"])
def test_a_full_disk_leaves_the_database_as_it_was(tmp_path: Path, statement: str) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    conn.transact([[":db/add", 1, ":number", 1]])
    assert conn._store is not None
    file = conn._store._file
    conn._store._file = FailingFile(file, statement, after=False)  # type: ignore[assignment]
    with pytest.raises(
        CheckpointError, match=r"cannot write .*log.sqlite: database or disk is full"
    ) as caught:
        conn.transact([[":db/add", 2, ":number", 2]])
    assert caught.value.code == "checkpoint-write"
    conn._store._file = file
    assert (conn.db().basis_t, numbers(conn)) == (2, [1])
    conn.transact([[":db/add", 2, ":number", 3]])
    assert numbers(conn) == [1, 3]
    check_all(conn)


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO transactions", "COMMIT"])
def test_an_interrupt_right_after_a_statement(tmp_path: Path, statement: str) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    conn.transact([[":db/add", 1, ":number", 1]])
    assert conn._store is not None
    file = conn._store._file
    conn._store._file = FailingFile(file, statement, after=True)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        conn.transact([[":db/add", 2, ":number", 2]])
    conn._store._file = file
    assert numbers(conn) == ([1, 2] if statement == "COMMIT" else [1])
    conn.transact([[":db/add", 3, ":number", 3]])
    check_all(conn)
    with connect(tmp_path) as other:
        assert numbers(other) == numbers(conn)


def test_a_failed_segment_is_a_warning(tmp_path: Path) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    assert conn._store is not None
    file = conn._store._file
    conn._store._file = FailingFile(file, "INSERT INTO segments", after=False)  # type: ignore[assignment]
    with (
        mock.patch("dbsp.datomic.connection.SEGMENT", 1),
        pytest.warns(
            CheckpointWarning, match="no segment was written, so the next connection takes longer; can"
        ),
    ):
        report = conn.transact([[":db/add", 1, ":number", 1]])
    assert report.t == 2 and numbers(conn) == [1]
    conn._store._file = file
    conn.close()


# --- threads and processes ------------------------------------------------------------------------


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    conn = connect(tmp_path, schema=SCHEMA, durability="group")
    failures: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 20):
                db = conn.transact([[":db/add", number + 1, ":number", number]]).db_after
                found = [datom.v for datom in db.datoms(":avet", ":number", number)]
                assert found == [number] and len(db.datoms(":aevt", ":number")) == db.basis_t - 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(20 * place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and sorted(numbers(conn)) == list(range(80))
    check_all(conn)
    conn.close()


WRITER = """
import sys
from dbsp.datomic import connect
conn = connect(sys.argv[1])
for number in range(25):
    texts = [f"{sys.argv[2]} {number}", "both"]
    report = conn.transact([{":db/id": "new", ":text": texts, ":number": number}])
    found = report.db_after.datoms(":eavt", report.tempids["new"], ":number")
    assert [datom.v for datom in found] == [number]
conn.close()
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "ab"]
    counting = Counting(conn)
    conn._listeners.append(counting)
    own = 0
    while any(writer.poll() is None for writer in writers):
        conn.sync()
        conn.transact([{":number": -1}])
        own += 1
        time.sleep(0.005)  # let the others write, too
    assert [writer.returncode for writer in writers] == [0, 0]
    conn.sync()
    check_all(conn)
    assert counting.error is None and counting.total == 50 + own == len(numbers(conn))
    assert conn.db().basis_t == 51 + own and counting.seen == list(range(2, 52 + own))
    texts = {datom.v for datom in conn.db().datoms(":aevt", ":text")}
    assert texts == {"both", *(f"{name} {number}" for name in "ab" for number in range(25))}
    conn.close()
    with connect(tmp_path) as other:
        assert sorted(numbers(other)) == sorted(numbers(conn))


def test_another_writer_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    other = sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with (
        mock.patch("dbsp.datomic.log_store._PATIENCE", 0.1),
        pytest.raises(
            CheckpointError, match=r"another process has been writing to .* for 0.1 seconds; wait"
        ) as caught,
    ):
        conn.transact([[":db/add", 1, ":number", 1]])
    assert caught.value.code == "checkpoint-in-use"
    timer = threading.Timer(0.2, other.close)
    other.execute("ROLLBACK")
    other.execute("BEGIN IMMEDIATE")
    del timer
    other.close()
    assert conn.transact([[":db/add", 1, ":number", 1]]).t == 2


def test_a_transaction_waits_for_another_writer(tmp_path: Path) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    other = sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, other.close)
    timer.start()
    assert conn.transact([[":db/add", 1, ":number", 1]]).t == 2
    timer.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_use_the_connection(tmp_path: Path) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        texts = []
        for use in (conn.db, conn.sync, conn.close, lambda: conn.transact([]), lambda: conn.log):
            try:
                use()
            except CheckpointError as error:
                texts.append(str(error))
        os.write(write, "\n".join(texts).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(read) as file:
        lines = file.read().split("\n")
    message = (
        f"the connection to {tmp_path} belongs to process {os.getpid()}, from which this process was "
        "forked; connect again in the forked process [checkpoint-in-use]"
    )
    assert lines == [message] * 5
    assert conn.transact([[":db/add", 1, ":number", 1]]).t == 2
    conn.close()


def test_a_closed_connection(tmp_path: Path) -> None:
    with connect(tmp_path, schema=SCHEMA) as conn:
        conn.transact([[":db/add", 1, ":number", 1]])
    conn.close()
    assert repr(conn) == f"<Connection to {tmp_path}, t 2, closed>" and numbers(conn) == [1]
    for name, arguments in (("transact", [[]]), ("sync", [])):
        with pytest.raises(
            CheckpointError, match=rf"{name}: the connection to .* is closed; connect again"
        ) as caught:
            getattr(conn, name)(*arguments)
        assert caught.value.code == "connection-closed"
    assert conn.db().as_of(TX0 + 1).basis_t == 2


def test_the_schema_of_a_database_is_defined_once(tmp_path: Path) -> None:
    for _ in range(2):
        with connect(tmp_path, schema=SCHEMA) as conn:
            assert conn.db().basis_t == 1
    with connect(tmp_path, schema={**SCHEMA, ":more": {}}) as conn:
        assert conn.db().basis_t == 2
    with pytest.raises(InputError, match=r"schema: expected a map for ':x', such as .*, got 1") as caught:
        connect(schema={":x": 1})
    assert caught.value.code == "invalid-schema"
    with pytest.raises(Exception, match="path: expected a folder or ':memory:', got 7"):
        connect(7)  # type: ignore[arg-type]


def test_a_signal_during_the_wait_for_another_writer(tmp_path: Path) -> None:
    conn = connect(tmp_path, schema=SCHEMA)
    other = sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        conn.transact([[":db/add", 1, ":number", 1]])
    other.close()
    assert conn.transact([[":db/add", 1, ":number", 1]]).t == 2
