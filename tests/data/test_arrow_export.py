"""Z-sets and views as tables of other libraries."""

import datetime as dt

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from dbsp import Circuit, InputError, ZSet, compile


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
