"""Semijoin and antijoin: the right side counts as a set, the left keeps its weights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream
from tests import reference
from tests.harness import final_views, follow, start, view
from tests.reference import Z, add
from tests.strategies import Tick, nullable, resplit, rows, small, ticks

PAIR = rows(small, small)


def build(c: Circuit) -> dict[str, Stream]:
    a, b = c.input("a", x=int, y=int), c.input("b", y=int, z=int)
    return {"with": a.join(b, on=["y"], how="semi"), "without": a.join(b, on=["y"], how="anti")}


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a, b = inputs["a"], inputs["b"]
    return {"with": reference.semijoin(a, b, [(1, 0)]), "without": reference.antijoin(a, b, [(1, 0)])}


@given(ticks({"a": PAIR, "b": PAIR}))
def test_equals_the_batch_operators_tick_by_tick(sequence: list[Tick]) -> None:
    follow(build, model, sequence)


@given(ticks({"a": PAIR, "b": PAIR}))
def test_of_sets(sequence: list[Tick]) -> None:
    """Lowering drops distincts over set inputs; both results are still sets."""

    def of_sets(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", x=int, y=int, kind="set"), c.input("b", y=int, z=int, kind="set")
        return {
            "with": a.join(b, on=["y"], how="semi").distinct(),
            "without": a.join(b, on=["y"], how="anti").distinct(),
            "whole": a.join(b, on=[("x", "y"), ("y", "z")], how="anti").distinct(),
        }

    def model_of_sets(inputs: dict[str, Z]) -> dict[str, Z]:
        return {**model(inputs), "whole": reference.antijoin(inputs["a"], inputs["b"], [(0, 0), (1, 1)])}

    follow(of_sets, model_of_sets, sequence, sets={"a", "b"})


@given(ticks({"a": PAIR, "b": PAIR}), st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


@given(ticks({"a": PAIR, "b": PAIR}))
def test_semijoin_plus_antijoin_is_the_input(sequence: list[Tick]) -> None:
    run = start(build)
    for tick in sequence:
        run.step(tick)
    assert add(view(run, "with"), view(run, "without")) == add(*(tick.get("a", {}) for tick in sequence))


FEW = rows(st.integers(0, 2), st.integers(0, 2))
ON = {
    "two columns": [(0, 0), (1, 1)],
    "crosswise": [(0, 1), (1, 0)],
    "one with two": [(0, 0), (0, 1)],
    "two with one": [(0, 1), (1, 1)],
    "all with all": [(0, 0), (0, 1), (1, 0), (1, 1)],
    "nothing": [],
}


@pytest.mark.parametrize("on", ON)
@given(
    sequence=ticks(
        {"a": rows(st.integers(0, 2), st.integers(0, 2)), "b": rows(st.integers(0, 2), st.integers(0, 2))}
    )
)
def test_keys(on: str, sequence: list[Tick]) -> None:
    pairs = ON[on]

    def with_key(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", x=int, y=int), c.input("b", p=int, q=int)
        names = [("xy"[i], "pq"[j]) for i, j in pairs]
        return {
            "with": a.join(b, on=names, how="semi"),
            "without": a.join(b, on=names, how="anti"),
            "join": a.join(b, on=names, select=["x", "y", "p", "q"]),
        }

    def key_model(inputs: dict[str, Z]) -> dict[str, Z]:
        a, b = inputs["a"], inputs["b"]
        return {
            "with": reference.semijoin(a, b, pairs),
            "without": reference.antijoin(a, b, pairs),
            "join": reference.join(a, b, pairs, [(0, 0), (0, 1), (1, 0), (1, 1)]),
        }

    follow(with_key, key_model, sequence)


@given(ticks({"a": rows(small, nullable), "b": rows(nullable)}))
def test_none_matches_none(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", x=int, y=int | None).join(c.input("b", y=int | None), on=["y"], how="anti"),
        lambda inputs: reference.antijoin(inputs["a"], inputs["b"], [(1, 0)]),
        sequence,
    )


def test_none_does_not_match_the_lowest_int() -> None:
    lowest = -(2**63)
    run = start(lambda c: c.input("a", x=int).join(c.input("b", x=int | None), on=["x"], how="anti"))
    run.step({"a": [(lowest,), (1,)], "b": [(None,), (1,)]})
    assert view(run) == {(lowest,): 1}
    run = start(lambda c: c.input("b", x=int | None).join(c.input("a", x=int), on=["x"], how="anti"))
    run.step({"a": [(lowest,), (1,)], "b": [(None,), (1,)]})
    assert view(run) == {(None,): 1}


@given(ticks({"a": rows(), "b": rows()}))
def test_relations_without_columns(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", schema={}).join(c.input("b", schema={}), on=[], how="anti"),
        lambda inputs: reference.antijoin(inputs["a"], inputs["b"], []),
        sequence,
    )


@given(ticks({"a": PAIR}))
def test_with_itself(sequence: list[Tick]) -> None:
    follow(
        lambda c: {
            "with": (a := c.input("a", x=int, y=int)).join(a, on=[("y", "x")], how="semi"),
            "without": a.join(a, on=[("y", "x")], how="anti"),
            "self": a.join(a, on=["x", "y"], how="anti"),
        },
        lambda inputs: {
            "with": reference.semijoin(inputs["a"], inputs["a"], [(1, 0)]),
            "without": reference.antijoin(inputs["a"], inputs["a"], [(1, 0)]),
            "self": {row: w for row, w in inputs["a"].items() if w < 0},
        },
        sequence,
    )
