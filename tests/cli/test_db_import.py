"""`dbsp db import`: batches of forms, tables, tempids of a file, and errors with their lines."""

from __future__ import annotations

import datetime as dt
import gzip
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dbsp.cli.database_import import Import
from dbsp.cli.db_options import TextFormat
from dbsp.datomic import connect, q
from dbsp.edn import Keyword, Symbol, read
from tests.cli.support import Command

pytestmark = pytest.mark.usefixtures("compiled_kernels")

SCHEMA = """
{:name {:db/valueType :db.type/string :db/unique :db.unique/identity}
 :code {:db/valueType :db.type/string :db/unique :db.unique/value}
 :age {:db/valueType :db.type/long}
 :tag {:db/valueType :db.type/keyword :db/cardinality :db.cardinality/many}
 :friend {:db/valueType :db.type/ref :db/cardinality :db.cardinality/many}}
"""
AGES = "[:find ?n ?a :where [?p :name ?n] [?p :age ?a]]"


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the empty database `people`; the current directory of the commands."""
    monkeypatch.chdir(tmp_path)
    with connect("people", schema=read(SCHEMA)):
        pass
    return tmp_path


def answer(query: str, *inputs: Any) -> Any:
    """The answer of a query over the database `people`."""
    with connect("people") as connection:
        return q(query, connection.db(), *inputs)


def sizes() -> list[int]:
    """The number of datoms of each transaction but the one with the schema, without their times."""
    with connect("people") as connection:
        return [len(each.datoms) - 1 for each in connection.tx_range(2)]


# --- forms ----------------------------------------------------------------------------------------


def test_maps_are_collected_into_transactions(people: Path, run: Command) -> None:
    (people / "p.edn").write_text("".join(f'{{:name "n{n}" :age {n}}}\n' for n in range(25)))
    done = run("db", "import", "people", "p.edn", "--batch", "10")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"imported 53 datoms in 3 transactions, \d+\.\d s, [\d,]+ datoms/s\n", done.out)
    assert sizes() == [20, 20, 10]
    assert len(answer(AGES)) == 25


def test_whole_transactions_stay_whole(people: Path, run: Command) -> None:
    (people / "p.edn").write_text(
        '{:name "a"} [:db/add 50 :age 1]\n[{:name "b" :age 2} {:name "c"}]\n{:name "d"}\n'
    )
    assert run("db", "import", "people", "p.edn").err == ""
    assert sizes() == [2, 3, 1]


def test_json_lines(people: Path, run: Command) -> None:
    (people / "p.jsonl").write_text(
        '{"name": "Ada", ":age": 36, "tag": [":x", ":y"]}\n{":name": "Eva"}\n'
        '[":db/add", [":name", "Ada"], ":code", "A"]\n[[":db/add", 9, ":age", 1]]\n'
    )
    with gzip.open(people / "q.jsonl.gz", "wt") as file:
        file.write('{"name": "Joe"}\n')
    (people / "r.edn").write_text('{:name "Zoe"}')
    assert run("db", "import", "people", "p.jsonl", "--batch", "2").err == ""
    assert run("db", "import", "people", "q.jsonl.gz", "r.edn").err == ""
    assert answer("[:find [?n ...] :where [_ :name ?n]]") == ["Ada", "Eva", "Joe", "Zoe"]
    assert answer('[:find [?t ...] :where [?p :tag ?t] [?p :code "A"]]') == [Keyword("x"), Keyword("y")]
    assert sizes() == [5, 1, 1, 1, 1]


def test_a_tempid_is_one_entity_in_the_whole_file(people: Path, run: Command) -> None:
    (people / "p.edn").write_text(
        '{:db/id "ada" :name "Ada"} {:db/id -1 :name "Eva"}\n'
        '{:name "Joe" :friend ["ada" {:name "Zoe" :friend -1}]} [:db/add "ada" :age 36]\n'
        '[:db/add -1 :friend "ada"] {:db/id "ada" :tag :ada}\n'
        '[{:db/id "ada" :name "other"}]\n'
        '{:db/id "max" :name "Max" :friend "ada"} {:db/id -1 :_friend "max" :code "ada"}\n'
    )
    assert run("db", "import", "people", "p.edn", "--batch", "2").err == ""
    assert answer("[:find ?n ?m :where [?p :friend ?f] [?p :name ?n] [?f :name ?m]]") == [
        ("Eva", "Ada"),
        ("Joe", "Ada"),
        ("Joe", "Zoe"),
        ("Max", "Ada"),
        ("Max", "Eva"),
        ("Zoe", "Eva"),
    ]
    assert answer('[:find [?a ?t] :where [?p :name "Ada"] [?p :age ?a] [?p :tag ?t]]') == (36, Keyword("ada"))
    assert answer('[:find ?n . :where [?p :code "ada"] [?p :name ?n]]') == "Eva"


def test_a_tempid_that_only_a_later_transaction_defines_is_an_error(people: Path, run: Command) -> None:
    (people / "p.edn").write_text('{:name "Joe" :friend "ada"}\n{:db/id "ada" :name "Ada"}\n')
    done = run("db", "import", "people", "p.edn", "--batch", "1")
    assert done.code == 1
    assert 'p.edn:1:22: error: nothing is asserted about the tempid "ada"' in done.err
    assert run("db", "import", "people", "p.edn").code == 0


def test_a_failed_batch_names_its_line_and_keeps_those_before_it(people: Path, run: Command) -> None:
    lines = [f'{{:name "n{n}" :age {n}}}' for n in range(25)]
    lines[17] = '{:name "n17" :age "old"}'
    (people / "p.edn").write_text("\n".join(lines))
    done = run("db", "import", "people", "p.edn", "--batch", "10")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        'p.edn:18:19: error: attribute :age expects a long, got the string "old" [wrong-type]\n'
        '    {:name "n17" :age "old"}\n'
        "                      ^^^^^\n"
        "dbsp: imported before the error: 21 datoms in 1 transaction, "
    )
    assert len(answer(AGES)) == 10


def test_errors_of_files(people: Path, run: Command) -> None:
    assert "none.edn: there is no such file [file-not-found]" in run("db", "import", "people", "none.edn").err
    assert "none.csv: there is no such file [file-not-found]" in run("db", "import", "people", "none.csv").err
    (people / "p.edn").write_text('{:name "Ada"}\n{:name\n')
    assert run("db", "import", "people", "p.edn").err.startswith(
        "p.edn:2:1: error: the map that starts here does not end [edn-bracket]"
    )
    (people / "p.edn").write_text("7")
    assert (
        "p.edn:1:1: error: expected a list of operations and maps"
        in run("db", "import", "people", "p.edn").err
    )
    assert sizes() == []


# --- tables ---------------------------------------------------------------------------------------


def test_a_csv_file_that_ends_within_quotation_marks_changes_nothing(people: Path, run: Command) -> None:
    before = run("db", "query", "people", "[:find ?e ?a ?v :where [?e ?a ?v]]").out
    (people / "p.csv").write_text('name,age\nAda,36\n"Eva,7\nJoe,7\n')
    refused = run("db", "import", "people", "p.csv", "--batch", "1")
    assert "p.csv: row 2: a quotation mark is not closed until the end of the file" in refused.err
    assert run("db", "query", "people", "[:find ?e ?a ?v :where [?e ?a ?v]]").out == before


def test_csv_columns_are_read_by_the_types_of_attributes(people: Path, run: Command) -> None:
    (people / "p.csv").write_text('name,age,tag\nAda,36,:x\n"Eva, ""the""\nsecond",,x/y\n\nJoe,7,\n')
    done = run("db", "import", "people", "p.csv")
    assert (done.code, done.err) == (0, "")
    assert answer("[:find ?n (pull ?p [:age :tag]) :where [?p :name ?n]]") == [
        ("Ada", {Keyword("age"): 36, Keyword("tag"): [Keyword("x")]}),
        ('Eva, "the"\nsecond', {Keyword("tag"): [Keyword("x/y")]}),
        ("Joe", {Keyword("age"): 7}),
    ]


def test_rows_find_their_entities(people: Path, run: Command) -> None:
    with connect("people") as connection:
        connection.transact([{":db/id": 5, ":code": "A", ":age": 1}])
    (people / "p.csv").write_text("code,age\nA,2\nB,3\n")
    # Without the key, A is the value of another entity.
    refused = run("db", "import", "people", "p.csv")
    assert refused.code == 1
    assert refused.err.startswith("dbsp: error: p.csv:2: ")
    assert run("db", "import", "people", "p.csv", "--entity-key", ":code").err == ""
    assert answer('[:find [?p ?a] :where [?p :code "A"] [?p :age ?a]]') == (5, 2)
    (people / "q.csv").write_text('db/id,friend\n5,"[:code ""B""]"\n"[:code ""B""]",5\n')
    assert run("db", "import", "people", "q.csv").err == ""
    assert answer("[:find ?c ?d :where [?p :friend ?f] [?p :code ?c] [?f :code ?d]]") == [
        ("A", "B"),
        ("B", "A"),
    ]


def test_tables_are_imported_in_batches(people: Path, run: Command) -> None:
    (people / "p.csv").write_text("name,age\n" + "".join(f"n{n},{n}\n" for n in range(25)))
    parquet.write_table(
        pa.table({"name": [f"m{n}" for n in range(25)], ":age": [None, *range(24)]}), people / "p.parquet"
    )
    assert run("db", "import", "people", "p.csv", "p.parquet", "--batch", "10").err == ""
    assert sizes() == [20, 20, 10, 19, 20, 10]
    assert len(answer(AGES)) == 49


VALUES: list[tuple[str, str, Any]] = [
    ("long", "-7", -7),
    ("bigint", "123456789012345678901", 123456789012345678901),
    ("double", "1e3", 1000.0),
    ("float", "0.5", 0.5),
    ("boolean", "false", False),
    ("boolean", "True", True),
    ("string", "007", "007"),
    ("uri", "http://x", "http://x"),
    ("keyword", ":a/b", Keyword("a/b")),
    ("keyword", "a", Keyword("a")),
    ("symbol", "a/b", Symbol("a/b")),
    ("instant", "2024-05-01 12:30:00", dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)),
    ("instant", "2024-05-01T12:30:00+02:00", dt.datetime(2024, 5, 1, 10, 30, tzinfo=dt.UTC)),
    ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")),
    ("bigdec", "1.50", Decimal("1.50")),
    ("bytes", "AAEC", b"\0\1\2"),
    ("tuple", "[1 nil]", (1, None)),
    ("ref", "17", 17),
    ("ref", ":db.type/long", 2**43 + 32),
    ("any", "12", 12),
    ("any", "1.5", 1.5),
    ("any", "true", True),
    ("any", ":a", Keyword("a")),
    ("any", ": a", ": a"),
    ("any", "text", "text"),
]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database that has an attribute of each type."""
    monkeypatch.chdir(tmp_path)
    schema: dict[str, Any] = {
        f":{name}": {":db/valueType": f":db.type/{name}"}
        for name, _, _ in VALUES
        if name not in ("any", "tuple")
    }
    schema[":any"] = {}
    schema[":tuple"] = {":db/valueType": ":db.type/tuple", ":db/tupleType": ":db.type/long"}
    with connect("people", schema=schema):
        pass
    return tmp_path


