"""Outer joins: the join, and rows without a partner padded with None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, ValueOutOfRangeError
from dbsp.operators.streams.join_methods import How
from dbsp.runtime.agreement import check_agreement
from tests import reference
from tests.harness import final_views, follow, start, view
from tests.profiles import examples
from tests.reference import Row, Z, add, antijoin, map_rows
from tests.scopes import LEVELLED, scoped, scoped_model
from tests.strategies import Tick, nullable, resplit, rows, small, ticks, words

KINDS: list[How] = ["left", "right", "full"]
INPUTS = ticks({"a": rows(small, nullable), "b": rows(nullable, words)})


def outer(kind: How, on: Any = ("y",)) -> Callable[[Circuit], Stream]:
    def build(c: Circuit) -> Stream:
        a = c.input("a", x=int, y=int | None)
        b = c.input("b", y=int | None, s=str)
        return a.join(b, on=list(on), how=kind)

    return build


def outer_model(kind: How) -> Callable[[dict[str, Z]], Z]:
    def model(inputs: dict[str, Z]) -> Z:
        a, b = inputs["a"], inputs["b"]
        result = reference.join(a, b, [(1, 0)], [(0, 0), (0, 1), (1, 1)])
        if kind in ("left", "full"):
            result = add(result, map_rows(antijoin(a, b, [(1, 0)]), lambda row: (*row, None)))
        if kind in ("right", "full"):
            result = add(result, map_rows(antijoin(b, a, [(0, 1)]), lambda row: (None, *row)))
        return result

    return model


@pytest.mark.parametrize("kind", KINDS)
@given(INPUTS)
def test_equals_the_batch_join_tick_by_tick(kind: How, sequence: list[Tick]) -> None:
    follow(outer(kind), outer_model(kind), sequence)


@pytest.mark.parametrize("kind", KINDS)
@given(INPUTS, st.data())
def test_any_split_of_the_changes_gives_the_same_view(
    kind: How, sequence: list[Tick], data: st.DataObject
) -> None:
    other = data.draw(resplit(sequence))
    assert final_views(outer(kind), sequence) == final_views(outer(kind), other)


def of_levels(kind: How) -> Callable[[Stream, Stream], Stream]:
    def build(a: Stream, b: Stream) -> Stream:
        return a.join(b, on=["l", "x"], how=kind)

    return build


def of_levels_model(kind: How) -> Callable[[Z, Z], Z]:
    on = [(0, 0), (1, 1)]

    def model(a: Z, b: Z) -> Z:
        result = reference.join(a, b, on, [(0, 0), (0, 1), (0, 2), (1, 2)])
        if kind in ("left", "full"):
            result = add(result, map_rows(antijoin(a, b, on), lambda row: (*row, None)))
        if kind in ("right", "full"):
            result = add(result, map_rows(antijoin(b, a, on), lambda row: (*row[:2], None, row[2])))
        return result

    return model


def again(row: Row) -> Row:
    level, x, y, z = row
    return (level + 1, 0 if z is None else z, x if y is None else y)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(25))
@given(LEVELLED)
def test_inside_scopes(kind: How, depth: int, sequence: list[Tick]) -> None:
    build = scoped(of_levels(kind), again, depth)
    follow(build, scoped_model(of_levels_model(kind), again, depth), sequence)


@pytest.mark.parametrize("kind", KINDS)
def test_stages_agree(kind: How) -> None:
    for build in (outer(kind), scoped(of_levels(kind), again)):
        circuit = Circuit("stages")
        circuit.output("out", build(circuit))
        assert check_agreement(circuit.start, 12, values=3) > 0


def test_first_and_last_partner() -> None:
    run = start(outer("left"))
    assert run.step({"a": {(1, 2): 3}})["out"].to_dict() == {(1, 2, None): 3}
    assert run.step({"b": {(2, "u"): 1}})["out"].to_dict() == {(1, 2, None): -3, (1, 2, "u"): 3}
    assert run.step({"b": {(2, "v"): 1}})["out"].to_dict() == {(1, 2, "v"): 3}
    assert run.step({"b": {(2, "u"): -1, (2, "v"): -1}})["out"].to_dict() == {
        (1, 2, None): 3,
        (1, 2, "u"): -3,
        (1, 2, "v"): -3,
    }


def test_columns_and_their_types() -> None:
    c = Circuit()
    a = c.input("a", x=int, y=int, n=int)
    b = c.input("b", y=int, n=str)
    assert a.join(b, on=["y"], how="left").schema.describe() == "x: int, y: int, n: int, n_right: str?"
    assert a.join(b, on=["y"], how="right").schema.describe() == "x: int?, y: int, n: int?, n_right: str"
    assert a.join(b, on=["y"], how="full").schema.describe() == "x: int?, y: int, n: int?, n_right: str?"
    some = a.join(b, on=["y"], select=["y_right", "y", "n_right"], how="full")
    assert some.schema.describe() == "y_right: int?, y: int, n_right: str?"


def test_the_keys_of_both_sides() -> None:
    def build(c: Circuit) -> Stream:
        a, b = c.input("a", x=int), c.input("b", y=int)
        return a.join(b, on=[("x", "y")], select=["x", "y"], how="full")

    run = start(build)
    run.step({"a": [(1,), (2,)], "b": [(2,), (3,)]})
    assert view(run) == {(1, None): 1, (2, 2): 1, (3, 3): 1}


@given(ticks({"a": rows(small), "b": rows(small)}))
def test_without_a_key(sequence: list[Tick]) -> None:
    """A row has a partner while the sum of the weights of the other side is positive."""

    def model(inputs: dict[str, Z]) -> Z:
        a, b = inputs["a"], inputs["b"]
        alone = map_rows(antijoin(a, b, []), lambda row: (*row, None))
        return add(reference.join(a, b, [], [(0, 0), (1, 0)]), alone)

    follow(lambda c: c.input("a", x=int).join(c.input("b", y=int), on=[], how="left"), model, sequence)


def test_the_lowest_int_does_not_fit_an_optional_column() -> None:
    run = start(lambda c: c.input("a", x=int).join(c.input("b", x=int, v=int), on=["x"], how="left"))
    with pytest.raises(ValueOutOfRangeError, match=r"Widen at test_outer_join\.py:\d+: column 'v' of"):
        run.step({"a": [(1,)], "b": [(1, -(2**63))]})
    assert view(run) == {}


def test_refused() -> None:
    c = Circuit()
    a, b = c.input("a", x=int, y=int), c.input("b", y=int, s=str)
    with pytest.raises(
        SchemaError,
        match=r"Join at test_outer_join\.py:\d+: a column occurs twice in the key of a join with how=",
    ):
        a.join(b, on=[("x", "y"), ("y", "y")], how="left")
    with pytest.raises(SchemaError, match=r"Join at .*cannot join 'x: int' with 's: str'"):
        a.join(b, on=[("x", "s")], how="full")
    with pytest.raises(SchemaError, match=r"the join has no column 'z'"):
        a.join(b, on=["y"], select=["z"], how="right")
