"""Schemas: names and types, rows in every form, and errors with their place."""

from __future__ import annotations

import datetime as dt
import pickle
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema, as_schema, infer_schema
from dbsp.data.types import BOOL, FLOAT, INT, OBJECT, STR
from dbsp.errors import InputError, SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

Turned = namedtuple("Turned", "height age name")
Other = namedtuple("Other", "a b c")
LETTERS = "abZé \U0001f600"

PEOPLE = Schema.of(name=str, age=int, height=float | None)


class Person(NamedTuple):
    name: str
    age: int
    height: float | None


@dataclass(frozen=True)
class Pet:
    name: str
    age: int
    height: float | None = None


def test_a_schema_describes_itself() -> None:
    assert PEOPLE.names == ("name", "age", "height")
    assert PEOPLE.types == (STR, INT, FLOAT.optional())
    assert (PEOPLE.arity, len(PEOPLE)) == (3, 3)
    assert PEOPLE.describe() == "name: str, age: int, height: float?"
    assert str(PEOPLE) == "(name: str, age: int, height: float?)"
    assert PEOPLE.index("age") == 1 and PEOPLE.indices(["height", "name"]) == (2, 0)
    assert PEOPLE.type_of("age") == INT
    assert as_schema({"name": "str", "age": INT, "height": "float?"}) == PEOPLE
    assert hash(PEOPLE) == hash(Schema.of(name=str, age=int, height=float | None))


def test_select_and_rename() -> None:
    assert PEOPLE.select([2, 0]) == Schema.of(height=float | None, name=str)
    assert (
        PEOPLE.rename({"age": "years"}).names
        == PEOPLE.rename(years="age").names
        == ("name", "years", "height")
    )
    with pytest.raises(SchemaError, match="unknown column 'ages'"):
        PEOPLE.rename(years="ages")
    with pytest.raises(SchemaError, match="column 'name' occurs twice"):
        PEOPLE.rename(name="age")


def test_schemas_from_annotated_classes() -> None:
    assert as_schema(Person) == as_schema(Pet) == PEOPLE


def test_misnamed_columns_get_a_suggestion() -> None:
    with pytest.raises(
        SchemaError,
        match=r"unknown column 'hight'; did you mean 'height'\? The columns are \(name: str, age: int, .*\)",
    ):
        PEOPLE.index("hight")
    with pytest.raises(
        SchemaError, match=r"unknown column 'q'; the columns are \(name: str, age: int, height: float\?\) \["
    ):
        PEOPLE.index("q")


def test_other_values_are_not_schemas() -> None:
    with pytest.raises(SchemaError, match="column 'x': set cannot be the type of a column"):
        Schema.of(x=set)
    with pytest.raises(SchemaError, match=r"expected a schema, such as .*, got 3"):
        as_schema(3)
    with pytest.raises(SchemaError, match="expected a non-empty string as the name of a column, got 1"):
        as_schema({1: int})
    with pytest.raises(SchemaError, match="expected one type per column name, got 2 names and 1 type"):
        Schema(("a", "b"), (INT,))


ROWS = st.lists(
    st.tuples(
        st.integers(INT64_MIN, INT64_MAX),
        st.text(LETTERS, max_size=2),
        st.none() | st.floats(allow_nan=False),
        st.booleans(),
        st.dates(),
        st.none() | st.tuples(st.integers(0, 2)),
    ),
    max_size=6,
)
MIXED = Schema.of(i=int, s=str, f=float | None, b=bool, d=dt.date, o="object?")


@given(ROWS)
def test_rows_round_trip(rows: list[tuple[Any, ...]]) -> None:
    interner = Interner()
    codes = MIXED.encode_rows(rows, interner)
    assert codes.shape == (len(rows), 6) and codes.dtype == np.int64
    assert codes.flags.c_contiguous and codes.flags.writeable
    assert MIXED.decode_rows(codes, interner) == rows
    assert [MIXED.encode_row(row, interner) for row in rows] == list(map(tuple, codes.tolist()))
    assert [MIXED.decode_row(code, interner) for code in codes.tolist()] == rows


@given(st.lists(st.tuples(st.integers(INT64_MIN, INT64_MAX), st.integers(-3, 3)), max_size=6))
def test_rows_of_ints_round_trip(rows: list[tuple[int, int]]) -> None:
    schema = Schema.of(x=int, y=int)
    codes = schema.encode_rows(rows, Interner())
    assert codes.shape == (len(rows), 2) and codes.flags.c_contiguous and codes.flags.writeable
    assert schema.decode_rows(codes, Interner()) == rows


@pytest.mark.parametrize(
    "row",
    [
        ("Ann", 30, 1.7),
        ["Ann", 30, 1.7],
        Person("Ann", 30, 1.7),
        Pet("Ann", 30, 1.7),
        {"height": 1.7, "name": "Ann", "age": 30},
        Turned(1.7, 30, "Ann"),
        Other("Ann", 30, 1.7),
    ],
)
def test_every_form_of_row(row: Any) -> None:
    interner = Interner()
    codes = PEOPLE.encode_rows([row, ("Bob", 1, None)], interner)
    assert PEOPLE.decode_rows(codes, interner) == [("Ann", 30, 1.7), ("Bob", 1, None)]
    assert PEOPLE.encode_row(row, interner) == tuple(codes[0].tolist())


