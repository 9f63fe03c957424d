"""The aggregates of queries: their results, and that these do not depend on the order of values."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.compiler.datomic.meaning.clojure_order import equal_values, total_order
from dbsp.compiler.datomic.meaning.query_aggregates import AGGREGATES, known_aggregates, user_aggregate
from dbsp.edn.edn_values import Keyword
from dbsp.errors import EvaluationError


def aggregate(name: str, values: list[Any], *arguments: Any) -> Any:
    found = AGGREGATES[name]
    assert len(arguments) in found.counts
    return found.evaluate(values, *arguments)


@pytest.mark.parametrize(
    ("name", "values", "arguments", "expected"),
    [
        ("count", [3, 3, "a"], (), 3),
        ("count-distinct", [3, 3, 3.0, True, 1], (), 4),
        ("distinct", [3, 3, 1], (), frozenset({1, 3})),
        ("distinct", [1.0, 1], (), frozenset({1})),
        ("sum", [1, 2, 2], (), 5),
        ("sum", [2**62, 2**62], (), 2**63),
        ("sum", [0.1] * 10, (), 1.0),
        ("sum", [1, 0.5], (), 1.5),
        ("sum", [Decimal("0.1"), 1], (), Decimal("1.1")),
        ("sum", [Fraction(1, 2), Fraction(1, 2)], (), 1),
        ("sum", [math.inf, 1.0], (), math.inf),
        ("avg", [1, 2], (), 1.5),
        ("avg", [2, 2], (), 2.0),
        ("avg", [0.5, 1], (), 0.75),
        ("avg", [Decimal("0.1"), Decimal("0.2")], (), 0.15),
        ("median", [5, 1, 3], (), 3),
        ("median", [4, 1, 2, 3], (), 2.5),
        ("median", [2, 2], (), 2.0),
        ("median", [Decimal("1.5")], (), Decimal("1.5")),
        ("variance", [1, 2, 3, 4], (), 1.25),
        ("variance", [7], (), 0.0),
        ("stddev", [2, 4, 4, 4, 5, 5, 7, 9], (), 2.0),
        ("min", [3, 1.5, 2], (), 1.5),
        ("max", ["a", "b"], (), "b"),
        ("max", [Keyword("a"), Keyword("b")], (), Keyword("b")),
        ("min", [3, 1, 2, 1], (3,), (1, 1, 2)),
        ("max", [3, 1, 2, 3], (3,), (3, 3, 2)),
        ("max", [3, 1], (5,), (3, 1)),
        ("min", [3, 1], (0,), ()),
        ("sample", [1, 1, 1], (2,), (1,)),
        ("rand", [4, 4], (), 4),
        ("rand", [4], (3,), (4, 4, 4)),
        ("rand", [4], (0,), ()),
    ],
)
def test_aggregates(name: str, values: list[Any], arguments: tuple[Any, ...], expected: Any) -> None:
    assert equal_values(aggregate(name, values, *arguments), expected)


NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150, max_value=1e150)
    | st.integers(-(2**70), 2**70)
    | st.decimals(-1000, 1000, places=3)
    | st.fractions(-9, 9, max_denominator=9)
)


@given(st.lists(NUMBERS, min_size=1, max_size=12))
def test_results_are_exact_and_rounded_once(values: list[Any]) -> None:
    exact = list(map(Fraction, values))
    mean = sum(exact) / len(exact)
    assert aggregate("avg", values) == float(mean)
    assert aggregate("variance", values) == float(sum((value - mean) ** 2 for value in exact) / len(exact))
    if any(isinstance(value, float) for value in values):
        assert aggregate("sum", values) == float(sum(exact))


def test_infinite_and_missing_numbers() -> None:
    assert math.isnan(aggregate("sum", [math.inf, -math.inf]))
    assert math.isnan(aggregate("variance", [math.inf, 1.0]))
    assert aggregate("avg", [math.inf, 1]) == math.inf
    assert aggregate("sum", [1e308, 1e308]) == math.inf
    assert aggregate("sum", [-1e308, -1e308, 5]) == -math.inf
    assert aggregate("sum", [0.5, 10**400]) == math.inf


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("avg", [10**400, 1]),
        ("median", [10**400, 10**400 + 1]),
        ("variance", [1e308, -1e308]),
        ("variance", [Decimal("1e400"), 1]),
    ],
)
def test_results_beyond_a_double(name: str, values: list[Any]) -> None:
    with pytest.raises(EvaluationError, match=f"^{name}: the result is beyond the range of a double"):
        aggregate(name, values)


def test_results_within_a_double_of_values_that_are_not() -> None:
    assert aggregate("avg", [1e308, 1.5e308]) == 1.25e308
    assert aggregate("avg", [0.5, 10**400, -(10**400)]) == 0.5 / 3
    assert aggregate("variance", [10**400, 10**400 + 2]) == 1.0


@pytest.mark.parametrize("name", ["sum", "avg", "median", "variance", "stddev"])
def test_other_values_than_numbers(name: str) -> None:
    expected = "variance" if name == "stddev" else name
    with pytest.raises(EvaluationError) as caught:
        aggregate(name, [1, "2"])
    assert caught.value.code == "wrong-value-type"
    assert caught.value.message == f"{expected}: expected a number, got '2' of type string"


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("arguments", [(), (2,)])
def test_values_without_an_order(name: str, arguments: tuple[int, ...]) -> None:
    with pytest.raises(EvaluationError, match="cannot compare") as caught:
        aggregate(name, [1, "2"], *arguments)
    assert caught.value.code == "not-comparable"


@pytest.mark.parametrize("name", ["min", "max", "rand", "sample"])
@pytest.mark.parametrize("number", [-1, "2", True, None])
def test_numbers_of_values(name: str, number: Any) -> None:
    if number is None and name != "sample":
        return
    with pytest.raises(EvaluationError) as caught:
        aggregate(name, [1, 2], number)
    assert caught.value.code == "wrong-value-type"
    assert caught.value.message == f"{name}: expected a number of values, 0 or more, got {number!r}"


NUMBERS = st.lists(
    st.one_of(
        st.integers(-5, 5),
        st.floats(-10, 10),
        st.sampled_from([math.nan, Decimal("0.1"), Decimal("2.5")]),
    ),
    min_size=1,
    max_size=8,
)


@given(NUMBERS, st.randoms(use_true_random=False))
def test_no_aggregate_depends_on_the_order_of_the_values(values: list[Any], random: Any) -> None:
    shuffled = values[:]
    random.shuffle(shuffled)
    for name, found in AGGREGATES.items():
        for count in found.counts:
            arguments = (3,) * count
            first, second = aggregate(name, values, *arguments), aggregate(name, shuffled, *arguments)
            assert total_order(first) == total_order(second), name


def test_nan_is_after_all_numbers() -> None:
    for values in permutations([2.0, math.nan, 1, Decimal("1.5")]):
        assert aggregate("min", list(values), 3) == (1, Decimal("1.5"), 2.0)
        assert repr(aggregate("max", list(values), 2)) == "(nan, 2.0)"
        assert math.isnan(aggregate("max", list(values)))
        assert aggregate("count-distinct", [*values, math.nan]) == 4


@given(st.lists(st.integers(-100, 100), min_size=1))
def test_statistics(values: list[int]) -> None:
    assert aggregate("avg", values) == pytest.approx(statistics.mean(values))
    assert aggregate("median", values) == statistics.median(values)
    assert aggregate("variance", values) == pytest.approx(statistics.pvariance(values))
    assert aggregate("stddev", values) == pytest.approx(statistics.pstdev(values))


@given(st.sets(st.integers(-50, 50), min_size=2), st.integers(0, 5))
def test_a_sample_changes_little(values: set[int], number: int) -> None:
    before = aggregate("sample", sorted(values), number)
    assert len(before) == len(set(before)) == min(number, len(values))
    assert set(before) <= values
    removed = max(values)
    after = aggregate("sample", sorted(values - {removed}), number)
    assert set(before) - {removed} <= set(after)


def test_samples_differ_from_the_order() -> None:
    values = list(range(100))
    assert aggregate("sample", values, 5) not in (tuple(range(5)), tuple(range(99, 94, -1)))
    assert len({aggregate("rand", values[:size]) for size in range(10, 100)}) > 20
    assert len(set(aggregate("rand", values, 50))) > 20


def test_user_aggregates() -> None:
    found = user_aggregate("my/spread", lambda values: values[-1] - values[0])
    assert found.evaluate([3, 1, 2]) == 2
    top = user_aggregate("my/top", lambda number, values: values[-number:])
    assert top.evaluate([3, 1, 2], 2) == [2, 3]
    assert "my/top" in known_aggregates(["my/top"])
    assert set(AGGREGATES) < set(known_aggregates(["my/top"]))
