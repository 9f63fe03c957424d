"""`dbsp db watch`: the rows of a query and their changes, while other processes transact."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbsp.datomic import connect
from tests.cli.support import Command, process, read_until

pytestmark = pytest.mark.usefixtures("compiled_kernels")

AGES = "[:find ?n ?a :where [?p :name ?n] [?p :age ?a]]"


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the database `people`; the current directory of the commands."""
    monkeypatch.chdir(tmp_path)
    schema = {
        ":name": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
        ":age": {":db/valueType": ":db.type/long"},
    }
    with connect("people", schema=schema) as connection:
        connection.transact([{":name": "Ada", ":age": 36}])
        connection.transact([{":name": "Ada", ":age": 37}])
    return tmp_path


@pytest.fixture
def watch(people: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that watches the ages."""
    command = [sys.executable, "-m", "dbsp", "db", "watch", "people", AGES, "--poll", "0.02"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as peer:
        try:
            yield peer
        finally:
            peer.kill()


def test_watch_prints_the_rows_of_now(people: Path, run: Command) -> None:
    done = run("db", "watch", "people", AGES, "--for", "0")
    assert (done.code, done.out, done.err) == (0, '[["Ada" 37] 1]\n; t 3\n', "")
    done = run("db", "watch", "people", AGES, "--for", "0", "--format", "json")
    assert json.loads(done.out) == {"t": 3, "rows": [[["Ada", 37], 1]]}


def test_watch_since_a_transaction_prints_the_changes_after_it(people: Path, run: Command) -> None:
    done = run("db", "watch", "people", AGES, "--for", "0", "--since", "2")
    assert done.out == '[["Ada" 36] -1]\n[["Ada" 37] 1]\n; t 3\n'
    done = run("db", "watch", "people", AGES, "--for", "0", "--since", "0", "-f", "json")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"t": 2, "rows": [[["Ada", 36], 1]]},
        {"t": 3, "rows": [[["Ada", 36], -1], [["Ada", 37], 1]]},
    ]
    assert run("db", "watch", "people", AGES, "--for", "0", "--since", "3").out == ""


def test_watch_takes_inputs(people: Path, run: Command) -> None:
    query = "[:find ?n :in ?least $ :where [?p :name ?n] [?p :age ?a] [(<= ?least ?a)]]"
    assert run("db", "watch", "people", query, "-i", "37", "--for", "0").out == '[["Ada"] 1]\n; t 3\n'
    assert run("db", "watch", "people", query, "-i", "38", "--for", "0").out == "; t 3\n"


def test_watch_prints_what_another_process_transacts(people: Path, watch: subprocess.Popen[bytes]) -> None:
    assert watch.stdout is not None
    assert watch.stderr is not None
    assert read_until(watch.stdout.fileno(), "; t 3\n") == '[["Ada" 37] 1]\n; t 3\n'
    changes = '[{:name "Eva" :age 7}] [{:db/doc "unrelated"}] [[:db/retract [:name "Ada"] :age 37]]'
    assert process("db", "transact", "people", changes).returncode == 0
    with connect("people") as connection:
        connection.transact([{":name": "Ada", ":age": 38}, {":name": "Eva", ":age": 8}])
    assert read_until(watch.stdout.fileno(), "; t 7\n") == (
        '[["Eva" 7] 1]\n; t 4\n[["Ada" 37] -1]\n; t 6\n[["Ada" 38] 1]\n[["Eva" 7] -1]\n[["Eva" 8] 1]\n; t 7\n'
    )
    watch.send_signal(signal.SIGINT)
    assert watch.wait(60) == 0
    assert watch.stderr.read() == b""


def test_watch_ends_with_the_error_of_a_function(people: Path, run: Command) -> None:
    query = "[:find ?q :where [?p :age ?a] [(quot 36 ?a) ?q]]"
    with connect("people") as connection:
        connection.transact([{":name": "Joe", ":age": 0}])
    done = run("db", "watch", "people", query, "--since", "3", "--for", "0")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("query:1:")


def test_an_invalid_interval(people: Path, run: Command) -> None:
    done = run("db", "watch", "people", AGES, "--poll", "0")
    assert (done.code, done.out) == (2, "")
    assert "--poll" in done.err
