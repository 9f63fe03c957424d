"""Aggregates: one row per group, retracted and asserted exactly."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import (
    Circuit,
    Stream,
    ValueOutOfRangeError,
    WeightOverflowError,
    col,
    count,
)
from tests import reference
from tests.harness import final_views, follow, start, view
from tests.reference import Z, largest, least, mean, total
from tests.reference import count as number
from tests.strategies import Tick, floats, heavy_weights, nullable, resplit, rows, small, ticks, words

TRIPLE = rows(st.integers(0, 2), nullable, small)
LOWEST = -(2**63)


def everything(a: Stream, *key: str) -> Stream:
    return a.group_by(*key).agg(
        n=count(),
        total=col("y").sum(),
        mean=col("y").mean(),
        low=col("y").min(),
        high=col("y").max(),
        plain=col("z").sum(),
        least=col("z").min(),
        most=col("z").max(),
    )


FUNCTIONS: list[tuple[Any, int | None]] = [
    (number, None),
    (total, 1),
    (mean, 1),
    (least, 1),
    (largest, 1),
    (total, 2),
    (least, 2),
    (largest, 2),
]


def build(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", x=int, y=int | None, z=int)
    return {
        "by_x": everything(a, "x"),
        "by_two": everything(a, "z", "x"),
        "all": everything(a),
        "sums": a.group_by("x").agg(total=col("y").sum(), mean=col("z").mean()),
        "count": a.group_by("x").agg(n=count()),
        "total": a.group_by().agg(n=count()),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a = inputs["a"]
    return {
        "by_x": reference.aggregate(a, [0], FUNCTIONS),
        "by_two": reference.aggregate(a, [2, 0], FUNCTIONS),
        "all": reference.aggregate(a, [], FUNCTIONS),
        "sums": reference.aggregate(a, [0], [(total, 1), (mean, 2)]),
        "count": reference.aggregate(a, [0], [(number, None)]),
        "total": reference.aggregate(a, [], [(number, None)]),
    }


@given(ticks({"a": TRIPLE}))
def test_equals_the_batch_aggregate_tick_by_tick(sequence: list[Tick]) -> None:
    follow(build, model, sequence)


@given(ticks({"a": TRIPLE}, heavy_weights))
def test_heavy_weights(sequence: list[Tick]) -> None:
    follow(build, model, sequence)


@given(ticks({"a": TRIPLE}), st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


LARGE = st.sampled_from([2**53 + 1, 2**57 + 3, -(2**57) - 1, 2**59 - 1, -(2**59) + 1, 3, 0]) | st.none()


@given(ticks({"a": rows(st.integers(0, 2), LARGE, small)}, st.sampled_from([1, -1, 2]), 3, 4))
def test_means_of_large_ints_are_rounded_once(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", x=int, y=int | None, z=int).group_by("x").agg(n=count(), mean=col("y").mean()),
        lambda inputs: reference.aggregate(inputs["a"], [0], [(number, None), (mean, 1)]),
        sequence,
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({(2**53 + 1,): 1, (2**53 + 2,): 2}, 9007199254740994.0),
        ({(2**55 + 1,): 1, (0,): 2}, (2**55 + 1) / 3),
        ({(-(2**63),): 1}, -(2.0**63)),
        ({(0,): 2**53 + 1, (2**53 + 1,): 1}, (2**53 + 1) / (2**53 + 2)),
        ({(1,): 2**53 + 1}, 1.0),
    ],
)
def test_the_mean_is_the_exact_quotient(change: Z, expected: float) -> None:
    run = start(lambda c: c.input("a", y=int).group_by().agg(mean=col("y").mean()))
    assert run.step({"a": change})["out"].to_dict() == {(expected,): 1}
    taken_back = {row: -weight for row, weight in change.items()}
    assert run.step({"a": taken_back})["out"].to_dict() == {(expected,): -1}


def test_means_that_stay_or_fall_while_sums_grow() -> None:
    """The change of the result has an order of its own, and equal results cancel."""

    def means(c: Circuit) -> Stream:
        a = c.input("a", x=int, y=int)
        mean = a.group_by("x").agg(mean=col("y").mean())
        return mean.join(a, on=["x"], how="semi")

    run = start(means)
    run.step({"a": [(1, 10), (2, 10), (3, 10)]})
    assert len(run.step({"a": [(1, 10)]})["out"]) == 0
    assert run.step({"a": [(1, 4), (2, 0), (3, 90)]})["out"].to_dict() == {
        (1, 10.0): -1, (1, 8.0): 1, (2, 10.0): -1, (2, 5.0): 1, (3, 10.0): -1, (3, 50.0): 1
    }  # fmt: skip
    run.step({"a": {(1, 4): -1, (2, 0): -1, (3, 90): -1}})
    assert run.view("out").to_dict() == {(1, 10.0): 1, (2, 10.0): 1, (3, 10.0): 1}


@given(ticks({"a": TRIPLE}))
def test_a_result_is_a_set(sequence: list[Tick]) -> None:
    """Lowering drops a distinct after an aggregate; the result must be the same."""
    follow(
        lambda c: everything(c.input("a", x=int, y=int | None, z=int), "x").distinct(),
        lambda inputs: model(inputs)["by_x"],
        sequence,
    )


@given(ticks({"a": rows(st.integers(0, 2), st.none() | words)}))
def test_strings_compare_as_strings(sequence: list[Tick]) -> None:
    follow(
        lambda c: (
            c.input("a", x=int, s=str | None)
            .group_by("x")
            .agg(low=col("s").min(), high=col("s").max(), n=count())
        ),
        lambda inputs: reference.aggregate(inputs["a"], [0], [(least, 1), (largest, 1), (number, None)]),
        sequence,
    )


@given(ticks({"a": rows(st.integers(0, 2), small)}))
def test_expressions_inside(sequence: list[Tick]) -> None:
    follow(
        lambda c: (
            c.input("a", x=int, y=int)
            .group_by("x")
            .agg(
                a=(col("y") * col("y")).sum(),
                b=(3 - col("y")).max(),
                c=(col("x") + col("y")).mean(),
                d=col("x").sum(),
            )
        ),
        lambda inputs: reference.aggregate(
            reference.map_rows(inputs["a"], lambda r: (r[0], r[1] * r[1], 3 - r[1], r[0] + r[1], r[0])),
            [0],
            [(total, 1), (largest, 2), (mean, 3), (total, 4)],
        ),
        sequence,
    )


@given(ticks({"a": rows(small, small, small)}))
def test_aggregates_of_aggregates(sequence: list[Tick]) -> None:
    follow(
        lambda c: (
            c.input("a", x=int, y=int, z=int)
            .group_by("x", "y")
            .agg(n=count(), high=col("z").max())
            .group_by("x")
            .agg(most=col("n").max(), least=col("high").min(), groups=count())
        ),
        lambda inputs: reference.aggregate(
            reference.aggregate(inputs["a"], [0, 1], [(number, None), (largest, 2)]),
            [0],
            [(largest, 2), (least, 3), (number, None)],
        ),
        sequence,
    )


# --- floats ---------------------------------------------------------------------------------------


@given(ticks({"a": rows(st.integers(0, 1), st.none() | floats)}, st.sampled_from([1, 1, 2, -1])))
def test_floats_do_not_drift(sequence: list[Tick]) -> None:
    """A retraction equals the inserted row bit for bit, so deltas add up exactly."""

    def of_floats(c: Circuit) -> Stream:
        a = c.input("a", x=int, f=float | None)
        return a.group_by("x").agg(
            s=col("f").sum(), m=col("f").mean(), low=col("f").min(), high=col("f").max(), n=count()
        )

    run = start(of_floats)
    total_delta: Z = {}
    inputs: Z = {}
    for tick in sequence:
        total_delta = reference.add(total_delta, run.step(tick)["out"].to_dict())
        inputs = reference.add(inputs, tick.get("a", {}))
        assert total_delta == view(run)
    assert view(run) == final_views(of_floats, [{"a": inputs}])["out"]
    assert all(weight == 1 for weight in view(run).values())
    assert {row[0] for row in view(run)} == {
        row[0] for row in reference.aggregate(inputs, [0], [(number, None)])
    }


@given(st.lists(st.tuples(floats, st.integers(1, 3)), min_size=1, max_size=8, unique_by=lambda t: t[0]))
def test_float_sums_are_nearly_exact(values: list[tuple[float, int]]) -> None:
    run = start(lambda c: c.input("a", f=float).group_by().agg(s=col("f").sum(), m=col("f").mean()))
    run.step({"a": {(value,): weight for value, weight in values}})
    ((found, mean_found),) = run.view("out").rows()
    exact = math.fsum(value * weight for value, weight in values)
    tolerance = 1e-15 * sum(abs(value * weight) for value, weight in values)
    assert math.isclose(found, exact, rel_tol=1e-15, abs_tol=tolerance)
    assert math.isclose(mean_found, found / sum(weight for _, weight in values))


def test_infinities_and_nan_are_inserted_and_retracted() -> None:
    run = start(
        lambda c: (
            c.input("a", f=float).group_by().agg(s=col("f").sum(), low=col("f").min(), high=col("f").max())
        )
    )
    inf, nan = math.inf, math.nan
    run.step({"a": [(1.0,), (2.0,)]})
    run.step({"a": [(inf,)]})
    assert run.view("out").rows() == [(inf, 1.0, inf)]
    run.step({"a": [(-inf,)]})
    assert math.isnan(run.view("out").rows()[0][0])
    run.step({"a": [(nan,)]})
    run.step({"a": {(nan,): -1, (inf,): -1, (-inf,): -1}})
    assert run.view("out").rows() == [(3.0, 1.0, 2.0)]


def test_minus_zero_is_zero() -> None:
    run = start(lambda c: c.input("a", f=float).group_by().agg(s=col("f").sum(), n=count()))
    run.step({"a": [(0.0,)]})
    assert run.step({"a": {(-0.0,): -1}})["out"].to_dict() == {(0.0, 1): -1}
    assert view(run) == {}


# --- None, and groups that end --------------------------------------------------------------------


def test_none_counts_as_a_row_but_not_as_a_value() -> None:
    for kind in (int, float):
        run = start(
            lambda c, kind=kind: (
                c.input("a", x=int, y=kind | None)
                .group_by("x")
                .agg(n=count(), s=col("y").sum(), m=col("y").mean(), low=col("y").min(), high=col("y").max())
            )
        )
        run.step({"a": [(1, None), (2, None), (2, 4)]})
        assert view(run) == {(1, 1, None, None, None, None): 1, (2, 2, 4, 4.0, 4, 4): 1}
        run.step({"a": {(2, 4): -1}})
        assert view(run) == {(1, 1, None, None, None, None): 1, (2, 1, None, None, None, None): 1}
        run.step({"a": {(2, None): -1, (1, 3): 2}})
        assert view(run) == {(1, 3, 6, 3.0, 3, 3): 1}


@pytest.mark.parametrize("kind", [int, float])
def test_values_whose_weights_cancel_do_not_count(kind: type) -> None:
    """Ints and floats agree: a sum over values whose weights cancel is None."""
    run = start(
        lambda c: c.input("a", y=kind | None).group_by().agg(n=count(), s=col("y").sum(), m=col("y").mean())
    )
    run.step({"a": {(5,): 1, (7,): -1, (None,): 1}})
    assert view(run) == {(1, None, None): 1}
    run.step({"a": {(7,): 3}})
    assert view(run) == {(4, 19, 19 / 3): 1}


def test_a_group_is_present_while_its_weight_is_positive() -> None:
    run = start(
        lambda c: (
            c.input("a", x=int, y=int).group_by("x").agg(n=count(), s=col("y").sum(), low=col("y").min())
        )
    )
    assert run.step({"a": {(1, 5): 1, (1, 6): 2}})["out"].to_dict() == {(1, 3, 17, 5): 1}
    assert run.step({"a": {(1, 5): -1}})["out"].to_dict() == {(1, 3, 17, 5): -1, (1, 2, 12, 6): 1}
    assert run.step({"a": {(1, 7): -2}})["out"].to_dict() == {(1, 2, 12, 6): -1}
    assert run.step({"a": {(1, 8): 1}})["out"].to_dict() == {(1, 1, 6, 6): 1}
    assert run.step({"a": {(1, 6): -2, (1, 7): 2, (1, 8): -1}})["out"].to_dict() == {(1, 1, 6, 6): -1}
    assert view(run) == {}
    run.compact()
    assert run.state_rows == 0


def test_a_group_whose_sums_are_zero_stays_present() -> None:
    run = start(lambda c: c.input("a", y=int).group_by().agg(s=col("y").sum()))
    run.step({"a": {(1,): 1, (2,): -1, (3,): -1, (4,): 1}})  # weight 0, sum 0
    assert view(run) == {}
    run.step({"a": {(2,): 1}})
    assert view(run) == {(2,): 1}


def test_global_group_of_a_relation_without_columns() -> None:
    run = start(lambda c: c.input("a", schema={}).group_by().agg(n=count()))
    run.step({"a": {(): 3}})
    assert view(run) == {(3,): 1}
    run.step({"a": {(): -3}})
    assert view(run) == {}


# --- the ends of int64 ----------------------------------------------------------------------------


def test_the_lowest_int_is_an_ordinary_value() -> None:
    run = start(
        lambda c: (
            c.input("a", y=int).group_by().agg(low=col("y").min(), high=col("y").max(), s=col("y").sum())
        )
    )
    run.step({"a": [(LOWEST,)]})
    assert view(run) == {(LOWEST, LOWEST, LOWEST): 1}
    run.step({"a": [(7,)]})
    assert view(run) == {(LOWEST, 7, LOWEST + 7): 1}


def test_only_the_final_sum_must_fit_int64() -> None:
    run = start(lambda c: c.input("a", x=int, y=int).group_by("x").agg(s=col("y").sum()))
    run.step({"a": [(1, 2**62)]})
    with pytest.raises(
        ValueOutOfRangeError,
        match=r"^Aggregate at test_aggregate\.py:\d+: the sum of a group is outside the 64-bit range",
    ):
        run.step({"a": [(1, 2**62 + 1)]})
    with pytest.raises(ValueOutOfRangeError, match="the sum of a group is outside the 64-bit range"):
        run.step({"a": {(1, 2**62): 1}})
    assert view(run) == {(1, 2**62): 1}
    assert run.step({"a": {(1, 2**62): -1, (1, -(2**62) - 5): 1}})["out"].to_dict() == {
        (1, 2**62): -1,
        (1, -(2**62) - 5): 1,
    }


def test_a_sum_that_would_be_the_code_of_none() -> None:
    run = start(lambda c: c.input("a", y=int | None).group_by().agg(s=col("y").sum()))
    with pytest.raises(
        ValueOutOfRangeError, match=r"the sum -2\*\*63 represents None in an optional int column"
    ):
        run.step({"a": [(LOWEST + 1,), (-1,)]})
    run.step({"a": [(LOWEST + 1,)]})
    assert view(run) == {(LOWEST + 1,): 1}


def test_a_number_of_rows_that_leaves_int64() -> None:
    run = start(lambda c: c.input("a", y=int).group_by().agg(n=count()))
    run.step({"a": {(1,): 2**63 - 1}})
    with pytest.raises(
        WeightOverflowError, match=r"Aggregate at test_aggregate\.py:\d+: the number of rows of a group"
    ):
        run.step({"a": {(2,): 1}})
    run.step({"a": {(2,): 1, (1,): -1}})
    assert view(run) == {(2**63 - 1,): 1}


# --- objects --------------------------------------------------------------------------------------


def test_min_and_max_of_objects_compare_as_sorting_does() -> None:
    run = start(lambda c: c.input("a", o=object).group_by().agg(low=col("o").min(), high=col("o").max()))
    values: list[Any] = ["b", (1, "x"), 3, 2.5, True, "a", (0,), b"z"]
    run.step({"a": [(value,) for value in values]})
    ordered = [row[0] for row in in_order(values)]
    assert run.view("out").rows() == [(ordered[0], ordered[-1])]
    for value in values[:-1]:
        run.step({"a": [(value,)]})
        run.step({"a": {(value,): -2}})
    assert run.view("out").rows() == [(b"z", b"z")]


def in_order(values: list[Any]) -> list[Any]:
    run = start(lambda c: c.input("a", o=object))
    run.step({"a": [(value,) for value in values]})
    return run.view("out").rows()


@pytest.mark.parametrize("kind", [bool, bytes])
def test_min_and_max_of_other_kinds(kind: type) -> None:
    run = start(lambda c: c.input("a", v=kind).group_by().agg(low=col("v").min(), high=col("v").max()))
    low, high = (False, True) if kind is bool else (b"a", b"\xff")
    run.step({"a": [(high,), (low,)]})
    assert run.view("out").rows() == [(low, high)]
    run.step({"a": {(low,): -1}})
    assert run.view("out").rows() == [(high, high)]


KINDS: dict[type, st.SearchStrategy[Any]] = {
    int: st.sampled_from([LOWEST + 1, -5, 0, 7, 2**63 - 1]),
    float: floats | st.sampled_from([math.inf, -math.inf, -2.5]),
    bool: st.booleans(),
    str: words,
    bytes: st.sampled_from([b"", b"a", b"\xff", b"ab"]),
    dt.date: st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    dt.datetime: st.sampled_from([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29)]),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_kinds_of_values_as_keys_and_at_the_ends(kind: type, data: st.DataObject) -> None:
    row = rows(st.none() | KINDS[kind], small)
    follow(
        lambda c: {
            "ends": (a := c.input("a", v=kind | None, n=int))
            .group_by()
            .agg(low=col("v").min(), high=col("v").max()),
            "groups": a.group_by("v").agg(n=count()),
            "pairs": a.join(a, on="v"),
        },
        lambda inputs: {
            "ends": reference.aggregate(inputs["a"], [], [(least, 0), (largest, 0)]),
            "groups": reference.aggregate(inputs["a"], [0], [(number, None)]),
            "pairs": reference.join(inputs["a"], inputs["a"], [(0, 0)], [(0, 0), (0, 1), (1, 1)]),
        },
        data.draw(ticks({"a": row}, max_ticks=5)),
    )
