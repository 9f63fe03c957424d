"""`dbsp db`: create, transact, query, explain and log, and their errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dbsp.datomic import connect
from dbsp.edn import Keyword, from_json, read, read_all
from tests.cli.support import Command, process

pytestmark = pytest.mark.usefixtures("compiled_kernels")

SCHEMA = """\
{:person/name {:db/valueType :db.type/string :db/unique :db.unique/identity}
 :person/age {:db/valueType :db.type/long}
 :person/friend {:db/valueType :db.type/ref :db/cardinality :db.cardinality/many}}
"""
ADA_AND_BOB = """\
[{:db/id "ada" :person/name "Ada" :person/age 36 :person/friend "bob"}
 {:db/id "bob" :person/name "Bob"}]
[[:db/add [:person/name "Ada"] :person/age 37]]
"""
AGES = "[:find ?n ?a :where [?p :person/name ?n] [?p :person/age ?a]]"
NAMES = "[:find [?n ...] :where [_ :person/name ?n]]"


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the database `people`; the current directory of the commands."""
    monkeypatch.chdir(tmp_path)
    with connect("people", schema=read(SCHEMA)) as connection:
        for transaction in read_all(ADA_AND_BOB):
            connection.transact(transaction)
    return tmp_path


# --- init and transact ----------------------------------------------------------------------------


def test_init_creates_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.edn").write_text(SCHEMA)
    assert run("db", "init", "people", "--schema", "schema.edn").out == "people: new database, t 1\n"
    assert run("db", "init", "people", "--schema", "schema.edn").out == "people: existing database, t 1\n"
    assert run("db", "init", "notes", "--open-schema").out == "notes: new database, t 0\n"
    with connect("people") as connection:
        assert connection.db().schema.attribute(":person/friend").many
    with connect("notes") as connection:
        assert connection.db().schema.open


def test_init_reports_errors_of_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("db", "init", "people", "--schema", "none.edn")
    assert (done.code, done.err) == (1, "dbsp: error: none.edn: there is no such file [file-not-found]\n")
    (tmp_path / "schema.edn").write_text("{:a {}\n :b {:db/valueType :db.type/string}")
    done = run("db", "init", "people", "--schema", "schema.edn")
    assert done.code == 1
    assert done.err.startswith("schema.edn:1:1: error: the map that starts here does not end [edn-bracket]")
    assert not (tmp_path / "people").exists()


def test_transact_prints_a_line_for_each_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.edn").write_text(SCHEMA)
    run("db", "init", "people", "--schema", "schema.edn")
    done = run("db", "transact", "people", ADA_AND_BOB)
    assert (done.code, done.err) == (0, "")
    first, second = read_all(done.out)
    assert first == {
        Keyword("t"): 2,
        Keyword("tx"): 2**42 + 2,
        Keyword("datoms"): 5,
        Keyword("tempids"): {"ada": 1, "bob": 2},
    }
    assert (second[Keyword("t")], second[Keyword("datoms")], second[Keyword("tempids")]) == (3, 3, {})


@pytest.mark.parametrize("source", ["more.edn", "-", None])
def test_transact_reads_files_and_standard_input(people: Path, run: Command, source: str | None) -> None:
    text = '; two transactions\n[{:person/name "Eva"}]\n[]\n'
    (people / "more.edn").write_text(text)
    given = [] if source is None else [source]
    done = run("db", "transact", "people", *given, stdin="" if source == "more.edn" else text)
    assert (done.code, [each[Keyword("t")] for each in read_all(done.out)]) == (0, [4, 5])
    assert run("db", "query", "people", NAMES, "-f", "edn").out == '"Ada"\n"Bob"\n"Eva"\n'


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_transact_reads_json_lines(people: Path, run: Command, mark: str) -> None:
    lines = mark + '[{":db/id": "eva", "person/name": "Eva"}]\n\n[[":db/add", 2, ":person/age", 40]]\n'
    done = run("db", "transact", "people", "--format", "jsonl", stdin=lines)
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"t": 4, "tx": 2**42 + 4, "datoms": 2, "tempids": {"eva": 3}},
        {"t": 5, "tx": 2**42 + 5, "datoms": 2, "tempids": {}},
    ]
    (people / "more.jsonl").write_text('[[":db/add", 2, ":person/age", "old"]]\n')
    done = run("db", "transact", "people", "more.jsonl")
    assert done.code == 1
    assert 'more.jsonl:1:1: error: attribute :person/age expects a long, got the string "old"' in done.err


