"""Facts and results as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbsp.compiler.datalog.meaning.directives import result_target
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.io.places import write_place
from dbsp.io.problems import DataError
from tests.io.support import NAMED, read, refused


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
        (
            '[\n [1, "a"], [1 "b"]]',
            "2:15",
            "invalid JSON: Expecting ',' delimiter [invalid-json]",
        ),
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
        ("[[1]]", "1:2", "relation 'rel' has 2 columns (id, name), got 1 [wrong-arity]"),
        ("[7]", "1:2", "expected an array or an object as a row of 'rel', got '7' [wrong-type]"),
        (
            '[{"id": 1}]',
            "1:2",
            "relation 'rel' has 2 columns (id, name); this row has no member 'name' [wrong-arity]",
        ),
        (
            '[{"id": 1, "name": "", "x": 2}]',
            "1:2",
            "relation 'rel' has 2 columns (id, name); this row has an unknown member 'x' [wrong-arity]",
        ),
        (
            '[{"id": 1, "name": "", "id": 2}]',
            "1:2",
            "relation 'rel' has 2 columns (id, name); this row has a duplicate member [wrong-arity]",
        ),
        (f'[[{"9" * 5000}, "a"]]', "1:2", "a number of this row is too large [value-out-of-range]"),
        (
            r'[[1, "\ud800"]]',
            "1:2",
            "column 'name' of relation 'rel' expects a text without surrogates",
        ),
        (b'[[1, "\xff"]]', "1:7", "expected UTF-8 text [invalid-encoding]"),
        ("[" + "[" * 200_000, "1:2", "this row is nested too deeply"),
    ],
)
def test_json_that_does_not_fit(tmp_path: Path, data: str | bytes, place: str, message: str) -> None:
    text = refused(tmp_path, "rel.json", data, NAMED, IO="jsonfile")
    assert text.startswith(f"rel.json:{place}: error: {message}")


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        (Schema.of(c=float), '[["a"]]', "a number, got '\"a\"' [wrong-type]"),
        (
            Schema.of(c=float),
            f"[[{'9' * 400}]]",
            f"a number within the range of a float, got '{'9' * 56}... [value-out-of-range]",
        ),
        (
            Schema.of(c="date"),
            '[["2024-01-31"]]',
            "a value of type date, which JSON files do not support, got '\"2024-01-31\"' [wrong-type]",
        ),
    ],
)
def test_json_values_of_another_type(tmp_path: Path, schema: Schema, data: str, expected: str) -> None:
    text = refused(tmp_path, "rel.json", data, schema, IO="jsonfile")
    assert text.startswith(f"rel.json:1:2: error: column 'c' of relation 'rel' expects {expected}\n")


def test_unsigned_columns_and_floats_of_json(tmp_path: Path) -> None:
    schema = Schema.of(u=int, f=float)
    assert read(tmp_path, "rel.json", "[[1, 2], [3, 0.5]]", schema, IO="jsonfile") == [(1, 2.0), (3, 0.5)]
    for number in (-1, 2**63):
        with pytest.raises(DataError, match=rf"expects an unsigned number \(0 to 2\^63-1\), got '{number}'"):
            read(tmp_path, "rel.json", f"[[{number}, 2]]", schema, "u", IO="jsonfile")


def test_many_problems_of_json_are_cut_short(tmp_path: Path) -> None:
    text = refused(tmp_path, "rel.json", json.dumps([[]] * 50), NAMED, IO="jsonfile")
    assert text.count("error:") == 10
    assert text.endswith("only the first 10 are shown")
