"""Hashes of values: the fixed definition, against literal numbers and a model of the text."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import zoneinfo
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import DefragResult
from uuid import UUID

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Branch, Record
from dbsp.data.batch import Batch
from dbsp.data.columns import encode_column
from dbsp.data.interner import Interner
from dbsp.data.live_values import LiveValues, PartTypes
from dbsp.data.type_inference import as_type
from dbsp.data.types import (
    BOOL,
    BYTES,
    DATE,
    DURATION,
    FLOAT,
    INT,
    OBJECT,
    STR,
    TIME,
    TIMESTAMP,
    Type,
    decimal_type,
    list_type,
    struct_type,
)
from dbsp.data.value_hashes import ValueHashes
from dbsp.data.values import encode_value
from dbsp.errors import InvariantError
from tests.data.typed_columns import TYPES, chain, values_of

CHAIN = as_type("@Chain = [head: str, tail: @Chain]")
TREE = as_type("@Tree = $Leaf{} | $Node{left: @Tree, value: int, right: @Tree}")
CITY = struct_type({"name": STR, "zip": INT.optional()})
LEAF = Branch("Leaf")
ROME = zoneinfo.ZoneInfo("Europe/Rome")


def hash_of(type_: Type, value: Any, interner: Interner | None = None) -> int:
    """Return the hash of a row with one column."""
    interner = Interner() if interner is None else interner
    code = encode_value(type_, value, interner)
    hashed = ValueHashes(interner).column(np.array([code]), type_)
    return mixed(0, int(hashed[0]))


def mixed(*values: int) -> int:
    """Return hash(s; v1, ..., vk) of the definition, as an unsigned number."""
    total = values[0]
    for value in values[1:]:
        total = ((total ^ value) + 0x9E3779B97F4A7C15) % 2**64
        total = (total ^ (total >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        total = (total ^ (total >> 27)) * 0x94D049BB133111EB % 2**64
        total ^= total >> 31
    return total


# These numbers never change: rows of stored shards are where they say.
VECTORS: list[tuple[Type, Any, int]] = [
    (INT, 0, 0xE220A8397B1DCDAF),
    (INT, 1, 0x910A2DEC89025CC1),
    (INT, -1, 0xE4D971771B652C20),
    (INT, 2**63 - 1, 0x2A67D7552E039EA7),
    (FLOAT, 0.0, 0xE220A8397B1DCDAF),
    (FLOAT, -0.0, 0xE220A8397B1DCDAF),
    (FLOAT, 1.5, 0xD6DAB18E1392608A),
    (FLOAT, float("nan"), 0xC72971D82E15BB46),
    (FLOAT, float("inf"), 0x249E5410C2F97D99),
    (FLOAT, float("-inf"), 0x9AE8B5EE5412EA9E),
    (BOOL, True, 0x910A2DEC89025CC1),
    (DATE, dt.date(2026, 3, 29), 0x028D9C8C501CAD35),
    (TIME, dt.time(1, 2, 3, 4), 0x451CF024973FD08A),
    (TIMESTAMP, dt.datetime(2026, 3, 29, 1, 30), 0xD60E7D23BF6CDE49),
    (as_type("timestamptz(UTC)"), dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC), 0xD60E7D23BF6CDE49),
    (as_type("timestamptz(Europe/Rome)"), dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC), 0xD60E7D23BF6CDE49),
    (DURATION, dt.timedelta(days=1, microseconds=-1), 0xB9144BF6B1C14AF3),
    (decimal_type(2), Decimal("1.50"), 0xF8C632FF416764A8),
    (STR, "", 0x59B0ED710B28ABEE),
    (STR, "apple", 0xBFB29705CF63C75C),
    (STR, "è\0", 0xF3D1EE3BFEEB2D7D),
    (STR, "\ud800", 0xFE4F8C64CA88582B),
    (BYTES, b"", 0x90133E611DAA60A1),
    (BYTES, b"apple", 0x02D8719B7F2AC191),
    (list_type(INT), (), 0x5E41AB087439611E),
    (list_type(INT), (1, 2), 0x0134D389B4CAC4EF),
    (list_type(INT.optional()), (1, 2), 0x0134D389B4CAC4EF),
    (list_type(STR.optional()), ("a", None), 0x2C5FD55250107477),
    (list_type(list_type(INT)), ((1,), ()), 0x192904947A0C2353),
    (CITY, ("Rome", 100), 0x26782916DD8CFBC4),
    (CITY, ("Rome", None), 0xC35254EFD47CD759),
    (CHAIN, Record(("a", None)), 0x3437528FC753E6AD),
    (CHAIN, chain(["a", "b", "c"]), 0x35C74AE72694B0F1),
    (TREE, LEAF, 0xD2D1D93F5F6AE2A8),
    (TREE, Branch("Node", LEAF, 5, LEAF), 0xEB7961AEC86E60B3),
    (OBJECT, "apple", 0xBFB29705CF63C75C),
    (OBJECT, b"apple", 0x02D8719B7F2AC191),
    (OBJECT, 1, 0x8EE2F00E981CA65F),
    (OBJECT, -(2**70), 0x23575535FFD955BB),
    (OBJECT, True, 0x21A658182A97A3E0),
    (OBJECT, 1.0, 0x3CDAFF07AC849EA7),
    (OBJECT, -0.0, 0x4A6761857DB99AF4),
    (OBJECT, float("nan"), 0x3618406055C8CDF8),
    (OBJECT, 1j, 0x787BAC95242737AC),
    (OBJECT, Decimal("1.50"), 0xA2FEDC046BE7B669),
    (OBJECT, Decimal("-120"), 0x7AF088359CF349FB),
    (OBJECT, Decimal(0), 0xA5745D678020C43A),
    (OBJECT, Decimal("NaN"), 0x80E015D359037464),
    (OBJECT, Decimal("-Infinity"), 0x8B08AE03CC94810E),
    (OBJECT, Fraction(-1, 3), 0xD4A00E9CA0FD4251),
    (OBJECT, UUID(int=7), 0x0099D4DD41F16B50),
    (OBJECT, dt.date(2026, 3, 29), 0xA336CB7619EAE22B),
    (OBJECT, dt.datetime(2026, 3, 29, 1, 30), 0xD6696F4A6A447DB5),
    (OBJECT, dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC), 0x0E262EC33FB103DA),
    (OBJECT, dt.time(1, 2), 0xC5D1244C12C8C377),
    (OBJECT, dt.time(1, 2, tzinfo=dt.UTC), 0xAF4742888AF7428B),
    (OBJECT, dt.timedelta(seconds=-1), 0xEDF8090368E33E82),
    (OBJECT, (), 0xBCCDFD9C96A18897),
    (OBJECT, (1, "a", None), 0x2F2EC57AFEADC49F),
    (OBJECT, ((1, "a"), (1, "a")), 0x287AE3E24B6BF1F4),
    (OBJECT, Record((1, "a")), 0x1BE5FB7ADC32FF0F),
    (OBJECT, Branch("Leaf"), 0xB4C12C8FB30534FE),
    (OBJECT, Branch("Node", 1, (2,)), 0x778E7F4DDFDB5E4B),
    (OBJECT, frozenset(), 0xCEF2DF89F8F767C3),
    (OBJECT, frozenset({1, 2, (3,)}), 0x3D91A4B5EE5DEBDD),
    (OBJECT, range(3), 0x407982B0C65A411A),
    (OBJECT, DefragResult("a", "b"), 0x7E0F34534701B9E7),
    (INT.optional(), None, 0x481EC0A212A9F3DB),
    (STR.optional(), None, 0x481EC0A212A9F3DB),
    (list_type(INT).optional(), None, 0x481EC0A212A9F3DB),
    (CITY.optional(), None, 0x481EC0A212A9F3DB),
    (CHAIN.optional(), None, 0x481EC0A212A9F3DB),
    (CHAIN, None, 0x481EC0A212A9F3DB),
]


@pytest.mark.parametrize(("type_", "value", "expected"), VECTORS)
def test_vectors(type_: Type, value: Any, expected: int) -> None:
    for column in (type_, type_.optional()):
        if value is not None or column.nullable:
            assert hash_of(column, value) == expected


def model(type_: Type, value: Any) -> int:
    """Return the value of a column as the definition has it, without an interner."""
    if value is None:
        return 2**63
    if not type_.interned:
        return encode_value(type_, value, Interner()) % 2**64
    if type_.kind == "list":
        return mixed(1, len(value), *(model(type_.element, part) for part in value))
    if type_.kind == "struct":
        return mixed(2, *(model(part.type, field) for part, field in zip(type_.parts, value, strict=True)))
    if type_.structure is not None:
        name = value.name if isinstance(value, Branch) else ""
        fields = value.arguments if isinstance(value, Branch) else value
        made = type_.structure.by_name[name].fields
        parts = [model(field.type, part) for field, part in zip(made, fields, strict=True)]
        return mixed(xxhash.xxh3_64_intdigest(name.encode(), 3), *parts)
    if isinstance(value, str):
        return xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass"), 0)
    return xxhash.xxh3_64_intdigest(value, 1)


@given(st.data(), TYPES.filter(lambda type_: type_.kind != "object"))
def test_columns_have_the_hashes_of_the_definition(data: st.DataObject, type_: Type) -> None:
    values = data.draw(st.lists(values_of(type_), max_size=6))
    interner = Interner()
    hashes = ValueHashes(interner)
    for listed in (values, [], values[::-1]):
        codes = encode_column(type_, listed, interner)
        expected = [model(type_, value) for value in listed]
        assert hashes.column(codes, type_).view(np.uint64).tolist() == expected


@given(st.data(), TYPES)
def test_hashes_do_not_depend_on_ids_or_earlier_values(data: st.DataObject, type_: Type) -> None:
    values = data.draw(st.lists(values_of(type_), max_size=6))
    others = data.draw(st.lists(values_of(type_), max_size=6))
    first, second = Interner(), Interner()
    codes = encode_column(type_, values, first)
    hashes = ValueHashes(first).column(codes, type_)
    earlier = encode_column(type_, [*others, *values[::-1]], second)
    ValueHashes(second).column(earlier[: len(others)], type_)
    assert ValueHashes(second).column(earlier[len(others) :], type_)[::-1].tolist() == hashes.tolist()
    # And freed values do not matter.
    parts = PartTypes()
    parts.add([type_])
    live = LiveValues(second, parts)
    live.add_rows(earlier[len(others) :, None], [type_])
    live.add_parts()
    freed = second.some(live.marks)
    again = encode_column(type_, values, freed)
    assert ValueHashes(freed).column(again, type_).tolist() == hashes.tolist()


EQUAL: list[list[Any]] = [
    [0.0, -0.0, np.float64(-0.0)],
    [(0.0,), (-0.0,)],
    [frozenset({0.0}), frozenset({-0.0}), frozenset({np.float64(0)})],
    [frozenset({1, 9, 17}), frozenset({17, 9, 1})],
    [complex(0.0, -0.0), complex(-0.0, 0.0)],
    [float("nan"), -float("nan")],
    [Decimal("1.0"), Decimal("1.00"), Decimal("1")],
    [Decimal("100"), Decimal("1E+2"), Decimal("100.0")],
    [Decimal("0"), Decimal("-0.00"), Decimal("0E+7")],
    [np.int64(5), np.uint8(5), 5],
    [np.datetime64("2026-03-29T01:30"), dt.datetime(2026, 3, 29, 1, 30)],
    [np.timedelta64(5, "s"), dt.timedelta(seconds=5)],
    [
        dt.datetime(2026, 1, 29, 1, 30, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 29, 2, 30, tzinfo=ROME),
        dt.datetime(2026, 1, 29, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    ],
    [
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=ROME, fold=0),
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=ROME, fold=1),
    ],
    [dt.time(1, 30, tzinfo=dt.UTC), dt.time(2, 30, tzinfo=dt.timezone(dt.timedelta(hours=1)))],
]


@pytest.mark.parametrize("values", EQUAL, ids=repr)
def test_equal_objects_have_equal_hashes(values: list[Any]) -> None:
    interner = Interner()
    assert len(set(interner.encode_many(values).tolist())) == 1
    assert len({hash_of(OBJECT, value) for value in values}) == 1


@given(st.data())
def test_objects_are_equal_where_their_hashes_are(data: st.DataObject) -> None:
    values = data.draw(st.lists(values_of(OBJECT), max_size=12))
    interner = Interner()
    codes = encode_column(OBJECT, values, interner)
    hashes = [hash_of(OBJECT, value) for value in values]
    assert len(set(zip(codes.tolist(), hashes, strict=True))) == len(set(codes.tolist())) == len(set(hashes))


def test_other_processes_have_the_same_hashes() -> None:
    code = (
        "from tests.data.test_value_hashes import *\n"
        "print([hash_of(type_, value) for type_, value, _ in VECTORS])"
    )
    for seed in ("0", "1", "random"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "DBSP_KERNELS": "interpreted"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.stdout == f"{[expected for *_, expected in VECTORS]}\n", done.stderr


DEEP = 20_000


def test_deep_values() -> None:
    expected = 2**63
    for n in reversed(range(DEEP)):
        name = xxhash.xxh3_64_intdigest(str(n % 7).encode())
        expected = mixed(xxhash.xxh3_64_intdigest(b"", 3), name, expected)
    deep_chain = chain([str(n % 7) for n in reversed(range(DEEP))])
    assert hash_of(CHAIN, deep_chain) == mixed(0, expected)
    nested: Any = ()
    inside = mixed(3, 0)
    one = xxhash.xxh3_64_intdigest(b"int 1", 2)
    for _ in range(DEEP):
        nested, inside = (1, nested), mixed(3, 2, one, inside)
    assert hash_of(OBJECT, nested) == mixed(0, inside)


def test_parts_are_hashed_once() -> None:
    interner = Interner()
    rows: list[Any] = []
    chained: Any = None
    for n in range(3_000):
        chained = (n, chained)
        rows.append(("wrapped", chained))
    codes = encode_column(OBJECT, rows, interner)
    # With each chain hashed from its start, this would take minutes.
    assert len(set(ValueHashes(interner).column(codes, OBJECT).tolist())) == len(rows)


def test_a_code_without_a_value_is_refused() -> None:
    with pytest.raises(InvariantError, match="expected ids of values in a column of type str"):
        ValueHashes(Interner()).column(np.array([5]), STR)


# --- placement ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(-3, 3), st.text("ab", max_size=2), st.none() | st.integers(0, 3))))
def test_a_split_has_each_row_on_its_shard_in_order(rows: list[Any]) -> None:
    interner, types = Interner(), (INT, STR, INT.optional())
    columns = [encode_column(t, [row[at] for row in rows], interner) for at, t in enumerate(types)]
    codes = np.unique(np.array(columns, np.int64).reshape(3, -1).T, axis=0)
    batch = Batch(np.ascontiguousarray(codes), np.arange(1, len(codes) + 1))
    hashes = ValueHashes(interner)
    for by in ((0,), (1,), (2, 0), (0, 1, 2), ()):
        for shards in (1, 2, 3, 7):
            places = hashes.shards(batch.rows, by, types, shards)
            values = [hashes.column(batch.rows[:, column], types[column]).tolist() for column in by]
            for place, *of_row in zip(places.tolist(), *values, strict=True):
                assert place == (mixed(0, *(value % 2**64 for value in of_row)) >> 32) * shards >> 32
            parts = hashes.split(batch, by, types, shards)
            assert len(parts) == shards
            for shard, part in enumerate(parts):
                if part is None:
                    assert not (places == shard).any()
                else:
                    assert part.rows.tolist() == batch.rows[places == shard].tolist()
                    assert part.weights.tolist() == batch.weights[places == shard].tolist()
                    assert part.rows.flags.c_contiguous


def test_rows_are_spread_evenly() -> None:
    hashes = ValueHashes(Interner())
    for shards in (2, 3, 8):
        for rows in (np.arange(30_000)[:, None], np.arange(30_000)[:, None] * 2**32):
            counts = Counter(hashes.shards(rows, (0,), (INT,), shards).tolist())
            assert len(counts) == shards
            assert max(counts.values()) < 1.05 * 30_000 / shards