def test_a_failed_transaction_names_its_place_and_keeps_those_before_it(people: Path, run: Command) -> None:
    (people / "more.edn").write_text(
        '[{:person/name "Eva"}]\n[{:person/name "Joe"}\n {:person/agee 3}]\n[{:person/name "Zoe"}]\n'
    )
    done = run("db", "transact", "people", "more.edn")
    assert done.code == 1
    assert len(read_all(done.out)) == 1
    assert done.err == (
        "more.edn:3:3: error: unknown attribute :person/agee; did you mean :person/age? [unknown-attribute]\n"
        "     {:person/agee 3}]\n"
        "      ^^^^^^^^^^^^\n"
        "dbsp: transactions before the error, which are in the database: 1\n"
    )
    assert run("db", "query", "people", NAMES, "-f", "edn").out == '"Ada"\n"Bob"\n"Eva"\n'


def test_a_transaction_is_a_vector_of_forms(people: Path, run: Command) -> None:
    done = run("db", "transact", "people", '{:person/name "Eva"}')
    assert done.code == 1
    assert "transaction:1:1: error: expected a list of operations and maps" in done.err
    assert "put the map into a list: [{...}] [invalid-transaction]" in done.err
    assert run("db", "transact", "people", stdin="[[:db/add 1 :person/age 4]").code == 1


def test_transactions_that_are_not_text(people: Path, run: Command) -> None:
    (people / "more.edn").write_bytes(b'[{:person/name "Z\xff"}]')
    done = run("db", "transact", "people", "more.edn")
    assert done.code == 1
    assert "more.edn:1:18: error: expected Unicode text" in done.err
    (people / "more.edn.gz").write_bytes(b"\x1f\x8b12345678901234567890")
    done = run("db", "transact", "people", "more.edn.gz")
    assert (done.code, "more.edn.gz: cannot be decompressed" in done.err) == (1, True)


# --- queries --------------------------------------------------------------------------------------


def test_query_prints_a_table(people: Path, run: Command) -> None:
    assert run("db", "query", "people", AGES).out == '?n     ?a\n─────  ──\n"Ada"  37\n(1 row)\n'
    assert run("db", "query", "people", NAMES).out == '?n\n─────\n"Ada"\n"Bob"\n(2 rows)\n'


@pytest.mark.parametrize(
    ("query", "edn", "json_", "csv"),
    [
        (AGES, '["Ada" 37]\n', '["Ada", 37]\n', "?n,?a\nAda,37\n"),
        (NAMES, '"Ada"\n"Bob"\n', '"Ada"\n"Bob"\n', "?n\nAda\nBob\n"),
        ("[:find (count ?p) . :where [?p :person/name]]", "2\n", "2\n", "(count ?p)\n2\n"),
        ("[:find ?p . :where [?p :person/age 1]]", "nil\n", "null\n", "?p\n"),
        (
            '[:find [?p ?a] :where [?p :person/name "Ada"] [?p :person/age ?a]]',
            "[1 37]\n",
            "[1, 37]\n",
            "?p,?a\n1,37\n",
        ),
        (
            "[:find ?n :keys name :where [_ :person/name ?n]]",
            '{:name "Ada"}\n{:name "Bob"}\n',
            '{":name": "Ada"}\n{":name": "Bob"}\n',
            "name\nAda\nBob\n",
        ),
        (
            '[:find (pull ?p [:person/age]) (max 2 ?p) :where [?p :person/name "Ada"]]',
            "[{:person/age 37} [1]]\n",
            '[{":person/age": 37}, [1]]\n',
            "(pull ?p [:person/age]),(max 2 ?p)\n{:person/age 37},[1]\n",
        ),
    ],
)
def test_formats(people: Path, run: Command, query: str, edn: str, json_: str, csv: str) -> None:
    assert run("db", "query", "people", query, "--format", "edn").out == edn
    assert run("db", "query", "people", query, "--format", "json").out == json_
    assert run("db", "query", "people", query, "--format", "csv").out == csv
    table = run("db", "query", "people", query).out
    assert table.splitlines()[0].split() == csv.splitlines()[0].replace(",", " ").split()


