"""Conversions of Z-sets from and to Arrow, pandas and Polars."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit
from dbsp.data.frames import decode_table, encode_arrow_column, encode_table, schema_of_arrow
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import BYTES, DATE, FLOAT, INT, OBJECT, STR, TIMESTAMP
from dbsp.data.zset import ZSet
from dbsp.errors import ArgumentError, InputError, SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import INT64_MIN

LETTERS = "abZé \U0001f600"
COLUMNS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(INT64_MIN + 1, 2**63 - 1),
    float: st.floats(),
    bool: st.booleans(),
    str: st.text(LETTERS, max_size=3),
    bytes: st.binary(max_size=3),
    dt.date: st.dates(),
    dt.datetime: st.datetimes(),
}


@st.composite
def zsets(draw: st.DrawFn) -> ZSet:
    columns = draw(st.lists(st.tuples(st.sampled_from(list(COLUMNS)), st.booleans()), min_size=1, max_size=4))
    schema = {f"c{i}": (kind | None if optional else kind) for i, (kind, optional) in enumerate(columns)}
    values = [st.none() | COLUMNS[kind] if optional else COLUMNS[kind] for kind, optional in columns]
    rows = draw(st.lists(st.tuples(*values), max_size=6))
    weights = draw(st.lists(st.integers(-3, 3), min_size=len(rows), max_size=len(rows)))
    return ZSet.from_rows(rows, weights, schema)


@given(zsets())
def test_arrow_tables_round_trip(zset: ZSet) -> None:
    table = zset.to_arrow()
    assert table.column_names == [*zset.schema.names, "weight"]
    assert ZSet.from_arrow(table, "weight", zset.schema) == zset
    inferred = ZSet.from_arrow(table, "weight")
    assert inferred == zset
    assert [t.kind for t in inferred.schema.types] == [t.kind for t in zset.schema.types]


EXAMPLES: dict[str, list[Any]] = {
    "int": [5, -7],
    "float": [1.5, 2.5],
    "bool": [False, True],
    "str": ["a", "b"],
    "bytes": [b"a", b"b"],
    "date": [dt.date(2024, 2, 29)],
    "time": [dt.time(12, 30)],
    "timestamp": [dt.datetime(2024, 5, 6, 7)],
    "duration": [dt.timedelta(seconds=3)],
    "decimal(18, 2)": [Decimal("1.50"), Decimal("-0.01")],
}
ENCODED: dict[str, Callable[[pa.Array], pa.Array]] = {
    "dictionary": lambda array: array.dictionary_encode(),
    "dictionary with null": lambda array: array.dictionary_encode(null_encoding="encode"),
    "run ends": pc.run_end_encode,
    "lists of dictionaries": lambda array: pa.ListArray.from_arrays(
        pa.array([0, len(array)], pa.int32()), array.dictionary_encode(null_encoding="encode")
    ),
}
"""Other encodings of an array. PyArrow does not count the nulls in the last three."""


@pytest.mark.parametrize("encoded", ENCODED.values(), ids=ENCODED)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_nulls_of_encoded_arrays(kind: str, encoded: Callable[[pa.Array], pa.Array]) -> None:
    values = ZSet([(value,) for value in EXAMPLES[kind]] + [(None,)], {"x": f"{kind}?"})
    array = values.to_arrow(None).column("x").combine_chunks()
    type_ = f"list[{kind}?]" if pa.types.is_list(encoded(array).type) else f"{kind}?"
    table = pa.table({"x": encoded(array)})
    plain = pa.table({"x": pa.array([array.to_pylist()], pa.list_(array.type)) if "list" in type_ else array})
    found = ZSet.from_arrow(table, schema={"x": type_})
    assert found == ZSet.from_arrow(plain, schema={"x": type_}) == ZSet.from_arrow(table)
    assert found.to_arrow() == ZSet.from_arrow(plain, schema={"x": type_}).to_arrow()
    with pytest.raises(InputError, match="got None; to allow None, declare the"):
        ZSet.from_arrow(table, schema={"x": type_.replace("?", "")})


def test_rows_without_columns() -> None:
    zset = ZSet({(): 3}, {})
    assert zset.to_arrow().to_pydict() == {"weight": [3]}
    assert zset.to_arrow(weight_column=None).num_rows == 3
    assert ZSet.from_arrow(zset.to_arrow(), "weight") == zset


@given(zsets())
def test_polars_frames_round_trip(zset: ZSet) -> None:
    frame = zset.to_polars()
    assert frame.columns == [*zset.schema.names, "weight"]
    assert ZSet.from_polars(frame, "weight", zset.schema) == zset


@given(zsets().filter(lambda z: all(t.kind != "float" for t in z.schema.types)))
def test_pandas_frames_round_trip(zset: ZSet) -> None:
    frame = zset.to_pandas()
    assert list(frame.columns) == [*zset.schema.names, "weight"]
    assert ZSet.from_pandas(frame, "weight", zset.schema) == zset


def test_missing_values_of_pandas_are_none_or_nan_by_the_schema() -> None:
    frame = pd.DataFrame({"x": [1.5, math.nan], "s": ["a", None]})
    assert ZSet.from_pandas(frame) == {(1.5, "a"): 1, (None, None): 1}
    as_nan = ZSet.from_pandas(frame, schema={"x": float, "s": str | None})
    assert any(row[0] != row[0] for row in as_nan.rows())
    ints = ZSet({(1,): 1, (None,): 1, (2**60 + 1,): 1})
    assert ints.to_pandas(None)["c0"].tolist() == [None, 1, 2**60 + 1]


def test_without_weight_column_rows_repeat() -> None:
    zset = ZSet({(1, "a"): 2, (2, "b"): 1})
    table = zset.to_arrow(weight_column=None)
    assert table.to_pydict() == {"c0": [1, 1, 2], "c1": ["a", "a", "b"]}
    assert ZSet.from_arrow(table) == zset
    with pytest.raises(InputError, match="a row of weight -2, which a table shows only in a weight column"):
        (-zset).to_arrow(weight_column=None)
    for zset in (ZSet({(x,): 2**62 for x in range(4)}), ZSet({(1,): 2**62})):
        with pytest.raises(
            InputError, match=r"the weights of the rows add up to .*show the weights in a col"
        ):
            zset.to_arrow(weight_column=None)


def test_arrow_types_are_recognised() -> None:
    stamp = dt.datetime(2024, 5, 6, 7)
    table = pa.table(
        {
            "small": pa.array([1, None], pa.int8()),
            "unsigned": pa.array([1, 2], pa.uint64()),
            "half": pa.array([0.5, 1.5], pa.float32()),
            "dictionary": pa.array(["a", "a"]).dictionary_encode(),
            "large": pa.array(["a", None], pa.large_string()),
            "view": pa.array(["a", "b"], pa.string_view()),
            "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
            "date64": pa.array([stamp.date()] * 2, pa.date64()),
            "seconds": pa.array([stamp, stamp], pa.timestamp("s")),
            "nanos": pa.array([stamp, None], pa.timestamp("ns")),
            "zoned": pa.array([stamp, stamp], pa.timestamp("us", "Europe/Paris")),
            "list": pa.array([[1, 2], [3]], pa.list_(pa.int64())),
            "lists": pa.array([[["x"]], None]),
            "decimal": pa.array([Decimal("1.5"), Decimal("2.5")]),
            "null": pa.nulls(2),
            "number_dictionary": pa.array([7, 8]).dictionary_encode(),
        }
    )
    assert [str(t) for t in schema_of_arrow(table).types] == [
        *("int?", "int", "float", "str", "str?", "str", "bytes"),
        *("date", "timestamp", "timestamp?", "timestamptz(Europe/Paris)"),
        *("list[int]", "list[list[str]]?", "decimal(18, 1)", "object?", "int"),
    ]
    zset = ZSet.from_arrow(table)
    day = stamp.date()
    first = (
        1,
        1,
        0.5,
        "a",
        "a",
        "a",
        b"ab",
        day,
        stamp,
        stamp,
        stamp.replace(tzinfo=dt.UTC),
        (1, 2),
        (("x",),),
        Decimal("1.5"),
        None,
        7,
    )
    second = (
        None,
        2,
        1.5,
        "a",
        None,
        "b",
        b"cd",
        day,
        stamp,
        None,
        stamp.replace(tzinfo=dt.UTC),
        (3,),
        None,
        Decimal("2.5"),
        None,
        8,
    )
    assert zset == {first: 1, second: 1}


def test_chunks_batches_and_empty_tables() -> None:
    chunked = pa.chunked_array([["a", "b"], ["b", None]]).dictionary_encode()
    assert ZSet.from_arrow(pa.table({"s": chunked})) == {("a",): 1, ("b",): 2, (None,): 1}
    batch = pa.record_batch({"x": [1, 2]})
    assert ZSet.from_arrow(batch) == {(1,): 1, (2,): 1}
    for column in (
        pa.chunked_array([], pa.int64()),
        pa.chunked_array([], pa.string()),
        pa.chunked_array([], pa.date32()),
    ):
        assert not ZSet.from_arrow(pa.table({"c": column}))
    schema = Schema.of(i=int, s=str, o=object, d=dt.date)
    assert ZSet.from_arrow(ZSet.empty(schema).to_arrow(), "weight", schema) == ZSet.empty(schema)


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64()])
def test_dictionaries_with_any_index(index: pa.DataType) -> None:
    interner = Interner()
    for places, optional in (([1, 0, 1], False), ([1, None, 0], True)):
        array = pa.DictionaryArray.from_arrays(pa.array(places, index), pa.array(["a", "b"]))
        schema = Schema(("s",), (STR.optional() if optional else STR,))
        codes = encode_table(pa.table({"s": array}), schema, interner)
        assert decode_table(codes, schema, interner)["s"].to_pylist() == array.to_pylist()


class Celsius(pa.ExtensionType):  # type: ignore[misc]
    """Has no hash, since it defines equality only."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius)


