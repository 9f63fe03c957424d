"""Read and write rows in tables of SQLite databases, in the form of Soufflé.

Writing stores a relation `r` as a table `_r` of numbers and a view `r` with the texts; the table
`__SymbolTable` has each text once. Reading uses the table or view with the name of the relation.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dbsp.data.columns import decode_column
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.int_range import NO_RANGES, IntRange
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.diagnostics import did_you_mean
from dbsp.errors import InputError, counted, shorten
from dbsp.io.cell_text import OutOfRange, code_of, in_range
from dbsp.io.facts import Facts
from dbsp.io.problems import MAX_PROBLEMS, missing_file
from dbsp.io.results import text_of
from dbsp.io.row_pieces import PIECE, RowPieces
from dbsp.io.sorted_pieces import sorted_pieces
from dbsp.io.term_text import value_of

_SYMBOLS = "__SymbolTable"

_PIECE = 1 << 14
"""Rows are decoded and written by so many."""


def read_table(
    path: Path, table: str, schema: Schema, relation: str, ranges: Mapping[str, IntRange] = NO_RANGES
) -> Facts:
    """Return the rows of a table or view, its columns in their order; NULL is the empty text.

    An Arrow table, or a list of tuples if the rows are few or have constructed values.

    Raises InputError, with the file, the table and the row (counted from 1), if there is no such
    table, if it has too few or too many columns, and for a value that does not fit its column.
    """
    if not path.is_file():
        raise missing_file(str(path), f"database (for relation '{relation}')")
    with _opened(path) as database:
        cursor = _select(database, path, table, schema, relation)
        pieces = RowPieces(schema, ranges)
        problems: list[str] = []
        code = "wrong-type"
        first = 1
        while len(problems) < MAX_PROBLEMS and (rows := cursor.fetchmany(PIECE)):
            if not pieces.take(list(zip(*rows, strict=True))):
                fitted_rows: list[tuple[Any, ...]] = []
                for number, row in enumerate(rows, first):
                    try:
                        fitted_rows.append(_fitted(row, schema, ranges))
                    except ValueError as error:
                        code = code if problems else code_of(error)
                        place = f"{path}: row {number} of '{table}' (for relation '{relation}')"
                        problems.append(f"{place}: {error}")
                        if len(problems) >= MAX_PROBLEMS:
                            problems.append(f"... and perhaps more; only the first {MAX_PROBLEMS} are shown")
                            break
                pieces.add(fitted_rows)
            first += len(rows)
    if problems:
        raise InputError("\n".join(problems), code=code)
    return pieces.facts()


def _select(
    database: sqlite3.Connection, path: Path, table: str, schema: Schema, relation: str
) -> sqlite3.Cursor:
    names = [
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    ]
    if table not in names:
        hint = did_you_mean(table, [name for name in names if not name.startswith("_")])
        message = f"unknown table '{table}' (for relation '{relation}')"
        raise InputError(message + (f"; {hint}" if hint else ""), where=str(path), code="unknown-table")
    cursor = database.execute(f"SELECT * FROM {_name(table)}")
    width = len(cursor.description)
    if width != schema.arity:
        columns = f"{counted(schema.arity, 'column')} ({', '.join(schema.names)})"
        message = f"relation '{relation}' has {columns}, table '{table}' has {width}"
        raise InputError(message, where=str(path), code="wrong-arity")
    return cursor


def _fitted(row: tuple[Any, ...], schema: Schema, ranges: Mapping[str, IntRange]) -> tuple[Any, ...]:
    fitted = []
    for name, type_, value in zip(schema.names, schema.types, row, strict=True):
        try:
            if isinstance(value, bytes):
                value = value.decode("utf-8")
            text = "" if value is None else str(value)
            # A REAL column may store whole numbers.
            if type_.kind == "int" and isinstance(value, float) and value.is_integer():
                text = str(int(value))
            fit = in_range(ranges.get(name), value_of, type_, text)
        except UnicodeDecodeError:
            raise ValueError(f"column '{name}' expects UTF-8 text, got {shorten(value)}") from None
        except ValueError as error:
            class_ = OutOfRange if isinstance(error, OutOfRange) else ValueError
            raise class_(f"column '{name}' expects {error}, got {shorten(value)}") from None
        fitted.append(fit)
    return tuple(fitted)


def write_table(path: Path, table: str, zset: ZSet) -> None:
    """Write the rows of `zset` to the table; other tables of the database do not change.

    All or nothing: a reader sees the old rows or the new. Raises InputError if the file cannot be
    written or has another object of this name. A relation without columns becomes a view of one
    column with one row or none. Cost: O(n log n) for n rows.
    """
    symbols = [type_.kind in ("str", "record") for type_ in zset.schema.types]
    with _opened(path) as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {_name(_SYMBOLS)} (id INTEGER PRIMARY KEY, symbol TEXT UNIQUE)"
        )
        database.execute(f"DROP VIEW IF EXISTS {_name(table)}")
        database.execute(f"DROP TABLE IF EXISTS {_name('_' + table)}")
        kinds = ["REAL" if type_.kind == "float" else "INTEGER" for type_ in zset.schema.types]
        columns = ", ".join(f"{_name(str(place))} {kind}" for place, kind in enumerate(kinds))
        database.execute(f"CREATE TABLE {_name('_' + table)} ({columns or _name('0') + ' INTEGER'})")
        database.execute(_view(table, zset.schema, symbols))
        database.executemany(
            f"INSERT OR IGNORE INTO {_name(_SYMBOLS)} (symbol) VALUES (?)",
            ((text,) for text in sorted(_texts(zset, symbols))),
        )
        number = {text: id for id, text in database.execute(f"SELECT id, symbol FROM {_name(_SYMBOLS)}")}
        marks = ", ".join("?" for _ in symbols) or "1"
        for piece in sorted_pieces(zset, _PIECE):
            stored = [
                _stored(decode_column(type_, piece[:, column], zset.interner), number if text else None)
                for column, (type_, text) in enumerate(zip(zset.schema.types, symbols, strict=True))
            ]
            rows = zip(*stored, strict=True) if stored else [()] * len(piece)
            database.executemany(f"INSERT INTO {_name('_' + table)} VALUES ({marks})", rows)
        database.execute("COMMIT")


def _texts(zset: ZSet, symbols: list[bool]) -> set[str]:
    """Return the different texts in the columns of symbols."""
    texts: set[str] = set()
    for column, (type_, text) in enumerate(zip(zset.schema.types, symbols, strict=True)):
        if text:
            codes, _ = distinct_codes(zset.stored.rows[:, column])
            texts.update(map(text_of, decode_column(type_, codes, zset.interner)))
    return texts


def _stored(values: list[Any], number: Mapping[str, int] | None) -> list[Any]:
    """Return the values of a column as SQLite stores them: the numbers of texts, if there are some.

    NaN is a text, since SQLite has NULL in its place.
    """
    if number is not None:
        return [number[text_of(value)] for value in values]
    return ["nan" if value != value else value for value in values]


def _view(table: str, schema: Schema, symbols: list[bool]) -> str:
    """Return the statement that creates the view with the texts in place of their numbers."""
    columns, joins = [], []
    for place, (name, text) in enumerate(zip(schema.names, symbols, strict=True)):
        column = f"{_name('_' + table)}.{_name(str(place))}"
        if text:
            symbol = _name(f"_symtab_{place}")
            joins.append(f"JOIN {_name(_SYMBOLS)} AS {symbol} ON {column} = {symbol}.id")
            column = f"{symbol}.symbol"
        columns.append(f"{column} AS {_name(name)}")
    return (
        f"CREATE VIEW {_name(table)} AS SELECT {', '.join(columns) or '*'} "
        f"FROM {_name('_' + table)} {' '.join(joins)}"
    )


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database; roll back what is not committed. Errors of SQLite become InputErrors."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            yield database
    except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
        raise InputError(f"SQLite: {error}", where=str(path), code="database-error") from None
