"""Rows in files of every kind that directives name: written and read back, or refused."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.meaning.directives import (
    fact_source,
    result_target,
    unknown_parameters,
    wrong_parameters,
)
from dbsp.compiler.datalog.meaning.word_ranges import UNSIGNED
from dbsp.data.schema import Schema
from dbsp.data.terms import Branch, Record
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io import DataError, read_place, write_place
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

NAMED = Schema.of(id=int, name=str)


def rows_of(facts: Any) -> list[tuple[Any, ...]]:
    if isinstance(facts, list):
        return facts
    return list(zip(*(column.to_pylist() for column in facts.columns), strict=True))


def read(
    folder: Path, file: str, data: str | bytes, schema: Schema, unsigned: str = "", **parameters: str
) -> list[tuple[Any, ...]]:
    (folder / file).write_bytes(data.encode() if isinstance(data, str) else data)
    return rows_of(
        read_place(fact_source("rel", parameters, folder), schema, "rel", dict.fromkeys(unsigned, UNSIGNED))
    )


def refused(folder: Path, file: str, data: str | bytes, schema: Schema, **parameters: str) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, file, data, schema, **parameters)
    return str(caught.value).replace(f"{folder}/", "")


# --- lines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["0\tx\t1\n5\ty\t6\n", "0\tx\t1\n5\ty\t+6\n"])
def test_columns_are_picked_from_the_lines(tmp_path: Path, data: str) -> None:
    schema = Schema.of(x=int, y=int)
    assert read(tmp_path, "rel.facts", data, schema, columns="2:0") == [(1, 0), (6, 5)]
    assert read(tmp_path, "rel.facts", "", schema, columns="2:0") == []
    head = f"a\tb\tc\n{data}"
    assert read(tmp_path, "rel.facts", head, schema, columns="2:0", headers="true") == [(1, 0), (6, 5)]
    text = refused(tmp_path, "rel.facts", data + "7\n", schema, columns="2:0")
    assert "rel.facts:3:1: error: this line has 1 column, and columns='2:0' asks for more" in text


def test_packed_facts_are_unpacked(tmp_path: Path) -> None:
    assert read(tmp_path, "rel.facts", gzip.compress(b"1\ta\n"), NAMED) == [(1, "a")]
    text = refused(tmp_path, "rel.facts", gzip.compress(b"1\ta\n" * 99)[:-9], NAMED)
    assert text.startswith("rel.facts: cannot be unpacked: ")


def test_packed_results(tmp_path: Path) -> None:
    place = result_target("r", {"compress": "true"}, tmp_path)
    write_place(place, ZSet({(1, "a"): 1}))
    assert gzip.decompress((tmp_path / "r.csv.gz").read_bytes()) == b"1\ta\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('1,a\n2,"b"\n', [(1, "a"), (2, "b")]),
        ('1,"a,b"\r\n"2","c ""d"" "\r\n', [(1, "a,b"), (2, 'c "d" ')]),
        ('1,"a\nb\r\n\n"\n2,""\n', [(1, "a\nb\r\n\n"), (2, "")]),
        ('1,a"b\n2,\n', [(1, 'a"b'), (2, "")]),
        ('\ufeff"1",a', [(1, "a")]),
        ("1,a\n2,b\n", [(1, "a"), (2, "b")]),
    ],
)
def test_quoted_cells(tmp_path: Path, data: str, expected: list[tuple[Any, ...]]) -> None:
    assert read(tmp_path, "rel.facts", data, NAMED, rfc4180="true") == expected
    with_header = f'id,"na\nme"\n{data.removeprefix(chr(0xFEFF))}'
    assert read(tmp_path, "rel.facts", with_header, NAMED, rfc4180="true", headers="true") == expected


def test_quotes_that_do_not_fit(tmp_path: Path) -> None:
    text = refused(tmp_path, "rel.facts", '1,a\n2,"b\n3,c\n', NAMED, rfc4180="true")
    assert text == 'rel.facts:2:3: error: this quotation mark is never closed\n    2,"b\n      ^'
    text = refused(tmp_path, "rel.facts", '1,"a"b\n', NAMED, rfc4180="true")
    assert text.startswith("rel.facts:1:6: error: the cell goes on behind its closing quotation mark\n")
    text = refused(tmp_path, "rel.facts", b'1,"a"\n2,\xff\n', NAMED, rfc4180="true")
    assert text.startswith("rel.facts:2:3: error: this is not UTF-8 text\n")
    text = refused(tmp_path, "rel.facts", '1,"a\nb",7\n', NAMED, rfc4180="true")
    assert text.startswith("rel.facts:1:1: error: relation 'rel' has 2 columns (id, name), this line has 3\n")
    text = refused(tmp_path, "rel.facts", '"x",a\n', NAMED, rfc4180="true")
    assert text.startswith("rel.facts:1:1: error: column 'id' of relation 'rel' expects a whole number, got")


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
rows = st.lists(st.tuples(st.integers(INT64_MIN, INT64_MAX), texts, st.floats(allow_nan=False)))
WAYS: list[dict[str, str]] = [
    {"rfc4180": "true"},
    {"rfc4180": "true", "headers": "true", "delimiter": ";;"},
    {"IO": "jsonfile"},
    {"IO": "jsonfile", "format": "object"},
    {"IO": "sqlite"},
]


@settings(deadline=None)
@given(rows, st.sampled_from(WAYS))
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, float]], way: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("places")
    schema = Schema.of(i=int, s=str, f=float)
    parameters = way | {"filename": "rel.data"}
    for some in (rows, rows[1:]):
        zset = ZSet.from_rows(some, schema=schema).distinct()
        assert write_place(result_target("rel", parameters, folder), zset) == 0
        facts = read_place(fact_source("rel", parameters, folder), schema, "rel")
        assert ZSet.from_rows(rows_of(facts), schema=schema) == zset


def test_printed_rows_have_a_frame(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    zset = ZSet({(1, "a"): 1}, schema=NAMED)
    write_place(result_target("r", {"IO": "stdout"}, tmp_path), zset)
    assert capfdbinary.readouterr().out == b"---------------\nr\n===============\n1\ta\n===============\n"
    given = {"IO": "stdout", "headers": "true", "delimiter": ",", "name": "s"}
    write_place(result_target("r", given, tmp_path), zset)
    expected = b"---------------\ns\nid,name\n===============\n1,a\n===============\n"
    assert capfdbinary.readouterr().out == expected
    write_place(result_target("r", {"IO": "stdoutprintsize"}, tmp_path), zset)
    write_place(result_target("r", {"IO": "json"}, tmp_path), zset)
    assert capfdbinary.readouterr().out == b'r\t1\n[[1, "a"]]\n'


def test_other_names_for_the_columns(tmp_path: Path) -> None:
    given = {"headers": "true", "attributeNames": "a b"}
    write_place(result_target("r", given, tmp_path), ZSet({(1, 2): 1}))
    assert (tmp_path / "r.csv").read_text() == "a b\n1\t2\n"


@pytest.mark.parametrize(
    ("parameters", "data"), [({"IO": "stdin"}, b"1\ta\n"), ({"IO": "json"}, b'[[1,"a"]]')]
)
def test_facts_from_standard_input(
    parameters: dict[str, str], data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    place = fact_source("r", parameters, Path())
    assert rows_of(read_place(place, NAMED, "r")) == [(1, "a")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[x")))
    with pytest.raises(DataError, match=r"^<stdin>:1:"):
        read_place(place, NAMED, "r")


# --- JSON --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("[]", []),
        (' [\n[1, "a"] ,\n\t[2, ""] ] \n', [(1, "a"), (2, "")]),
        ('[{"name": "a", "id": -1}, [2, "\\u00e9"]]', [(-1, "a"), (2, "é")]),
    ],
)
def test_json(tmp_path: Path, data: str, expected: list[tuple[Any, ...]]) -> None:
    assert read(tmp_path, "rel.json", data, NAMED, IO="jsonfile") == expected


def test_json_without_columns(tmp_path: Path) -> None:
    place = {"IO": "jsonfile", "filename": "rel.json"}
    write_place(result_target("rel", place, tmp_path), ZSet({(): 1}, schema=Schema.of()))
    assert (tmp_path / "rel.json").read_text() == "[null]\n"
    assert read(tmp_path, "rel.json", "[null, []]", Schema.of(), IO="jsonfile") == [(), ()]


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        ("", "1:1", "expected a JSON array of rows"),
        ("{}", "1:1", "expected a JSON array of rows"),
        ('[[1, "a"]', "1:10", "expected ',' or ']'"),
        ('[[1, "a"]] 2', "1:12", "expected the end of the file"),
        ('[\n [1, "a"], [1 "b"]]', "2:15", "this is not JSON: Expecting ',' delimiter"),
        (
            '[[1, "a"],\n  ["b", 2]]',
            "2:3",
            "column 'id' of relation 'rel' expects a whole number, got '\"b\"'",
        ),
        (
            '[[1, "a"],[true, "a"]]',
            "1:11",
            "column 'id' of relation 'rel' expects a whole number, got 'true'",
        ),
        ("[[1, null]]", "1:2", "column 'name' of relation 'rel' expects a text, got 'null'"),
        ("[[1, {}]]", "1:2", "column 'name' of relation 'rel' expects a text, got '{}'"),
        (f'[[{2**63}, "a"]]', "1:2", "column 'id' of relation 'rel' expects a whole number of 64 bits"),
        ("[[1]]", "1:2", "relation 'rel' has 2 columns (id, name), this row has 1"),
        ("[7]", "1:2", "a row of relation 'rel' is an array or an object"),
        ('[{"id": 1}]', "1:2", "this row of relation 'rel' has no member 'name'"),
        ('[{"id": 1, "name": "", "x": 2}]', "1:2", "relation 'rel' has 2 columns; 'x' is one too many"),
        ('[{"id": 1, "name": "", "id": 2}]', "1:2", "relation 'rel' has 2 columns; 'id' is one too many"),
        (f'[[{"9" * 5000}, "a"]]', "1:2", "a number of this row is too large"),
        (r'[[1, "\ud800"]]', "1:2", "column 'name' of relation 'rel' expects a text, and not half of a char"),
        (b'[[1, "\xff"]]', "1:7", "this is not UTF-8 text"),
        ("[" + "[" * 200_000, "1:2", "this row is nested too deeply"),
    ],
)
def test_json_that_does_not_fit(tmp_path: Path, data: str | bytes, place: str, message: str) -> None:
    text = refused(tmp_path, "rel.json", data, NAMED, IO="jsonfile")
    assert text.startswith(f"rel.json:{place}: error: {message}")


def test_unsigned_columns_and_floats_of_json(tmp_path: Path) -> None:
    schema = Schema.of(u=int, f=float)
    assert read(tmp_path, "rel.json", "[[1, 2], [3, 0.5]]", schema, IO="jsonfile") == [(1, 2.0), (3, 0.5)]
    with pytest.raises(DataError, match="expects an unsigned number, which is not negative, got '-1'"):
        read(tmp_path, "rel.json", "[[-1, 2]]", schema, "u", IO="jsonfile")


def test_many_problems_of_json_are_cut_short(tmp_path: Path) -> None:
    text = refused(tmp_path, "rel.json", json.dumps([[]] * 50), NAMED, IO="jsonfile")
    assert text.count("error:") == 10
    assert text.endswith("only the first 10 are shown")


# --- SQLite ------------------------------------------------------------------------------------------


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
    database(tmp_path / "d.sqlite", "CREATE TABLE rel (a)", "INSERT INTO rel VALUES (1), (1.5), ('x'), (-1)")
    with pytest.raises(InputError, match=r"d.sqlite: has no table 'rle'.*; did you mean 'rel'\?"):
        from_table(tmp_path, NAMED, name="rle")
    with pytest.raises(InputError, match="'rel' has 1 columns, relation 'rel' has 2"):
        from_table(tmp_path, NAMED)
    with pytest.raises(InputError) as caught:
        from_table(tmp_path, Schema.of(u=int))
    where = f"{tmp_path}/d.sqlite: row"
    assert str(caught.value).split("\n") == [
        f"{where} 2 of 'rel' (for relation 'rel'): column 'u' expects a whole number, got 1.5",
        f"{where} 3 of 'rel' (for relation 'rel'): column 'u' expects a whole number, got 'x'",
        f"{where} 4 of 'rel' (for relation 'rel'): column 'u' expects an unsigned number, "
        "which is not negative, got -1",
    ]
    (tmp_path / "d.sqlite").write_text("no database " * 99)
    with pytest.raises(InputError, match="SQLite: file is not a database"):
        from_table(tmp_path, NAMED)


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
    with pytest.raises(InputError, match="SQLite: "):
        write_place(place, ZSet({(2, "\ud800"): 1}, schema=NAMED))
    assert database(path, "SELECT * FROM a") == [(1, "x")]


# --- parameters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("input", {"IO": "stdout"}, "IO=stdout is not known for .input"),
        ("output", {"IO": "stdin"}, "IO=stdin is not known for .output"),
        ("printsize", {"IO": "file"}, "IO=file is not known for .printsize"),
        ("input", {"delimiter": ""}, "the delimiter is empty"),
        ("input", {"delimiter": '"', "rfc4180": "true"}, "with rfc4180=true the delimiter has no quotation"),
        ("input", {"columns": "0"}, "columns='0' does not say where the columns are"),
        ("input", {"columns": "1:1"}, "columns='1:1' does not say"),
        ("input", {"columns": "x:y"}, "columns='x:y' does not say"),
        ("output", {"format": "table"}, "format=table is not known"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(
    kind: str, parameters: dict[str, str], message: str
) -> None:
    ((found, _),) = wrong_parameters(kind, parameters, 2)
    assert found.startswith(message)


def test_parameters_are_checked_again_where_they_are_used() -> None:
    with pytest.raises(InputError, match=r".input r: IO=tape is not known for .input; known are file, stdin"):
        fact_source("r", {"IO": "tape"}, Path())


def test_unknown_parameters() -> None:
    expected = [("the parameter 'filemname' of .output means nothing", "did you mean 'filename'?")]
    assert unknown_parameters("output", {"filemname": "x", "name": "y"}) == expected


# --- records and branches ----------------------------------------------------------------------------

TERMS = """
    .type List = [head: number, tail: List]
    .type Tree = Leaf {} | Node {left: Tree, name: symbol, size: unsigned, right: Tree}
    .decl r(l: List, t: Tree)
    .output r
    .input r
