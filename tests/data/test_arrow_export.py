"""Z-sets and views as tables of other libraries."""

import datetime as dt
import io
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, InputError, Schema, SchemaError, ZSet, compile
from dbsp.data import types
from dbsp.data.types import Type
from dbsp.durable import DeltaLog

from .typed_columns import COLUMNS


def test_a_zset_exports_its_weights() -> None:
    zset = ZSet({(1, "a"): 2, (2, None): -1}, {"x": int, "s": str | None})
    expected = [{"x": 1, "s": "a", "weight": 2}, {"x": 2, "s": None, "weight": -1}]
    assert pl.DataFrame(zset).to_dicts() == expected
    assert pa.table(zset).to_pylist() == expected
    assert pa.RecordBatchReader.from_stream(zset).read_all().to_pylist() == expected
    assert duckdb.sql("from zset order by x").fetchall() == [(1, "a", 2), (2, None, -1)]
    assert pa.table(ZSet.empty({"x": int})).schema.names == ["x", "weight"]
    assert pa.table(ZSet([(1, 2)], {"weight": int, "weight_": int})).column_names[2] == "weight__"


def test_a_view_exports_its_rows() -> None:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=int, day=dt.date))
    run = circuit.start()
    run.step({"a": {(1, dt.date(2024, 1, 1)): 2, (2, dt.date(2024, 1, 2)): 1}})
    view = run.view("o")
    rows = [(1, dt.date(2024, 1, 1))] * 2 + [(2, dt.date(2024, 1, 2))]
    assert pl.DataFrame(view).rows() == rows
    assert pa.table(view).to_pylist() == [dict(zip(["x", "day"], row, strict=True)) for row in rows]
    assert sorted(duckdb.sql("from view").fetchall()) == rows
    assert pl.DataFrame(view.renamed("p", "q")).columns == ["p", "q"]
    # What is computed from a view is a change or a multiset, and has weights.
    for other in (view + view, view - view, -view, 2 * view, view.distinct(), ZSet(view)):
        assert pa.table(other).column_names == ["x", "day", "weight"]


def test_a_view_of_a_program_joins_in_sql() -> None:
    program = compile(
        ".decl e(x: number, y: number)\n.input e\n.decl r(y: number)\n.output r\nr(y) :- e(_, y).\n"
    )
    reached = program.start({"e": {"x": [1, 2, 3], "y": [5, 5, 6]}}).view("r")
    names = pl.DataFrame({"y": [5, 6, 7], "name": ["five", "six", "seven"]})
    found = duckdb.sql("select name from reached join names using (y) order by all")
    assert found.fetchall() == [("five",), ("six",)]
    assert pl.DataFrame(reached).join(names, on="y").height == 2


def test_a_view_with_negative_weights_is_not_a_table_of_rows() -> None:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", x=int))
    run = circuit.start()
    run.step({"a": {(1,): -1}})
    with pytest.raises(
        InputError, match=r"has a row of weight -1, .* with weight_column='weight' \[invalid-weight\]"
    ):
        pa.table(run.view("o"))
    assert run.view("o").to_arrow().to_pylist() == [{"x": 1, "weight": -1}]


Typed = tuple[Type, st.SearchStrategy[Any]]
"""A type and a strategy of its values."""

PLAIN = {
    **{type_: values for type_, values in COLUMNS.items() if not type_.parts and type_.structure is None},
    types.STR: st.text("ab\0é", max_size=3),
}
PLAIN.pop(types.OBJECT)


def _optional(typed: Typed) -> Typed:
    type_, values = typed
    return type_.optional(), st.none() | values


def _list(typed: Typed) -> Typed:
    type_, values = typed
    return types.list_type(type_), st.lists(values, max_size=3).map(tuple)


def _struct(fields: list[Typed]) -> Typed:
    type_ = types.struct_type({f"f{at}": type_ for at, (type_, _) in enumerate(fields)})
    return type_, st.tuples(*(values for _, values in fields))


def _nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    part = inner | inner.map(_optional)
    return part.map(_list) | st.lists(part, min_size=1, max_size=3).map(_struct)


NESTED = st.recursive(st.sampled_from(list(PLAIN.items())), _nested, max_leaves=6)


