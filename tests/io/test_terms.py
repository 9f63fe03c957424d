"""Records and branches in files of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp.compiler.datalog.meaning.directives import fact_source, result_target
from dbsp.data.terms import Branch, Record
from dbsp.io.change_script import ChangeScriptReader
from dbsp.io.places import read_place, write_place
from dbsp.io.problems import DataError
from tests.io.support import rows_of

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
        (
            '[[null, ["$Node", ["$Leaf"], "", -1, ["$Leaf"]]]]',
            "an unsigned number (0 to 2^63-1) as field 'size'",
        ),
        (
            f'[[null, ["$Node", ["$Leaf"], "", {2**64}, ["$Leaf"]]]]',
            "an unsigned number (0 to 2^63-1) as field 'size'",
        ),
    ],
)
def test_terms_of_json_that_do_not_fit(tmp_path: Path, data: str, message: str) -> None:
    (tmp_path / "r.json").write_text(data)
    with pytest.raises(DataError) as caught:
        read_place(fact_source("r", {"IO": "jsonfile"}, tmp_path), dbsp.compile(TERMS).inputs["r"], "r")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("+r([x, nil], $Leaf)", 5, "column 'l' of 'r' expects a whole number in field 'head' [wrong-type]"),
        (
            "+r(nil, $Node($Leaf, a, 7, $Leaf))",
            22,
            "column 't' of 'r' expects a text in double quotes in field 'name' [wrong-type]",
        ),
        (
            '+r(nil, $Node($Leaf, "a", -7, $Leaf))',
            27,
            "column 't' of 'r' expects an unsigned number (0 to 2^63-1) in field 'size' [value-out-of-range]",
        ),
        (
            f'+r(nil, $Node($Leaf, "a", {2**64}, $Leaf))',
            27,
            "column 't' of 'r' expects an unsigned number (0 to 2^63-1) in field 'size' [value-out-of-range]",
        ),
        (r'+r(nil, $Node($Leaf, "\q", 7, $Leaf))', 23, r"unknown escape \q [invalid-line]"),
    ],
)
def test_terms_of_change_scripts_that_do_not_fit(line: str, column: int, message: str) -> None:
    program = dbsp.compile(TERMS)
    reader = ChangeScriptReader(program.inputs, "s.txt", ranges=program.ranges)
    with pytest.raises(DataError) as caught:
        reader.feed(line)
    assert str(caught.value).startswith(f"s.txt:1:{column}: error: {message}\n    {line}\n")


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
    for number in range(100_000):  # more than any version of Python reads
        value = Record((number, value))
    program = dbsp.compile(TERMS)
    zset = program.start({"r": [(value, Branch("Leaf"))]}).view("r")
    place = {"IO": "jsonfile", "filename": "r.json"}
    write_place(result_target("r", place, tmp_path), zset)
    assert (tmp_path / "r.json").read_text().count("[") == 100_003
    with pytest.raises(DataError, match="this row is nested too deeply"):
        read_place(fact_source("r", place, tmp_path), program.inputs["r"], "r")
