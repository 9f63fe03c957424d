"""`dbsp db export` and `import`: what an import reads back is the exported database."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from dbsp.cli.database_export import history_transactions, state_transactions
from dbsp.datomic import Connection, connect
from dbsp.edn import Keyword, from_json, read_all, write
from dbsp.errors import DbspError
from tests.cli.support import Command
from tests.datomic.test_random_transactions import SEED, definitions, transactions
from tests.profiles import examples

pytestmark = pytest.mark.usefixtures("compiled_kernels")

TRANSACTIONS = read_all(
    """
[{:db/ident :v/long    :db/valueType :db.type/long}    {:db/ident :v/double :db/valueType :db.type/double}
 {:db/ident :v/float   :db/valueType :db.type/float}   {:db/ident :v/bool   :db/valueType :db.type/boolean}
 {:db/ident :v/string  :db/valueType :db.type/string   :db/cardinality :db.cardinality/many}
 {:db/ident :v/ref     :db/valueType :db.type/ref      :db/cardinality :db.cardinality/many}
 {:db/ident :v/part    :db/valueType :db.type/ref      :db/isComponent true}
 {:db/ident :v/kw      :db/valueType :db.type/keyword} {:db/ident :v/symbol :db/valueType :db.type/symbol}
 {:db/ident :v/instant :db/valueType :db.type/instant} {:db/ident :v/uuid   :db/valueType :db.type/uuid}
 {:db/ident :v/uri     :db/valueType :db.type/uri}     {:db/ident :v/bigint :db/valueType :db.type/bigint}
 {:db/ident :v/bigdec  :db/valueType :db.type/bigdec}  {:db/ident :v/bytes  :db/valueType :db.type/bytes}
 {:db/ident :v/any     :db/cardinality :db.cardinality/many :db/doc "of any type"}
 {:db/ident :v/pair    :db/valueType :db.type/tuple :db/tupleTypes [:db.type/long :db.type/ref]}
 {:db/ident :v/longs   :db/valueType :db.type/tuple :db/tupleType :db.type/long}
 {:db/ident :v/refs    :db/valueType :db.type/tuple :db/tupleType :db.type/ref}
 {:db/ident :v/long+kw :db/valueType :db.type/tuple :db/tupleAttrs [:v/long :v/kw]
  :db/unique :db.unique/identity}]
