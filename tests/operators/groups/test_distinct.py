"""Distinct: by the sign of the summed weight, never by the presence of a row in one run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import WeightOverflowError
from tests import reference
from tests.harness import final_views, follow, start, view
from tests.reference import Z
from tests.strategies import Tick, heavy_weights, nullable, resplit, rows, small, ticks

PAIR = rows(small, nullable)
COLUMNS = {"x": int, "y": int | None}


@given(ticks({"a": PAIR}))
def test_equals_the_batch_distinct_tick_by_tick(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", schema=COLUMNS).distinct(),
        lambda inputs: reference.distinct(inputs["a"]),
        sequence,
    )


@given(ticks({"a": rows(st.integers(0, 1))}, heavy_weights, max_ticks=30))
def test_heavy_weights(sequence: list[Tick]) -> None:
    follow(lambda c: c.input("a", x=int).distinct(), lambda inputs: reference.distinct(inputs["a"]), sequence)


@given(ticks({"a": PAIR}), st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    def build(c):  # type: ignore[no-untyped-def]
        return c.input("a", schema=COLUMNS).distinct()

    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


@given(ticks({"a": PAIR}))
def test_idempotent(sequence: list[Tick]) -> None:
    run = follow(
        lambda c: c.input("a", schema=COLUMNS).distinct().distinct().distinct(),
        lambda inputs: reference.distinct(inputs["a"]),
        sequence,
    )
    assert [node.label for node in run.graph.walk()].count("DeltaDistinct") <= 1


@given(ticks({"a": PAIR, "b": PAIR}))
def test_set_operations(sequence: list[Tick]) -> None:
    """Union, intersection and difference of sets, from distinct and the group operations."""

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a, b = (set(reference.distinct(inputs[name])) for name in "ab")
        return {
            "union": dict.fromkeys(a | b, 1),
            "both": dict.fromkeys(a & b, 1),
            "only": dict.fromkeys(a - b, 1),
        }

    def build(c):  # type: ignore[no-untyped-def]
        a, b = (c.input(name, schema=COLUMNS).distinct() for name in "ab")
        return {
            "union": (a + b).distinct(),
            "both": a.join(b, on=["x", "y"], how="semi").distinct(),
            "only": (a - b).distinct(),
        }

    follow(build, model, sequence)


def test_the_view_is_read_from_the_state_of_distinct() -> None:
    run = start(lambda c: c.input("a", x=int).distinct())
    run.step({"a": {(i,): 2 for i in range(100)}})
    assert run.state_rows == 100
    assert view(run) == {(i,): 1 for i in range(100)}


def test_a_weight_that_leaves_int64() -> None:
    run = start(lambda c: c.input("a", x=int).distinct())
    run.step({"a": {(1,): 2**63 - 1}})
    with pytest.raises(
        WeightOverflowError,
        match=r" at test_distinct\.py:\d+: the sum of weights is outside the 64-bit range",
    ):
        run.step({"a": {(1,): 1}})
    assert run.step({"a": {(1,): -(2**63 - 1)}})["out"].to_dict() == {(1,): -1}