def test_inputs_and_rules(people: Path, run: Command) -> None:
    (people / "family.edn").write_text("[[(adult [?least] ?p) [?p :person/age ?a] [(<= ?least ?a)]]]")
    (people / "adults.edn").write_text(
        "[:find ?n :in [?n ...] $ % ?least :where [?p :person/name ?n] (adult ?least ?p)]"
    )
    command = ("db", "query", "people", "adults.edn", "--rules", "family.edn", "-f", "edn")
    assert run(*command, "-i", '["Ada" "Bob"]', "-i", "18").out == '["Ada"]\n'
    assert run(*command, "-i", '["Bob"]', "-i", "18").out == ""
    stdin = "[:find ?n . :in $ ?p :where [?p :person/name ?n]]"
    assert run("db", "query", "people", "-", "-f", "edn", "-i", '[:person/name "Bob"]', stdin=stdin).out == (
        '"Bob"\n'
    )


@pytest.mark.parametrize(
    ("query", "options", "error"),
    [
        (
            "[:find ?a :in $ ?n :where [?p :person/name ?n] [?p :person/age ?a]]",
            [],
            "expected 1 value for ?n of :in, got 0; give each with --input [wrong-arity]",
        ),
        (
            NAMES,
            ["-i", "1"],
            "expected 0 values, because :in names only the database and rules, got 1; give each with --input",
        ),
        (
            "[:find ?n :in $ % :where (named ?n)]",
            [],
            "the query has % in :in; give its rules: --rules FILE, or :rules at the prompt [query-arguments]",
        ),
        (NAMES, ["--rules", "rules.edn"], "--rules: the query has no %; add % to its :in [query-arguments]"),
        ("", [], "expected a query, the name of its file or - for standard input, got an empty text [quer"),
        (" ", [], "expected a query, the name of its file or - for standard input, got an empty text [quer"),
        (
            NAMES,
            ["--as-of", "yesterday"],
            "--as-of expects the number t of a transaction, its id or a time such as 2024-05-01T12:00:00Z, "
            "got 'yesterday' [invalid-option]",
        ),
        (
            "[:find ?n :in $ ?n]",
            ["-i", "[1"],
            "--input ?n:1:1: error: the vector that starts here does not end [edn-bracket]",
        ),
        (
            "[:find ?n :in $ % :where (named ?n)]",
            ["--rules", "rules.edn"],
            "query:1:26: error: unknown rule 'named'",
        ),
        (
            "[:find ?n ?a\n :where [_ :person/nam ?n]]",
            [],
            "query:1:11: error: ?a is not bound in :where or :in [unbound-variable]\n"
            "    [:find ?n ?a\n"
            "              ^^",
        ),
    ],
)
def test_errors_of_queries(people: Path, run: Command, query: str, options: list[str], error: str) -> None:
    (people / "rules.edn").write_text("[[(other ?n) [_ :person/name ?n]]]")
    done = run("db", "query", "people", query, *options)
    assert (done.code, done.out) == (1, "")
    assert error in done.err


