"""Reading fact files and writing result files."""

from __future__ import annotations

import codecs
import datetime as dt
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.compiler.datalog.meaning.word_ranges import UNSIGNED
from dbsp.data.schema import Schema
from dbsp.data.terms import Record
from dbsp.data.types import define_structures, structure_type
from dbsp.data.zset import ZSet
from dbsp.errors import InputError, SchemaError
from dbsp.io.facts import _Reader, parse_facts, read_facts
from dbsp.io.json_rows import write_json_rows
from dbsp.io.places import Medium, Place, write_place
from dbsp.io.problems import DataError
from dbsp.io.results import format_delta
from dbsp.io.term_text import read_cell
from dbsp.io.written_lines import write_lines
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests.io.support import NAMED, lines_of, rows_of

EDGE = Schema.of(x=int, y=int)


def read(tmp_path: Path, data: str | bytes, schema: Schema, **options: Any) -> list[tuple[Any, ...]]:
    path = tmp_path / "rel.facts"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return rows_of(read_facts(path, schema, **options))


def refused(tmp_path: Path, data: str | bytes, schema: Schema, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(tmp_path, data, schema, **options)
    return str(caught.value).replace(str(tmp_path) + "/", "")


def test_rows_are_typed_by_the_schema(tmp_path: Path) -> None:
    schema = Schema.of(i=int, f=float, s=str, b=bool, d=dt.date, t=dt.datetime)
    line = "-7\t2.5\tAda\ttrue\t2024-02-29\t2024-02-29T12:30:00\n"
    expected = (-7, 2.5, "Ada", True, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30))
    assert read(tmp_path, line, schema) == [expected]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", []),
        ("1\ta\n", [(1, "a")]),
        ("1\ta", [(1, "a")]),
        ("1\ta\r\n2\tb\r\n", [(1, "a"), (2, "b")]),
        ("1\ta\rb\n", [(1, "a\rb")]),
        ('1\t"a"\n2\t"\n', [(1, '"a"'), (2, '"')]),
        ("1\t\n2\tNA\n3\tnull\n", [(1, ""), (2, "NA"), (3, "null")]),
        ("1\t a b \n", [(1, " a b ")]),
        ("1\té💡\n", [(1, "é💡")]),
        ("\ufeff1\ta\n", [(1, "a")]),
        ("+1\ta\n007\tb\n", [(1, "a"), (7, "b")]),
        ("0x10\ta\n-0xA\tb\n0b11\tc\n", [(16, "a"), (-10, "b"), (3, "c")]),
        ("16\t0xFF\n", [(16, "0xFF")]),
        (f"{INT64_MIN}\ta\n{INT64_MAX}\tb\n", [(INT64_MIN, "a"), (INT64_MAX, "b")]),
        ("1\t" + "x" * 3_000_000 + "\n2\tb\n", [(1, "x" * 3_000_000), (2, "b")]),
    ],
)
def test_spellings(tmp_path: Path, data: str, expected: list[tuple[Any, ...]]) -> None:
    assert read(tmp_path, data, NAMED) == expected


def test_an_empty_line_is_an_empty_text_in_a_relation_of_one_text_column(tmp_path: Path) -> None:
    assert read(tmp_path, "a\n\nb\n", Schema.of(s=str)) == [("a",), ("",), ("b",)]


def test_floats(tmp_path: Path) -> None:
    values = [row[0] for row in read(tmp_path, "1\n1e3\n-.5\ninf\nnan\n+2.5\n", Schema.of(f=float))]
    assert values[:4] == [1.0, 1000.0, -0.5, math.inf]
    assert math.isnan(values[4])
    assert values[5] == 2.5


def test_another_delimiter(tmp_path: Path) -> None:
    assert read(tmp_path, "1,a\n", NAMED, delimiter=",") == [(1, "a")]
    assert read(tmp_path, "1::a\n", NAMED, delimiter="::") == [(1, "a")]


def test_a_relation_without_columns(tmp_path: Path) -> None:
    nothing = Schema.of()
    assert read(tmp_path, "", nothing) == []
    assert read(tmp_path, "()\n", nothing) == [()]
    message = "relation 'rel' has no columns; write its only row as () [invalid-line]"
    assert message in refused(tmp_path, "1\n", nothing)