def test_values_of_an_extension_type() -> None:
    array = pa.ExtensionArray.from_storage(Celsius(), pa.array([20, -5]))
    interner, schema = Interner(), Schema(("x",), (INT,))
    assert encode_table(pa.table({"x": array}), schema, interner).tolist() == [[20], [-5]]
    assert schema_of_arrow(pa.table({"x": array})).types == (OBJECT,)


def test_a_misspelt_column_is_refused() -> None:
    """By position, `source` would become `dst`."""
    table = pa.table({"dst": [20], "source": [10]})
    with pytest.raises(InputError) as refused:
        ZSet.from_arrow(table, schema={"src": int, "dst": int})
    assert str(refused.value) == (
        "expected the columns (src: int, dst: int), got (dst, source); missing: 'src'; unknown: 'source'; "
        "did you mean 'src'? [unknown-column]"
    )


def test_columns_match_by_name() -> None:
    schema = Schema.of(x=int, y=float)
    interner = Interner()
    by_name = encode_table(pa.table({"y": [0.5], "x": [1]}), schema, interner)
    assert schema.decode_rows(by_name, interner) == [(1, 0.5)]
    other = pa.table({"a": [1], "b": [1]})
    with pytest.raises(InputError, match=r"\(x: int, y: float\), got \(a, b\); to match"):
        encode_table(other, schema, interner)
    by_place = encode_table(other.rename_columns(["x", "y"]), schema, interner)
    assert schema.decode_rows(by_place, interner) == [(1, 1.0)]
    with pytest.raises(SchemaError, match=r"expected 2 columns \(x: int, y: float\), got 1 \(a\)"):
        encode_table(pa.table({"a": [1]}), schema, interner)
    assert ZSet.from_numpy(np.array([[1, 2]])) + ZSet({(1, 2): 1}, {"x": int, "y": int}) == {(1, 2): 2}