def test_errors_name_the_file_of_a_query_and_of_its_rules(people: Path, run: Command) -> None:
    (people / "q.edn").write_text("; names\n[:find ?n :in $ %\n :where [_ :person/name ?n ?]]")
    (people / "r.edn").write_text("[[(other ?n)]]")
    assert "q.edn:3:" in run("db", "query", "people", "q.edn", "--rules", "r.edn").err
    (people / "q.edn").write_text("[:find ?n :in $ % :where (other ?n)]")
    assert "r.edn:1:" in run("db", "query", "people", "q.edn", "--rules", "r.edn").err


def test_a_symbol_as_input_is_suspicious(people: Path, run: Command) -> None:
    done = run("db", "query", "people", "[:find ?p :in $ ?n :where [?p :person/name ?n]]", "-i", "Ada")
    assert done.code == 0
    assert done.err == ("dbsp: warning: --input Ada is a symbol; a string has quotes: --input '\"Ada\"'\n")


def test_queries_of_the_past(people: Path, run: Command) -> None:
    with connect("people") as connection:
        instant = [each.instant for each in connection.tx_range()][1].isoformat()
    for time in ("2", str(2**42 + 2), instant):
        assert run("db", "query", "people", AGES, "--as-of", time, "-f", "edn").out == '["Ada" 36]\n'
        assert run("db", "as-of", "people", time, AGES, "-f", "edn").out == '["Ada" 36]\n'
    assert run("db", "query", "people", AGES, "--as-of", "1", "-f", "edn").out == ""
    ages = "[:find ?a ?added :where [_ :person/age ?a _ ?added]]"
    assert run("db", "query", "people", ages, "--history", "-f", "edn").out == (
        "[36 false]\n[36 true]\n[37 true]\n"
    )
    assert run("db", "query", "people", ages, "--history", "--as-of", "2", "-f", "edn").out == "[36 true]\n"
    assert run("db", "query", "people", NAMES, "--since", "2", "-f", "edn").out == ""
    assert run(
        "db", "query", "people", "[:find ?a :where [_ :person/age ?a]]", "--since", "2", "-f", "edn"
    ).out


def test_explain_names_plans_and_indices(people: Path, run: Command) -> None:
    done = run(
        "db",
        "explain",
        "people",
        "[:find ?m :where [?e :person/name] [?e :person/friend ?f] [?f :person/name ?m]]",
    )
    assert done.code == 0
    assert "rule 1: result(?m) :- query(query), $ :person/name e v" in done.out
    assert "1. " in done.out
    _, indices = done.out.split("\nindices\n")
    assert [line.split() for line in indices.splitlines()[2:]] == [
        ["$", ":person/friend", "e", "v", "1"],
        ["$", ":person/name", "e", "v", "2"],
    ]


# --- why ------------------------------------------------------------------------------------------


def test_why_prints_a_proof_or_what_fails(people: Path, run: Command) -> None:
    ada, bob = run("db", "why", "people", AGES, '["Ada" _]'), run("db", "why", "people", AGES, '["Bob" _]')
    assert (ada.code, bob.code) == (0, 0)
    assert ada.out.splitlines()[0] == '["Ada" 37]'
    assert ada.out.splitlines()[3] == "└─ [1 :person/age 37]   datom by query:1:42"
    assert bob.out.splitlines()[3] == "      - [2 :person/age ?a]   is missing   by query:1:42"
    past = run("db", "why", "people", AGES, '["Ada" 36]', "--as-of", "2", "--json")
    assert json.loads(past.out)["steps"][0]["row"] == ["Ada", 36]
    rules = Path("rules.edn")
    rules.write_text("[[(knows ?a ?b) [?a :person/friend ?b]]]")
    known = "[:find ?n :in $ % ?m :where [?a :person/name ?m] (knows ?a ?b) [?b :person/name ?n]]"
    chosen = ("--rules", "rules.edn", "-i", '"Ada"', "--depth", "1")
    done = run("db", "why", "people", known, '["Bob"]', *chosen)
    assert "├─ (knows 1 2)   ... proof of height 1 not shown" in done.out


