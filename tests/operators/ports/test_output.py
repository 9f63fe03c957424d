"""Outputs: the delta of each tick, and the view from any operator that keeps it."""

from __future__ import annotations

import pytest
from hypothesis import given

from dbsp import Circuit, InputError, Stream, ZSet, count
from tests import reference
from tests.harness import follow, start, view
from tests.reference import Z, add
from tests.strategies import Tick, rows, small, ticks, words

PAIR = rows(small, words)


@given(ticks({"a": PAIR, "b": PAIR}))
def test_one_stream_under_several_names_and_read_by_others(sequence: list[Tick]) -> None:
    """The view is read from the trace of a join, of a distinct, or of the output."""

    def build(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", x=int, s=str), c.input("b", x=int, s=str, kind="set")
        both = a + b
        return {
            "one": both,
            "two": both,
            "named": both.rename(key="x"),
            "joined": both.join(b, on=["s"], select=["x", "x_right"]),
            "set": both.distinct(),
            "set again": both.distinct(),
            "of the set": both.distinct().join(a, on=["s"], select=["x"]),
            "counts": both.distinct().group_by("s").agg(n=count()),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a, b = inputs["a"], inputs["b"]
        both = add(a, b)
        result = reference.distinct(both)
        return {
            "one": both,
            "two": both,
            "named": both,
            "joined": reference.join(both, b, [(1, 1)], [(0, 0), (1, 0)]),
            "set": result,
            "set again": result,
            "of the set": reference.join(result, a, [(1, 1)], [(0, 0)]),
            "counts": reference.aggregate(result, [1], [(reference.count, None)]),
        }

    follow(build, model, sequence, sets={"b"})


@given(ticks({"a": PAIR}))
def test_deltas_add_up_to_the_view(sequence: list[Tick]) -> None:
    run = start(lambda c: c.input("a", x=int, s=str).distinct().select("s"))
    total = ZSet.empty({"s": str})
    for tick in sequence:
        total = total + run.step(tick)["out"]
        assert total == run.view("out")


def test_returned_results_do_not_change() -> None:
    run = start(lambda c: c.input("a", x=int, s=str))
    first = run.step({"a": [(1, "a"), (2, "b")]})
    early = run.view("out")
    for i in range(3000):
        run.step({"a": {(i, "c"): 1, (2, "b"): 1}})
    run.step({"a": {(1, "a"): -1}})
    run.compact()
    assert first["out"] == early == {(1, "a"): 1, (2, "b"): 1}
    del run
    assert first["out"].rows() == early.rows() == [(1, "a"), (2, "b")]


def test_empty_outputs_have_their_schema() -> None:
    run = start(lambda c: {"a": (a := c.input("a", x=int, s=str)), "n": a.group_by("s").agg(n=count())})
    result = run.step()
    assert {name: delta.schema.describe() for name, delta in result.items()} == {
        "a": "x: int, s: str",
        "n": "s: str, n: int",
    }
    assert not result["a"] and not result["n"] and run.view("n").rows() == []


def test_unknown_output() -> None:
    run = start(lambda c: {"paths": c.input("a", x=int)})
    with pytest.raises(
        InputError, match=r"^unknown output 'path'; did you mean 'paths'\? \[unknown-output\]$"
    ):
        run.view("path")


def test_relations_without_columns() -> None:
    run = start(lambda c: c.input("a", schema={}))
    assert run.step({"a": {(): 3}})["out"].to_dict() == {(): 3}
    assert view(run) == {(): 3}
    run.step({"a": {(): -3}})
    assert view(run) == {}