"""
TERM_ROWS = [
    (None, Branch("Leaf")),
    (Record((1, Record((-2, None)))), Branch("Node", Branch("Leaf"), 'a "b",\n', 7, Branch("Leaf"))),
]


def test_terms_as_json(tmp_path: Path) -> None:
    program = dbsp.compile(TERMS)
    zset = program.start({"r": TERM_ROWS}).view("r")
    for form, text in {
        "list": '[[null, ["$Leaf"]],\n'
        '[[1, [-2, null]], ["$Node", ["$Leaf"], "a \\"b\\",\\n", 7, ["$Leaf"]]]]\n',
        "object": '[{"l": null, "t": {"$Leaf": {}}},\n{"l": {"head": 1, "tail": {"head": -2, "tail": null}}, '
        '"t": {"$Node": {"left": {"$Leaf": {}}, "name": "a \\"b\\",\\n", "size": 7, '
        '"right": {"$Leaf": {}}}}}]\n',
    }.items():
        parameters = {"IO": "jsonfile", "filename": "r.json", "format": form}
        write_place(result_target("r", parameters, tmp_path), zset)
        assert (tmp_path / "r.json").read_text() == text
        assert read_place(fact_source("r", parameters, tmp_path), program.inputs["r"], "r") == TERM_ROWS


@pytest.mark.parametrize("way", [{}, {"rfc4180": "true"}, {"IO": "sqlite"}, {"delimiter": ","}])
def test_terms_in_other_files(tmp_path: Path, way: dict[str, str]) -> None:
    program = dbsp.compile(TERMS)
    hard = TERM_ROWS if "rfc4180" in way else TERM_ROWS[:1]
    rows = [*hard, (Record((1, None)), Branch("Node", Branch("Leaf"), "ab", 7, Branch("Leaf")))]
    parameters = way | {"filename": "r.data"}
    write_place(result_target("r", parameters, tmp_path), program.start({"r": rows}).view("r"))
    read = read_place(fact_source("r", parameters, tmp_path), program.inputs["r"], "r")
    assert sorted(rows_of(read), key=repr) == sorted(rows, key=repr)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            '[["x", ["$Leaf"]]]',
            "expects an array or an object of the fields of List (head, tail), got '\"x\"'",
        ),
        ('[[[1], ["$Leaf"]]]', "expects an array or an object of the fields of List (head, tail), got '[1]'"),
        ('[[["1", null], ["$Leaf"]]]', "expects a whole number as field 'head'"),
        ('[[{"head": 1, "tial": null}, ["$Leaf"]]]', "the fields of List (head, tail)"),
        ("[[null, null]]", 'expects a branch of Tree (["$Leaf"], ["$Node", ...]), got \'null\''),
        ('[[null, ["$Leave"]]]', "expects a branch of Tree"),
        ('[[null, ["$Leaf", 1]]]', "the fields of $Leaf (none)"),
        ('[[null, ["$Node", ["$Leaf"], "", -1, ["$Leaf"]]]]', "which is not negative as field 'size'"),
    ],
)
def test_terms_of_json_that_do_not_fit(tmp_path: Path, data: str, message: str) -> None:
    (tmp_path / "r.json").write_text(data)
    with pytest.raises(DataError) as caught:
        read_place(fact_source("r", {"IO": "jsonfile"}, tmp_path), dbsp.compile(TERMS).inputs["r"], "r")
    assert message in str(caught.value)


def test_symbols_within_terms_may_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_text(
        'nil\t$Node($Leaf, "a\\\\, \\"b\\")" , 1, $Leaf)\nnil\t$Node($Leaf,"c" d,2,$Leaf)\n'
    )
    rows = read_place(fact_source("r", {}, tmp_path), dbsp.compile(TERMS).inputs["r"], "r")
    leaf = Branch("Leaf")
    expected = ['a\\, "b")', '"c" d']
    assert [row[1].arguments[1] for row in rows] == expected
    assert [row[1].arguments[0] for row in rows] == [leaf, leaf]


def test_long_lists_are_written(tmp_path: Path) -> None:
    value: Any = None
    for number in range(20_000):
        value = Record((number, value))
    program = dbsp.compile(TERMS)
    zset = program.start({"r": [(value, Branch("Leaf"))]}).view("r")
    place = {"IO": "jsonfile", "filename": "r.json"}
    write_place(result_target("r", place, tmp_path), zset)
    assert (tmp_path / "r.json").read_text().count("[") == 20_003
    with pytest.raises(DataError, match="this row is nested too deeply"):
        read_place(fact_source("r", place, tmp_path), program.inputs["r"], "r")