def test_z_sets_are_added_by_name() -> None:
    z = ZSet({(1, 2): 1}, {"x": int, "y": int})
    turned = ZSet({(2, 1): 3}, {"y": int, "x": int})
    assert (z + turned).to_dict() == {(1, 2): 4}
    assert (z - turned).to_dict() == {(1, 2): -2}
    with pytest.raises(InputError, match=r"missing: 'y'; unknown: 'z'"):
        z + ZSet({(1, 2): 1}, {"x": int, "z": int})
    other = ZSet({(1, 2): 1}, {"a": int, "b": int})
    with pytest.raises(InputError, match=r"rename them: zset.renamed\('x', 'y'\)"):
        z + other
    assert (z + other.renamed("x", "y")).to_dict() == {(1, 2): 2}
    assert other.schema.names == ("a", "b")
    for names in (("x",), ("x", "y", "z"), ("x", "x")):
        with pytest.raises(SchemaError):
            other.renamed(*names)


@pytest.mark.parametrize("nested", [False, True])
def test_an_arrow_struct_with_other_names_is_refused(nested: bool) -> None:
    values: list[Any] = [{"a": 1, "two words": "x"}, None]
    column = pa.array([values, []] if nested else values)
    with pytest.raises(InputError) as caught:
        ZSet.from_arrow(pa.table({"p": column}))
    assert str(caught.value) == (
        f"column 'p': the Arrow type {column.type} has fields that structs do not support; unpack "
        "them with table.flatten(), or pass a schema with the type object for tuples [unsupported-value]"
    )
    if not nested:
        tuples = ZSet.from_arrow(pa.table({"p": column}), schema={"p": OBJECT.optional()})
        assert tuples.to_dict() == {((1, "x"),): 1, (None,): 1}
        flat = pa.table({"p": column}).flatten()
        assert ZSet.from_arrow(flat).to_dict() == {(1, "x"): 1, (None, None): 1}
    pairs = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    assert ZSet.from_arrow(pa.table({"p": pairs})).rows() == [((("k", 1),),)]