[{:db/id "a" :v/long 5 :v/double 1.5 :v/float 0.1 :v/bool false :v/string ["x" ":y" ""] :v/kw :a/b
  :v/symbol foo/bar :v/ref [:v/long "b" 77] :v/instant #inst "2020-01-01T00:00:00.123456Z"
  :v/uuid #uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" :v/uri "http://x" :v/bigdec 1.50M
  :v/bigint 123456789012345678901234567890N :v/bytes #bytes "AAEC"
  :v/pair [1 :v/kw] :v/longs [1 nil 3] :v/refs [78 :v/any] :v/part {:v/string "part"}}
 [:db/add "a" :v/any [1 "é\\n\\"" nil]] [:db/add "a" :v/any ":s"] [:db/add "a" :v/any :s]
 [:db/add "a" :v/any 1/2] [:db/add "a" :v/any #{1 2}] [:db/add "a" :v/any \\c]
 [:db/add "a" :v/any #my/tag [1]] [:db/add "a" :v/any ##NaN] [:db/add "a" :v/any 1]
 [:db/add "a" :v/any 1.0] [:db/add "a" :v/any true] [:db/add "a" :v/any 1M]
 {:db/id "b" :v/long 7 :db/ident :enum/b :db/doc "an ident"}]
[[:db/add :v/double :db/ident :v/renamed] [:db/add :v/long :v/string "a label"] [:db/add :v/kw :db/doc "text"]
 [:db/add :v/kw :db/index true]]
[[:db/add :enum/b :v/renamed 8.0] [:db/retract :enum/b :db/doc "an ident"] [:db/add :enum/b :db/ident :enum/c]
 [:db/add :v/kw :db/index false] [:db/add 78 :v/long 6] [:db/retract 78 :v/string "x"]]
[[:db/add "datomic.tx" :v/string "why"] [:db/add 4398046511106 :v/string "past"]
 [:db/add :enum/c :v/ref 4398046511105] [:db/add :enum/c :v/ref "datomic.tx"] [:db/add 79 :v/any 9]]
[[:db/retractEntity 78] [:db/add :v/any :db/doc "any"]]
""".replace("\\\\", "\\")
)
"""Transactions with all types of values, definitions, renamings and facts about transactions."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the database `source`; the current directory of the commands."""
    monkeypatch.chdir(tmp_path)
    with connect("source") as connection:
        for transaction in TRANSACTIONS:
            connection.transact(transaction)
    return tmp_path


def logged(connection: Connection) -> list[str]:
    """The transactions of the log as texts; NaN is not equal to itself."""
    return [write((each.t, each.instant, tuple(map(tuple, each.datoms)))) for each in connection.log]


def facts(connection: Connection, t: int) -> set[str]:
    """The facts of users after a transaction, as texts without their transactions."""
    schema = connection.db().schema
    names = {datom.e: datom.v for datom in connection.db().as_of(t).datoms(":aevt", ":db/ident")}

    def named(datom: Any) -> str:
        value = datom.v
        attribute = schema.by_ident[datom.a]
        if attribute.is_ref:
            value = names.get(value, value)
        elif attribute.value_type == "tuple":
            value = tuple(names.get(each, each) for each in value)
        return write((names.get(datom.e, datom.e), names[attribute.id], value))

    datoms: Sequence[Any] = connection.db().as_of(t).datoms(":eavt")
    return {named(each) for each in datoms if each.a != Keyword("db/txInstant")}


@pytest.mark.parametrize("format_", ["edn", "jsonl"])
def test_the_history_is_read_back(source: Path, run: Command, format_: str) -> None:
    done = run("db", "export", "source", "--history", "--format", format_)
    assert (done.code, done.err) == (0, "")
    (source / f"all.{format_}").write_text(done.out)
    run("db", "init", "copy")
    done = run("db", "import", "copy", f"all.{format_}")
    assert (done.code, done.err) == (0, "")
    with connect("source") as expected, connect("copy") as copy:
        assert logged(copy) == logged(expected)
    assert (
        run("db", "export", "copy", "--history", "--format", format_).out
        == (source / f"all.{format_}").read_text()
    )


@pytest.mark.parametrize("format_", ["edn", "jsonl"])
@pytest.mark.parametrize("t", [1, 2, 3, 4, 6])
def test_the_facts_of_a_time_are_read_back(source: Path, run: Command, t: int, format_: str) -> None:
    done = run("db", "export", "source", "--as-of", str(t), "--format", format_)
    assert done.code == 0
    (source / "facts").write_text(done.out)
    run("db", "init", "copy")
    assert run("db", "import", "copy", "facts", "--format", format_).err == ""
    with connect("source") as expected, connect("copy") as copy:
        about = "facts about transactions" in done.err
        assert about == (t == 6)
        found = {each for each in facts(expected, t) if "43980465111" not in each}
        assert facts(copy, copy.db().basis_t) == found
    assert run("db", "export", "copy", "--format", format_).out == done.out


def test_entities_of_the_schema_are_exported_by_name(source: Path, run: Command) -> None:
    (source / "facts.edn").write_text(run("db", "export", "source", "--as-of", "4").out)
    with connect("copy", schema={":other": {}}) as copy:
        before = facts(copy, 1)
    assert run("db", "import", "copy", "facts.edn").err == ""
    with connect("source") as expected, connect("copy") as copy:
        assert facts(copy, copy.db().basis_t) == facts(expected, 4) | before


def test_a_history_needs_a_database_without_later_transactions(source: Path, run: Command) -> None:
    (source / "all.edn").write_text(run("db", "export", "source", "--history").out)
    with connect("copy", schema={":other": {}}):
        pass
    done = run("db", "import", "copy", "all.edn")
    assert done.code == 1
    assert done.err.startswith("all.edn:1:2: error: the time ")
    assert "is before that of the last transaction" in done.err


def test_facts_that_are_not_exported_are_reported(source: Path, run: Command) -> None:
    assert run("db", "export", "source").err == (
        "dbsp: warning: facts about transactions that are not exported: 2; --history exports them\n"
        "dbsp: warning: references to transactions that are not exported: 2; --history exports them\n"
    )
    assert run("db", "export", "source", "--as-of", "4").err == ""


def test_an_export_as_of_a_time_has_its_history(source: Path, run: Command) -> None:
    done = run("db", "export", "source", "--as-of", "3", "--history")
    assert len(read_all(done.out)) == 3
    assert ":v/double :db/ident :v/renamed" in done.out


def test_an_open_schema_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    monkeypatch.chdir(tmp_path)
    with connect("source", open_schema=True) as connection:
        connection.transact([{":name": "Ada", ":age": 36}])
        connection.transact([{":db/ident": ":later", ":db/cardinality": ":db.cardinality/many"}])
        connection.transact([[":db/add", 1, ":later", [1, 2]], [":db/add", 1, ":seen", True]])
        expected = logged(connection)
    for options in (["--history"], []):
        (tmp_path / "all.edn").write_text(run("db", "export", "source", *options).out)
        folder = f"copy{len(options)}"
        run("db", "init", folder, "--open-schema")
        assert run("db", "import", folder, "all.edn").err == ""
        with connect(folder) as copy:
            if options:
                assert logged(copy) == expected
            assert copy.db().datoms(":eavt", 1)[0].v == "Ada"
            assert len(copy.db().datoms(":eavt", 1)) == 4


def test_an_export_is_one_operation_per_line(source: Path, run: Command) -> None:
    text = run("db", "export", "source", "--as-of", "2").out
    assert '\n [:db/add 78 :v/string ":y"]\n' in text
    assert [len(each) for each in read_all(text)] == [20, 40]
    lines = run("db", "export", "source", "--as-of", "2", "--format", "jsonl").out.splitlines()
    assert [from_json(line) for line in lines] == read_all(text)


def test_a_large_export_has_several_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    with connect("source", schema={":n": {}, ":m": {}}) as connection:
        connection.transact_table({":n": list(range(12_000)), ":m": list(range(12_000))})
    transactions = read_all(run("db", "export", "source").out)
    assert [len(each) for each in transactions] == [2, 10_000, 10_000, 4_000]
    run("db", "init", "copy")
    (tmp_path / "all.edn").write_text(run("db", "export", "source").out)
    done = run("db", "import", "copy", "all.edn")
    assert done.out.startswith("imported 24,0")
    assert " datoms in 4 transactions, " in done.out
    with connect("source") as expected, connect("copy") as copy:
        assert copy.db().datoms(":aevt", ":n")[-1].v == 11_999
        assert facts(copy, 5) == facts(expected, 2)


@settings(max_examples=examples(30))
@given(transactions())
def test_random_databases_are_read_back(random: list[list[Any]]) -> None:
    source, history, state = connect(), connect(), connect()
    for transaction in (definitions(), SEED, *random):
        with contextlib.suppress(DbspError):  # an error changes nothing
            source.transact(transaction)
    for operations in history_transactions(source.db(), source.tx_range()):
        history.transact(operations)
    assert logged(history) == logged(source)
    for operations in state_transactions(source.db(), Counter()):
        state.transact(operations)
    assert facts(state, 99) == facts(source, 99)
