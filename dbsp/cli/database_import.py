"""Imports files into a database: transactions, entity maps, and tables.

A vector of forms is one transaction. Maps and single operations are collected into transactions of
many forms, and so are the rows of tables.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from dbsp.cli.db_options import TextFormat
from dbsp.cli.entry_forms import is_one_form
from dbsp.cli.table_import import is_table, read_table_batches, table_error
from dbsp.cli.transaction_files import open_text, read_transactions
from dbsp.cli.transaction_texts import datom_count
from dbsp.datomic import Connection, TransactionReport
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.operation_places import as_ident
from dbsp.datomic.transaction_text import PlacedForms
from dbsp.edn import EdnMap, Form, Keyword
from dbsp.errors import DbspError
from dbsp.lazy_dataclass import dataclass

_DB_ID = Keyword("db/id")


@dataclass
class Import:
    """An import into a database, and what it has done so far.

    Attributes:
        connection: the database.
        batch: the number of maps, operations or rows in a transaction.
        key: the attribute that finds the entities of the rows of tables.
        advance: called with the bytes that were read and a text after each transaction.
    """

    connection: Connection
    batch: int
    key: str | None
    advance: Callable[[int | None, str], None]
    transactions: int = 0
    datoms: int = 0
    started: float = field(default_factory=time.monotonic)

    def read(self, path: Path, format_: TextFormat) -> None:
        """Import a file. Raises DbspError with the place in it; earlier transactions stay."""
        if is_table(path):
            self._read_table(path)
        else:
            self._read_forms(path, format_)

    @property
    def summary(self) -> str:
        """What was imported, with the datoms per second."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        return (
            f"{self.datoms:,} datoms in {self.transactions:,} "
            f"transaction{'' if self.transactions == 1 else 's'}, {seconds:.1f} s, "
            f"{self.datoms / seconds:,.0f} datoms/s"
        )

    def _done(self, report: TransactionReport, read: int) -> None:
        self.transactions += 1
        self.datoms += datom_count(report)
        seconds = max(time.monotonic() - self.started, 1e-9)
        self.advance(read, f"{self.datoms:,} datoms, {self.datoms / seconds:,.0f}/s")

    # --- forms ------------------------------------------------------------------------------------

    def _read_forms(self, path: Path, format_: TextFormat) -> None:
        waiting: list[Form] = []
        tempids = FileTempids(self.connection)
        with open_text(path) as lines:
            position = _position(lines)
            for form in read_transactions(lines, str(path), format_):
                if is_one_form(form.value):
                    waiting.append(form)
                    if len(waiting) == self.batch:
                        self._transact(waiting, tempids, next(position))
                    continue
                self._transact(waiting, tempids, 0)
                self._done(self.connection.transact(form), next(position))
            self._transact(waiting, tempids, next(position))

    def _transact(self, forms: list[Form], tempids: FileTempids, read: int) -> None:
        """Execute the transaction of the waiting forms, and forget them."""
        if forms:
            values = [tempids.replaced(form.value) for form in forms]
            report = self.connection.transact(PlacedForms(values, list(forms)))
            tempids.learn(report)
            forms.clear()
            self._done(report, read)

    # --- tables -----------------------------------------------------------------------------------

    def _read_table(self, path: Path) -> None:
        for batch in read_table_batches(path, self.connection, self.batch):
            try:
                report = self.connection.transact_table(batch.columns, entities=batch.entities, key=self.key)
            except DbspError as error:
                raise table_error(error, path, batch.first_row) from None
            self._done(report, batch.size)


def _position(lines: Any) -> Iterator[int]:
    """Yield the bytes that were read since the last time."""
    before = 0
    while True:
        now = os.lseek(lines.fileno(), 0, os.SEEK_CUR)
        yield now - before
        before = now


class FileTempids:
    """The tempids of a file whose forms are spread over several transactions.

    The entities of earlier transactions replace their tempids, so that a tempid is the same entity
    in the whole file.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[Any, int] = {}

    def learn(self, report: TransactionReport) -> None:
        """Remember the entities of a transaction."""
        self._known.update({key: each for key, each in report.tempids.items() if each < TX0})

    def replaced(self, form: Any) -> Any:
        """Return a form with the entities of the known tempids."""
        if not self._known:
            return form
        if isinstance(form, EdnMap):
            return self._map(form)
        parts = list(form)
        for at, part in enumerate(parts):
            if at == 1 or (at > 2 and self._is_ref(parts[2])):
                parts[at] = self._entity(part)
        return tuple(parts)

    def _map(self, form: EdnMap) -> EdnMap:
        return EdnMap(
            {
                name: self._entity(value) if name is _DB_ID or self._is_ref(name) else value
                for name, value in form.items()
            }
        )

    def _entity(self, value: Any) -> Any:
        """Return an entity, the entities of a collection, or a nested map."""
        if isinstance(value, EdnMap):
            return self._map(value)
        if isinstance(value, tuple | frozenset) and not is_one_form(value):
            return type(value)(map(self._entity, value))
        return self._known.get(value, value) if type(value) in (str, int) else value

    def _is_ref(self, name: Any) -> bool:
        ident = as_ident(name) if isinstance(name, Keyword | str) else None
        if ident is None:
            return False
        by_ident = self._connection.db().schema.by_ident
        if ident not in by_ident and ident.name[:1] == "_":
            prefix = f"{ident.namespace}/" if ident.namespace else ""
            ident = Keyword(prefix + ident.name[1:])
        attribute = by_ident.get(ident)
        return attribute is not None and attribute.is_ref