@st.composite
def nested_zsets(draw: st.DrawFn) -> ZSet:
    """Draw a Z-set whose columns are values, lists and structs, optional ones at every depth."""
    columns = draw(st.lists(NESTED | NESTED.map(_optional), min_size=1, max_size=3))
    schema = Schema(tuple(f"c{at}" for at in range(len(columns))), tuple(type_ for type_, _ in columns))
    return ZSet(draw(st.lists(st.tuples(*(values for _, values in columns)), max_size=5)), schema)


def _from_parquet(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(table, file)
    return pq.read_table(file)


@given(nested_zsets())
def test_nested_values_are_valid_arrow_that_parquet_takes(zset: ZSet) -> None:
    table = zset.to_arrow()
    table.validate(full=True)
    for back in (table, _from_parquet(table), zset.to_polars().to_arrow()):
        assert ZSet.from_arrow(back, "weight", zset.schema) == zset
    assert len(zset.to_pandas()) == len(zset)
    assert duckdb.sql("from zset").to_arrow_table().num_rows == len(zset)
    with tempfile.TemporaryDirectory() as folder:
        log = DeltaLog(Path(folder))
        log.append(1, {"o": zset})
        assert log.view("o") == zset


MISSING: list[tuple[str, list[Any]]] = [
    ("{p: int}?", [None, {"p": -(2**63)}]),
    ("{p: {q: str, r: {x: bytes}?}?}", [{"p": None}, {"p": {"q": "a", "r": None}}]),
    ("{p: {q: {r: date}}?}?", [None, {"p": None}, {"p": {"q": {"r": dt.date(2024, 1, 1)}}}]),
    ("list[{p: int}?]", [[None], [], [{"p": 1}, None]]),
    ("list[{p: list[{q: float}]}]?", [None, [{"p": []}], [{"p": [{"q": 0.5}]}]]),
    ("{p: list[{q: decimal(18, 2)}?]}?", [None, {"p": [None]}]),
    ("{p: timestamptz(Europe/Rome), d: duration, t: time, b: bool, i: timestamp}?", [None]),
]


@pytest.mark.parametrize(("type_", "values"), MISSING)
def test_required_fields_of_missing_structs_have_no_nulls(type_: str, values: list[Any]) -> None:
    zset = ZSet([(value,) for value in values], {"x": type_})
    table = zset.to_arrow()
    table.validate(full=True)
    assert table.schema.types[0] == ZSet.empty({"x": type_}).to_arrow().schema.types[0]
    found = [row["x"] for row in table.to_pylist()]
    assert len(found) == len(values) and all(value in found for value in values)
    assert _from_parquet(table).to_pylist() == table.to_pylist()
    assert pl.DataFrame(zset)["x"].to_list() == found
    assert duckdb.sql("select x from zset").to_arrow_table()["x"].to_pylist() == found


def test_a_left_join_fills_required_fields_of_a_struct(tmp_path: Path) -> None:
    circuit = Circuit("t")
    a, b = circuit.input("a", k=int), circuit.input("b", k=int, s={"p": int})
    circuit.output("o", a.join(b, on="k", how="left"))
    run = circuit.start()
    result = run.step({"a": [(1,)]})
    log = DeltaLog(tmp_path / "log")
    log.append(1, result)
    assert log.view("o") == run.view("o")
    assert _from_parquet(pa.table(run.view("o"))).to_pylist() == [{"k": 1, "s": None}]


SURROGATES: list[tuple[Any, Any]] = [
    (str, "a\ud800"),
    (list[str], ["b", "a\ud800"]),
    ({"p": str | None}, {"p": "a\ud800"}),
    ("list[{p: list[str]}]", [{"p": ["a\ud800"]}]),
    (object, "a\ud800"),
    (object, (("a\ud800",),)),
]


@pytest.mark.parametrize(("type_", "value"), SURROGATES)
def test_texts_with_surrogates_are_refused(type_: Any, value: Any) -> None:
    zset = ZSet([(1, value)], {"k": int, "s": type_})
    for export in (zset.to_arrow, zset.to_pandas, zset.to_polars, zset.__arrow_c_stream__):
        with pytest.raises(SchemaError) as found:
            export()
        assert str(found.value) == (
            r"column 's': the text 'a\ud800' has surrogates, and Arrow needs valid Unicode; "
            'replace them first, for example with text.encode(errors="replace").decode() [unsupported-value]'
        )
    replaced = ZSet([("a\ud800".encode(errors="replace").decode(),)], {"s": str})
    assert replaced.to_arrow()["s"].to_pylist() == ["a?"]