def test_an_int_column_of_arrow_is_not_copied() -> None:
    values = np.arange(10, dtype=np.int64)
    codes = encode_arrow_column(pa.chunked_array([pa.array(values)]), INT, Interner())
    assert np.shares_memory(codes, values)


def test_values_that_do_not_fit_are_refused() -> None:
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (
            pa.array([2**63], pa.uint64()),
            None,
            ValueOutOfRangeError,
            "column 'x': expected an int from .*, got 9223372036854775808",
        ),
        (pa.array(["a"]), {"x": int}, InputError, "column 'x': .*expected int, got 'a'"),
        (pa.array([1, None]), {"x": int}, InputError, "column 'x': expected int, got None"),
        (
            pa.array([0.5]),
            {"x": int},
            InputError,
            "column 'x': expected a column of type int, got one of type float",
        ),
        (pa.array([INT64_MIN, None]), None, ValueOutOfRangeError, "column 'x': .*in an optional column"),
        (pa.array([INT64_MIN]), {"x": int | None}, ValueOutOfRangeError, "column 'x': .*in an optional"),
        (pa.array([1], pa.timestamp("ns")), None, ValueOutOfRangeError, "column 'x': .*whole microseconds"),
        (pa.array([10**7], pa.date32()), None, ValueOutOfRangeError, "column 'x': .*years 1 to 9999"),
        (pa.array([2**62], pa.timestamp("us")), None, ValueOutOfRangeError, "column 'x': .*years 1 to 9999"),
    ]
    for array, schema, error, message in cases:
        with pytest.raises(error, match=message):
            ZSet.from_arrow(pa.table({"x": array}), schema=schema)
    with pytest.raises(SchemaError, match=r"unknown weight column 'w'; the columns are \(x\)"):
        ZSet.from_arrow(pa.table({"x": [1]}), "w")
    with pytest.raises(ArgumentError, match=r"weight_column: expected the name of a column, got Schema\("):
        ZSet.from_arrow(pa.table({"x": [1]}), Schema.of(x=int))  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match="expected integers without nulls in the weight column 'w', got null with 1 null"
    ):
        ZSet.from_arrow(pa.table({"x": [1], "w": [None]}), "w")
    with pytest.raises(InputError, match="expected an Arrow table"):
        ZSet.from_arrow([1, 2])
    with pytest.raises(SchemaError, match="already has a column 'weight'"):
        ZSet({(1,): 1}, {"weight": int}).to_arrow()
    for objects in ([(1,), ("a",)], [(2**70,)]):
        with pytest.raises(
            SchemaError, match="column 'x': the objects cannot be converted to one Arrow type"
        ):
            ZSet(objects, {"x": object}).to_arrow()


