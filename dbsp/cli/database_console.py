"""The entries of `dbsp db console`: queries, transactions and commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dbsp.cli.console import QuitConsole, remark, report
from dbsp.cli.database_access import GivenQuery, View, file_text, query_values
from dbsp.cli.db_options import LogFormat
from dbsp.cli.entry_forms import is_complete, is_query, whole_transaction
from dbsp.cli.paging import paged
from dbsp.cli.query_output import table_lines, table_rows
from dbsp.cli.query_plans import plan_lines
from dbsp.cli.tables import LIMIT, aligned
from dbsp.cli.transaction_texts import log_lines, report_text
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.datomic import Connection, Database, Subscription, q
from dbsp.datomic import system_idents as system
from dbsp.diagnostics import did_you_mean
from dbsp.edn import Form, read_forms
from dbsp.edn.edn_writer import display_text
from dbsp.errors import DbspError, InputError
from dbsp.lazy_dataclass import dataclass

FILE = "<console>"

HELP = (
    ("[:find ?n :where [?e :name ?n]]", "query; the values of other inputs of :in follow it"),
    ('[{:name "Ada"}]', "transaction; also a map or an operation alone"),
    (":as-of T", "show the database as it was after a transaction, at its t, id or time"),
    (":since T", "show only facts that were asserted after a transaction"),
    (":history", "show all datoms, also retracted facts"),
    (":now", "show the current facts again"),
    (":live QUERY", "print the rows of a query, and from then on the changes of them"),
    (":stop [N]", "stop a live query, or all"),
    (":watch QUERY", "the same as :live"),
    (":unwatch [N]", "the same as :stop"),
    (":rules FILE|EDN", "use these rules for % in :in"),
    (":schema [TEXT]", "list the attributes, or those with a text in their name"),
    (":log [N]", "print the latest transactions: 5, or N"),
    (":explain QUERY", "print how a query is evaluated"),
    (":rows N|all", f"print at most N rows of a result; {LIMIT} at first"),
    (":help [COMMAND]", "print this list"),
    (":quit", "exit, like Ctrl-D"),
)


@dataclass
class LiveEntry:
    """A live query of the console, with the text that it was entered by."""

    number: int
    text: str
    subscription: Subscription


class DatabaseConsole:
    """A console on a connection. An entry may have several lines; an error changes nothing."""

    step_name = "transaction"

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.view = View()
        self.live: list[LiveEntry] = []
        self._name = name
        self.entry = ""
        """The lines of an entry that is not complete."""
        self._rules: tree.Rules | None = None
        self._limit: int | None = LIMIT
        self._numbers = 0
        self._by_name: dict[str, Callable[[str], None]] = {
            ":as-of": self._as_of,
            ":since": self._since,
            ":history": self._history,
            ":now": self._now,
            ":live": self._live,
            ":stop": self._stop,
            ":watch": self._live,
            ":unwatch": self._stop,
            ":rules": self._set_rules,
            ":schema": self._schema,
            ":log": self._log,
            ":explain": self._explain,
            ":rows": self._rows,
            ":help": self._help,
            ":quit": self._quit,
        }

    # --- the conversation -------------------------------------------------------------------------

    @property
    def greeting(self) -> str:
        """The line above the first prompt."""
        database = self.connection.db()
        count = sum(1 for each in database.schema.by_id if each >= system.FIRST_ATTRIBUTE)
        attributes = "1 attribute" if count == 1 else f"{count:,} attributes"
        return f"{self._name}: t {database.basis_t}, {attributes}; ':help' lists the commands"

    @property
    def prompt(self) -> str:
        """The prompt, with the view of the database; dots in an entry that is not complete."""
        parts = []
        if self.view.as_of is not None:
            parts.append(f"as of {self.view.as_of} ")
        if self.view.since is not None:
            parts.append(f"since {self.view.since} ")
        if self.view.history:
            parts.append("history ")
        prompt = f"{''.join(parts)}dbsp> "
        return prompt if not self.entry else f"{'...':>{len(prompt) - 1}} "

    @property
    def steps(self) -> int:
        """The number of the latest transaction."""
        return self.connection.db().basis_t

    @property
    def names(self) -> list[str]:
        """The names of all commands."""
        return list(self._by_name)

    def discard(self) -> None:
        """Forget an entry that is not complete."""
        self.entry = ""

    def farewell(self) -> str | None:
        """Return what the user loses by leaving, if anything."""
        return "the last entry was not complete" if self.entry else None

    def handle(self, line: str) -> None:
        """Take a line; run the entry if it is complete. Prints the changes of live queries."""
        text = self.entry + line
        word, _, argument = text.lstrip().partition(" ")
        is_command = word.startswith(":")
        if not is_complete(argument if is_command else text):
            self.entry = f"{text}\n"
            return
        self.entry = ""
        self.connection.sync()
        with paged():
            self._print_changes()
            if is_command:
                self._command(word, argument.strip())
            else:
                self._forms(text)
            self._print_changes()

    def follow(self, lines: Iterator[str]) -> bool:
        """Run the entries of a pipe or a file; return whether all succeeded."""
        succeeded = True
        try:
            for line in lines:
                try:
                    self.handle(line.rstrip("\n"))
                except DbspError as error:
                    report(error)
                    succeeded = False
                sys.stdout.flush()
        except QuitConsole:
            return succeeded
        if self.entry:
            remark(f"dbsp: error: {self.farewell()}")
        return succeeded and not self.entry

    def _command(self, name: str, argument: str) -> None:
        command = self._by_name.get(name)
        if command is None:
            hint = did_you_mean(name, self.names) or "':help' lists the commands"
            raise InputError(f"unknown command '{name}'; {hint}", code="unknown-command")
        command(argument)

    # --- queries and transactions -----------------------------------------------------------------

    @property
    def database(self) -> Database:
        """The database that queries see."""
        return self.view.of(self.connection.db())

    def _forms(self, text: str) -> None:
        forms = read_forms(text, FILE)
        if not forms:
            return
        if is_query(forms[0].value):
            given = self._query(text, forms)
            columns, rows = table_rows(given.query, q(given.query, *given.arguments(self.database)))
            for line in table_lines(columns, rows, self._limit):
                print(line)
            return
        for form in forms:
            print(report_text(self.connection.transact(whole_transaction(form))))
            self._print_changes()

    def _query(self, text: str, forms: Sequence[Form]) -> GivenQuery:
        first = forms[0]
        query = parse_query(text[first.start : first.end], FILE)
        values = [form.value for form in forms[1:]]
        return GivenQuery(query, query_values(query, values, self._rules, "write them after the query"))

    def _argument_query(self, argument: str, usage: str) -> GivenQuery:
        forms = read_forms(argument, FILE)
        if not forms or not is_query(forms[0].value):
            raise InputError(f"expected a query: {usage}", code="invalid-command")
        return self._query(argument, forms)

    def _live(self, argument: str) -> None:
        if not argument:
            for entry in self.live:
                print(f"live {entry.number}: {entry.text}")
            return
        given = self._argument_query(argument, ":live [:find ...]")
        self._numbers += 1
        entry = LiveEntry(self._numbers, argument, self.connection.subscribe(given.query, *given.values))
        self.live.append(entry)
        print(f"live {entry.number}")
        for row in entry.subscription.rows():
            print(f"  + {display_text(row)}")

    def _print_changes(self) -> None:
        """Print what transactions have changed in the live queries."""
        for entry in list(self.live):
            try:
                for delta in entry.subscription.deltas():
                    print(f"live {entry.number}, t {delta.t}")
                    for row, weight in delta.rows:
                        print(f"  {'+' if weight > 0 else '-'} {display_text(row)}")
            except DbspError:
                self.live.remove(entry)
                raise

    def _stop(self, argument: str) -> None:
        chosen = [each for each in self.live if argument in ("", str(each.number))]
        if argument and not chosen:
            raise InputError(
                f"expected the number of a live query, got '{argument}'; ':live' lists them",
                code="invalid-command",
            )
        for entry in chosen:
            entry.subscription.close()
            self.live.remove(entry)

    def _set_rules(self, argument: str) -> None:
        if not argument:
            raise InputError(
                "expected rules: :rules FILE, or :rules [[(rule ?x) ...]]", code="invalid-command"
            )
        if argument.startswith("["):
            self._rules = parse_rules(argument, FILE)
        else:
            path = Path(argument).expanduser()
            self._rules = parse_rules(file_text(path), str(path))

    def _explain(self, argument: str) -> None:
        given = self._argument_query(argument, ":explain [:find ...]")
        for line in plan_lines(given, self.database):
            print(line)

    # --- views ------------------------------------------------------------------------------------

    def _as_of(self, argument: str) -> None:
        self._show(View(_given(argument, ":as-of T"), self.view.since, self.view.history))

    def _since(self, argument: str) -> None:
        self._show(View(self.view.as_of, _given(argument, ":since T"), self.view.history))

    def _history(self, argument: str) -> None:
        self._show(View(self.view.as_of, self.view.since, True))

    def _now(self, argument: str) -> None:
        self.view = View()

    def _show(self, view: View) -> None:
        view.of(self.connection.db(), ":")  # raises the error of a point in time
        self.view = view

    def _rows(self, argument: str) -> None:
        if argument != "all" and not (argument.isdecimal() and len(argument) <= 18):
            raise InputError(f"expected a number or all: :rows N, got '{argument}'", code="invalid-command")
        self._limit = None if argument == "all" else int(argument)

    # --- lists ------------------------------------------------------------------------------------

    def _schema(self, argument: str) -> None:
        cells = [
            [str(attribute), *_described(attribute)]
            for attribute in self.connection.db().schema.by_id.values()
            if attribute.id >= system.FIRST_ATTRIBUTE and argument in str(attribute)
        ]
        for line in aligned(("attribute", "type", "cardinality", "properties"), sorted(cells)):
            print(line)

    def _log(self, argument: str) -> None:
        if argument and not (argument.isdecimal() and len(argument) <= 18):
            raise InputError(f"expected a number: :log N, got '{argument}'", code="invalid-command")
        database = self.connection.db()
        first = max(1, database.basis_t - int(argument or 5) + 1)
        for transaction in self.connection.tx_range(first):
            for line in log_lines(transaction, database, LogFormat.TEXT):
                print(line)

    def _help(self, argument: str) -> None:
        entries = [entry for entry in HELP if argument in entry[0]]
        if not entries:
            hint = did_you_mean(argument, self.names) or "':help' lists the commands"
            raise InputError(f"unknown command '{argument}'; {hint}", code="unknown-command")
        width = max(len(usage) for usage, _ in entries)
        for usage, meaning in entries:
            print(f"{usage.ljust(width)}  {meaning}")

    def _quit(self, argument: str) -> None:
        raise QuitConsole


def _given(argument: str, usage: str) -> str:
    if not argument:
        raise InputError(f"expected a point in time: {usage}", code="invalid-command")
    return argument


def _described(attribute: Any) -> Iterator[str]:
    """Yield the type, the cardinality and the other properties of an attribute."""
    yield attribute.value_type or "any"
    yield "many" if attribute.many else "one"
    properties = [f"unique {attribute.unique}"] if attribute.unique else []
    properties += ["component"] if attribute.component else []
    properties += ["no history"] if attribute.no_history else []
    if attribute.tuple_attributes:
        properties.append(f"of {' '.join(map(str, attribute.tuple_attributes))}")
    yield ", ".join(properties)
