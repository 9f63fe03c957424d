"""Rows that are taken by columns are those that are converted one by one, and so are the errors."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, DbspError
from dbsp.compiler.datalog.meaning.word_ranges import UNSIGNED
from dbsp.data.schema import Schema
from dbsp.io import json_rows, row_pieces, sqlite_rows
from dbsp.io.json_rows import parse_json_rows
from dbsp.io.row_pieces import RowPieces
from dbsp.io.sqlite_rows import read_table
from tests.io.support import rows_of

SCHEMA = Schema.of(i=int, f=float, s=str)
RANGES = {"i": UNSIGNED}
INTS = st.sampled_from([0, 1, 2, 2**63 - 1, -(2**63), -1, 2**63, 2**70])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan"), 3, -7, 2**53 + 1, 2**2000])
TEXTS = st.sampled_from(["", "a", "é", '"', "],[", "\ud800"])
OTHERS = st.sampled_from([None, True, "x", [], {}, {"i": 1}, 1.0])

good = st.tuples(st.sampled_from([0, 1, 2**63 - 1]), st.sampled_from([0.5, 3, -0.0]), st.sampled_from("aé"))
some = st.tuples(INTS | OTHERS, FLOATS | OTHERS, TEXTS | OTHERS)


def outcome(read: Callable[[], Any]) -> Any:
    """Return the rows, with the types of their values, or the error."""
    try:
        rows = rows_of(read())
    except DbspError as error:
        return str(error)
    return [[(type(value), repr(value)) for value in row] for row in rows]


def compare(read: Callable[[], Any]) -> None:
    """Read in pieces of three rows with and without `take`, and compare rows and errors."""
    with mock.patch.object(json_rows, "PIECE", 3), mock.patch.object(sqlite_rows, "PIECE", 3):
        found = outcome(read)
        with mock.patch.object(RowPieces, "take", lambda self, columns: False):
            assert found == outcome(read)


@given(
    st.lists(good | good | good | some, max_size=12),
    st.sampled_from([("i", "f", "s"), ("s", "i", "f"), None]),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.lists(st.sampled_from([",", ",", ", ", " ,\n"]), min_size=12, max_size=12),
    st.sampled_from(["]", "", ",]", "] 1"]),
    st.sampled_from([{}, RANGES]),
)
def test_json(
    rows: list[tuple[Any, ...]],
    order: tuple[str, ...] | None,
    objects: list[bool],
    separators: list[str],
    end: str,
    ranges: Any,
) -> None:
    text = "["
    for row, separator, is_object in zip(rows, separators, objects, strict=False):
        members = dict(zip(SCHEMA.names, row, strict=True))
        value = {name: members[name] for name in order} if order and (is_object or objects[0]) else row
        text += (separator if text != "[" else "") + json.dumps(value)
    compare(lambda: parse_json_rows((text + end).encode(), "a.json", SCHEMA, "a", ranges))


@pytest.mark.parametrize(
    "row",
    [
        '{"i": 1, "i": 1, "f": 1.5}',
        '{"i": 1, "f": 1.5, "t": "a"}',
        '{"i": 1, "f": 1.5, "s": "a", "t": 2}',
        '[["i", 1], ["f", 1.5], ["s", "a"]]',
        '[1, 1.5, "a", 2]',
        "[]",
        "{}",
        "null",
        "7",
        '"iii"',
    ],
)
def test_json_rows_of_another_form(row: str) -> None:
    """All rows of a piece, one of them, and the last one have this form."""
    fine = '[1, 1.5, "a"]'
    for rows in ([row] * 3, [row], [fine, row, fine], [fine] * 7 + [row]):
        compare(lambda rows=rows: parse_json_rows(f"[{', '.join(rows)}]".encode(), "a.json", SCHEMA, "a"))


@given(st.lists(good | good | some, max_size=12), st.sampled_from([{}, RANGES]))
def test_sqlite(rows: list[tuple[Any, ...]], ranges: Any) -> None:
    stored = [
        tuple(value if isinstance(value, float | str) or value in (0, 1, -1) else None for value in row)
        for row in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE a (i, f, s)")
            database.executemany(
                "INSERT INTO a VALUES (?, ?, ?)", [row for row in stored if "\ud800" not in row]
            )
        compare(lambda: read_table(path, "a", SCHEMA, "a", ranges))


def test_the_row_of_an_error_is_counted_over_pieces(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as database, database:
        database.execute("CREATE TABLE a (i)")
        values = [x if x != 40_000 else "x" for x in range(50_000)]
        database.executemany("INSERT INTO a VALUES (?)", [(value,) for value in values])
    with pytest.raises(DbspError, match=r"row 40001 of 'a' .*: column 'i' expects a whole number, got 'x'"):
        read_table(tmp_path / "a.sqlite", "a", Schema.of(i=int), "a")
    text = "[\n" + ",\n".join(f"[{x}]" if x != 40_000 else '["x"]' for x in range(50_000)) + "]"
    with pytest.raises(DbspError, match=r"a\.json:40002:1: error: column 'i' .* expects a whole number"):
        parse_json_rows(text.encode(), "a.json", Schema.of(i=int), "a")


@pytest.mark.parametrize("objects", [False, True])
def test_many_rows_are_a_table_and_few_are_tuples(objects: bool) -> None:
    rows = [(x, x / 2, f"text {x % 9}") for x in range(2 * row_pieces.PIECE + 5)]
    shown = [dict(zip(SCHEMA.names, row, strict=True)) if objects else row for row in rows]
    few = parse_json_rows(json.dumps(shown[:9]).encode(), "a.json", SCHEMA, "a")
    many = parse_json_rows(json.dumps(shown).encode(), "a.json", SCHEMA, "a")
    assert few == rows[:9]
    assert isinstance(many, pa.Table) and rows_of(many) == rows
    circuit = Circuit("rows")
    circuit.output("a", circuit.input("a", schema=SCHEMA))
    run = circuit.start()
    run.step({"a": many})
    assert run.view("a").rows() == rows
