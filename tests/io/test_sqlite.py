"""Facts and results in tables of SQLite databases."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dbsp.compiler.datalog.meaning.directives import fact_source, result_target
from dbsp.compiler.datalog.meaning.word_ranges import UNSIGNED
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io.places import read_place, write_place
from tests.io.support import NAMED, rows_of


def database(path: Path, *statements: str) -> list[Any]:
    with sqlite3.connect(path) as connection:
        found = [connection.execute(statement).fetchall() for statement in statements]
    connection.close()
    return found[-1]


def from_table(folder: Path, schema: Schema, **parameters: str) -> list[tuple[Any, ...]]:
    place = fact_source("rel", {"IO": "sqlite", "filename": "d.sqlite"} | parameters, folder)
    return rows_of(read_place(place, schema, "rel", {"u": UNSIGNED}))


def test_any_table_or_view_can_be_read(tmp_path: Path) -> None:
    database(
        tmp_path / "d.sqlite",
        "CREATE TABLE rel (a, b)",
        "INSERT INTO rel VALUES (1, 'x'), ('2', NULL), (3.0, X'79'), (4, 5)",
        "CREATE VIEW two AS SELECT a FROM rel WHERE b = 'x'",
    )
    assert from_table(tmp_path, NAMED) == [(1, "x"), (2, ""), (3, "y"), (4, "5")]
    assert from_table(tmp_path, Schema.of(u=int), name="two") == [(1,)]
    assert from_table(tmp_path, Schema.of(f=float), name="two", filename="file:d.sqlite") == [(1.0,)]


def test_tables_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"d.sqlite: there is no such database \(for relation 'rel'\)"):
        from_table(tmp_path, NAMED)
    database(
        tmp_path / "d.sqlite",
        "CREATE TABLE rel (a)",
        "INSERT INTO rel VALUES (1), (1.5), ('x'), (-1), ('9223372036854775808')",
    )
    with pytest.raises(
        InputError, match=r"d.sqlite: unknown table 'rle'.*; did you mean 'rel'\? \[unknown-table\]"
    ):
        from_table(tmp_path, NAMED, name="rle")
    with pytest.raises(
        InputError, match=r"relation 'rel' has 2 columns \(id, name\), table 'rel' has 1 \[wrong-arity\]"
    ):
        from_table(tmp_path, NAMED)
    with pytest.raises(InputError) as caught:
        from_table(tmp_path, Schema.of(u=int))
    where = f"{tmp_path}/d.sqlite: row"
    assert str(caught.value).split("\n") == [
        f"{where} 2 of 'rel' (for relation 'rel'): column 'u' expects a whole number, got 1.5",
        f"{where} 3 of 'rel' (for relation 'rel'): column 'u' expects a whole number, got 'x'",
        f"{where} 4 of 'rel' (for relation 'rel'): column 'u' expects an unsigned number "
        "(0 to 2^63-1), got -1",
        f"{where} 5 of 'rel' (for relation 'rel'): column 'u' expects an unsigned number "
        f"(0 to 2^63-1), got '{2**63}' [wrong-type]",
    ]
    database(tmp_path / "d.sqlite", "CREATE TABLE bytes (a)", "INSERT INTO bytes VALUES (X'FF')")
    with pytest.raises(InputError, match=r"column 's' expects UTF-8 text, got b'\\xff' \[wrong-type\]$"):
        from_table(tmp_path, Schema.of(s=str), name="bytes")
    (tmp_path / "d.sqlite").write_text("no database " * 99)
    with pytest.raises(InputError, match="SQLite: file is not a database"):
        from_table(tmp_path, NAMED)


def test_many_problems_of_a_table_are_cut_short(tmp_path: Path) -> None:
    database(
        tmp_path / "d.sqlite", "CREATE TABLE rel (a)", f"INSERT INTO rel VALUES {', '.join(['(0.5)'] * 50)}"
    )
    with pytest.raises(InputError) as caught:
        from_table(tmp_path, Schema.of(n=int))
    lines = str(caught.value).split("\n")
    assert len(lines) == 11
    assert lines[-1] == "... and perhaps more; only the first 10 are shown [wrong-type]"


def test_tables_are_written_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "d.sqlite"
    for name, zset in {
        "a": ZSet({(1, "x"): 1, (2, "y"): 1}, schema=NAMED),
        "b": ZSet({("y", 1.0): 1}, schema=Schema.of(s=str, f=float)),
        "no": ZSet({(): 1}, schema=Schema.of()),
        "A": ZSet({}, schema=NAMED),
    }.items():
        if name != "A":
            write_place(result_target(name, {"IO": "sqlite", "dbname": "d.sqlite"}, path.parent), zset)
    assert database(path, "SELECT id, name FROM a ORDER BY id") == [(1, "x"), (2, "y")]
    assert database(path, "SELECT s, f, typeof(f) FROM b") == [("y", 1.0, "real")]
    assert database(path, "SELECT count(*) FROM no") == [(1,)]
    assert database(path, "SELECT symbol FROM __SymbolTable ORDER BY id") == [("x",), ("y",)]


def test_a_table_that_cannot_be_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    place = result_target("a", {"IO": "sqlite", "filename": "d.sqlite"}, tmp_path)
    write_place(place, ZSet({(1, "x"): 1}, schema=NAMED))
    with pytest.raises(InputError, match=r"SQLite: .* \[database-error\]"):
        write_place(place, ZSet({(2, "\ud800"): 1}, schema=NAMED))
    assert database(path, "SELECT * FROM a") == [(1, "x")]


def test_all_floats_can_be_read_back(tmp_path: Path) -> None:
    values = [-math.inf, -2.5, 5e-324, 0.1, 1e308, math.inf, math.nan]
    zset = ZSet([(value,) for value in values], schema=Schema.of(f=float))
    write_place(result_target("rel", {"IO": "sqlite", "filename": "d.sqlite"}, tmp_path), zset)
    assert repr(from_table(tmp_path, zset.schema)) == repr([(value,) for value in values])
