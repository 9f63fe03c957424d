"""Errors of rows, columns and frames: the exact text, the class and the code of each cause."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dbsp import (
    ArgumentError,
    Branch,
    DbspError,
    InputError,
    PrefixExtender,
    Schema,
    SchemaError,
    UserFunctionError,
    ValueOutOfRangeError,
    WeightOverflowError,
    ZSet,
    extend_prefixes,
)
from dbsp.data.schema import as_schema
from dbsp.errors import at_place

XY = Schema.of(x=int, y=str)
ROWS = ZSet([(1, "a")], XY)
NANOSECOND = pd.Timestamp("2024-01-01 00:00:00.000000001")


FRAME = pd.DataFrame({"x": [1], "y": ["a"]})


@dataclasses.dataclass
class XZ:
    x: int
    z: str


CASES: list[tuple[Callable[[], Any], type[DbspError], str]] = [
    # schemas
    (
        lambda: XY.index("yy"),
        SchemaError,
        "unknown column 'yy'; did you mean 'y'? The columns are (x: int, y: str) [unknown-column]",
    ),
    (
        lambda: XY.type_of("q"),
        SchemaError,
        "unknown column 'q'; the columns are (x: int, y: str) [unknown-column]",
    ),
    (lambda: XY.index(3), SchemaError, "unknown column 3; the columns are (x: int, y: str) [unknown-column]"),  # type: ignore[arg-type]
    (
        lambda: XY.index(["x"]),
        SchemaError,
        "unknown column ['x']; the columns are (x: int, y: str) [unknown-column]",
    ),  # type: ignore[arg-type]
    (
        lambda: XY.rename(x="y"),
        SchemaError,
        "column 'x' occurs twice in (x, x); rename one of the two [duplicate-column]",
    ),
    (
        lambda: Schema(("x",), ()),
        SchemaError,
        "expected one type per column name, got 1 name and 0 types [wrong-arity]",
    ),
    (
        lambda: as_schema(3),
        SchemaError,
        "expected a schema, such as Schema.of(x=int, y=str) or {'x': int, 'y': str}, got 3 "
        "[invalid-argument]",
    ),
    (
        lambda: as_schema({"": int}),
        SchemaError,
        "expected a non-empty string as the name of a column, got '' [invalid-argument]",
    ),
    (
        lambda: Schema.of(x=dict),
        SchemaError,
        "column 'x': dict cannot be the type of a column, since its values are not hashable; use tuple "
        "[invalid-type]",
    ),
    (
        lambda: Schema.of(x=set),
        SchemaError,
        "column 'x': set cannot be the type of a column, since its values are not hashable; use frozenset "
        "[invalid-type]",
    ),
    (
        lambda: Schema.of(x="flaot"),
        SchemaError,
        "column 'x': unknown type 'flaot'; did you mean 'float'? [unknown-type]",
    ),
    (
        lambda: Schema.of(x=None),
        SchemaError,
        "column 'x': expected a type such as int, str or float | None, or one of 'int', 'float', "
        "'decimal', 'bool', 'str', 'bytes', 'date', 'time', 'timestamp', 'timestamptz', 'duration', "
        "'object', 'list', 'struct', 'record'; got None [invalid-type]",
    ),
    (
        lambda: Schema.of(x="record"),
        SchemaError,
        "column 'x': expected a structure for the type 'record' and for no other type; write the type "
        "as text, such as '@Pair = [a: int, b: str]' [invalid-type]",
    ),
    (
        lambda: Schema("xy", "ab"),  # type: ignore[arg-type]
        ArgumentError,
        "names and types: expected two tuples; or use Schema.of(x=int), got 'xy' of type str "
        "[invalid-argument]",
    ),
    (
        lambda: XY.select(3),  # type: ignore[arg-type]
        ArgumentError,
        "indices: expected positions of columns, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: XY.select("x"),  # type: ignore[arg-type]
        ArgumentError,
        "indices: expected positions of columns, got 'x' of type str [invalid-argument]",
    ),
    (
        lambda: XY.indices(5),  # type: ignore[arg-type]
        ArgumentError,
        "names: expected a column name or a list of column names, got 5 of type int [invalid-argument]",
    ),
    (
        lambda: ZSet([(1, "a")], XY).ordered(5),  # type: ignore[arg-type]
        ArgumentError,
        "order: expected each position of the columns (x: int, y: str) once, got 5 of type int "
        "[invalid-argument]",
    ),
    (
        lambda: ZSet([(1, "a")], XY).ordered([1, 1]),
        ArgumentError,
        "order: expected each position of the columns (x: int, y: str) once, got [1, 1] of type list "
        "[invalid-argument]",
    ),
    (
        lambda: ZSet([(1, "a")], XY).ordered("yx"),  # type: ignore[arg-type]
        ArgumentError,
        "order: expected each position of the columns (x: int, y: str) once, got 'yx' of type str "
        "[invalid-argument]",
    ),
    (
        lambda: XY.select([2]),
        SchemaError,
        "unknown column at position 2; there are 2 columns (x: int, y: str) [unknown-column]",
    ),
    (
        lambda: XY.rename("x"),  # type: ignore[arg-type]
        ArgumentError,
        "mapping: expected new names by old names, such as {'x': 'y'}, got 'x' of type str "
        "[invalid-argument]",
    ),
    # rows
    (
        lambda: ZSet([(1,)], XY),
        InputError,
        "row 0: expected 2 values (x: int, y: str), got 1: (1,) [wrong-arity]",
    ),
    (
        lambda: ZSet([(1, "a"), (2,)]),
        InputError,
        "row 1: expected 2 values as in row 0, got 1: (2,) [wrong-arity]",
    ),
    (
        lambda: ZSet([XZ(1, "a")], XY),
        InputError,
        "row 0: expected the columns (x: int, y: str), got (x, z); missing: 'y'; unknown: 'z' "
        "[unknown-column]",
    ),
    (
        lambda: ZSet([{"x": 1, "z": "a"}], XY),
        InputError,
        "row 0: expected the columns (x: int, y: str), got (x, z); missing: 'y'; unknown: 'z' "
        "[unknown-column]",
    ),
    (
        lambda: ZSet([{"x": 1}], XY),
        InputError,
        "row 0: expected the columns (x: int, y: str), got (x); missing: 'y' [wrong-arity]",
    ),
    (
        lambda: ZSet([3], {"x": int}),
        InputError,
        "row 0: expected a row of (x: int), got 3 of type int; write a row of one column as (3,) "
        "[invalid-row]",
    ),
    (
        lambda: ZSet([3, 4]),
        InputError,
        "expected rows, such as tuples or dicts, got 3 of type int; write a row of one column as (3,) "
        "[invalid-row]",
    ),
    (
        lambda: ZSet([{"x": 1}, 2]),
        InputError,
        "row 1: expected a row of (x: object?), got 2 of type int; write a row of one column as (2,) "
        "[invalid-row]",
    ),
    (lambda: ZSet(3), InputError, "expected rows, such as a list of tuples, got 3 of type int [wrong-type]"),  # type: ignore[arg-type]
    (
        lambda: ZSet.from_rows(3),  # type: ignore[arg-type]
        InputError,
        "expected rows, such as a list of tuples, got 3 of type int [wrong-type]",
    ),
    # values
    (
        lambda: ZSet([("1", "a")], XY),
        InputError,
        "row 0, column 'x': expected int, got '1' of type str [wrong-type]",
    ),
    (
        lambda: ZSet([(None, "a")], XY),
        InputError,
        "row 0, column 'x': expected int, got None; to allow None, declare the column optional "
        "[missing-value]",
    ),
    (
        lambda: ZSet([(2**63, "a")], XY),
        ValueOutOfRangeError,
        "row 0, column 'x': expected an int from -2**63 to 2**63 - 1, got 9223372036854775808 "
        "[value-out-of-range]",
    ),
    (
        lambda: ZSet([(-(2**63),)], {"x": int | None}),
        ValueOutOfRangeError,
        "row 0, column 'x': expected an int from -2**63 + 1 to 2**63 - 1 in an optional column, got -2**63 "
        "[value-out-of-range]",
    ),
    (
        lambda: ZSet([([1],)], {"x": object}),
        InputError,
        "row 0, column 'x': [1] of type list cannot be a value: it is not hashable; use a tuple "
        "[unsupported-value]",
    ),
    (
        lambda: ZSet([(np.longdouble(1),)], {"x": object}),
        InputError,
        "row 0, column 'x': np.longdouble('1.0') of type longdouble cannot be a value: Python has "
        "no type for "
        "it; convert it to float or int [unsupported-value]",
    ),
    (
        lambda: ZSet([(NANOSECOND,)], {"x": dt.datetime}),
        ValueOutOfRangeError,
        "row 0, column 'x': expected a timestamp in whole microseconds, got 2024-01-01 00:00:00.000000001; "
        "round it to microseconds [value-out-of-range]",
    ),
    (
        lambda: ZSet([(NANOSECOND.to_datetime64(),)], {"x": dt.datetime}),
        ValueOutOfRangeError,
        "row 0, column 'x': expected a timestamp in whole microseconds, got 2024-01-01T00:00:00.000000001; "
        "round it to microseconds [value-out-of-range]",
    ),
    (
        lambda: ZSet([(NANOSECOND.to_datetime64(),)], {"x": object}),
        ValueOutOfRangeError,
        "row 0, column 'x': expected a timestamp in whole microseconds, got 2024-01-01T00:00:00.000000001; "
        "round it to microseconds [value-out-of-range]",
    ),
    (
        lambda: ZSet.from_arrow(pa.table({"x": pa.array([None, NANOSECOND], pa.timestamp("ns"))})),
        ValueOutOfRangeError,
        "column 'x': expected a timestamp in whole microseconds, got 2024-01-01 00:00:00.000000001; "
        "round it to microseconds [value-out-of-range]",
    ),
    (
        lambda: ZSet([(pd.NaT,)], {"x": dt.datetime}),
        InputError,
        "row 0, column 'x': expected timestamp, got None; to allow None, declare the column optional "
        "[missing-value]",
    ),
    # weights
    (
        lambda: ZSet.from_rows([(1,)], 3),  # type: ignore[arg-type]
        ArgumentError,
        "weights: expected one int per row, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: ZSet.from_numpy(np.array([[1], [2]]), 3),
        InputError,
        "expected 2 weights, one per row, got 1 [invalid-weight]",
    ),
    (
        lambda: ROWS.to_arrow(3),  # type: ignore[arg-type]
        ArgumentError,
        "weight_column: expected the name of a column or None, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: ZSet({(1,): 1.5}),
        InputError,
        "expected an int as weight, got 1.5 of type float [invalid-weight]",
    ),  # type: ignore[dict-item]
    (
        lambda: ZSet.from_rows([(1,)], []),
        InputError,
        "expected 1 weight, one per row, got 0 [invalid-weight]",
    ),
    (
        lambda: ZSet({(1,): 2**64}),
        WeightOverflowError,
        "expected a weight from -2**63 to 2**63 - 1, got 18446744073709551616 [weight-overflow]",
    ),
    (
        lambda: ZSet({(1,): 2**62}) * 2,
        WeightOverflowError,
        "2 times a weight of this Z-set is outside the 64-bit range [weight-overflow]",
    ),
    (
        lambda: ZSet({(1,): 2**62}) + ZSet({(1,): 2**62}),
        WeightOverflowError,
        "the sum of weights is outside the 64-bit range [weight-overflow]",
    ),
    # two Z-sets
    (
        lambda: ROWS + ZSet([(1,)]),
        SchemaError,
        "expected 2 columns (x: int, y: str), got 1 (c0: int) [schema-mismatch]",
    ),
    (
        lambda: ROWS + ZSet([(0.5, "a")]),
        InputError,
        "column 'x': expected a column of type int, got one of type float [schema-mismatch]",
    ),
    # arrays and frames
    (
        lambda: ZSet.from_numpy(np.array([1])),
        InputError,
        "expected an array of shape (rows, columns), got one of shape (1,) [wrong-arity]",
    ),
    (
        lambda: ZSet.from_numpy(np.array([["a"]])),
        InputError,
        "expected an array of integers, floats or booleans, got <U1; use ZSet.from_rows [wrong-type]",
    ),
    (
        lambda: ZSet.from_numpy([[1]]),  # type: ignore[arg-type]
        InputError,
        "expected a NumPy array, got [[1]] of type list [wrong-type]",
    ),
    (
        lambda: ZSet.from_arrow(3),
        InputError,
        "expected an Arrow table or record batch, got 3 of type int [wrong-type]",
    ),
    (lambda: ZSet.from_pandas(3), InputError, "expected a pandas DataFrame, got 3 of type int [wrong-type]"),
    (lambda: ZSet.from_polars(3), InputError, "expected a Polars DataFrame, got 3 of type int [wrong-type]"),
    (
        lambda: ZSet.from_pandas(pd.DataFrame({"x": [1, "a"]})),
        InputError,
        "the frame cannot be converted to an Arrow table: Could not convert 'a' with type str: "
        "tried to convert "
        "to int64; Conversion failed for column x with type object [unsupported-value]",
    ),
    (
        lambda: ZSet.from_arrow(pa.table({"x": [1]}), schema=XY),
        SchemaError,
        "expected 2 columns (x: int, y: str), got 1 (x) [schema-mismatch]",
    ),
    (
        lambda: ZSet.from_arrow(pa.table({"x": pa.array([2**62], pa.timestamp("s"))})),
        ValueOutOfRangeError,
        "column 'x': Casting from timestamp[s] to timestamp[us] would result in out of bounds timestamp: "
        "4611686018427387904 [value-out-of-range]",
    ),
    (
        lambda: ZSet.from_arrow(pa.table({"x": [1], "wight": [1]}), "weight"),
        SchemaError,
        "unknown weight column 'weight'; did you mean 'wight'? The columns are (x, wight) [unknown-column]",
    ),
    (
        lambda: ZSet.from_arrow(pa.table({"x": [1, 2], "w": [0.5, None]}), "w"),
        InputError,
        "expected integers without nulls in the weight column 'w', got double with 1 null [invalid-weight]",
    ),
    (
        lambda: (-ROWS).to_arrow(weight_column=None),
        InputError,
        "the Z-set has a row of weight -1, which a table shows only in a weight column; convert it "
        "by to_arrow, to_polars or to_pandas with weight_column='weight' "
        "[invalid-weight]",
    ),
    (
        lambda: ROWS.to_arrow("y"),
        SchemaError,
        "the Z-set already has a column 'y'; pass another name as weight_column [duplicate-column]",
    ),
    # indexes
    (
        lambda: ROWS.index_by("x", "y", "x"),
        SchemaError,
        "column 'x' occurs twice in index_by('x', 'y', 'x') [duplicate-column]",
    ),
    (
        lambda: ROWS.index_by("x").get_by_prefix(1, "a", 3),
        SchemaError,
        "expected a prefix of at most 2 values (x: int, y: str), got 3 [wrong-arity]",
    ),
    (
        lambda: ROWS.index_by("x").group(1, "a"),
        SchemaError,
        "expected 1 value of the key (x: int), got 2 [wrong-arity]",
    ),
    (
        lambda: ROWS.index_by("x").extend_leaves(3, Schema.of(z=int)),  # type: ignore[arg-type]
        ArgumentError,
        "extension: expected an IndexedZSet or a function, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: ROWS.index_by("x").extend_leaves(lambda row: []),
        ArgumentError,
        "columns: expected the Schema of the columns to add, got None of type NoneType [invalid-argument]",
    ),
    (
        lambda: ROWS.index_by("x").extend_leaves(ROWS.index_by("x"), 3),  # type: ignore[arg-type]
        ArgumentError,
        "columns: expected column names, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: ROWS.index_by("x").extend_leaves(lambda row: row.x / 0, Schema.of(z=int)),
        UserFunctionError,
        "the extension failed for the row (1, 'a'): ZeroDivisionError: division by zero [user-function]",
    ),
    (
        lambda: PrefixExtender(ROWS),  # type: ignore[arg-type]
        ArgumentError,
        "index: expected an IndexedZSet, such as zset.index_by(...), got ZSet({(1, 'a'): 1}, x: int, y: str) "
        "of type ZSet [invalid-argument]",
    ),
    (
        lambda: extend_prefixes(3, []),  # type: ignore[arg-type]
        ArgumentError,
        "prefixes: expected a ZSet, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: extend_prefixes(ROWS, [3]),  # type: ignore[list-item]
        ArgumentError,
        "extenders: expected a list of PrefixExtender, got [3] of type list [invalid-argument]",
    ),
    (
        lambda: PrefixExtender(ROWS.index_by("x")).propose(3),  # type: ignore[arg-type]
        ArgumentError,
        "prefixes: expected a ZSet, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: PrefixExtender(ROWS.index_by("x")).intersect(3),  # type: ignore[arg-type]
        ArgumentError,
        "extended: expected a ZSet, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: Branch(3),  # type: ignore[arg-type]
        ArgumentError,
        "name: expected the name of a branch, got 3 of type int [invalid-argument]",
    ),
    (
        lambda: ROWS.index_by("x").extend_leaves(ROWS.index_by("x"), ["x", "y"]),
        SchemaError,
        "expected 1 column for the key (x: int) of the extension, got 2 [wrong-arity]",
    ),
    (
        lambda: PrefixExtender(ROWS.index_by()),
        SchemaError,
        "the index has no key column to extend prefixes by; name at least one in index_by(...) [wrong-arity]",
    ),
    (
        lambda: PrefixExtender(ROWS.index_by("x", "y"), ["x"]),
        SchemaError,
        "expected 2 columns for the key (x: int, y: str), got 1 [wrong-arity]",
    ),
    (
        lambda: PrefixExtender(ROWS.index_by("x", "y")).propose(ROWS),
        SchemaError,
        "the prefixes already have a column 'y'; to filter them, call intersect [duplicate-column]",
    ),
    (
        lambda: PrefixExtender(ROWS.index_by("x", "y")).count(ZSet([("a",)], {"x": str})),
        SchemaError,
        "the types differ: 'x: int' of the index and 'x: str' of the prefixes [schema-mismatch]",
    ),
    (
        lambda: extend_prefixes(ROWS, []),
        ArgumentError,
        "extenders: expected at least one PrefixExtender, got none [invalid-argument]",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), CASES, ids=[text for _, _, text in CASES])
def test_an_error_says_what_is_expected_and_names_its_cause(
    call: Callable[[], Any], error: type[DbspError], text: str
) -> None:
    with pytest.raises(DbspError) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == text


def test_a_timestamp_of_pandas_in_whole_microseconds_is_stored() -> None:
    value = pd.Timestamp("2024-01-01 00:00:00.000001")
    assert ZSet([(value,)], {"x": dt.datetime}).rows() == [(dt.datetime(2024, 1, 1, 0, 0, 0, 1),)]


def test_a_place_keeps_the_class_and_the_code() -> None:
    error = at_place(SchemaError("unknown column 'x'", where="Map at a.py:3", code="unknown-column"), "row 1")
    assert type(error) is SchemaError
    assert str(error) == "Map at a.py:3: row 1: unknown column 'x' [unknown-column]"


@pytest.mark.parametrize(
    ("table", "method"),
    [
        (FRAME, "from_pandas"),
        (pl.DataFrame({"x": [1], "y": ["a"]}), "from_polars"),
        (pa.Table.from_pandas(FRAME), "from_arrow"),
        (pa.RecordBatch.from_pandas(FRAME), "from_arrow"),
    ],
)
def test_the_error_of_a_table_as_rows_names_the_method_that_reads_it(table: Any, method: str) -> None:
    with pytest.raises(InputError, match=rf"expected rows, .*; write ZSet\.{method}\(\.\.\.\)"):
        ZSet(table, XY)
    assert getattr(ZSet, method)(table).to_dict() == {(1, "a"): 1}
