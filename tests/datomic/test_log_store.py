"""The log on disk: nothing acknowledged is lost, and nothing damaged is read."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dbsp.datomic import Connection, connect
from dbsp.errors import ArgumentError, CheckpointError, CheckpointWarning, InputError

ROOT = Path(__file__).resolve().parents[2]


def number_of(conn: Connection) -> int:
    """The number that the transactions count up in entity 1; 0 before the first one."""
    found = [datom.v for datom in conn.db().datoms(":eavt", 1)]
    return found[0] if found else 0


def count_up(folder: Path, *numbers: int, **options: Any) -> None:
    with connect(folder, open_schema=True, **options) as conn:
        for number in numbers:
            conn.transact(
                [[":db/add", 1, ":number", number], [":db/add", number + 2, ":text", f"text {number}"]]
            )


def check_counted(folder: Path) -> int:
    """Check that a database has whole transactions, from 1 to some number; return it."""
    with connect(folder, read_only=True) as conn:
        last = number_of(conn)
        assert conn.db().basis_t == last == len(conn.log)
        texts = [(datom.e, datom.v) for datom in conn.db().datoms(":aevt", ":text")] if last else []
        assert texts == [(number + 2, f"text {number}") for number in range(1, last + 1)]
        numbers = conn.db().history().datoms(":eavt", 1)
        assert len(numbers) == max(2 * last - 1, 0)
        return last


# --- the end of a process -------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize("durability", ["commit", "group"])
def test_no_acknowledged_transaction_is_lost_by_kill(tmp_path: Path, durability: str) -> None:
    folder, random_, last = tmp_path / "db", random.Random(durability), 0
    for _ in range(3):
        command = [
            sys.executable,
            "-m",
            "tests.datomic.counting_writer",
            str(folder),
            str(last + 1),
            durability,
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(random_.randrange(1, 30)):
                last = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            # What was printed before the signal is acknowledged, too.
            acknowledged = process.stdout.read().split("\n")
            last = max([last, *(int(line) for line in acknowledged[:-1])])
        found = check_counted(folder)
        # The process may have been killed between the commit and the acknowledgement.
        assert last <= found <= last + 1
        last = found


@pytest.mark.crash
def test_a_log_cut_at_any_byte_has_whole_transactions(tmp_path: Path) -> None:
    folder, copy = tmp_path / "db", tmp_path / "copy"
    conn = connect(folder, open_schema=True)
    for number in range(1, 13):
        conn.transact([[":db/add", 1, ":number", number], [":db/add", number + 2, ":text", f"text {number}"]])
    wal = (folder / "log.sqlite-wal").read_bytes()
    random_, found = random.Random(1), []
    cuts = sorted({0, 1, 31, 32, 33, len(wal) - 1, len(wal), *random_.sample(range(len(wal)), 30)})
    for cut in cuts:
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copy(folder / "log.sqlite", copy)
        (copy / "log.sqlite-wal").write_bytes(wal[:cut])
        try:
            found.append(check_counted(copy))
        except CheckpointError as error:
            # The tables of a new database are in the write-ahead log, too.
            assert "is not the log of a database of dbsp" in str(error) and not found
    assert found == sorted(found) and found[-1] == 12 and len(set(found)) > 6
    conn.close()
    # A process that opens the copy continues after the last whole transaction.
    (copy / "log.sqlite-wal").write_bytes(wal[: len(wal) * 2 // 3])
    last = check_counted(copy)
    count_up(copy, last + 1)
    assert check_counted(copy) == last + 1


# --- damage ---------------------------------------------------------------------------------------


def execute(folder: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(folder / "log.sqlite") as file:
        file.execute(statement, values)
    file.close()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE transactions SET datoms = CAST(x'ff' || substr(datoms, 2) AS BLOB) WHERE t = 2",
         "its checksum is wrong"),
        ("UPDATE transactions SET instant = instant + 1 WHERE t = 2", "its checksum is wrong"),
        ("UPDATE transactions SET instant = 'x' WHERE t = 2", "its checksum is wrong"),
        ("UPDATE transactions SET datoms = NULL, crc = NULL WHERE t = 2", "its checksum is wrong"),
        ("UPDATE transactions SET crc = crc + 1 WHERE t = 2", "its checksum is wrong"),
        ("DELETE FROM transactions WHERE t = 2", "it is missing, transaction 3 is there"),
    ],
)  # fmt: skip
def test_a_damaged_transaction_is_refused(tmp_path: Path, statement: str, reason: str) -> None:
    count_up(tmp_path, 1, 2, 3)
    execute(tmp_path, statement)
    with pytest.raises(CheckpointError) as caught:
        connect(tmp_path)
    assert str(caught.value) == (
        f"cannot read transaction 2 in {tmp_path}/log.sqlite: {reason}; restore the file from a copy "
        "[checkpoint-unreadable]"
    )


def test_a_transaction_of_another_number_is_refused(tmp_path: Path) -> None:
    count_up(tmp_path, 1, 2, 3)
    with sqlite3.connect(tmp_path / "log.sqlite") as file:
        rows = dict(file.execute("SELECT t, datoms FROM transactions"))
        instant = file.execute("SELECT instant FROM transactions WHERE t = 2").fetchone()[0]
    from dbsp.datomic.log_store import _checksum

    crc = _checksum(2, instant, rows[3])
    execute(tmp_path, "UPDATE transactions SET datoms = ?, crc = ? WHERE t = 2", rows[3], crc)
    with pytest.raises(
        CheckpointError, match=r"cannot read transaction 2 in .*expected the datoms of transac"
    ):
        connect(tmp_path)


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_segments_replace_the_transactions_at_opening(tmp_path: Path, size: int) -> None:
    with (
        mock.patch("dbsp.datomic.connection.SEGMENT", size),
        mock.patch("dbsp.datomic.connection.SEGMENT_AT_CLOSE", size),
    ):
        count_up(tmp_path, *range(1, 8))
        count_up(tmp_path, *range(8, 12))
    ranges = sqlite3.connect(tmp_path / "log.sqlite").execute("SELECT first, last FROM segments").fetchall()
    assert [first for first, _ in ranges] == [1, *(last + 1 for _, last in ranges[:-1])]
    assert all(last - first + 1 >= size for first, last in ranges) and ranges
    with mock.patch("dbsp.datomic.log_loading.decode_stored", side_effect=AssertionError):
        # Only the transactions after the last segment are read one by one.
        if ranges[-1][1] == 11:
            assert check_counted(tmp_path) == 11
        else:
            with pytest.raises(AssertionError):
                check_counted(tmp_path)
    assert check_counted(tmp_path) == 11


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE segments SET datoms = CAST(x'ff' || substr(datoms, 2) AS BLOB) WHERE first = 4",
        "UPDATE segments SET datoms = 'text' WHERE first = 4",
        "UPDATE segments SET crc = NULL WHERE first = 4",
    ],
)
def test_a_damaged_segment_is_a_warning(tmp_path: Path, damage: str) -> None:
    with mock.patch("dbsp.datomic.connection.SEGMENT", 3):
        count_up(tmp_path, *range(1, 11))
    execute(tmp_path, damage)
    with pytest.warns(CheckpointWarning, match="the segment of transactions 4 to 6 is damaged") as caught:
        assert check_counted(tmp_path) == 10
    assert "its checksum is wrong); the transactions are read one by one" in str(caught[0].message)
    execute(tmp_path, "DELETE FROM segments WHERE first = 4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_counted(tmp_path) == 10


def test_a_segment_of_other_transactions_is_a_warning(tmp_path: Path) -> None:
    with mock.patch("dbsp.datomic.connection.SEGMENT", 3):
        count_up(tmp_path, *range(1, 8))
    from dbsp.datomic.log_store import _checksum

    with sqlite3.connect(tmp_path / "log.sqlite") as file:
        (content,) = file.execute("SELECT datoms FROM segments WHERE first = 4").fetchone()
    execute(
        tmp_path, "UPDATE segments SET datoms = ?, crc = ? WHERE first = 1", content, _checksum(1, 3, content)
    )
    with pytest.warns(CheckpointWarning, match="expected the datoms of transactions 1 to 3, got others"):
        assert check_counted(tmp_path) == 7


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "log.sqlite").write_text("not a database, and longer than a header of SQLite" * 9)
    with pytest.raises(
        CheckpointError, match=r"cannot read .*/text/log.sqlite: file is not a database; restore"
    ):
        connect(tmp_path / "text")
    (tmp_path / "other").mkdir()
    execute(tmp_path / "other", "CREATE TABLE people (name TEXT)")
    for read_only in (False, True):
        with pytest.raises(CheckpointError, match=r"log.sqlite is not the log of a database of dbsp; choose"):
            connect(tmp_path / "other", read_only=read_only)
    count_up(tmp_path / "new", 1)
    execute(tmp_path / "new", "PRAGMA user_version = 2")
    with pytest.raises(
        CheckpointError, match="has format version 2, this version of dbsp expects 1"
    ) as caught:
        connect(tmp_path / "new")
    assert caught.value.code == "checkpoint-version"
    with pytest.raises(CheckpointError, match="has no database; connect without read_only to create one"):
        connect(tmp_path / "nothing", read_only=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot write .*/file/log.sqlite: ") as caught:
        connect(tmp_path / "file")
    assert caught.value.code == "checkpoint-write"


# --- options --------------------------------------------------------------------------------------


def test_values_that_no_file_stores(tmp_path: Path) -> None:
    with connect(tmp_path, open_schema=True) as conn:
        with pytest.raises(
            InputError, match="expected a value that a database on disk can store, got <object"
        ):
            conn.transact([[":db/add", 1, ":any", object()]])
        assert conn.db().basis_t == 0 and conn.transact([[":db/add", 1, ":any", "x"]]).t == 1
    memory = connect(open_schema=True)
    value = object()
    memory.transact([[":db/add", 1, ":any", value]])
    assert memory.db().datoms(":eavt", 1)[0].v is value


def test_a_read_only_connection_writes_nothing(tmp_path: Path) -> None:
    count_up(tmp_path, 1)
    with connect(tmp_path, read_only=True) as conn:
        with pytest.raises(CheckpointError, match=r"transact: .* is connected with read_only=True; connect"):
            conn.transact([])
        with pytest.raises(CheckpointError, match="read_only=True"):
            connect(tmp_path, read_only=True, schema={":x": {}})
        count_up(tmp_path, 2)
        assert (conn.db().basis_t, conn.sync().basis_t) == (1, 2)
        assert repr(conn) == f"<Connection to {tmp_path}, t 2, read-only>"
    with pytest.raises(
        ArgumentError, match="read_only: a database in memory is new and empty; give the path"
    ):
        connect(read_only=True)


def test_an_open_schema_belongs_to_the_database(tmp_path: Path) -> None:
    count_up(tmp_path / "open", 1)
    with connect(tmp_path / "open") as conn:
        conn.transact([[":db/add", 1, ":another", 1]])
    connect(tmp_path / "closed").close()
    with pytest.raises(
        ArgumentError, match=r"open_schema: the database in .* was created without it; define"
    ):
        connect(tmp_path / "closed", open_schema=True)


@pytest.mark.parametrize("durability", ["commit", "group"])
def test_a_transaction_is_on_the_disk_in_time(tmp_path: Path, durability: str) -> None:
    synchronous = {"commit": 2, "group": 1}
    with mock.patch("dbsp.datomic.group_flush.os.fsync") as fsync:
        conn = connect(tmp_path, open_schema=True, durability=durability)
        assert conn._store is not None
        assert conn._store._number("PRAGMA synchronous") == synchronous[durability]
        assert conn._store._patiently("PRAGMA journal_mode") == [(b"wal",)]
        for number in range(50):
            conn.transact([[":db/add", 1, ":number", number]])
        conn.close()
        assert (0 < fsync.call_count < 50) if durability == "group" else fsync.call_count == 0
    with pytest.raises(ArgumentError, match="durability= expects one of 'commit', 'group', got 'never'"):
        connect(tmp_path, durability="never")


def test_a_failed_flush_is_reported(tmp_path: Path) -> None:
    conn = connect(tmp_path, open_schema=True, durability="group")
    with mock.patch("dbsp.datomic.group_flush.os.fsync", side_effect=OSError(5, "Input/output error")):
        conn.transact([[":db/add", 1, ":number", 1]])
        assert conn._store is not None and conn._store._flush is not None
        thread = conn._store._flush._thread
        assert thread is not None
        thread.join()
    with pytest.raises(CheckpointError, match=r"cannot write .*log.sqlite: Input/output error") as caught:
        conn.transact([[":db/add", 1, ":number", 2]])
    assert caught.value.code == "checkpoint-write" and conn.db().basis_t == 1
    with pytest.raises(CheckpointError, match="Input/output error"):
        conn.close()