def test_texts_of_all_types(typed: Path, run: Command) -> None:
    for type_, text, value in VALUES:
        (typed / "v.csv").write_text(f'{type_}\n"{text}"\n')
        done = run("db", "import", "people", "v.csv")
        assert (done.code, done.err) == (0, ""), type_
        with connect("people") as connection:
            *_, last = connection.log
            (found,) = [datom.v for datom in last.datoms if datom.a == Keyword(type_)]
        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("long", "1.5"),
        ("long", "x"),
        ("bigint", "1e3"),
        ("double", "x"),
        ("double", "1_000"),
        ("float", "١"),
        ("boolean", "1"),
        ("keyword", "a b"),
        ("symbol", "1"),
        ("instant", "yesterday"),
        ("uuid", "x"),
        ("bigdec", "x"),
        ("bigdec", "1_000"),
        ("bigdec", "NaN"),
        ("bytes", "?"),
        ("tuple", "1"),
        ("ref", "ada"),
    ],
)
def test_a_text_of_another_type_is_an_error(typed: Path, run: Command, type_: str, text: str) -> None:
    (typed / "v.csv").write_text(f'string,{type_}\n"a\nb",\n\nc,\nd,{text}\n')
    done = run("db", "import", "people", "v.csv")
    expected = "an entity id, an ident or a lookup ref" if type_ == "ref" else f"a value of type {type_}"
    assert done.code == 1
    assert done.err.startswith(
        f"dbsp: error: v.csv:6: column :{type_}: expected {expected}, got '{text}' [wrong-type]\n"
    )


