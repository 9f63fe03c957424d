"""Files of one row per line: columns, quotes, compression, written and read back."""

from __future__ import annotations

import gzip
import io
import random
import sys
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.compiler.datalog.meaning.directives import fact_source, result_target
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.io import facts, unpack
from dbsp.io.facts import parse_facts
from dbsp.io.places import read_place, write_place
from dbsp.io.problems import DataError
from dbsp.io.quoted import is_plainly_quoted
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests.io.support import NAMED, read, refused, rows_of
from tests.profiles import examples


@pytest.mark.parametrize("data", ["0\tx\t1\n5\ty\t6\n", "0\tx\t1\n5\ty\t+6\n"])
def test_columns_are_picked_from_the_lines(tmp_path: Path, data: str) -> None:
    schema = Schema.of(x=int, y=int)
    assert read(tmp_path, "rel.facts", data, schema, columns="2:0") == [(1, 0), (6, 5)]
    assert read(tmp_path, "rel.facts", "", schema, columns="2:0") == []
    head = f"a\tb\tc\n{data}"
    assert read(tmp_path, "rel.facts", head, schema, columns="2:0", headers="true") == [(1, 0), (6, 5)]
    text = refused(tmp_path, "rel.facts", data + "7\n", schema, columns="2:0")
    assert "rel.facts:3:1: error: expected at least 3 columns for columns='2:0', got 1 [wrong-arity]" in text


def test_compressed_facts_are_decompressed(tmp_path: Path) -> None:
    assert read(tmp_path, "rel.facts", gzip.compress(b"1\ta\n"), NAMED) == [(1, "a")]
    text = refused(tmp_path, "rel.facts", gzip.compress(b"1\ta\n" * 99)[:-9], NAMED)
    assert text.startswith("rel.facts: cannot be decompressed: ")
    assert text.endswith(" [unreadable-file]")


def test_compressed_results(tmp_path: Path) -> None:
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
    assert text == 'rel.facts:2:3: error: this quotation mark is not closed [invalid-line]\n    2,"b\n      ^'
    text = refused(tmp_path, "rel.facts", '1,"a"b\n', NAMED, rfc4180="true")
    message = "expected ',' or the end of the line after the closing quotation mark [invalid-line]"
    assert text.startswith(f"rel.facts:1:6: error: {message}\n")
    text = refused(tmp_path, "rel.facts", b'1,"a"\n2,\xff\n', NAMED, rfc4180="true")
    assert text.startswith("rel.facts:2:3: error: expected UTF-8 text [invalid-encoding]\n")
    text = refused(tmp_path, "rel.facts", '1,"a\nb",7\n', NAMED, rfc4180="true")
    assert text.startswith(
        "rel.facts:1:1: error: relation 'rel' has 2 columns (id, name), got 3 [wrong-arity]\n"
    )
    text = refused(tmp_path, "rel.facts", '"x",a\n', NAMED, rfc4180="true")
    assert text.startswith("rel.facts:1:1: error: column 'id' of relation 'rel' expects a whole number, got")


CELLS = st.sampled_from(
    ["1", '"2"', "a", '"b"', '"c,d"', '"e""f"', '""""', '""', "", '"g\nh"', 'i"j', '"k"l', '"', ' "m"', "é"]
)
LINES = st.lists(CELLS, min_size=2, max_size=2).map(",".join) | st.lists(CELLS, max_size=3).map(",".join)


@settings(deadline=None, max_examples=examples(300))
@given(
    st.lists(LINES, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    *[st.booleans()] * 3,
    st.sampled_from([None, (0, 1), (1, 0), (0, 2)]),
)
def test_the_bulk_parser_reads_what_the_reader_of_lines_reads(
    lines: list[str],
    end: str,
    is_text: bool,
    headers: bool,
    quoted: bool,
    columns: tuple[int, int] | None,
) -> None:
    data = end.join([*lines, ""]).encode()
    schema = Schema.of(x=str if is_text else int, y=str)

    def found() -> Any:
        try:
            return rows_of(
                parse_facts(data, "a.csv", schema, "a", ",", headers, quoted=quoted, columns=columns)
            )
        except DataError as error:
            return str(error)

    with patch.object(facts, "_SMALL", -1):
        in_bulk = found()
    with patch.object(facts._Reader, "_read_in_bulk", lambda self, data: None):
        assert in_bulk == found()


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        ('"a","b"\n"c""d",""\n', True),
        ('"a","b"\r\n1,""""', True),
        ('"a\nb",1\n', False),
        ('a"b,"c"\n', False),
        ('"a" ,1\n', False),
        (' "a",1\n', False),
        ('"a"b,1\n', False),
        ('"a,1\n"', False),
        ('"""\n"\n', False),
        ('"a\n', False),
    ],
)
def test_which_quotes_are_plain(data: str, plain: bool) -> None:
    assert is_plainly_quoted(data.encode(), b",") == plain
    assert not is_plainly_quoted(data.encode(), b'"')


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
def test_written_files_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, float]], way: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("places")
    schema = Schema.of(i=int, s=str, f=float)
    parameters = way | {"filename": "rel.data"}
    for some in (rows, rows[1:]):
        zset = ZSet.from_rows(some, schema=schema).distinct()
        assert write_place(result_target("rel", parameters, folder), zset) == 0
        change = read_place(fact_source("rel", parameters, folder), schema, "rel")
        assert ZSet.from_rows(rows_of(change), schema=schema) == zset


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


def test_decompression_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"1\ta\n"
    monkeypatch.setattr(unpack, "ALWAYS_ALLOWED", 4000)
    assert len(read(tmp_path, "rel.facts", gzip.compress(line * 1000), NAMED)) == 1000
    bomb = gzip.compress(line * 1001) + gzip.compress(line * 10**6)
    most = 100 * len(bomb)
    text = refused(tmp_path, "rel.facts", bomb, NAMED)
    assert text.endswith(
        f"rel.facts: expected at most {most:,} bytes after decompression, got more from {len(bomb):,} "
        "compressed bytes; if you trust the file, decompress it, or allow more with --max-unpacked SIZE "
        "[unpacked-too-large]"
    ), text
    noise = random.Random(3).randbytes(9000).hex().encode()  # does not grow by a factor of 100
    assert read(tmp_path, "rel.facts", gzip.compress(b"1\t" + noise), NAMED) == [(1, noise.decode())]
    unpack.set_limit(4010)
    try:
        assert len(read(tmp_path, "rel.facts", gzip.compress(line * 1002), NAMED)) == 1002
        assert "at most 4,010 bytes" in refused(tmp_path, "rel.facts", gzip.compress(line * 1003), NAMED)
    finally:
        unpack.set_limit(None)


def test_a_bomb_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(bytes(2**26), compresslevel=1)
    monkeypatch.setattr(unpack, "ALWAYS_ALLOWED_RATIO", 1)
    monkeypatch.setattr(unpack, "ALWAYS_ALLOWED", 2**20)
    tracemalloc.start()
    try:
        assert "[unpacked-too-large]" in refused(tmp_path, "rel.facts", bomb, NAMED)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
