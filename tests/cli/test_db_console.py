"""`dbsp db console`: entries, live queries, completion, colours, and the prompt at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dbsp.cli.database_completion import DatabaseCompleter, DatabaseLexer
from dbsp.cli.database_console import HELP, DatabaseConsole
from dbsp.cli.prompt_session import hold
from dbsp.datomic import Connection, connect
from dbsp.errors import DbspError
from tests.cli.support import Command, read_answer, read_until

pytestmark = pytest.mark.usefixtures("compiled_kernels")

SCHEMA = {
    ":name": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
    ":age": {":db/valueType": ":db.type/long"},
    ":friend": {
        ":db/valueType": ":db.type/ref",
        ":db/cardinality": ":db.cardinality/many",
        ":db/isComponent": True,
    },
}
AGES = "[:find ?n ?a :where [?p :name ?n] [?p :age ?a]]"


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """The database `people`; the current directory of the commands is its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with connect("people", schema=SCHEMA) as connection:
        connection.transact([{":name": "Ada", ":age": 36}])
        connection.transact([{":name": "Ada", ":age": 37}])
        yield connection


@pytest.fixture
def console(connection: Connection) -> DatabaseConsole:
    return DatabaseConsole(connection, "people")


@pytest.fixture
def enter(console: DatabaseConsole, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return `enter(line, ...)`, which returns what the lines print, or the first error."""

    def lines(*entered: str) -> str:
        try:
            for line in entered:
                console.handle(line)
        except DbspError as error:
            return str(error)
        return capsys.readouterr().out

    return lines


TABLE = '?n     ?a\n─────  ──\n"Ada"  37\n(1 row)\n'


def test_queries(enter: Command) -> None:
    assert enter(AGES) == TABLE
    assert (
        enter("{:find [?n .] ", " :in [$ ?p]", "", " :where [[?p :name ?n]]} 1")
        == '?n\n─────\n"Ada"\n(1 row)\n'
    )
    assert enter("[:find ?p . :in $ ?n :where [?p :name ?n]]") == (
        "expected 1 value for ?n of :in, got 0; write them after the query [wrong-arity]"
    )


def test_results_are_limited(enter: Command, connection: Connection) -> None:
    connection.transact([{":age": age} for age in range(100, 130)])
    ages = "[:find [?a ...] :where [_ :age ?a]]"
    assert enter(ages).splitlines()[-2:] == ["118", "(31 rows, 20 shown)"]
    assert enter(":rows 2", ages).splitlines()[-2:] == ["100", "(31 rows, 2 shown)"]
    assert enter(":rows all", ages).splitlines()[-2:] == ["129", "(31 rows)"]
    assert enter(":rows many") == "expected a number or all: :rows N, got 'many' [invalid-command]"


def test_transactions(enter: Command) -> None:
    assert enter('[{:db/id "eva" :name "Eva"', " :age 7}] [[:db/add 1 :age 38]]") == (
        't 4, 3 datoms, "eva" is 2\nt 5, 3 datoms\n'
    )
    assert enter('{:name "Joe"}') == "t 6, 2 datoms\n"
    assert enter('[:db/add [:name "Joe"] :age 5]') == "t 7, 2 datoms\n"
    assert enter("[:db/add 1 :agee 5]") == (
        "<console>:1:12: error: unknown attribute :agee; did you mean :age? [unknown-attribute]\n"
        "    [:db/add 1 :agee 5]\n"
        "               ^^^^^"
    )
    assert enter("17").startswith("<console>:1:1: error: expected a list of operations and maps")
    assert enter("[:find ?x :where]]").startswith("<console>:1:18: error: ] closes nothing")


def test_an_entry_may_have_several_lines(console: DatabaseConsole, enter: Command) -> None:
    assert (console.prompt, enter(":live [:find ?n")) == ("dbsp> ", "")
    assert console.prompt == "  ... "
    assert enter(" :where [_ :name ?n]]") == 'live 1\n  + ["Ada"]\n'
    enter('{:name "')
    assert console.farewell() == "the last entry was not complete"
    console.discard()
    assert (console.prompt, console.farewell()) == ("dbsp> ", None)
    assert enter("; a remark", "", "   ") == ""


def test_views(console: DatabaseConsole, enter: Command) -> None:
    assert enter(":as-of 2", AGES) == TABLE.replace("37", "36")
    assert console.prompt == "as of 2 dbsp> "
    assert enter(":now", ":since 2", "[:find ?a :where [_ :age ?a]]") == "?a\n──\n37\n(1 row)\n"
    history = "[:find ?a ?added :where [_ :age ?a _ ?added]]"
    assert enter(":history", history).splitlines()[2:] == ["36   false", "37    true", "(2 rows)"]
    assert console.prompt == "since 2 history dbsp> "
    assert enter(":now", AGES) == TABLE
    assert console.prompt == "dbsp> "
    assert enter(":as-of") == "expected a point in time: :as-of T [invalid-command]"
    assert enter(":as-of soon").startswith(":as-of expects the number t of a transaction")
    assert console.prompt == "dbsp> "


def test_live_queries_print_changes(enter: Command, connection: Connection) -> None:
    assert enter(f":live {AGES}") == 'live 1\n  + ["Ada" 37]\n'
    assert enter(":live [:find ?n :in $ ?least :where [?p :name ?n] [?p :age ?a] [(<= ?least ?a)]] 18") == (
        'live 2\n  + ["Ada"]\n'
    )
    assert enter('[{:name "Eva" :age 7}]') == 't 4, 3 datoms\nlive 1, t 4\n  + ["Eva" 7]\n'
    with connect("people") as other:
        other.transact([{":name": "Eva", ":age": 19}])
    # An empty line shows what others have transacted.
    assert enter("") == 'live 1, t 5\n  - ["Eva" 7]\n  + ["Eva" 19]\nlive 2, t 5\n  + ["Eva"]\n'
    assert enter(":live").splitlines()[0] == f"live 1: {AGES}"
    assert enter(":stop 1", '{:name "Eva" :age 20}') == "t 6, 3 datoms\n"
    assert (
        enter(":stop 7")
        == "expected the number of a live query, got '7'; ':live' lists them [invalid-command]"
    )
    assert enter(":stop", ":live") == ""
    assert enter(f":watch {AGES}").startswith("live 3\n")
    assert enter(":unwatch 3", ":watch") == ""
    assert enter(":live 7") == "expected a query: :live [:find ...] [invalid-command]"


def test_a_live_query_with_an_error_is_dropped(console: DatabaseConsole, enter: Command) -> None:
    enter(":live [:find ?q :where [_ :age ?a] [(quot 36 ?a) ?q]]")
    assert "[division-by-zero]" in enter("{:age 0}")
    assert console.live == []
    assert enter(":live") == "t 4, 2 datoms\n"


def test_rules(enter: Command, tmp_path: Path) -> None:
    named = "[:find [?n ...] :in $ % :where (named ?n)]"
    assert enter(named).startswith("the query has % in :in; give its rules: --rules FILE, or :rules")
    (tmp_path / "r.edn").write_text("[[(named ?n) [_ :name ?n]]]")
    assert enter(":rules r.edn", named).splitlines()[2:] == ['"Ada"', "(1 row)"]
    assert enter(":rules [[(named ?n)", " [?n :name]]]", named).splitlines()[2:] == [" 1", "(1 row)"]
    assert enter(":rules").startswith("expected rules: :rules FILE")
    assert enter(":rules none.edn").startswith("none.edn: there is no such file")
    (tmp_path / "r.edn").write_text("[[(named ?n)]]")
    assert enter(":rules r.edn").startswith("r.edn:1:3: error:")


def test_lists(enter: Command) -> None:
    assert [line.split() for line in enter(":schema").splitlines()[2:]] == [
        [":age", "long", "one"],
        [":friend", "ref", "many", "component"],
        [":name", "string", "one", "unique", "identity"],
    ]
    assert len(enter(":schema fr").splitlines()) == 3
    assert enter(":log").count("\nt ") == 2
    assert enter(":log 1").startswith("t 3  ")
    assert enter(":log x") == "expected a number: :log N, got 'x' [invalid-command]"
    assert "\nindices\n" in enter(f":explain {AGES}")


def test_help_lists_every_command(console: DatabaseConsole, enter: Command) -> None:
    assert enter(":help").count("\n") == len(HELP)
    assert [name for name in console.names if not any(usage.split()[0] == name for usage, _ in HELP)] == []
    assert enter(":help log").startswith(":log [N]")
    assert enter(":help lgo") == "unknown command 'lgo'; ':help' lists the commands [unknown-command]"
    assert enter(":asof 2") == "unknown command ':asof'; did you mean ':as-of'? [unknown-command]"


# --- completion and colours -----------------------------------------------------------------------


def completed(console: DatabaseConsole, text: str) -> list[str]:
    found = DatabaseCompleter(console).get_completions(Document(text), CompleteEvent())
    return [each.text for each in found]


def test_completion(console: DatabaseConsole, tmp_path: Path) -> None:
    assert completed(console, ":a") == [":as-of "]
    assert completed(console, "[:find ?e :where [?e :a") == [":age"]
    assert completed(console, "[:fin") == [":find"]
    assert completed(console, "[:find ?e :where [?e :db.type/sy") == [":db.type/symbol"]
    assert completed(console, "[:find ?person ?p") == ["?person"]
    assert completed(console, "[:find ?e :where [(starts-w") == []
    assert "count " in completed(console, "[:find (cou")
    assert "not-join " in completed(console, "[:find ?e :where (not")
    assert completed(console, '[:find ?e :where [?e :name "Ad') == []
    (tmp_path / "family.edn").touch()
    assert completed(console, ":rules fam") == ["ily.edn"]
    console.handle("[:find ?long :where")
    assert completed(console, "[?l") == ["?long"]
    assert completed(console, ":fr") == [":friend"]


def test_colours(console: DatabaseConsole) -> None:
    lex = DatabaseLexer(console).lex_document(Document(':live [:find ?a1 "x" :age 12 :agee] ; why'))(0)
    assert [(style, text) for style, text, *_ in lex if style] == [
        ("class:command", ":live"),
        ("class:text", '"x"'),
        ("class:relation", ":age"),
        ("class:number", "12"),
        ("class:remark", "; why"),
    ]


# --- conversations --------------------------------------------------------------------------------


def test_a_conversation(console: DatabaseConsole, capsys: pytest.CaptureFixture[str]) -> None:
    history = InMemoryHistory()
    with create_pipe_input() as given:
        # Ctrl-C discards the lines of an entry, Ctrl-D quits.
        given.send_text(f"{AGES}\r[:find\r\x03:nonsense\r{{:name\r\x04")
        hold(
            console,
            DatabaseCompleter(console),
            DatabaseLexer(console),
            history=history,
            input=given,
            output=DummyOutput(),
        )
    printed = capsys.readouterr()
    assert printed.out == TABLE
    assert printed.err.splitlines() == [
        "people: t 3, 3 attributes; ':help' lists the commands",
        "dbsp: error: unknown command ':nonsense'; ':help' lists the commands [unknown-command]",
        "the last entry was not complete",
    ]
    assert next(iter(history.get_strings())) == AGES


def test_an_interrupt_says_what_is_committed(
    console: DatabaseConsole, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = console.handle

    def interrupted(line: str) -> None:
        handle(line)
        if line != ":quit":
            raise KeyboardInterrupt

    monkeypatch.setattr(console, "handle", interrupted)
    with create_pipe_input() as given:
        given.send_text('{:name "Eva"}\r:now\r:quit\r')
        hold(
            console,
            DatabaseCompleter(console),
            DatabaseLexer(console),
            history=InMemoryHistory(),
            input=given,
            output=DummyOutput(),
        )
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == ["interrupted; 1 transaction committed", "interrupted; nothing changed"]


def test_the_console_reads_a_pipe(connection: Connection, run: Command) -> None:
    done = run("db", "console", "people", stdin=f'\ufeff{AGES}\n[{{:name\n"Eva"}}]\n:quit\nnothing\n')
    assert (done.code, done.out, done.err) == (0, TABLE + "t 4, 2 datoms\n", "")
    done = run("db", "console", "people", stdin=f":quti\n{AGES}\n[:find")
    assert (done.code, done.out) == (1, TABLE)
    assert done.err == (
        "dbsp: error: unknown command ':quti'; did you mean ':quit'? [unknown-command]\n"
        "dbsp: error: the last entry was not complete\n"
    )


def test_the_console_at_a_terminal(connection: Connection, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dbsp", "db", "console", "people"]
    environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as peer:
        os.close(theirs)
        try:
            assert "':help' lists the commands" in read_until(ours, "dbsp>")
            os.write(ours, f":live {AGES}\r".encode())
            assert '+ ["Ada" 37]' in read_answer(ours, "live 1")
            connection.transact([{":name": "Ada", ":age": 38}])
            os.write(ours, b"\r")
            assert '- ["Ada" 37]\n  + ["Ada" 38]\n' in read_answer(ours, "live 1, t 4")
            os.write(ours, b":quit\r")
            assert peer.wait(60) == 0
        finally:
            peer.kill()
            os.close(ours)
    assert ":live" in (tmp_path / "state" / "dbsp" / "db-history").read_text()