def test_parquet_values(typed: Path, run: Command) -> None:
    table = pa.table(
        {
            "long": pa.array([1], pa.int32()),
            "double": pa.array([0.5], pa.float32()),
            "string": pa.array(["a"]).dictionary_encode(),
            "keyword": ["k/w"],
            "any": ["12"],
            "instant": pa.array([dt.datetime(2024, 5, 1)], pa.timestamp("ms")),
            "bigdec": [Decimal("2.50")],
            "boolean": [True],
        }
    )
    parquet.write_table(table, typed / "v.parquet")
    assert run("db", "import", "people", "v.parquet").err == ""
    with connect("people") as connection:
        found = {datom.a.text: datom.v for datom in connection.db().datoms(":eavt", 1)}
    assert found == {
        "long": 1,
        "double": 0.5,
        "string": "a",
        "keyword": Keyword("k/w"),
        "any": "12",
        "instant": dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
        "bigdec": Decimal("2.50"),
        "boolean": True,
    }
    parquet.write_table(pa.table({"instant": pa.array([dt.date(2024, 5, 2)])}), typed / "v.parquet")
    assert run("db", "import", "people", "v.parquet").err == ""
    for zone in (None, "Europe/Rome"):
        times = pa.array([2000, 1], pa.timestamp("ns", zone))
        parquet.write_table(pa.table({"instant": times}), typed / "v.parquet")
        expected = "dbsp: error: v.parquet: row 2: column :instant: expected an instant in whole microseconds"
        assert run("db", "import", "people", "v.parquet").err.startswith(expected)


