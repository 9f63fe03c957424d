"""Classes: against a closure of the pairs by repeated merging, at the top level and in a scope."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream
from dbsp.operators.classes import Classes

from ..everywhere import follow_everywhere
from ..harness import final_views, follow, start, view
from ..reference import Z
from ..strategies import Tick, resplit, rows, small, ticks

COLUMNS = {"x": int, "y": int}
PAIR = rows(small, small)


def classes(stream: Stream) -> Stream:
    return Classes()(stream)


def pairs(stream: Stream) -> Stream:
    """All pairs of values of one class, whichever value stands for it."""
    found = classes(stream)
    return found.join(found, on=["y"], select=["x", "x_right"])


def closure(a: Z) -> Z:
    found: list[set[int]] = []
    for (x, y), weight in a.items():
        if weight > 0:
            touched = [one for one in found if x in one or y in one]
            found = [one for one in found if one not in touched] + [{x, y}.union(*touched)]
    return {(x, y): 1 for one in found for x in one for y in one}


@given(ticks({"a": PAIR}))
def test_the_classes_are_those_of_the_closure(sequence: list[Tick]) -> None:
    follow_everywhere(pairs, closure, COLUMNS, "x", sequence)


@given(ticks({"a": rows(st.integers(0, 12), st.integers(0, 12))}, max_ticks=12))
def test_many_values(sequence: list[Tick]) -> None:
    follow(lambda c: pairs(c.input("a", schema=COLUMNS)), lambda inputs: closure(inputs["a"]), sequence)


@given(ticks({"a": PAIR}), st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    def build(c: Circuit) -> Stream:
        return pairs(c.input("a", schema=COLUMNS))

    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


def test_one_value_stands_for_all_of_its_class() -> None:
    run = start(lambda c: classes(c.input("a", schema=COLUMNS)))
    run.step({"a": {(4, 5): 1, (6, 5): 1, (9, 9): 2, (7, 8): -1}})
    members = view(run)
    assert {x for x, _ in members} == {4, 5, 6, 9}
    assert len({m for x, m in members if x != 9}) == 1
    assert len({m for _, m in members}) == 2


def test_pairs_are_of_one_type() -> None:
    with pytest.raises(SchemaError, match="an equivalence is made of pairs of values of one type"):
        start(lambda c: classes(c.input("a", x=int, y=str)))
