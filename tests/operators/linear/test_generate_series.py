"""Series of numbers: linear, exact at both ends of 64 bits, and never without end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, EvaluationError, SchemaError, Stream, col, lit
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.expressions import bind, call
from dbsp.expressions.series import MOST_VALUES, float_series, int_series
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests import reference
from tests.harness import follow, start, view
from tests.reference import Z
from tests.strategies import Tick, rows, small, ticks

COLUMNS = {"x": int, "y": int}


def expected(first: Any, last: Any, step: Any = None) -> list[Any]:
    """Like the loops of C++, with Python's ints."""
    step = (1 if first <= last else -1) if step is None else step
    if step == 0:
        return [] if first == last else [first]
    found = []
    while first < last if step > 0 else first > last:
        found.append(first)
        first += step
    return found


def generated(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    return {
        "to": a.generate_series("x", "y"),
        "by": a.generate_series(col("x") * 2, -3, "y"),
        "floats": a.generate_series(col("x").cast(float), 2.0, 0.75),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    def rows_of(ends: Any) -> Any:
        return lambda row: [(*row, n) for n in expected(*ends(row))]

    a = inputs["a"]
    return {
        "to": reference.flat_map(a, rows_of(lambda r: r)),
        "by": reference.flat_map(a, rows_of(lambda r: (r[0] * 2, -3, r[1]))),
        "floats": reference.flat_map(a, rows_of(lambda r: (float(r[0]), 2.0, 0.75))),
    }


@given(ticks({"a": rows(small, small)}))
def test_equals_the_batch_operator_tick_by_tick(sequence: list[Tick]) -> None:
    follow(generated, model, sequence)


@st.composite
def near_series(draw: st.DrawFn) -> tuple[int, int, int | None]:
    """Few values, with ends anywhere in the range."""
    first = draw(st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([INT64_MIN, INT64_MAX, 0]))
    step = draw(st.none() | st.integers(-3, 3) | st.integers(INT64_MIN, INT64_MAX))
    last = first + draw(st.integers(-20, 20)) * (step or 1) + draw(st.integers(-2, 2))
    return first, min(max(last, INT64_MIN), INT64_MAX), step


@given(near_series())
def test_ints_are_exact_at_the_ends_of_their_range(series: tuple[int, int, int | None]) -> None:
    first, last, step = series
    values, counts = int_series(
        np.array([first]), np.array([last]), None if step is None else np.array([step])
    )
    assert values.tolist() == expected(first, last, step)
    assert counts.tolist() == [len(values)]


@given(near_series(), st.integers(-70, 70))
def test_membership_agrees_with_the_values(series: tuple[int, int, int | None], away: int) -> None:
    first, last, step = series
    value = min(max(first + away, INT64_MIN), INT64_MAX)
    ends = [lit(one) for one in series if one is not None]
    schema = Schema(("x",), Schema.of(x=int).types)
    found = bind(call("in_series", col("x"), *ends), schema)
    for copies in (1, 20):  # by the scalar function, and by the kernel
        rows_ = np.full((copies, 1), value)
        assert found.mask(rows_, Interner()).tolist() == [value in expected(first, last, step)] * copies


def test_floats_are_added_up() -> None:
    assert float_series(0.0, 1.0, 0.1).tolist() == expected(0.0, 1.0, 0.1)
    assert float_series(5.0, 3.75, None).tolist() == [5.0, 4.0]
    assert float_series(5.0, 3.75, 0.0).tolist() == [5.0]
    assert float_series(5.0, 5.0, 0.0).tolist() == []
    assert float_series(1.0, float("nan"), None).tolist() == []
    schema = Schema.of(x=float)
    found = bind(call("in_series", col("x"), lit(0.0), lit(1.0), lit(0.25)), schema)
    codes = schema.encode_rows([(0.5,), (1.0,), (0.3,), (-0.0,)], Interner())
    assert found.mask(codes, Interner()).tolist() == [True, False, False, True]


TOO_LONG = {
    (0, MOST_VALUES + 1): r"range\(0, 10000001, 1\) has 10,000,001 values; the maximum is 10,000,000",
    (INT64_MAX, INT64_MIN): r"has 18,446,744,073,709,551,615 values",
    (0.0, float("inf")): "has inf values",
    (float("-inf"), float("inf")): "has inf values",
    (0.0, 1.0, 1e-9): "has 1,000,000,000 values",
    (1e17, 1e17 + 64, 1.0): "has no end: its step is lost in rounding",
}


@pytest.mark.parametrize(("ends", "why"), TOO_LONG.items())
def test_a_series_without_end_is_refused_and_nothing_changes(ends: tuple[Any, ...], why: str) -> None:
    def build(c: Circuit) -> Stream:
        a = c.input("a", schema={"x": type(ends[0])})
        return a.generate_series("x", *map(lit, ends[1:]))

    run = start(build)
    short = ends[1] if type(ends[0]) is int else 0.5 + ends[1] - 0.5
    run.step({"a": {(short,): 1}})
    before = view(run)
    with pytest.raises(EvaluationError, match=why):
        run.step({"a": {(ends[0],): 1}})
    assert view(run) == before


def test_a_series_is_of_one_type() -> None:
    circuit = Circuit("c")
    a = circuit.input("a", schema={"x": int, "f": float})
    with pytest.raises(SchemaError, match="must be all int or all float, got float, int"):
        a.generate_series("x", "f")