def test_why_refuses_a_row_of_another_form(people: Path, run: Command) -> None:
    done = run("db", "why", "people", AGES, "Ada")
    assert done.code != 0
    assert "expected a row of the query as a tuple of 2 values" in done.err


# --- log ------------------------------------------------------------------------------------------


def test_log_prints_transactions(people: Path, run: Command) -> None:
    text = run("db", "log", "people").out
    assert text.count("\nt ") + 1 == 3
    assert "  + :person/age :db/valueType :db.type/long\n" in text
    assert '  + 1 :person/name "Ada"\n' in text
    assert "  - 1 :person/age 36\n  + 1 :person/age 37\n" in text
    (last,) = read_all(run("db", "log", "people", "--from", "3", "--format", "edn").out)
    with connect("people") as connection:
        (logged,) = connection.tx_range(3)
    tx = 2**42 + 3
    assert last == {
        Keyword("t"): 3,
        Keyword("tx"): tx,
        Keyword("instant"): logged.instant,
        Keyword("datoms"): (
            (1, Keyword("person/age"), 36, tx, False),
            (1, Keyword("person/age"), 37, tx, True),
            (tx, Keyword("db/txInstant"), logged.instant, tx, True),
        ),
    }
    assert from_json(run("db", "log", "people", "--from", "3", "--format", "json").out) == last


def test_log_of_a_range(people: Path, run: Command) -> None:
    def numbers(*options: str) -> list[int]:
        return [
            each[Keyword("t")] for each in read_all(run("db", "log", "people", "-f", "edn", *options).out)
        ]

    with connect("people") as connection:
        instants = [each.instant.isoformat() for each in connection.tx_range()]
    assert numbers() == [1, 2, 3]
    assert numbers("--to", "2") == [1, 2]
    assert numbers("--from", "2", "--to", "2") == [2]
    assert numbers("--from", str(2**42 + 3)) == [3]
    assert numbers("--from", instants[1], "--to", instants[1]) == [2]
    assert numbers("--from", "7") == []


# --- all commands ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["transact", "none", "[]"],
        ["query", "none", NAMES],
        ["log", "none"],
        ["watch", "none", NAMES],
        ["import", "none", "x.edn"],
        ["export", "none"],
    ],
)
def test_a_folder_without_database(people: Path, run: Command, arguments: list[str]) -> None:
    done = run("db", *arguments)
    assert (done.code, done.err) == (
        1,
        "dbsp: error: none has no database; create one: dbsp db init none [checkpoint-unreadable]\n",
    )
    assert not (people / "none").exists()


@pytest.mark.parametrize(
    "command",
    ["init", "transact", "query", "as-of", "explain", "log", "watch", "import", "export", "console"],
)
def test_help_has_examples(run: Command, command: str) -> None:
    done = run("db", command, "--help")
    assert done.code == 0
    assert "Example" in done.out
    assert f"dbsp db {command}" in done.out


@pytest.mark.parametrize(
    "arguments",
    [[], ["query"], ["query", "people"], ["query", "people", NAMES, "-f", "xml"], ["wach", "people", NAMES]],
)
def test_an_invalid_command_line(people: Path, run: Command, arguments: list[str]) -> None:
    done = run("db", *arguments)
    assert done.code == 2
    assert "Usage" in done.out + done.err


def test_help_does_not_import_the_database() -> None:
    code = (
        "import sys\nfrom dbsp.cli import main\n"
        "try: main(['db', 'query', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('dbsp.datomic', 'dbsp.edn'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_exit_codes_of_a_process(people: Path) -> None:
    done = process("db", "query", "people", NAMES, "-f", "edn")
    assert (done.returncode, done.stdout, done.stderr) == (0, '"Ada"\n"Bob"\n', "")
