"""Columns with more text than one Arrow array can have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dbsp
from dbsp.data import frames
from dbsp.data.frames import encode_arrow_column
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.type_text import read_type
from dbsp.data.types import BYTES, STR
from dbsp.data.zset import ZSet
from dbsp.durable import DeltaLog
from dbsp.errors import SchemaError

ROWS = [(f"{number % 3}" * (number % 5), number) for number in range(50)]


@pytest.fixture(autouse=True)
def capacity() -> Iterator[None]:
    """Let an Arrow array have 20 bytes or elements."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "_CAPACITY", 20)
        yield


def as_bytes(text: str) -> bytes:
    return text.encode()


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("str", str),
        ("str?", lambda text: text or None),
        ("bytes", as_bytes),
        ("bytes?", lambda text: as_bytes(text) or None),
        ("list[int]", lambda text: tuple(map(int, text))),
        ("list[str]", lambda text: (text, text)),
        ("{a: str}", lambda text: (text,)),
    ],
)
def test_tables_of_more_text_have_several_chunks(type_: str, value: Any) -> None:
    schema = Schema(("a", "n"), (read_type(type_), read_type("int")))
    rows = [(value(text), number) for text, number in ROWS]
    zset = ZSet(rows, schema)
    table = zset.to_arrow(None)
    assert table.column(0).num_chunks > 1
    assert table.schema == zset.to_arrow(None).slice(0, 0).schema
    assert ZSet.from_arrow(table, schema=schema) == zset
    for chunk in table.column(0).chunks:
        chunk.validate(full=True)


@pytest.mark.parametrize(("type_", "arrow"), [(STR, pa.string()), (BYTES, pa.binary())])
def test_chunks_of_more_text_are_read(type_: Any, arrow: pa.DataType) -> None:
    texts = ["ab" * 9, "c", "ab" * 9, "d" * 15]
    column = pa.chunked_array([[text] for text in texts], arrow)
    interner = Interner()
    codes = encode_arrow_column(column, type_, interner)
    expected = [text.encode() for text in texts] if type_ == BYTES else texts
    assert interner.decode_many(codes) == expected


def test_one_text_beyond_the_capacity_is_an_error() -> None:
    with pytest.raises(SchemaError, match="column 'c0': an Arrow array has at most 20 bytes"):
        ZSet([("a" * 21,)]).to_arrow()


def test_deltas_of_more_text_are_logged(tmp_path: Path) -> None:
    circuit = dbsp.Circuit("shop")
    circuit.output("sold", circuit.input("sale", a=str, n=int))
    log = DeltaLog(tmp_path, sync=False)
    log.append(1, circuit.start().step({"sale": ROWS}), 1)
    assert DeltaLog(tmp_path).view("sold") == ZSet(ROWS)