@pytest.mark.parametrize("arrow", [pa.string_view(), pa.large_string(), pa.dictionary("int8", "string")])
def test_texts_of_all_arrow_types(typed: Path, run: Command, arrow: pa.DataType) -> None:
    texts = {"long": "12", "double": "inf", "keyword": "k/w", "bigdec": "1.50", "ref": ":long", "string": "a"}
    table = pa.table({name: pa.array([text]).cast(arrow) for name, text in texts.items()})
    parquet.write_table(table, typed / "v.parquet")
    assert run("db", "import", "people", "v.parquet").err == ""
    with connect("people") as connection:
        found = {datom.a.text: datom.v for datom in connection.db().datoms(":eavt", 1)}
    found["ref"] = texts["ref"]
    values = {"long": 12, "double": float("inf"), "keyword": Keyword("k/w"), "bigdec": Decimal("1.50")}
    assert found == texts | values


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name,agee\nAda,1\n", "p.csv:1: unknown attribute :agee; did you mean :age?"),
        ("name,a b\nAda,1\n", "p.csv:1: expected the name of a keyword"),
        ("name,name\nAda,Ada\n", "p.csv:1: column name occurs twice [duplicate-column]"),
        ('name,age\n"A\nB",1\n\nAda\n', "p.csv:5: expected 2 columns, got 1: 'Ada' [invalid-line]"),
        ("name,age\nAda,1,2\n", "p.csv:2: expected 2 columns, got 3: 'Ada,1,2' [invalid-line]"),
        ("name,age\nAda,\udcff\n", "p.csv:2: column 2: expected UTF-8 text [invalid-encoding]"),
        ("name,\udcff\nAda,1\n", "p.csv:1: column 2: expected UTF-8 text [invalid-encoding]"),
        ("name,age\n" + "A" * 140_000 + ",1\nEva,x\n", "p.csv:3: column :age: expected a value of type"),
        ("", "p.csv:1: expected a line with the names of the columns [invalid-line]"),
        ("\n\n", "p.csv:1: expected a line with the names of the columns [invalid-line]"),
        ("code,age\nA,1\n\nB,2\nA,3\n", "p.csv:5: "),
    ],
)
def test_errors_of_tables(people: Path, run: Command, text: str, error: str) -> None:
    (people / "p.csv").write_bytes(text.encode(errors="surrogateescape"))
    done = run("db", "import", "people", "p.csv")
    assert done.code == 1
    assert done.err.startswith(f"dbsp: error: {error}")
    assert sizes() == []