def test_too_few_and_too_many_columns(tmp_path: Path) -> None:
    assert refused(tmp_path, "1\t2\n3\n4\t5\t6\n", EDGE, relation="edge") == (
        "rel.facts:2:1: error: relation 'edge' has 2 columns (x, y), got 1 [wrong-arity]\n"
        "    3\n"
        "    ^\n"
        "    hint: columns are separated by tabs\n"
        "rel.facts:3:1: error: relation 'edge' has 2 columns (x, y), got 3 [wrong-arity]\n"
        "    4\t5\t6\n"
        "    ^^^^^\n"
        "    hint: columns are separated by tabs"
    )


@pytest.mark.parametrize(
    ("text", "separated", "options"),
    [
        ("1,2\n3,4\n", "commas", 'delimiter=","'),
        ("1, 2\n", "commas", 'delimiter=","'),
        ("1 2\n3 4\n", "blanks", 'delimiter=" "'),
        ("1;2\n", "semicolons", 'delimiter=";"'),
        ("1|2\n", "vertical bars", 'delimiter="|"'),
        ('1,"2"\n', "commas", "rfc4180=true"),
        ("x,y\n1,2\n", "commas", 'delimiter=",", headers=true'),
        ("from,to\n1,2\n", "commas", 'delimiter=",", headers=true'),
    ],
)
def test_columns_separated_by_something_else(tmp_path: Path, text: str, separated: str, options: str) -> None:
    line = text.split("\n")[0]
    assert refused(tmp_path, text, EDGE, relation="edge") == (
        "rel.facts:1:1: error: relation 'edge' has 2 columns (x, y), got 1 [wrong-arity]\n"
        f"    {line}\n"
        f"    {'^' * len(line)}\n"
        f"    hint: the columns are separated by {separated}; add {options} to .input edge"
    )


def test_tabs_in_place_of_commas(tmp_path: Path) -> None:
    text = refused(tmp_path, "1\t2\n", EDGE, relation="edge", delimiter=",")
    assert 'the columns are separated by tabs; add delimiter="\\t" to .input edge' in text


def test_the_first_line_after_the_header_shows_the_separator(tmp_path: Path) -> None:
    text = refused(tmp_path, "x,y\n1,2\n3,4\n", EDGE, relation="edge", headers=True)
    assert text.count("error") == 1
    assert text.startswith("rel.facts:2:1:")
    assert text.endswith('the columns are separated by commas; add delimiter="," to .input edge')


@pytest.mark.parametrize(
    ("text", "schema", "described"),
    [
        ("x\ty\n1\t2\n", EDGE, "x: int, y: int"),
        ("from node\tto\n1\t2\n", EDGE, "x: int, y: int"),
        ("name\tage\nann\t7\n", Schema.of(name=str, age=int), "name: str, age: int"),
        ("Who\tWeight\nann\t7.5\n", Schema.of(name=str, w=float), "name: str, w: float"),
    ],
)
def test_a_first_line_of_column_names(tmp_path: Path, text: str, schema: Schema, described: str) -> None:
    line = text.split("\n")[0]
    assert refused(tmp_path, text, schema, relation="r") == (
        f"rel.facts:1:1: error: expected a row of relation 'r' ({described}), got column names [wrong-type]\n"
        f"    {line}\n"
        f"    {'^' * len(line)}\n"
        "    hint: add headers=true to .input r"
    )


@pytest.mark.parametrize("text", ["x\t2\n", "-\ty\n", "a\ta\n", "1\t2\nx\ty\n"])
def test_a_line_that_is_no_header(tmp_path: Path, text: str) -> None:
    assert "headers=true" not in refused(tmp_path, text, EDGE)


def test_an_empty_line_is_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, "1\t2\n\n", EDGE, relation="edge")
    assert "rel.facts:2:1: error: relation 'edge' has 2 columns, got an empty line [wrong-arity]" in text
    assert "hint: remove the empty line" in text


