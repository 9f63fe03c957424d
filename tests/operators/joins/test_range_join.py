"""Range join: pairs within a band of one ordered column."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, DbspError, SchemaError, Stream, ValueOutOfRangeError, WeightOverflowError, col
from dbsp.data.columns import code_floats, float_codes
from dbsp.data.types import FLOAT, INT, Type
from dbsp.operators.joins.band import Band
from dbsp.runtime.agreement import check_agreement
from tests import reference
from tests.harness import final_views, follow, start, view
from tests.profiles import examples
from tests.reference import Row, Z, add, scale
from tests.scopes import LEVELLED, scoped, scoped_model
from tests.strategies import Tick, deltas, nullable, resplit, rows, small, ticks

KEY = st.integers(0, 1)
SIDE = rows(KEY, nullable)
BOUND = st.none() | st.integers(-5, 5)


def near(x: Any, y: Any, low: Any, high: Any) -> bool:
    """low <= y - x <= high, without rounding."""
    if x is None or y is None or x != x or y != y:
        return False
    if isinstance(x, float) and (math.isinf(x) or math.isinf(y)):
        # The distance of an infinity from itself is undefined, so it satisfies every bound; from
        # other values it is beyond every bound.
        return x == y or (low is None if y < x else high is None)
    difference = Fraction(y) - Fraction(x) if isinstance(x, float) else y - x
    return (low is None or low <= difference) and (high is None or difference <= high)


def banded(a: Z, b: Z, key: list[tuple[int, int]], x: int, y: int, low: Any, high: Any) -> Z:
    """Join rows: the columns of a, then those of b."""
    width_a, width_b = (len(next(iter(z), ())) for z in (a, b))
    columns = [*((0, i) for i in range(width_a)), *((1, i) for i in range(width_b))]
    pairs = reference.join(a, b, key, columns)
    return reference.select(pairs, lambda row: near(row[x], row[width_a + y], low, high))


def ranged(low: Any, high: Any) -> Callable[[Circuit], Stream]:
    def build(c: Circuit) -> Stream:
        a = c.input("a", k=int, x=int | None)
        b = c.input("b", k=int, y=int | None)
        return a.range_join(
            b, on=["k"], left="x", right="y", low=low, high=high, select=["k", "x", "k_right", "y"]
        )

    return build


@given(ticks({"a": SIDE, "b": SIDE}), BOUND, BOUND)
def test_equals_the_batch_join_tick_by_tick(sequence: list[Tick], one: int | None, other: int | None) -> None:
    low, high = (min(one, other), max(one, other)) if one is not None and other is not None else (one, other)
    follow(
        ranged(low, high),
        lambda inputs: banded(inputs["a"], inputs["b"], [(0, 0)], 1, 1, low, high),
        sequence,
    )


@given(ticks({"a": SIDE, "b": SIDE}), st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    other = data.draw(resplit(sequence))
    assert final_views(ranged(-1, 2), sequence) == final_views(ranged(-1, 2), other)


@given(deltas(SIDE), deltas(SIDE), deltas(SIDE))
def test_bilinear(a: Z, a2: Z, b: Z) -> None:
    def joined(left: Z, right: Z) -> Z:
        return final_views(ranged(-1, 2), [{"a": left, "b": right}])["out"]

    assert joined(add(a, a2), b) == add(joined(a, b), joined(a2, b))
    assert joined(b, add(a, a2)) == add(joined(b, a), joined(b, a2))
    assert joined(scale(-3, a), b) == scale(-3, joined(a, b)) == joined(a, scale(-3, b))


def of_levels(a: Stream, b: Stream) -> Stream:
    return a.range_join(b, on=["l"], left="x", right="x", low=-1, high=1, select=["l", "x", "y", "y_right"])


def of_levels_model(a: Z, b: Z) -> Z:
    pairs = reference.join(a, b, [(0, 0)], [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1)])
    close = reference.select(pairs, lambda row: near(row[1], row[4], -1, 1))
    return reference.project(close, [0, 1, 2, 3])


def again(row: Row) -> Row:
    level, x, y, z = row
    return (level + 1, 0 if z is None else z, x if y is None else y)


@pytest.mark.parametrize("depth", [1, 2])
@settings(max_examples=examples(25))
@given(LEVELLED)
def test_inside_scopes(depth: int, sequence: list[Tick]) -> None:
    follow(scoped(of_levels, again, depth), scoped_model(of_levels_model, again, depth), sequence)


def test_stages_agree() -> None:
    for build in (ranged(-1, 2), ranged(None, 0), scoped(of_levels, again)):
        circuit = Circuit("stages")
        circuit.output("out", build(circuit))
        assert check_agreement(circuit.start, 15, values=3) > 0


@given(ticks({"e": rows(small, small)}))
def test_self_join_over_one_trace(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        e = c.input("e", x=int, y=int)
        return e.range_join(e, left="x", right="x", low=1, high=2)

    follow(build, lambda inputs: banded(inputs["e"], inputs["e"], [], 0, 0, 1, 2), sequence)


@given(ticks({"a": SIDE, "b": SIDE}))
def test_with_a_further_condition(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        a, b = c.input("a", k=int, x=int | None), c.input("b", n=int, y=int | None)
        return a.range_join(b, left="x", right="y", low=0, high=2, select=["y"], where=col("k") != col("n"))

    def model(inputs: dict[str, Z]) -> Z:
        pairs = banded(inputs["a"], inputs["b"], [], 1, 1, 0, 2)
        return reference.project(reference.select(pairs, lambda row: row[0] != row[2]), [3])

    follow(build, model, sequence)


LARGEST = 1.7976931348623157e308
FLOATS = st.sampled_from([0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, -0.1, 1.0, 2.5, 1e16, 1e16 + 2, -1e16, 5e-324]) | (
    st.sampled_from([LARGEST, -LARGEST, math.inf, -math.inf, math.nan])
)
FLOAT_BOUND = st.none() | st.sampled_from([0.0, 0.1, 0.2, -0.1, 1.0, 1e16, -1e16, 1e300, -1e308, 5e-324])


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=12), FLOAT_BOUND, FLOAT_BOUND)
def test_distances_of_floats_are_exact(pairs: list[tuple[float, float]], low: Any, high: Any) -> None:
    if low is not None and high is not None and low > high:
        low, high = high, low

    def build(c: Circuit) -> Stream:
        a, b = c.input("a", n=int, x=float), c.input("b", n=int, y=float)
        return a.range_join(b, left="x", right="y", low=low, high=high, select=["n", "n_right"])

    a = [(n, x) for n, (x, _) in enumerate(pairs)]
    b = [(n, y) for n, (_, y) in enumerate(pairs)]
    expected = {(i, j): 1 for i, x in a for j, y in b if near(x, y, low, high)}
    for steps in ([{"a": a}, {"b": b}], [{"b": b}, {"a": a}]):  # probing from either side
        run = start(build)
        for step in steps:
            run.step(step)  # type: ignore[arg-type]
        assert view(run) == expected


@given(st.floats(allow_nan=False), st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_the_bounds_of_a_float_band_are_exact(value: float, distance: float | None) -> None:
    band = Band.of(FLOAT, distance, distance)
    start, end, valid = band.around(float_codes(np.array([value])), FLOAT, FLOAT)
    first, last = (code_floats(codes)[0] for codes in (start, end))
    if distance is None or math.isinf(value):
        return
    exact = Fraction(value) + Fraction(distance)
    assert math.isinf(first) or first >= exact
    assert math.isinf(last) or last <= exact
    assert first != -math.inf and last != math.inf
    before, after = math.nextafter(first, -math.inf), math.nextafter(last, math.inf)
    assert before == -math.inf or Fraction(before) < exact
    assert after == math.inf or Fraction(after) > exact
    assert bool(valid[0]) == (first == last)


EDGES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]


@given(
    st.lists(st.sampled_from(EDGES), max_size=6),
    st.lists(st.sampled_from(EDGES), max_size=6),
    st.sampled_from([None, 0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1]),
    st.sampled_from([None, 0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1]),
    st.booleans(),
)
def test_the_edges_of_int64(
    a: list[int], b: list[int], low: int | None, high: int | None, optional: bool
) -> None:
    if low is not None and high is not None and low > high:
        low, high = high, low
    b = [y for y in b if not optional or y != -(2**63)]

    def build(c: Circuit) -> Stream:
        left = c.input("a", x=int)
        right = c.input("b", y=int | None if optional else int)
        return left.range_join(right, left="x", right="y", low=low, high=high)

    a, b = sorted(set(a)), sorted(set(b))
    expected = {(x, y): 1 for x in a for y in b if near(x, y, low, high)}
    nothing = [(None,)] if optional else []
    sides: list[dict[str, Any]] = [{"a": [(x,) for x in a]}, {"b": [*((y,) for y in b), *nothing]}]
    for steps in (sides, sides[::-1]):
        run = start(build)
        for step in steps:
            run.step(step)
        assert view(run) == expected


def test_dates_and_timestamps() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", day=date, at=datetime)
        b = c.input("b", on=date, then=datetime)
        days, minute = timedelta(days=1), timedelta(minutes=1)
        return {
            "days": a.range_join(b, left="day", right="on", low=-days, high=days, select=["day", "on"]),
            "times": a.range_join(b, left="at", right="then", low=timedelta(), high=minute, select=["then"]),
        }

    run = start(build)
    noon = datetime(2024, 3, 1, 12)
    run.step({"a": [(date(2024, 3, 1), noon)]})
    run.step(
        {
            "b": [
                (date(2024, 2, 29), noon + timedelta(minutes=1)),
                (date(2024, 2, 28), noon + timedelta(minutes=1, microseconds=1)),
                (date(2024, 3, 2), noon - timedelta(microseconds=1)),
            ]
        }
    )
    assert view(run, "days") == {(date(2024, 3, 1), date(2024, d.month, d.day)): 1 for d in DAYS}
    assert view(run, "times") == {(noon + timedelta(minutes=1),): 1}


DAYS = [date(2024, 2, 29), date(2024, 3, 2)]


def test_none_does_not_match_the_lowest_int() -> None:
    def build(c: Circuit) -> Stream:
        a, b = c.input("a", k=int, x=int), c.input("b", k=int | None, y=int)
        return a.range_join(b, on=["k"], left="x", right="y", low=0, high=9)

    for order in (["a", "b"], ["b", "a"]):
        changes = {"a": [(-(2**63), 1), (2, 1)], "b": [(None, 2), (2, 3)]}
        run = start(build)
        for name in order:
            run.step({name: changes[name]})
        assert view(run) == {(2, 1, 3): 1}


def test_a_projection_after_it_and_a_weight_overflow() -> None:
    def build(c: Circuit) -> Stream:
        a, b = c.input("a", k=int, x=int), c.input("b", y=int)
        return a.range_join(b, left="x", right="y", low=0, high=5).select("y", "k")

    run = start(build)
    run.step({"a": {(1, 10): 2**40, (1, 11): 1}, "b": {(12,): 1}})
    assert view(run) == {(12, 1): 2**40 + 1}
    with pytest.raises(WeightOverflowError, match=r"RangeJoin at .*product of weights"):
        run.step({"b": {(13,): 2**40}})
    assert view(run) == {(12, 1): 2**40 + 1}


@pytest.mark.parametrize(
    ("type_", "low", "error"),
    [
        (FLOAT, "1", "low: expected a number for a float column, got '1' [wrong-type]"),
        (FLOAT, True, "low: expected a number for a float column, got True [wrong-type]"),
        (FLOAT, float("nan"), "low: expected a number for a float column, got nan [wrong-type]"),
        (FLOAT, 10**400, "is too large for a float [value-out-of-range]"),
        (INT, True, "low: expected an int for an int column, got True [wrong-type]"),
        (INT, 2**63, "low=9223372036854775808 does not fit in 64 bits [value-out-of-range]"),
    ],
)
def test_bounds_that_do_not_fit(type_: Type, low: Any, error: str) -> None:
    with pytest.raises(DbspError) as refused:
        Band.of(type_, low, None)
    assert error in str(refused.value)


def test_refused() -> None:
    c = Circuit()
    a, b = c.input("a", k=int, x=int, s=str, d=date), c.input("b", k=int, y=float, t=datetime, z=int)
    for message, options in [
        (
            r"RangeJoin at test_range_join\.py:\d+: expected columns of the same type, "
            "got 'x: int' and 'y: float'",
            {},
        ),
        (
            "expected an int, float, date, time, timestamp or duration column, got str: its values have",
            {"left": "s"},
        ),
        ("unknown column 'w'", {"right": "w"}),
        ("low: expected an int for an int column, got 0.5", {"right": "z", "low": 0.5}),
        (
            "high: expected a timedelta of whole days for a date column",
            {"left": "d", "high": timedelta(hours=5)},
        ),
        ("expected low <= high, got low=3 and high=1: no pair matches", {"right": "z", "low": 3, "high": 1}),
        ("name each column once", {"on": [("x", "k")], "right": "z"}),
    ]:
        with pytest.raises(SchemaError, match=message):
            a.range_join(b, **{"left": "x", "right": "y"} | options)  # type: ignore[arg-type]
    with pytest.raises(ValueOutOfRangeError, match="does not fit in 64 bits"):
        a.range_join(b, left="x", right="z", low=-(2**63))
    assert Band.of(INT, None, None) == Band(False, None, None)
