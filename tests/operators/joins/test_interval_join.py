"""Interval join: pairs of a point and an interval that contains it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, col
from dbsp.operators.joins.interval_join import IntervalJoin
from dbsp.runtime.agreement import check_agreement
from tests import reference
from tests.harness import final_views, follow, start, view
from tests.profiles import examples
from tests.reference import Row, Z
from tests.scopes import LEVELLED, scoped, scoped_model
from tests.strategies import Tick, nullable, resplit, rows, small, ticks

KEY = st.integers(0, 1)
POINTS = rows(KEY, nullable)
INTERVALS = rows(KEY, nullable, nullable)
OFFSET = st.integers(-2, 2)


def inside(x: Any, first: Any, last: Any, low: int, high: int) -> bool:
    return None not in (x, first, last) and first + low <= x <= last + high


def contained(a: Z, b: Z, key: list[tuple[int, int]], low: int, high: int) -> Z:
    """Join rows (k, x) with rows (k, first, last)."""
    pairs = reference.join(a, b, key, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)])
    return reference.select(pairs, lambda row: inside(row[1], row[3], row[4], low, high))


def intervals(low: int, high: int, keyed: bool) -> Callable[[Circuit], Stream]:
    def build(c: Circuit) -> Stream:
        a = c.input("a", k=int, x=int | None)
        b = c.input("b", k=int, first=int | None, last=int | None)
        key = (0,) if keyed else ()
        names = ("k", "x", "k_right", "first", "last")
        joined: Stream = IntervalJoin(key, key, 1, 1, 2, low, high, (0, 1, -1, -2, -3), names)(a, b)
        return joined

    return build


@given(ticks({"a": POINTS, "b": INTERVALS}), OFFSET, OFFSET, st.booleans())
def test_equals_the_batch_join_tick_by_tick(sequence: list[Tick], low: int, high: int, keyed: bool) -> None:
    key = [(0, 0)] if keyed else []
    follow(
        intervals(low, high, keyed),
        lambda inputs: contained(inputs["a"], inputs["b"], key, low, high),
        sequence,
    )


@given(ticks({"a": POINTS, "b": INTERVALS}), st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    build = intervals(0, -1, keyed=False)
    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


def of_levels(a: Stream, b: Stream) -> Stream:
    """Points y of a between x and y of b, on the same level."""
    return IntervalJoin((0,), (0,), 1, 1, 2, 0, 1, (0, 1, 2, -3), ("l", "x", "y", "y_right"))(a, b)


def of_levels_model(a: Z, b: Z) -> Z:
    pairs = reference.join(a, b, [(0, 0)], [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1)])
    found = reference.select(pairs, lambda row: inside(row[1], row[4], row[3], 0, 1))
    return reference.project(found, [0, 1, 2, 3])


def again(row: Row) -> Row:
    level, x, y, z = row
    return (level + 1, 0 if z is None else z, x if y is None else y)


@pytest.mark.parametrize("depth", [1, 2])
@settings(max_examples=examples(25))
@given(LEVELLED)
def test_inside_scopes(depth: int, sequence: list[Tick]) -> None:
    follow(scoped(of_levels, again, depth), scoped_model(of_levels_model, again, depth), sequence)


def test_stages_agree() -> None:
    for build in (intervals(0, -1, keyed=False), intervals(-1, 1, keyed=True), scoped(of_levels, again)):
        circuit = Circuit("stages")
        circuit.output("out", build(circuit))
        assert check_agreement(circuit.start, 15, values=3) > 0


@given(ticks({"e": rows(small, small)}))
def test_self_join_over_one_relation(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        e = c.input("e", x=int, y=int)
        joined: Stream = IntervalJoin((), (), 1, 0, 1, 0, 0, (1, -1, -2), ("point", "first", "last"))(e, e)
        return joined

    def model(inputs: dict[str, Z]) -> Z:
        pairs = reference.join(inputs["e"], inputs["e"], [], [(0, 1), (1, 0), (1, 1)])
        return reference.select(pairs, lambda row: row[1] <= row[0] <= row[2])

    follow(build, model, sequence)


EDGES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]
DISTANCES = st.sampled_from([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1])


@given(
    st.lists(st.sampled_from(EDGES), max_size=6),
    st.lists(st.tuples(st.sampled_from(EDGES), st.sampled_from(EDGES)), max_size=6),
    DISTANCES,
    DISTANCES,
)
def test_the_edges_of_int64(points: list[int], limits: list[tuple[int, int]], low: int, high: int) -> None:
    def build(c: Circuit) -> Stream:
        a, b = c.input("a", n=int, x=int), c.input("b", n=int, first=int, last=int)
        joined: Stream = IntervalJoin((), (), 1, 1, 2, low, high, (0, -1), ("n", "m"))(a, b)
        return joined

    a = list(enumerate(points))
    b = [(n, *limit) for n, limit in enumerate(limits)]
    expected = {(n, m): 1 for n, x in a for m, first, last in b if inside(x, first, last, low, high)}
    for steps in ([{"a": a}, {"b": b}], [{"b": b}, {"a": a}], [{"a": a, "b": b}]):
        run = start(build)
        for step in steps:
            run.step(step)  # type: ignore[arg-type]
        assert view(run) == expected


def test_a_point_that_few_intervals_contain_yields_few_rows() -> None:
    """The intervals that begin before the point are compared, and only matches become rows."""
    run = start(intervals(0, 0, keyed=False))
    many = [(0, n, n + 1) for n in range(5_000)]
    run.step({"b": many, "a": [(0, n) for n in range(0, 5_000, 2)]})
    assert sum(view(run).values()) == 4_999
    run.step({"a": [(0, 4_999)]})
    assert sum(view(run).values()) == 5_001


def test_columns_without_an_order_are_refused() -> None:
    c = Circuit("wrong")
    a, b = c.input("a", x=str), c.input("b", first=str, last=str)
    with pytest.raises(SchemaError, match="expected an int, date, time, timestamp or duration column"):
        IntervalJoin((), (), 0, 0, 1, 0, 0, (0,), ("x",))(a, b)
    b = c.input("c", first=str, last=int)
    with pytest.raises(SchemaError, match="cannot join 'x: str' with 'last: int'"):
        IntervalJoin((), (), 0, 0, 1, 0, 0, (0,), ("x",))(a, b)


def test_days_of_price_intervals() -> None:
    c = Circuit("prices")
    day = c.input("day", shop=str, day=dt.date)
    price = c.input("price", shop=str, since=dt.date, until=dt.date, euro=int)
    found = day.interval_join(
        price,
        on="shop",
        left="day",
        first="since",
        last="until",
        high=-dt.timedelta(1),
        where=col("euro") > 1,
    )
    c.output("at", found)
    run = c.start()
    first, second, third = (dt.date(2026, 1, day) for day in (1, 2, 3))
    rows = [("tea", first, third, 5), ("tea", first, third, 1), ("ink", first, third, 7)]
    out = run.step({"day": [("tea", first), ("tea", second), ("tea", third)], "price": rows})["at"]
    assert found.schema.names == ("shop", "day", "since", "until", "euro")
    assert out.rows() == [("tea", first, first, third, 5), ("tea", second, first, third, 5)]


def test_an_offset_of_another_type_is_refused() -> None:
    c = Circuit()
    a, b = c.input("a", x=dt.date), c.input("b", u=dt.date, v=dt.date)
    with pytest.raises(SchemaError, match="low: expected a timedelta of whole days for a date column, got 3"):
        a.interval_join(b, left="x", first="u", last="v", low=3)