def test_not_a_number(tmp_path: Path) -> None:
    assert refused(tmp_path, "1\t2\n1\tabc\n", EDGE, relation="edge") == (
        "rel.facts:2:3: error: column 'y' of relation 'edge' expects a whole number, got 'abc' [wrong-type]\n"
        "    1\tabc\n"
        "     \t^^^"
    )
    assert "expects a whole number, got '1.5'" in refused(tmp_path, "1\t1.5\n", EDGE)
    assert "expects a whole number, got ''" in refused(tmp_path, "1\t\n", EDGE)
    assert "expects a number, got 'x'" in refused(tmp_path, "x\n", Schema.of(f=float))
    assert "expects true or false, got 'maybe'" in refused(tmp_path, "maybe\n", Schema.of(b=bool))
    assert "expects a date such as 2024-01-31, got '1/2/3'" in refused(
        tmp_path, "1/2/3\n", Schema.of(d="date")
    )
    assert "expects a time such as 2024-01-31T12:00:00, got 'noon' [wrong-type]" in refused(
        tmp_path, "noon\n", Schema.of(t="timestamp")
    )


@pytest.mark.parametrize("text", [str(INT64_MAX + 1), str(INT64_MIN - 1), "0xFFFFFFFFFFFFFFFF", "9" * 5000])
def test_a_number_beyond_64_bits_does_not_wrap(tmp_path: Path, text: str) -> None:
    message = refused(tmp_path, f"1\t{text}\n", EDGE)
    assert "expects a whole number of 64 bits (-2^63 to 2^63-1), got " in message
    assert "[value-out-of-range]" in message


def test_unsigned_columns_refuse_negative_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, "-1\t1\n", EDGE, ranges={"y": UNSIGNED}) == [(-1, 1)]
    for text in ("-1", str(2**63), f"-{2**64}"):
        message = refused(tmp_path, f"1\t{text}\n", EDGE, ranges={"y": UNSIGNED})
        assert f"expects an unsigned number (0 to 2^63-1), got '{text}' [value-out-of-range]" in message


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    message = "rel.facts:2:3: error: expected UTF-8 text [invalid-encoding]"
    assert message in refused(tmp_path, b"1\ta\n2\t\xff\n", NAMED)


def test_many_problems_are_cut_short(tmp_path: Path) -> None:
    text = refused(tmp_path, "x\ty\n" * 100, EDGE)
    assert text.count("error:") == 10
    assert text.endswith("... and perhaps more; only the first 10 are shown")


def test_a_long_line_is_shown_cut(tmp_path: Path) -> None:
    assert len(refused(tmp_path, "1\t" + "x" * 10_000 + "\n", EDGE)) < 1000


def test_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "edge.facts").touch()
    with pytest.raises(InputError) as caught:
        read_facts(tmp_path / "egde.facts", EDGE)
    text = (
        f"{tmp_path}/egde.facts: there is no such fact file (for relation 'egde'); did you mean 'edge.facts'?"
        " [file-not-found]"
    )
    assert str(caught.value) == text
    with pytest.raises(InputError, match=r"the folder .*/none does not exist"):
        read_facts(tmp_path / "none" / "edge.facts", EDGE)
    expected = r"no such fact file .*; .*/edge\.facts is a file, but expected a folder \[file-not-found\]"
    with pytest.raises(InputError, match=expected):
        read_facts(tmp_path / "edge.facts" / "edge.facts", EDGE)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: Is a directory \[unreadable-file\]"):
        read_facts(tmp_path, EDGE)


def test_a_type_that_files_do_not_support(tmp_path: Path) -> None:
    message = r"column 't' has type object, which fact files do not support \[invalid-type\]"
    with pytest.raises(SchemaError, match=message):
        read_facts(tmp_path / "r.facts", Schema.of(t=tuple))


texts = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff"))
integers = st.integers(INT64_MIN, INT64_MAX)


@settings(deadline=None)  # the first example may have to load compiled kernels
@given(st.lists(st.tuples(integers, texts, st.floats(allow_nan=False))))
def test_written_rows_are_read_back(rows: list[tuple[int, str, float]]) -> None:
    schema = Schema.of(i=int, s=str, f=float)
    data, ambiguous = lines_of(ZSet.from_rows(rows, schema=schema).distinct())
    assert ambiguous == 0
    by_line = rows_of(_Reader("r", schema, "r", "\t", False, {})._read_by_line(data))
    in_bulk = rows_of(_Reader("r", schema, "r", "\t", False, {}).read(data))
    assert by_line == in_bulk == sorted(set(rows))


def test_rows_are_written_sorted_by_value() -> None:
    schema = Schema.of(s=str, i=int)
    # The order of the interned texts is not their alphabetical order.
    zset = ZSet({("b", 1): 1, ("a", 10): 1, ("a", 9): 1, ("a", -1): 1, ("Z", 0): 1}, schema=schema)
    assert lines_of(zset) == (b"Z\t0\na\t-1\na\t9\na\t10\nb\t1\n", 0)


