"""Union, minus, negate: the group operations of streams."""

from __future__ import annotations

import pytest
from hypothesis import given

from dbsp import Circuit, Stream, ValueOutOfRangeError, WeightOverflowError
from tests.harness import follow, start, view
from tests.reference import Z, add, minus, negate
from tests.strategies import Tick, nullable, rows, small, ticks

PAIR = rows(small, small)


def build(c: Circuit) -> dict[str, Stream]:
    a, b, d = (c.input(name, x=int, y=int) for name in "abd")
    return {
        "two": a + b,
        "three": a.union(b, d),
        "twice": a + a,
        "thrice": a.union(a, a),
        "alone": a.union(),
        "minus": a - b,
        "nothing": a - a,
        "negative": -a,
        "nested": (a - b) + (b - d) + (d - a),
        "back": (-a).__neg__(),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a, b, d = inputs["a"], inputs["b"], inputs["d"]
    return {
        "two": add(a, b),
        "three": add(a, b, d),
        "twice": add(a, a),
        "thrice": add(a, a, a),
        "alone": a,
        "minus": minus(a, b),
        "nothing": {},
        "negative": negate(a),
        "nested": {},
        "back": a,
    }


@given(ticks({"a": PAIR, "b": PAIR, "d": PAIR}))
def test_equals_the_batch_operations_tick_by_tick(sequence: list[Tick]) -> None:
    follow(build, model, sequence)


@given(ticks({"a": rows(small, small), "b": rows(nullable, small)}))
def test_a_column_is_optional_if_a_source_is(sequence: list[Tick]) -> None:
    run = follow(
        lambda c: {
            "plus": (a := c.input("a", x=int, y=int)) + (b := c.input("b", x=int | None, y=int)),
            "minus": a - b,
            "distinct": (b + a).distinct(),
        },
        lambda inputs: {
            "plus": add(inputs["a"], inputs["b"]),
            "minus": minus(inputs["a"], inputs["b"]),
            "distinct": {row: 1 for row, w in add(inputs["a"], inputs["b"]).items() if w > 0},
        },
        sequence,
    )
    assert {schema.describe() for schema in run.outputs.values()} == {"x: int?, y: int"}


def test_names_are_those_of_the_first() -> None:
    run = start(lambda c: c.input("a", x=int).union(c.input("b", y=int)))
    run.step({"a": [(1,)], "b": [(2,)]})
    assert run.view("out").schema.names == ("x",) and view(run) == {(1,): 1, (2,): 1}


@pytest.mark.parametrize("operation", ["union", "minus"])
def test_the_lowest_int_is_refused_beside_none(operation: str) -> None:
    def combine(c: Circuit) -> Stream:
        a, b = c.input("a", x=int), c.input("b", x=int | None)
        return b + a if operation == "union" else b - a

    run = start(combine)
    run.step({"a": [(1,)], "b": [(None,)]})
    with pytest.raises(
        ValueOutOfRangeError,
        match=r"at test_union\.py:\d+: column 'x' of the result is optional, and -2\*\*63 represents None",
    ):
        run.step({"a": [(-(2**63),)]})
    assert view(run) == {(1,): 1 if operation == "union" else -1, (None,): 1}


def test_sums_that_leave_int64() -> None:
    run = start(lambda c: (a := c.input("a", x=int)) + a)
    with pytest.raises(
        WeightOverflowError,
        match=r"^Union at test_union\.py:\d+: the sum of weights is outside the 64-bit range",
    ):
        run.step({"a": {(1,): 2**62}})
    run = start(lambda c: -c.input("a", x=int))
    with pytest.raises(
        WeightOverflowError, match=r"^Negate at test_union\.py:\d+: the negation of a weight is outside"
    ):
        run.step({"a": {(1,): -(2**63)}})
    run = start(lambda c: (a := c.input("a", x=int)).union(a, a))
    with pytest.raises(
        WeightOverflowError,
        match=r"^Union at test_union\.py:\d+: the sum of weights is outside the 64-bit range",
    ):
        run.step({"a": {(1,): 2**62}})
