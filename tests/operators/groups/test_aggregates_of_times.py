"""Aggregates of durations, decimals and times, against exact fractions."""

from __future__ import annotations

import datetime as dt
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, col
from dbsp.errors import ValueOutOfRangeError

US = dt.timedelta(microseconds=1)
lengths = st.integers(-5, 5) | st.integers(-(10**14), 10**14)
row = st.tuples(
    st.sampled_from("ab"),
    st.none() | lengths.map(lambda n: n * US),
    lengths.map(lambda n: Decimal(f"{n}e-2")),
    st.times(),
)
ticks = st.lists(st.lists(st.tuples(row, st.sampled_from([1, 1, 2, 3])), max_size=5), max_size=4)


def totals() -> Circuit:
    circuit = Circuit("totals")
    source = circuit.input("in", k=str, d=dt.timedelta | None, p="decimal(18, 2)", c=dt.time)
    groups = source.group_by("k")
    columns = {
        "sd": col("d").sum(),
        "ad": col("d").mean(),
        "hd": col("d").max(),
        "sp": col("p").sum(),
        "ap": col("p").mean(),
        "lp": col("p").min(),
    }
    circuit.output(
        "out", groups.agg(**columns, hc=col("c").max(), md=col("d").median(), mp=col("p").median())
    )
    return circuit


def reference(rows: dict[Any, int]) -> set[Any]:
    found = set()
    for key in {row[0] for row in rows}:
        group = [(row, weight) for row, weight in rows.items() if row[0] == key]
        lengths = [(row[1] // US, weight) for row, weight in group if row[1] is not None]
        prices = [(int(row[2] * 100), weight) for row, weight in group]
        found.add(
            (
                key,
                sum(n * w for n, w in lengths) * US if lengths else None,
                mean(lengths) * US if lengths else None,
                max(n for n, _ in lengths) * US if lengths else None,
                Decimal(sum(n * w for n, w in prices)) / 100,
                Decimal(mean(prices)) / 100,
                Decimal(min(n for n, _ in prices)) / 100,
                max(row[3] for row, _ in group),
                middle(lengths) * US if lengths else None,
                Decimal(middle(prices)) / 100,
            )
        )
    return found


def mean(values: list[tuple[int, int]]) -> int:
    return round(Fraction(sum(n * w for n, w in values), sum(w for _, w in values)))


def middle(values: list[tuple[int, int]]) -> int:
    return round(statistics.median(Fraction(n) for n, w in values for _ in range(w)))


@given(ticks, st.data())
def test_aggregates_are_exact_after_every_tick(changes: list[Any], data: st.DataObject) -> None:
    run, rows = totals().start(), {}
    for change in changes:
        delta: dict[Any, int] = {}
        for values, weight in change:
            delta[values] = delta.get(values, 0) + weight
        if rows:
            gone = data.draw(st.sets(st.sampled_from(sorted(rows, key=repr))))
            for values in gone - delta.keys():
                delta[values] = -rows.pop(values)
        run.step({"in": delta})
        for values, weight in delta.items():
            if weight > 0:
                rows[values] = rows.get(values, 0) + weight
        assert set(run.view("out").rows()) == reference(rows)


def test_means_of_huge_values_are_rounded_half_to_even() -> None:
    most = 10**18 - 1
    run = totals().start()
    rows = [("a", (2**63 - 1) * US, Decimal(f"{most}e-2"), dt.time(0))]
    run.step({"in": rows})
    assert run.view("out").rows()[0][2] == (2**63 - 1) * US
    run.step({"in": {("a", -3 * US, Decimal("-0.02"), dt.time(0)): 1}})
    ((_, _, mean_length, _, _, mean_price, _, _, middle_length, middle_price),) = run.view("out").rows()
    assert mean_length == round(Fraction(2**63 - 4, 2)) * US
    assert mean_price == Decimal(round(Fraction(most - 2, 2))).scaleb(-2)
    assert (middle_length, middle_price) == (mean_length, mean_price)


def test_a_sum_out_of_range_is_an_error_and_changes_nothing() -> None:
    run = totals().start()
    row = ("a", None, Decimal("9999999999999999.99"), dt.time(0))
    run.step({"in": [row]})
    with pytest.raises(ValueOutOfRangeError, match=r"the sum 1\d{16}\.\d\d does not fit in decimal\(18, 2\)"):
        run.step({"in": {row: 1}})
    assert run.view("out").rows()[0][4] == Decimal("9999999999999999.99")
    run = totals().start()
    with pytest.raises(ValueOutOfRangeError):
        run.step({"in": {("a", (2**63 - 1) * US, Decimal(1), dt.time(0)): 2}})
    assert run.view("out").rows() == []


def test_a_mean_out_of_range_is_an_error_and_changes_nothing() -> None:
    circuit = Circuit("means")
    source = circuit.input("in", k=str, p="decimal(18, 2)", q="decimal(18, 2)?")
    circuit.output("out", source.group_by("k").agg(mean=col("p").mean(), total=col("q").sum()))
    run = circuit.start()
    most, least = Decimal("9999999999999999.99"), Decimal("-0.97")
    run.step({"in": {("a", most, None): 3}})
    with pytest.raises(
        ValueOutOfRangeError, match=r"the mean 3\d{16}\.\d\d does not fit in decimal\(18, 2\)"
    ):
        run.step({"in": {("a", least, None): -2}})
    assert run.view("out").rows() == [("a", most, None)]
    # The weights of the values cancel, so the group has no sum.
    run.step({"in": {("a", most, most): 4, ("a", most, -most): -4}})
    assert run.view("out").rows() == [("a", most, None)]