def test_how_values_are_written() -> None:
    row = (1, 2.0, True, dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 1, 2, 3), (1, "a"), b"x")
    zset = ZSet({row: 1})
    assert lines_of(zset) == (b"1\t2\ttrue\t2024-01-31\t2024-01-31T01:02:03\t(1, 'a')\tb'x'\n", 0)
    assert lines_of(ZSet({(0.1,): 1, (1e22,): 1})) == (b"0.1\n1e+22\n", 0)
    assert lines_of(ZSet({(None, 1): 1, ("a", 1): 1}, schema=Schema.of(s=str | None, i=int))) == (
        b"\t1\na\t1\n",
        0,
    )
    assert lines_of(ZSet({(None,): 1, (5,): 1}, schema=Schema.of(i=int | None))) == (b"\n5\n", 0)
    assert lines_of(ZSet({}, schema=EDGE)) == (b"", 0)
    assert lines_of(ZSet({(): 1}, schema=Schema.of())) == (b"()\n", 0)


def test_texts_that_cannot_be_read_back_are_counted() -> None:
    zset = ZSet({("a\tb", 1): 1, ("a\tb", 2): 1, ("c\nd", 1): 1, ("e,f", 1): 1})
    assert lines_of(zset)[1] == 2
    assert lines_of(zset, delimiter=",")[1] == 2


@pytest.mark.parametrize(
    "symbol", ["a", "", "nil", "b c", "$x", "-1", "x, y", "]", "[", "(a)", '"q"', " a", "a ", 'x"']
)
def test_records_that_cannot_be_read_back_are_counted(symbol: str) -> None:
    structure = define_structures({"P": [("", [("s", "str"), ("n", "@P")])]})["P"]
    schema = Schema(("p",), (structure_type(structure),))
    value = Record([symbol, None])
    data, unclear = lines_of(ZSet({(value,): 1}, schema=schema))
    try:
        same = read_cell(schema.types[0], data.decode().removesuffix("\n")) == value
    except ValueError:
        same = False
    assert unclear == (not same)


def test_files_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "path.csv"
    write_place(Place(Medium.TEXT, path, "path"), ZSet({(1, 2): 1}))
    write_place(Place(Medium.TEXT, path, "path"), ZSet({(3, 4): 1}))
    assert path.read_text() == "3\t4\n"
    assert [p.name for p in path.parent.iterdir()] == ["path.csv"]
    with pytest.raises(InputError, match=r"path.csv/x.csv: cannot be written: .* \[unwritable-file\]"):
        write_place(Place(Medium.TEXT, path / "x.csv", "x"), ZSet({(1,): 1}))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("at", [0, 1, 20_000])
def test_an_empty_line_of_a_large_file_of_texts_is_no_row(end: str, at: int) -> None:
    lines = ["a\tb"] * 20_000
    lines.insert(at, "")
    schema, data = Schema.of(x=str, y=str), end.join([*lines, ""]).encode()
    message = rf"r.facts:{at + 1}:1: error: relation 'r' has 2 columns, got an empty line \[wrong-arity\]"
    for start in (b"", codecs.BOM_UTF8):
        with pytest.raises(DataError, match=message):
            parse_facts(start + data, "r.facts", schema, "r")
    assert len(parse_facts(data, "r.facts", Schema.of(x=str), "r", delimiter=",")) == 20_001


@pytest.mark.parametrize("write", [write_lines, write_json_rows])
def test_half_characters_cannot_be_written(write: Callable[[ZSet, IO[bytes]], object]) -> None:
    with pytest.raises(InputError, match=r"cannot write .*: expected valid Unicode text") as caught:
        write(ZSet({("\ud800a",): 1}), io.BytesIO())
    assert caught.value.code == "invalid-encoding"


def test_deltas_are_lines_of_a_change_script() -> None:
    deltas = {
        "path": ZSet({(1, "b"): -1, (1, 'a "q"\n'): 1}),
        "none": ZSet({}, schema=EDGE),
        "n": ZSet({(1.5,): 2}),
    }
    assert list(format_delta(deltas)) == [r'+path(1, "a \"q\"\n")', '-path(1, "b")', "+n(1.5)", "+n(1.5)"]