def test_a_table_that_has_only_names(people: Path, run: Command) -> None:
    (people / "p.csv").write_text("name,age")
    done = run("db", "import", "people", "p.csv")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("imported 0 datoms")


def test_errors_of_later_batches_and_of_parquet(people: Path, run: Command) -> None:
    parquet.write_table(pa.table({"name": ["a", "b", "c"], "age": ["1", "2", "x"]}), people / "p.parquet")
    done = run("db", "import", "people", "p.parquet", "--batch", "2")
    assert done.err.startswith(
        "dbsp: error: p.parquet: row 3: column :age: expected a value of type long, got 'x' [wrong-type]\n"
        "dbsp: imported before the error: 5 datoms in 1 transaction"
    )
    parquet.write_table(pa.table({"name": ["d"], "tag": [["a"]]}), people / "p.parquet")
    assert (
        "p.parquet: column :tag: expected one value per row, got lists; write a row for each value"
        in run("db", "import", "people", "p.parquet").err
    )
    (people / "p.parquet").write_text("x")
    assert "p.parquet: cannot be read: " in run("db", "import", "people", "p.parquet").err
    (people / "p.csv").write_text("name,age\ne,1\n")
    assert (
        "key: expected a unique attribute, :age is not unique"
        in run("db", "import", "people", "p.csv", "--entity-key", ":age").err
    )


def test_an_open_schema_gets_the_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    run("db", "init", "people", "--open-schema")
    (tmp_path / "p.csv").write_text("name,age\nAda,36\n")
    assert run("db", "import", "people", "p.csv").err == ""
    assert answer(AGES) == [("Ada", 36)]


# --- progress -------------------------------------------------------------------------------------


def test_progress(people: Path) -> None:
    (people / "p.edn").write_text("".join(f'{{:name "n{n}"}}\n' for n in range(5_000)))
    seen: list[tuple[int | None, str]] = []
    with connect("people") as connection:
        running = Import(connection, 1_000, None, lambda size, text: seen.append((size, text)))
        running.read(people / "p.edn", TextFormat.EDN)
    assert sum(size or 0 for size, _ in seen) == (people / "p.edn").stat().st_size
    assert [text.split(" datoms, ")[0] for _, text in seen] == ["1,001", "2,002", "3,003", "4,004", "5,005"]
