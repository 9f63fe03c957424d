"""Tables as changes: data frames, Arrow, arrays and dicts of columns in `step` and `insert`."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PosixPath as Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, DbspError, Run, ZSet, col, compile, count
from dbsp.data.interner import Interner
from dbsp.runtime.input_changes import TableChange, encode_change

ROWS = [(1, "a", 1.5), (2, "b", 2.5), (2, "b", 2.5)]
TABLE = pa.table({"s": ["a", "b", "b"], "f": [1.5, 2.5, 2.5], "x": [1, 2, 2]})
"""The rows as a table whose columns are in another order."""


@dataclass
class Sale:
    x: int
    s: str
    f: float


class OnlyArray:
    """A record batch of another library."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


class OnlyStream:
    """A table of another library."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


def hugging_face() -> Any:
    """A data set as the library datasets has it."""

    class Dataset:
        def with_format(self, name: str) -> "Dataset":
            assert name == "arrow"
            return self

        def iter(self, batch_size: int) -> Any:
            return iter([TABLE.slice(0, 2), TABLE.slice(2)])

    Dataset.__module__ = "datasets.arrow_dataset"
    return Dataset()


def structured() -> np.ndarray:
    return np.array(ROWS, [("x", np.int32), ("s", "U3"), ("f", np.float32)])[["s", "f", "x"]]


FORMS: dict[str, Callable[[], Any]] = {
    "arrow table": lambda: TABLE,
    "arrow batch": lambda: TABLE.to_batches()[0],
    "arrow batches": lambda: TABLE.to_batches(max_chunksize=1),
    "arrow reader": lambda: TABLE.to_reader(max_chunksize=1),
    "arrow dataset": lambda: pyarrow.dataset.dataset(TABLE),
    "arrow scanner": lambda: pyarrow.dataset.dataset(TABLE).scanner(),
    "pandas": TABLE.to_pandas,
    "pandas, other index": lambda: TABLE.to_pandas().set_index(np.array([7, 8, 9])),
    "pandas, categories": lambda: TABLE.to_pandas().astype({"s": "category"}),
    "polars": lambda: pl.from_arrow(TABLE),
    "polars, lazy": lambda: pl.from_arrow(TABLE).lazy(),
    "polars, categories": lambda: pl.from_arrow(TABLE).cast({"s": pl.Categorical}),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "generator of frames": lambda: (TABLE.slice(i, 1).to_pandas() for i in range(3)),
    "list of frames": lambda: [pl.from_arrow(TABLE.slice(i, 1)) for i in range(3)],
    "Hugging Face data set": hugging_face,
    "array interface": OnlyArray,
    "stream interface": OnlyStream,
    "structured array": structured,
    "list of structured rows": lambda: list(structured()),
    "object array": lambda: np.array(ROWS, object),
    "dict of arrays": lambda: {name: TABLE[name].to_numpy() for name in TABLE.column_names},
    "dict of lists": TABLE.to_pydict,
    "dict of tuples": lambda: {name: tuple(values) for name, values in TABLE.to_pydict().items()},
    "dict of Arrow columns": lambda: {name: TABLE[name] for name in TABLE.column_names},
    "dict of Arrow arrays": lambda: {name: TABLE[name].combine_chunks() for name in TABLE.column_names},
    "dict of pandas series": lambda: dict(TABLE.to_pandas().items()),
    "dict of polars series": lambda: pl.from_arrow(TABLE).to_dict(),
    "dict of iterables": lambda: {name: iter(values) for name, values in TABLE.to_pydict().items()},
    "dicts": TABLE.to_pylist,
    "tuples": lambda: ROWS,
    "dataclasses": lambda: [Sale(*row) for row in ROWS],
    "generator of dataclasses": lambda: (Sale(*row) for row in ROWS),
    "dataclasses after another": lambda: iter([Sale(*row) for row in ROWS]),
    "named tuples": lambda: list(TABLE.to_pandas().itertuples(index=False)),
}


def started(**options: Any) -> Run:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=int, s=str, f=float, **options))
    return circuit.start()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_is_a_change(form: str) -> None:
    expected = ZSet(ROWS, {"x": int, "s": str, "f": float})
    assert started().step({"a": FORMS[form]()})["o"] == expected
    staged = started()
    staged.input("a").insert(FORMS[form]())
    assert staged.step()["o"] == expected
    staged.input("a").delete(FORMS[form]())
    assert staged.step()["o"] == -expected


@pytest.mark.parametrize("form", FORMS)
def test_every_form_starts_a_program(form: str) -> None:
    program = compile(".decl a(x: number, s: symbol, f: float)\n.input a\n.output a\n")
    assert program.start({"a": FORMS[form]()}).view("a").rows() == sorted(set(ROWS))


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1, 2], [3, 4]]),
        np.array([[1, 2], [3, 4]], np.uint8),
        np.array([[1, 2], [3, 4]], ">i4", order="F"),
        np.array([[1, 2], [3, 4]], object),
        [np.array([1, 2]), np.array([3, 4])],
        pd.DataFrame(np.array([[1, 2], [3, 4]])),
        pl.DataFrame({"c0": [1, 3], "c1": [2, 4]}),
        {"c0": [1, 3], "c1": range(2, 5, 2)},
    ],
    ids=lambda array: type(array).__name__ + str(getattr(array, "dtype", "")),
)
def test_columns_without_names_match_by_position(array: Any) -> None:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=int, y=int))
    assert circuit.start().step({"a": array})["o"].to_dict() == {(1, 2): 1, (3, 4): 1}


def test_columns_of_other_types() -> None:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=float, at=dt.datetime | None, day=dt.date, s=bytes))
    change = {
        "x": np.array([1, 2]),
        "at": np.array(["2024-01-01T10:00", "NaT"], "datetime64[m]").astype("datetime64[us]"),
        "day": np.array(["2024-01-01", "2024-01-02"], "datetime64[D]"),
        "s": np.array([b"a", b"bc"]),
    }
    assert circuit.start().step({"a": change})["o"].rows() == [
        (1.0, dt.datetime(2024, 1, 1, 10), dt.date(2024, 1, 1), b"a"),
        (2.0, None, dt.date(2024, 1, 2), b"bc"),
    ]


NESTED: list[dict[str, Any]] = [
    {"l": ["a", None], "s": {"t": "x"}, "d": [{"t": "p"}, {"t": None}], "b": [b"1"]},
    {"l": [], "s": None, "d": None, "b": None},
    {"l": None, "s": {"t": None}, "d": [], "b": [None]},
]


@pytest.mark.parametrize("rows", [slice(0, 3), slice(1, 3), slice(0, 1)])
def test_nested_texts_of_polars(rows: slice) -> None:
    """Polars exports them as views, which PyArrow does not filter."""
    listed = NESTED[rows]
    schema = {
        "l": pl.List(pl.String),
        "s": pl.Struct({"t": pl.String}),
        "d": pl.List(pl.Struct({"t": pl.String})),
        "b": pl.List(pl.Binary),
    }
    frame = pl.DataFrame(NESTED, schema=schema)[rows]
    types = {"l": "list[str?]?", "s": "{t: str?}?", "d": "list[{t: str?}]?", "b": "list[bytes?]?"}
    circuit = Circuit("nested")
    circuit.output("o", circuit.input("a", **types))
    run = circuit.start()
    run.step({"a": frame})
    expected = ZSet.from_rows([tuple(row.values()) for row in listed], schema=types)
    assert run.view("o") == expected
    assert ZSet.from_arrow(pa.table(frame), None, types) == expected
    assert len(ZSet.from_arrow(pa.table(frame), None)) == len(listed)
    run.step({"a": pl.DataFrame(run.view("o")).with_columns(weight=-1)})
    assert not run.view("o")


def test_sums_of_duckdb_are_ints() -> None:
    """DuckDB sums ints to 128 bits, which Arrow has as decimals."""
    circuit = Circuit("sums")
    circuit.output("o", circuit.input("a", x=int | None))
    run = circuit.start()
    run.step({"a": duckdb.sql("select sum(x) as x from range(5) t(x) union all select null::hugeint")})
    assert run.view("o").rows() == [(None,), (10,)]
    for width in (pa.decimal32(5, 0), pa.decimal64(9, 0), pa.decimal128(20, 0), pa.decimal256(50, 0)):
        table = pa.table({"x": pa.array([Decimal(-7), Decimal(3)], width)})
        assert run.step({"a": table})["o"].rows() == [(-7,), (3,)]


def test_objects_of_several_types() -> None:
    class Point:
        pass

    circuit = Circuit("objects")
    circuit.output("o", circuit.input("a", x=object | None, f=float))
    run = circuit.start()
    point = Point()
    frame = pd.DataFrame({"x": [1, "a", None, point], "f": pd.Series([1.0, None, 2.0, 3.0], dtype=object)})
    change = run.step({"a": frame})["o"].to_dict()
    assert {row[0] for row in change} == {1, "a", None, point}
    assert sum(row[1] != row[1] for row in change) == 1  # NaN, as in every column of floats of pandas


def test_an_error_names_the_relation_once() -> None:
    circuit = Circuit("keys")
    circuit.output("o", circuit.input("a", key="x", x=int, s=str))
    run = circuit.start()
    with pytest.raises(DbspError, match=r"^relation 'a': row 0: expected a row of \(x: int, s: str\), got 7"):
        run.input("a").delete([7])


def test_a_misspelt_field_has_a_suggestion() -> None:
    place = Circuit("fields").input("a", place={"city": str, "zip": int})
    with pytest.raises(
        DbspError, match=r"unknown field 'ctiy' of a struct; did you mean 'city'\? The fields are"
    ):
        place.map(x=col("place").field("ctiy"))


def test_a_missing_part_of_a_value() -> None:
    circuit = Circuit("parts")
    circuit.output("o", circuit.input("a", l=list[int], s={"t": int}))
    run = circuit.start()
    with pytest.raises(DbspError, match=r"element 1: expected int, .* declare the elements optional"):
        run.step({"a": [([1, None], {"t": 1})]})
    with pytest.raises(DbspError, match=r"field 't': expected int, .* declare the field optional"):
        run.step(
            {"a": pl.DataFrame({"l": [[1]], "s": [{"t": None}]}, schema_overrides={"l": pl.List(pl.Int64)})}
        )
    with pytest.raises(DbspError, match=r"column 'l': expected a list, .* declare the column optional"):
        run.step({"a": [(None, {"t": 1})]})


def test_missing_values() -> None:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=int | None, f=float))
    run = circuit.start()
    masked = np.ma.masked_array([1, 2], [False, True])
    assert run.step({"a": {"x": masked, "f": pd.Series([1.0, 2.0])}})["o"].rows() == [(None, 2.0), (1, 1.0)]
    nan = run.step({"a": {"x": [None], "f": pd.Series([float("nan")])}})["o"].rows()
    assert nan[0][0] is None
    assert nan[0][1] != nan[0][1]


def test_a_column_of_weights() -> None:
    run = started()
    frame = pl.from_arrow(TABLE.slice(0, 2)).with_columns(weight=pl.Series([3, -1]))
    assert run.step({"a": frame})["o"].items() == [(ROWS[0], 3), (ROWS[1], -1)]
    run.input("a").insert(frame)
    assert run.step()["o"].items() == [(ROWS[0], 3), (ROWS[1], -1)]
    delta = run.step({"a": dict.fromkeys(ROWS, 1)})["o"]
    assert not run.step({"a": [pa.table(delta), pa.table(-delta)]})["o"]
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=int, weight=float))
    delta = circuit.start().step({"a": {(1, 0.5): 2}})["o"]
    assert pa.table(delta).column_names == ["x", "weight", "weight_"]
    assert circuit.start().step({"a": pl.DataFrame(delta)})["o"].to_dict() == {(1, 0.5): 2}


def test_the_last_change_of_a_key_wins() -> None:
    run = started(key=["x"])
    assert run.step({"a": TABLE.to_pandas()})["o"].rows() == ROWS[:2]
    change = {"x": [1, 1, 2], "s": ["p", "q", "r"], "f": [0.0, 0.0, 0.0], "weight": [1, 1, -1]}
    assert run.step({"a": change})["o"].to_dict() == {(*ROWS[0],): -1, (*ROWS[1],): -1, (1, "q", 0.0): 1}
    run.input("a").upsert(pl.DataFrame({"x": [1], "s": ["u"], "f": [1.0]}))
    assert run.step()["o"].to_dict() == {(1, "q", 0.0): -1, (1, "u", 1.0): 1}
    run.input("a").delete(pd.DataFrame({"x": [1]}))
    assert run.step()["o"].to_dict() == {(1, "u", 1.0): -1}


def test_an_empty_table_is_no_change() -> None:
    run = started()
    for empty in (TABLE.slice(0, 0), pl.from_arrow(TABLE.slice(0, 0)), iter([]), np.empty((0, 3)), {}):
        assert not run.step({"a": empty})["o"]


COLUMNS = r"expected the columns \(x: int, s: str, f: float\), got "


def encoded(array: pa.Array) -> pa.Array:
    """Return a dictionary array in which a null is an entry of the dictionary."""
    return array.dictionary_encode(null_encoding="encode")


WRONG: dict[str, tuple[Any, str]] = {
    "one more": (
        pl.DataFrame({"x": [1], "s": ["a"], "f": [1.0], "z": [1]}),
        COLUMNS + r".*; unknown: 'z' \[",
    ),
    "one less": (pd.DataFrame({"x": [1], "s": ["a"]}), COLUMNS + r"\(x, s\); missing: 'f' \[wrong-arity\]"),
    "misspelt": (
        pa.table({"x": [1], "s": ["a"], "ff": [1.0]}),
        COLUMNS + r"\(x, s, ff\); missing: 'f'; unknown: 'ff'; did you mean 'f'\? \[unknown-column\]",
    ),
    "others": (
        {"p": [1], "q": ["a"], "r": [1.0]},
        r"got \(p, q, r\); to match them by position, .*frame.columns = \['x', 's', 'f'\]",
    ),
    "twice": (pa.table([[1], ["a"], [1]], ["x", "s", "x"]), r"column 'x' occurs twice in \(x, s, x\)"),
    "positions": (
        np.zeros((2, 2)),
        r"expected 3 columns \(x: int, s: str, f: float\), got 2 \[wrong-arity\]",
    ),
    "a cube": (
        np.zeros((2, 2, 2)),
        r"expected an array of shape \(rows, columns\), got one of shape",
    ),
    "a structured square": (structured().reshape(1, 3), r"expected a structured array of one dimension"),
    "one column": (pl.Series("x", [1]), r"expected a table, got one column, a Series; pass columns by name"),
    "an Arrow column": (TABLE["x"], r"expected a table, got one column, a ChunkedArray"),
    "an Arrow array": (TABLE["x"].combine_chunks(), r"expected a table, got one column, a Int64Array"),
    "a value": (
        {"x": 1, "s": "a", "f": 1.0},
        r"column 'x': expected an array or a list of values, got 1 of type int; write a single row as \[\{",
    ),
    "lengths": (
        {"x": [1, 2], "s": ["a"], "f": [1.0]},
        r"expected columns of one length, got x: 2, s: 1",
    ),
    "a square column": (
        {"x": np.zeros((1, 1)), "s": ["a"], "f": [1.0]},
        r"column 'x': expected an array of",
    ),
    "name": ({"x": [1], 5: [1]}, r"expected the name of a column after 'x', got 5 of type int"),
    "null": (
        pl.DataFrame({"x": [1, None], "s": ["a", "b"], "f": [1.0, 2.0]}),
        r"row 1, column 'x': expected int, got None; to allow None, declare the column optional",
    ),
    "text": (
        {"x": np.array(["1", "2"]), "s": ["a", "b"], "f": [1.0, 2.0]},
        r"row 0, column 'x': expected int, got '1' of type str",
    ),
    "an object": (
        {"x": [1, 2, 3], "s": np.array(["a", "b", 5], object), "f": [1.0] * 3},
        r"row 2, column 's': expected str, got 5 of type int",
    ),
    "too large": (
        {"x": np.array([1, 2**63], np.uint64), "s": ["a", "b"], "f": [1.0, 2.0]},
        r"row 1, column 'x': expected an int from -2\*\*63 to 2\*\*63 - 1, got 9223372036854775808",
    ),
    "floats": (
        {"x": np.array([1.0]), "s": ["a"], "f": [1.0]},
        r"relation 'a': column 'x': expected a column of type int, got one of type float; "
        r"convert it to ints, in pandas by \.astype\('Int64'\) \[schema-mismatch\]",
    ),
    "complex": (
        {"x": np.array([1j]), "s": ["a"], "f": [1.0]},
        r"column 'x': expected values of a type of dbsp, got an array of complex128 \[wrong-type\]",
    ),
    "in the last table": (
        [TABLE, TABLE.set_column(1, "f", pa.array([1.0, 2.0, None]))],
        r"row 5, column 'f': expected float, got None",
    ),
    "rows after a table": (
        [TABLE, (1, "a", 1.0)],
        r"expected another table after the first, got \(1, ",
    ),
    "an int of 70 bits": (
        pd.DataFrame({"x": [1, 2**70], "s": ["a", "b"], "f": [1.0, 2.0]}),
        r"row 1, column 'x': expected an int from -2\*\*63 to 2\*\*63 - 1, got 1180591620717411303424",
    ),
    "a series of 70 bits": (
        {"x": pd.Series([1, 2**70]), "s": ["a", "b"], "f": [1.0, 2.0]},
        r"row 1, column 'x': expected an int from -2\*\*63 to 2\*\*63 - 1, got 1180591620717411303424",
    ),
    "infinite": (
        pd.DataFrame({"x": [1], "s": ["a"], "f": [Decimal("Infinity")]}),
        r"row 0, column 'f': expected float, got Decimal\('Infinity'\) of type Decimal",
    ),
    "mixed texts": (
        pd.DataFrame({"x": [1, 2], "s": ["a", 5], "f": [1.0, 2.0]}),
        r"row 1, column 's': expected str, got 5 of type int",
    ),
    "twice in pandas": (
        pd.DataFrame([[1, "a", 1.0]], columns=["x", "s", "x"]),
        r"column 'x' occurs twice in \(x, s, x\); rename one of the two \[duplicate-column\]",
    ),
    "sparse": (
        pd.DataFrame({"x": pd.arrays.SparseArray([0, 1]), "s": ["a", "b"], "f": [1.0, 2.0]}),
        r"cannot be converted to an Arrow table: Sparse pandas data \(column x\) not supported",
    ),
    "a sum of DuckDB": (
        duckdb.sql("select 1180591620717411303424 as x, 'a' as s, 1.0::double as f"),
        r"row 0, column 'x': expected an int from -2\*\*63 to 2\*\*63 - 1, got 1180591620717411303424",
    ),
    "weights": (
        {"x": [1, 2], "s": ["a", "b"], "f": [1.0, 2.0], "weight": [1, None]},
        r"row 1, column 'weight': expected int, got None \[invalid-weight\]",
    ),
    "encoded weights": (
        {"x": [1, 2], "s": ["a", "b"], "f": [1.0, 2.0], "weight": encoded(pa.array([1, None]))},
        r"row 1, column 'weight': expected int, got None \[invalid-weight\]",
    ),
    "encoded texts": (
        {"x": [1, 2], "s": encoded(pa.array(["a", None])), "f": [1.0, 2.0]},
        r"row 1, column 's': expected str, got None",
    ),
    "a file": (
        "a.csv",
        r"got 'a.csv' of type str; read a file by dbsp.read_csv, read_parquet or read_ndjson",
    ),
    "a path": (Path("a.csv"), r"got PosixPath\('a.csv'\) of type PosixPath; read a file by dbsp.read_csv"),
    "a connection": (
        duckdb.connect().execute("select 1 as x"),
        r"of type DuckDBPyConnection; pass the result of connection.sql\(",
    ),
    "one object": (Sale(1, "a", 1.0), r"got the single row Sale\(x=1, s='a', f=1.0\); write it as a list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_changes_nothing(case: str) -> None:
    change, message = WRONG[case]
    run = started()
    run.step({"a": ROWS})
    with pytest.raises(DbspError, match=message) as raised:
        run.step({"a": change})
    assert str(raised.value).startswith("relation 'a': ")
    with pytest.raises(DbspError, match=message):
        run.input("a").insert(change)
    assert "0 rows staged" in repr(run.input("a"))
    assert not run.step()["o"]
    assert run.tick == 2


def test_the_names_of_an_empty_table_are_checked() -> None:
    run = started()
    for empty in (TABLE.slice(0, 0).select(["x"]), TABLE.select(["x"]).schema.empty_table().to_reader()):
        with pytest.raises(DbspError, match="missing: 's', 'f'"):
            run.step({"a": empty})


def test_a_table_that_cannot_be_read() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise OSError("the disk is gone")

    failing = duckdb.sql(
        "select i as x, case when i > 5 then error('boom') end as s, 0.0 as f from range(9) t(i)"
    )
    run = started()
    for table, message in (
        (Broken(), r"the Broken failed while it was read: OSError: the disk is gone \[unreadable-stream\]"),
        (failing, r"the DuckDBPyRelation failed while it was read: .*boom \[unreadable-stream\]"),
    ):
        with pytest.raises(DbspError, match="relation 'a': " + message) as raised:
            run.step({"a": table})
        assert raised.value.__cause__ is not None


def test_weights_cannot_be_deleted() -> None:
    run = started()
    for change in (TABLE.append_column("weight", pa.array([1, 1, 1])), {ROWS[0]: 1}, ZSet(ROWS)):
        with pytest.raises(DbspError, match=r"relation 'a': expected rows to delete, got rows with weights"):
            run.input("a").delete(change)


@pytest.mark.parametrize("rows", [5, None, "ab", b"ab"])
def test_only_collections_are_deleted(rows: Any) -> None:
    run = started()
    with pytest.raises(
        DbspError, match=r"relation 'a': expected a collection of rows or of keys, .* got"
    ) as raised:
        run.input("a").delete(rows)
    assert raised.value.code == "invalid-change"


def test_the_range_of_a_column() -> None:
    program = compile(".decl a(x: unsigned)\n.input a\n.output a\n")
    run = program.start()
    with pytest.raises(DbspError, match=r"relation 'a', column 'x': expected .*, got -1"):
        run.step({"a": {"x": np.array([1, -1])}})


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats()), max_size=20), st.data()
)
def test_tables_equal_rows(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    """A table by columns has the codes of its rows; the first wrong row is reported."""
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=int, b=bool, f=float))
    columns = {name: list(values) for name, values in zip("xbf", zip(*rows, strict=True), strict=False)}
    types = {"x": np.int64, "b": np.bool_, "f": np.float64}
    arrays = {name: np.array(columns.get(name, []), type_) for name, type_ in types.items()}
    run = circuit.start()
    expected = run.step({"a": rows})["o"]
    for change in (arrays, pa.table(arrays), pd.DataFrame(arrays), pl.DataFrame(arrays)):
        assert circuit.start().step({"a": change})["o"] == expected
    if rows:
        wrong = data.draw(st.integers(0, len(rows) - 1))
        values: list[Any] = columns["x"]
        values[wrong] = None
        table = pa.table({"x": pa.array(values, pa.int64()), "b": arrays["b"], "f": arrays["f"]})
        with pytest.raises(DbspError, match=rf"row {wrong}, column 'x': expected int, got None"):
            run.step({"a": table})


def unsorted() -> Any:
    return np.arange(400).reshape(200, 2)[::-1].copy()


OWN_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "array": lambda codes: codes,
    "columns": lambda codes: {"x": codes[:, 0], "y": codes[:, 1]},
    "Z-set": lambda codes: ZSet.from_numpy(codes),
    "table with weights": lambda codes: TableChange(
        pa.table({"x": codes[:, 0], "y": codes[:, 1]}), codes[:, 0]
    ),
}


@pytest.mark.parametrize("form", OWN_ARRAYS)
@pytest.mark.parametrize("kind", ["zset", "set"])
def test_a_tick_sorts_no_array_of_the_caller(form: str, kind: str) -> None:
    circuit = Circuit("own arrays")
    circuit.output("out", circuit.input("a", x=int, y=int, kind=kind))
    run, codes = circuit.start(), unsorted()
    change = OWN_ARRAYS[form](codes)
    first = run.step({"a": change})["out"].to_dict()
    assert np.array_equal(codes, unsorted())
    twice = circuit.start().step({"a": change})["out"].to_dict()
    assert twice == first and len(first) == 200 - (form == "table with weights")


@pytest.mark.parametrize("options", [{}, {"kind": "set"}, {"key": "x"}])
def test_weights_from_a_column_of_arrow_can_be_written(options: dict[str, Any]) -> None:
    """Kernels take arrays that can be written: Numba would compile each again for the others."""
    circuit = Circuit("weights")
    circuit.output("out", circuit.input("a", x=int, y=int, **options))
    port = circuit.start().input_ports["a"]
    table = pa.table({"x": [1, 2], "y": [3, 4], "weight": [1, -1]})
    weights = table.column("weight").chunk(0).to_numpy()
    assert not weights.flags.writeable
    change = TableChange(table.select(["x", "y"]), weights)
    rows, encoded, _ = encode_change(change, port, Interner())
    assert rows.flags.writeable and encoded.flags.writeable
    assert encoded.tolist() == [1, -1]


def test_a_failed_tick_leaves_staged_changes_as_they_were() -> None:
    circuit = Circuit("staged")
    table = circuit.input("a", x=int, y=int)
    circuit.output("out", table.filter(1 // col("x") < 9))
    circuit.output("others", circuit.input("b", x=int))
    run = circuit.start()
    run.input("a").insert(unsorted())
    with pytest.raises(DbspError, match="division by zero"):
        run.step()
    with pytest.raises(DbspError, match="division by zero"):
        run.step({"b": [(2,)]})
    run.step({"a": {(0, 1): -1}})
    assert run.view("out").to_dict() == {tuple(row): 1 for row in unsorted()[:-1].tolist()}


def test_a_change_of_which_every_row_counts_is_stored_once() -> None:
    circuit = Circuit("once")
    table = circuit.input("a", x=int, y=int, kind="set")
    circuit.output("out", table.group_by("y").agg(n=count()))
    run = circuit.start()
    for change, copied in (
        ({(1, 2): 1, (3, 2): 1}, False),
        ({(1, 2): 1, (5, 2): 1}, True),
        ({(5, 2): -1}, False),
    ):
        staged = run.prepare({"a": change})
        run.step_staged(staged)
        assert (run.latest_input("a") is not staged["a"]) == copied
    assert run.view("out").to_dict() == {(2, 2): 1}
