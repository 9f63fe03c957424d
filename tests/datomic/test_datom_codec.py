"""Values and datoms as bytes: everything comes back, and nothing else is read."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.interner import Interner
from dbsp.data.types import FLOAT, INT, OBJECT, STR
from dbsp.datomic.byte_columns import ByteReader, ByteWriter
from dbsp.datomic.log_blocks import Block, decode_block, encode_block, join_blocks
from dbsp.datomic.value_codec import read_values, write_values
from dbsp.edn.edn_values import Char, EdnList, EdnMap, Keyword, Symbol, Tagged
from dbsp.errors import InputError
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

names = st.from_regex(r"[a-z]{1,3}(/[a-z]{1,2})?", fullmatch=True)
zones = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=2)), dt.timezone(dt.timedelta(0), "Z")])
times = st.builds(
    lambda micros, zone: (dt.datetime(2000, 1, 1) + dt.timedelta(microseconds=micros)).replace(tzinfo=zone),
    st.integers(-(10**16), 10**16),
    zones,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(INT64_MIN, INT64_MAX),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["\ud800", "a\0b", "😀"]),
    names.map(Keyword),
    names.map(Symbol),
    st.characters().map(Char),
    st.binary(max_size=5),
    times,
    st.uuids(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.fractions(),
    st.dates(),
    st.times(),
    st.timedeltas(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(EdnList),
        st.frozensets(inner, max_size=3),
        st.dictionaries(inner, inner, max_size=3).map(EdnMap),
        st.builds(Tagged, names.filter(lambda text: text not in ("inst", "uuid", "bytes")), inner),
    ),
    max_leaves=5,
)


def described(value: Any) -> Any:
    """A form that is equal only for values of the same classes."""
    if isinstance(value, frozenset):
        return frozenset, frozenset(map(described, value))
    if isinstance(value, EdnMap):
        return EdnMap, tuple((described(key), described(inner)) for key, inner in value.items())
    if isinstance(value, tuple):
        return type(value), tuple(map(described, value))
    if isinstance(value, Tagged):
        return Tagged, value.tag, described(value.value)
    if isinstance(value, dt.datetime):
        return dt.datetime, value.replace(tzinfo=None), repr(value.tzinfo)
    return type(value), repr(value)


def written(column: list[Any]) -> bytes:
    writer = ByteWriter()
    write_values(writer, column)
    return writer.content()


@given(st.lists(values, max_size=12))
def test_values_come_back(column: list[Any]) -> None:
    reader = ByteReader(written(column))
    assert list(map(described, read_values(reader))) == list(map(described, column))
    assert reader.ended


@given(
    st.lists(
        st.integers(INT64_MIN, INT64_MAX) | st.integers(-5, 300) | st.integers(2**42, 2**42 + 70_000),
        max_size=80,
    ),
    st.integers(0, 2),
)
def test_numbers_come_back(numbers: list[int], same: int) -> None:
    column = np.array(numbers[:1] * len(numbers) if same == 0 else numbers, np.int64)
    writer = ByteWriter()
    writer.numbers(column)
    writer.text(b"end")
    reader = ByteReader(writer.content())
    assert reader.numbers().tolist() == column.tolist()
    assert reader.text() == b"end" and reader.ended


class Point(NamedTuple):
    x: int


@pytest.mark.parametrize("value", [object(), Point(1), (1, (Point(2),)), np.float32(1.5)])
def test_other_classes_are_refused(value: Any) -> None:
    with pytest.raises(
        InputError, match="expected a value that a database on disk can store, got "
    ) as caught:
        written([value])
    assert caught.value.code == "unsupported-value" and "store one of the types of EDN" in str(caught.value)


TYPES = {1: INT, 2: FLOAT, 3: STR, 4: OBJECT}
SCHEMA: Any = SimpleNamespace(by_id={id_: SimpleNamespace(type=type_) for id_, type_ in TYPES.items()})


@given(st.integers(0, 2**32), st.sampled_from([0, 1, 3, 100]))
def test_datoms_come_back_in_another_interner(seed: int, count: int) -> None:
    random_ = random.Random(seed)
    first, second = Interner(), Interner()
    first.encode_many(["x", "y", 1, 2.5, Keyword("z"), True])
    second.encode_many([f"other {number}" for number in range(random_.randrange(9))])
    rows = []
    for _ in range(count):
        attribute = random_.choice(list(TYPES))
        value = {3: random_.randrange(2), 4: random_.randrange(6)}.get(
            attribute, random_.randrange(-9, 2**62)
        )
        rows.append(
            (random_.randrange(9), attribute, value, 2**42 + random_.randrange(3), random_.randrange(2))
        )
    datoms = np.array(rows, np.int64).reshape(count, 5)
    cut = random_.randrange(count + 1)
    block = Block(datoms, np.array([cut, count]), np.array([7, 2**50]), 5, 2**43 + 5)
    content = encode_block(block, SCHEMA, first)
    found = decode_block(content, second)
    assert (found.ends.tolist(), found.instants.tolist()) == ([cut, count], [7, 2**50])
    assert found[3:] == (5, 2**43 + 5)
    both = join_blocks([found, found]).datoms
    assert np.delete(both[count:], 2, axis=1).tolist() == np.delete(datoms, 2, axis=1).tolist()
    assert join_blocks([found, found]).ends.tolist() == [cut, count, count + cut, 2 * count]
    for (_, attribute, value, *_), (_, _, code, *_) in zip(rows, both[:count].tolist(), strict=True):
        if attribute < 3:
            assert value == code
        else:
            assert described(first.decode(value)) == described(second.decode(code))
    # Every prefix is refused, and so are more bytes.
    with pytest.raises((ValueError, IndexError)):
        decode_block(content[: random_.randrange(len(content))], Interner())
    with pytest.raises(ValueError, match="expected the end of the datoms, got more bytes"):
        decode_block(content + b"\0", Interner())
    with pytest.raises(ValueError, match=f"expected {count} datoms of 2 transactions, got"):
        decode_block(encode_block(block._replace(ends=block.ends + 1), SCHEMA, first), Interner())


def test_unknown_kinds_and_widths_are_refused() -> None:
    writer = ByteWriter()
    writer.numbers(np.array([99], np.int64))
    with pytest.raises(ValueError, match="unknown kind of value 99"):
        read_values(ByteReader(writer.content()))
    with pytest.raises(ValueError, match="expected numbers of 1, 2, 4 or 8 bytes, got 3"):
        ByteReader(b"\x03\x10\x01").numbers()
    with pytest.raises(ValueError, match="expected 5 bytes at 2, got 1"):
        ByteReader(b"\x01\x05x").text()
    with pytest.raises(ValueError, match="expected 2 characters or values, got 1"):
        read_values(ByteReader(bytes((0, 0x11, 1, 5)) + bytes((0, 0x11, 1, 2)) + b"\x01\x01x"))
    assert uuid.UUID(int=5) == read_values(ByteReader(written([uuid.UUID(int=5)])))[0]
    assert read_values(ByteReader(written([Decimal("1.50"), Fraction(1, 3)]))) == [
        Decimal("1.50"),
        Fraction(1, 3),
    ]