def test_arity_zero() -> None:
    nothing = Schema((), ())
    codes = nothing.encode_rows([(), ()], Interner())
    assert codes.shape == (2, 0)
    assert nothing.decode_rows(codes, Interner()) == [(), ()]
    assert nothing.encode_row((), Interner()) == ()


def test_rows_that_do_not_fit_are_named() -> None:
    interner = Interner()
    good = ("Ann", 30, 1.7)
    cases: list[tuple[Any, type[Exception], str]] = [
        (
            ("Bob", 31),
            InputError,
            r"row 1: expected 3 values \(name: str, age: int, .*\), got 2: \('Bob', 31\)",
        ),
        (("Bob", "31", None), InputError, "row 1, column 'age': expected int, got '31' of type str"),
        (("Bob", 2**63, None), ValueOutOfRangeError, "row 1, column 'age': expected an int from"),
        (
            ("Bob", None, None),
            InputError,
            "row 1, column 'age': expected int, got None; to allow None, declare the column optional",
        ),
        (
            {"name": "Bob", "agge": 3, "height": None},
            InputError,
            r"row 1: .*got \(name, agge, height\); missing: 'age'; unknown: 'agge'; did you mean 'age'\?",
        ),
        ({"name": "Bob", "age": 3}, InputError, "row 1: expected the columns .*; missing: 'height'"),
        ("Bob", InputError, "row 1: expected a row of .*, got 'Bob' of type str"),
    ]
    for bad, error, message in cases:
        with pytest.raises(error, match=message):
            PEOPLE.encode_rows([good, bad], interner)
        with pytest.raises(error, match=message.removeprefix("row 1: ").removeprefix("row 1, ")):
            PEOPLE.encode_row(bad, interner)


def test_all_int_rows_that_do_not_fit_are_named() -> None:
    schema = Schema.of(x=int, y=int)
    for bad, error, message in [
        ((1, 2.0), InputError, "row 2, column 'y': expected int, got 2.0 of type float"),
        ((True, 2), InputError, "row 2, column 'x': expected int, got True of type bool"),
        (
            (1, 2**63),
            ValueOutOfRangeError,
            "row 2, column 'y': expected an int from .*, got 9223372036854775808",
        ),
    ]:
        with pytest.raises(error, match=message):
            schema.encode_rows([(1, 2), (3, 4), bad], Interner())
    with pytest.raises(InputError, match=r"write a row of one column as \(5,\)"):
        Schema.of(x=int).encode_rows([5], Interner())


def test_numpy_rows() -> None:
    schema = Schema.of(x=int, y=int)
    assert schema.encode_rows(list(np.array([[1, 2], [3, 4]])), Interner()).tolist() == [[1, 2], [3, 4]]


def test_row_class_has_the_columns_as_fields() -> None:
    row = PEOPLE.row_class(*("Ann", 30, 1.7))
    assert (row.name, row.age, row.height) == row == ("Ann", 30, 1.7)
    assert PEOPLE.row_class is PEOPLE.row_class
    odd = as_schema({"a b": int, "class": int, "_x": int, "ok": int}).row_class(1, 2, 3, 4)
    assert odd._fields == ("_0", "_1", "_2", "ok")


def test_a_schema_can_be_pickled_after_use() -> None:
    assert PEOPLE.row_class and pickle.loads(pickle.dumps(PEOPLE)) == PEOPLE


@pytest.mark.parametrize("count", [1, 9])
def test_few_rows_and_many_have_the_same_codes(count: int) -> None:
    interner = Interner()
    rows = [
        (i, "a" * i, None if i % 2 else i / 2, i % 3 == 0, dt.date(2000, 1, 1 + i), (i,))
        for i in range(count)
    ]
    codes = MIXED.encode_rows(rows, interner)
    assert codes.tolist() == [list(MIXED.encode_row(row, interner)) for row in rows]
    assert codes.flags.c_contiguous and codes.flags.writeable and codes.dtype == np.int64
    assert MIXED.decode_rows(codes, interner) == rows


def test_infer_schema() -> None:
    assert infer_schema([(1, "a"), (2, None)]) == as_schema({"c0": int, "c1": str | None})
    assert infer_schema([{"x": 1, "y": True}, {"y": False, "x": 2}]) == Schema.of(x=int, y=bool)
    assert infer_schema([Person("Ann", 1, None)]).types == (STR, INT, OBJECT.optional())
    assert infer_schema([Pet("Rex", 3, 0.5)]) == Schema(("name", "age", "height"), (STR, INT, FLOAT))
    assert infer_schema([(1, True), (2.5, 1)]).types == (FLOAT, OBJECT)
    assert infer_schema([(True,)]).types == (BOOL,)
    assert infer_schema([]) == Schema((), ())
    with pytest.raises(InputError, match=r"row 1: expected 2 values as in row 0, got 1: \(3,\)"):
        infer_schema([(1, 2), (3,)])
    with pytest.raises(
        InputError, match=r"expected rows, .*, got 5 of type int; write a row of one column as \(5,\)"
    ):
        infer_schema([5])