def test_objects_of_one_kind_go_to_arrow() -> None:
    zset = ZSet([((1, 2),), ((3,),)], {"x": object})
    table = zset.to_arrow()
    assert table.column("x").to_pylist() == [[1, 2], [3]]
    assert ZSet.from_arrow(table, "weight") == zset
    polars = pl.DataFrame({"x": [[1, 2], [3]]})
    assert ZSet.from_polars(polars) == zset


def test_types_of_decoded_columns() -> None:
    schema = Schema(("i", "f", "s", "b", "d", "t"), (INT, FLOAT, STR, BYTES, DATE, TIMESTAMP))
    table = decode_table(np.empty((0, 6), np.int64), schema, Interner())
    assert [str(field.type) for field in table.schema] == [
        "int64",
        "double",
        "string",
        "binary",
        "date32[day]",
        "timestamp[us]",
    ]
    assert schema_of_arrow(table) == schema
    assert decode_table(np.empty((0, 1), np.int64), Schema(("o",), (OBJECT,)), Interner()).num_rows == 0


def test_names_and_texts_that_are_not_unicode() -> None:
    with pytest.raises(SchemaError, match=r"column 'x\\ud800': Arrow needs a name of valid Unicode text"):
        ZSet({(1,): 1}, schema=Schema(("x\ud800",), (INT,))).to_arrow()
    offsets = pa.py_buffer(bytes(4) + b"\1\0\0\0\2\0\0\0")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xff")])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts)
    for column in (texts, lists):
        with pytest.raises(InputError, match=r"column 's': expected UTF-8 text \[invalid-encoding\]"):
            ZSet.from_arrow(pa.table({"s": column}))


@pytest.mark.parametrize("number", [0, 2**53 + 1, 2**63, 2**64 - 1])
def test_uint64_in_a_column_of_floats(number: int) -> None:
    array = pa.array([number, None], pa.uint64())
    for column in (array, pa.chunked_array([array])):
        found = ZSet.from_arrow(pa.table({"x": column}), schema={"x": float | None})
        assert found.rows() == [(None,), (float(number),)]
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=float))
    for column in (np.array([number], np.uint64), pd.Series([number], dtype="uint64")):
        assert circuit.start().step({"a": {"x": column}})["o"].rows() == [(float(number),)]


@pytest.mark.parametrize(
    ("given_", "wanted", "found"),
    [
        ([{"a": 1}], "list[int]", "{a: int}"),
        ([[1]], "{a: int}", "list[int]"),
        ([[{"a": 1}]], "list[list[int]]", "list[{a: int}]"),
        ([{"a": [1]}], "{a: {b: int}}", "{a: list[int]}"),
    ],
)
def test_a_list_is_no_struct(given_: list[Any], wanted: str, found: str) -> None:
    """Both are tuples in Python, but rows with a dict for a list are refused, too."""
    message = f"column 'x': expected a column of type {re.escape(wanted)}, got one of type {re.escape(found)}"
    with pytest.raises(InputError, match=message):
        encode_table(pa.table({"x": given_}), Schema.of(x=wanted), Interner())
