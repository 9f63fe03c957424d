"""Results are written in pieces: the files and the memory do not depend on their size."""

from __future__ import annotations

import random
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dbsp.compiler.datalog.meaning.directives import result_target
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io import json_rows, sqlite_rows, table_places, written_lines
from dbsp.io.places import write_place
from dbsp.io.table_places import TABLE_FILES

MODULES = (written_lines, json_rows, table_places, sqlite_rows)
PLACES: list[dict[str, str]] = [
    {},
    {"headers": "true", "compress": "true"},
    {"rfc4180": "true"},
    {"IO": "jsonfile"},
    {"IO": "jsonfile", "format": "object"},
    {"IO": "sqlite", "filename": "r.db"},
    *({"IO": name} for name in sorted(set(TABLE_FILES.values()))),
    {"IO": "csv", "headers": "true"},
]


MEMORY = 640_000
"""Bytes. A piece of 500 rows takes half as many at most, 40,000 rows 890,000 at least."""


def content(path: Path, place: dict[str, str]) -> Any:
    """Return what a file contains; other row groups of Parquet are the same table."""
    if place.get("IO") == "sqlite":
        with sqlite3.connect(path) as database:
            return "\n".join(database.iterdump())
    if place.get("IO") == "parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    return path.read_bytes()


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(place.values()))
@pytest.mark.parametrize("size", [1, 7])
def test_a_file_does_not_depend_on_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: dict[str, str], size: int
) -> None:
    draw = random.Random(1)
    rows = {(draw.choice(["b", "a", "", "c d"]), draw.randrange(-9, 9), draw.random()) for _ in range(50)}
    zset = ZSet(rows, Schema.of(s=str, i=int, f=float))
    whole = result_target("r", place, tmp_path / "whole")
    parts = result_target("r", place, tmp_path / "parts")
    assert whole.path is not None
    assert parts.path is not None
    (tmp_path / "parts").mkdir()
    (tmp_path / "whole").mkdir()
    write_place(whole, zset)
    for module in MODULES:
        monkeypatch.setattr(module, "_PIECE", size)
    write_place(parts, zset)
    assert content(parts.path, place) == content(whole.path, place)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(place.values()))
def test_the_memory_does_not_follow_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: dict[str, str]
) -> None:
    zset = ZSet([(row, row % 100) for row in range(40_000)], Schema.of(i=int, j=int))
    target = result_target("r", place, tmp_path)
    for module in MODULES:
        monkeypatch.setattr(module, "_PIECE", 500)
    write_place(target, ZSet([(1, 2)], Schema.of(i=int, j=int)))  # imports libraries
    usual = pa.default_memory_pool()
    arrow = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(arrow)
    tracemalloc.start()
    try:
        write_place(target, zset)
        peak = tracemalloc.get_traced_memory()[1] + arrow.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert peak < MEMORY


def test_ambiguous_texts_of_several_pieces_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_lines, "_PIECE", 2)
    rows = [(number, text, text) for number in range(5) for text in ("a\tb", "c\nd", "e")]
    assert write_place(result_target("r", {}, tmp_path), ZSet(rows)) == 4


@pytest.mark.parametrize(
    "place", [{}, {"IO": "jsonfile"}, {"IO": "ndjson"}], ids=lambda place: "-".join(place.values())
)
def test_an_error_in_a_later_piece_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: dict[str, str]
) -> None:
    target = result_target("r", place, tmp_path)
    assert target.path is not None
    write_place(target, ZSet([("old",)]))
    before = target.path.read_bytes()
    for module in MODULES:
        monkeypatch.setattr(module, "_PIECE", 1)
    with pytest.raises(InputError, match="expected valid Unicode text"):
        write_place(target, ZSet([("a",), ("\ud800",)]))
    assert target.path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target.path]
