"""Loads of tables in 32 bits: the results of the same rows as a mapping from rows to weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, Run, col
from dbsp.data import piece_batch
from dbsp.data.batch import Batch
from dbsp.data.piece_batch import PieceBatch
from dbsp.data.run_batch import RunBatch
from dbsp.kernels import narrow_rows
from dbsp.runtime import ticks

from ..parallel.small_pieces import THREADS, small_pieces

RULES = """
.decl e(x: number, y: number)
.decl f(y: number, z: number, w: number)
.input e, f
.decl joined(x: number, w: number)
.output joined
joined(x, w) :- e(x, y), f(y, _, w).
.decl missing(x: number, y: number)
.output missing
missing(x, y) :- e(x, y), !f(y, _, _).
.decl path(x: number, y: number)
.output path
path(x, y) :- e(x, y).
path(x, z) :- path(x, y), e(y, z).
.decl total(x: number, n: number, s: number)
.output total
total(x, n, s) :- e(x, _), n = count : { e(x, _) }, s = sum y : { e(x, y) }.
.decl triangle(x: number)
.output triangle
triangle(x) :- e(x, y), e(y, z), e(x, z).
"""

small = st.integers(-3, 3)
values = small | st.sampled_from([2**31 - 1, -(2**31)])
wide = values | st.sampled_from([2**31, -(2**62), 2**62])


def tables(width: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    fitting = st.lists(st.tuples(*[values] * width), max_size=12)
    return fitting | st.lists(st.tuples(*[wide] * width), max_size=8)


def columns_of(rows: list[tuple[int, ...]], names: str) -> dict[str, Any]:
    return {name: np.array([row[c] for row in rows], np.int64) for c, name in enumerate(names)}


def everything(run: Run) -> dict[str, Any]:
    return {name: run.view(name).to_dict() for name in run.outputs}


@contextmanager
def narrow_loads(threads: int) -> Iterator[None]:
    """Store few rows in 32 bits, and release deltas in small ticks."""
    with small_pieces(threads), pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow_rows, "LARGE", 1)
        patch.setattr(narrow_rows, "LOAD", 1)
        patch.setattr(ticks, "MANY", 0)
        yield


def circuit(kind: str) -> Circuit:
    shop = Circuit("shop")
    key = {"key": ("x", "y")} if kind == "key" else {}
    e = shop.input("e", x=int, y=int, kind=kind, **key)
    f = shop.input("f", y=int, z=int, w=int, kind="zset")
    both = e.join(f, on="y")
    shop.output("joined", both.select("w", "x"))
    shop.output("left", e.join(f, on="y", how="left"))
    shop.output("big", e.filter(col("x") > 0))
    shop.output("counts", both.group_by("w").agg(n=dbsp.count()))
    shop.output("reversed", e.select("y", "x"))
    return shop


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", ["zset", "set", "key"])
@given(data=st.data())
def test_a_circuit(threads: int, kind: str, data: st.DataObject) -> None:
    with narrow_loads(threads):
        check_circuit(kind, data)


def check_circuit(kind: str, data: st.DataObject) -> None:
    table, plain = circuit(kind).start(), circuit(kind).start()
    for _ in range(3):
        e, f = data.draw(tables(2)), data.draw(tables(3))
        if kind == "key":
            e = list(dict.fromkeys(e))
        change = {"e": columns_of(e, "xy"), "f": columns_of(f, "yzw")}
        expected = plain.step({"e": Counter(e), "f": Counter(f)})
        found = table.step(change)
        assert {name: found[name].to_dict() for name in table.outputs} == {
            name: expected[name].to_dict() for name in plain.outputs
        }
        assert everything(table) == everything(plain)
        gone = dict.fromkeys(e[::2], -1)
        assert table.step({"e": gone})["joined"].to_dict() == plain.step({"e": gone})["joined"].to_dict()
        assert everything(table) == everything(plain)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("key", ["x", "y", "zx"])
@given(data=st.data())
def test_the_last_row_of_a_key(threads: int, key: str, data: st.DataObject) -> None:
    columns = ["xyz".index(name) for name in key]
    with narrow_loads(threads):
        shop = Circuit("shop")
        source = shop.input("e", x=int, y=int, z=int, key=tuple(key))
        shop.output("rows", source)
        run = shop.start()
        stored: dict[tuple[int, ...], tuple[int, ...]] = {}
        for _ in range(3):
            rows, before = data.draw(tables(3)), set(stored.values())
            stored |= {tuple(row[c] for c in columns): row for row in rows}
            after = set(stored.values())
            delta = run.step({"e": columns_of(rows, "xyz")})["rows"].to_dict()
            assert delta == dict.fromkeys(after - before, 1) | dict.fromkeys(before - after, -1)
            assert run.view("rows").to_dict() == dict.fromkeys(after, 1)
            gone = list(stored)[::2]
            run.step({"e": dict.fromkeys((stored.pop(each) for each in gone), -1)})
            assert run.view("rows").to_dict() == dict.fromkeys(stored.values(), 1)


@pytest.mark.parametrize("threads", THREADS)
@given(data=st.data())
def test_a_program(threads: int, data: st.DataObject) -> None:
    with narrow_loads(threads):
        check_program(data)


def check_program(data: st.DataObject) -> None:
    program = dbsp.compile(RULES)
    table, plain = program.start(), program.start()
    for _ in range(2):
        e, f = data.draw(tables(2)), data.draw(tables(3))
        table.step({"e": columns_of(e, "xy"), "f": columns_of(f, "yzw")})
        plain.step({"e": dict.fromkeys(e, 1), "f": dict.fromkeys(f, 1)})
        assert everything(table) == everything(plain)
        gone = dict.fromkeys(e[::2], -1)
        table.step({"e": gone})
        plain.step({"e": gone})
        assert everything(table) == everything(plain)


def staged(rows: list[tuple[int, ...]], kind: str = "zset", names: str = "xy", **more: Any) -> Batch:
    shop = Circuit("shop")
    shop.output("all", shop.input("e", **dict.fromkeys(names, int), kind=kind))
    return shop.start().prepare({"e": columns_of(rows, names) | more})["e"]


def test_which_loads_are_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "LOAD", 5_000)
    rows = [(x % 5_000, -x) for x in range(8_000)]
    for kind in ("zset", "set"):
        batch = staged(rows, kind)
        assert isinstance(batch, RunBatch) and batch.codes.itemsize == 4 and len(batch.stored) == 1
        assert batch.rows.tolist() == sorted(map(list, rows)) and batch.units
        twice = staged(rows + rows[:7], kind)
        assert isinstance(twice, RunBatch) and len(twice) == 8_000
        assert twice.total == (8_007 if kind == "zset" else 8_000)
        few = staged([rows[0]] * 5_000, kind)
        assert few.rows.tolist() == [[0, 0]] and few.weights.tolist() == [5_000 if kind == "zset" else 1]
    for other in (
        staged(rows[:4_000]),
        staged([*rows, (2**31, 0)]),
        staged(rows, weight=np.full(8_000, 2)),
        staged([(x * 400_000, -x * 400_000, x * 400_000) for x in range(5_000)], names="xyz"),
    ):
        assert not isinstance(other, RunBatch) and len(other) >= 4_000


def test_staged_loads_are_checked_without_a_wide_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "LOAD", 5_000)
    shop = Circuit("shop")
    shop.output("all", shop.input("e", x=int, y=int, kind="set"))
    run = shop.start()
    batches = run.prepare({"e": columns_of([(x, -x) for x in range(8_000)], "xy")})
    genuine = RunBatch.__getattr__

    def read(batch: RunBatch, name: str) -> Any:
        assert name != "rows" or batch is not batches["e"]
        return genuine(batch, name)

    monkeypatch.setattr(RunBatch, "__getattr__", read)
    run.step_staged(batches)
    assert run.state_rows == 8_000


def test_a_failed_tick_leaves_the_caller_and_the_run_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_rows, "LOAD", 5_000)
    shop = Circuit("shop")
    e = shop.input("e", x=int, y=int)
    f = shop.input("f", y=int, z=int)
    shop.output("joined", e.join(f, on="y"))
    shop.output("inverse", e.select(q=100 // (col("x") - 7_000)))
    run = shop.start()
    table = {"x": np.arange(8_000), "y": np.arange(8_000) % 10}
    before = {name: column.copy() for name, column in table.items()}
    with pytest.raises(dbsp.EvaluationError):
        run.step({"e": table, "f": [(1, 2)]})
    assert run.tick == 0 and run.state_rows == 0
    assert all((table[name] == before[name]).all() for name in table)
    table = {name: column[:7_000] for name, column in table.items()}
    run.step({"e": table, "f": [(1, 2)]})
    assert len(run.view("joined")) == 700


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("turned", [False, True])
def test_a_result_of_a_join_is_stored_without_a_wide_form(
    turned: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sale(o: str, r: str, a: str) -> str:
        return f"sale({r}, {o}, {a})" if turned else f"sale({o}, {r}, {a})"

    program = dbsp.compile(f"""
        .decl orders(o: number, c: number, a: number)
        .decl customers(c: number, r: number)
        .input orders, customers
        .decl sale(x: number, y: number, a: number)
        {sale("o", "r", "a")} :- orders(o, c, a), customers(c, r).
        .decl result(r: number, n: number, total: number)
        .output result
        result(r, n, total) :- customers(_, r),
            n = count : {{ {sale("_", "r", "_")} }}, total = sum a : {{ {sale("_", "r", "a")} }}.
    """)
    orders = [(o, o % 7, o % 5) for o in range(300)]
    customers = [(c, c % 3) for c in range(7)]
    run, right = program.start(), program.start()
    right.step({"orders": dict.fromkeys(orders, 1), "customers": dict.fromkeys(customers, 1)})
    wide: list[str] = []
    genuine = PieceBatch.__getattr__

    def read(batch: PieceBatch, name: str) -> Any:
        wide.append(name)
        return genuine(batch, name)

    monkeypatch.setattr(PieceBatch, "__getattr__", read)
    monkeypatch.setattr(piece_batch, "LARGE", 2)
    with narrow_loads(threads):
        run.step({"orders": columns_of(orders, "oca"), "customers": columns_of(customers, "cr")})
    assert everything(run) == everything(right) and not wide


def test_the_last_arrangement_of_a_join_sorts_its_rows_in_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Circuit("shop")
    sales = shop.input("e", x=int, y=int).join(shop.input("f", y=int, z=int), on="y").select("x", "z")
    shop.output("named", sales.join(shop.input("g", z=int, w=int), on="z"))
    run, right = shop.start(), shop.start()
    e, f, g = [(x, x % 7) for x in range(300)], [(y, y % 3) for y in range(7)], [(1, 5)]
    right.step({"e": dict.fromkeys(e, 1), "f": dict.fromkeys(f, 1), "g": {(1, 5): 1}})
    sole: list[Batch] = []
    genuine = RunBatch.rearrange_sole

    def rearrange(held: list[Batch], order: Any) -> Batch | None:
        found = genuine(held, order)
        sole.extend([] if found is None else [found])
        return found

    monkeypatch.setattr(RunBatch, "rearrange_sole", staticmethod(rearrange))
    monkeypatch.setattr(piece_batch, "LARGE", 2)
    with narrow_loads(2):
        run.step({"e": columns_of(e, "xy"), "f": columns_of(f, "yz"), "g": columns_of(g, "zw")})
    assert everything(run) == everything(right)
    assert any(batch.rows[:, 0].max() == 2 and len(batch) == 300 for batch in sole)
