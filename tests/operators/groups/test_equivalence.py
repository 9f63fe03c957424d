"""Classes, compared with a closure by repeated merging, at the top level and in a scope."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, col
from tests.everywhere import follow_everywhere
from tests.harness import final_views, follow, start, view
from tests.reference import Z
from tests.strategies import Tick, resplit, rows, small, ticks

COLUMNS = {"x": int, "y": int}
PAIR = rows(small, small)


def classes(stream: Stream) -> Stream:
    return stream.equivalence_classes()


def pairs(stream: Stream) -> Stream:
    """All pairs of values of one class, for any representative of the class."""
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


def test_the_least_value_represents_its_class() -> None:
    run = start(lambda c: classes(c.input("a", schema=COLUMNS)))
    run.step({"a": {(4, 5): 1, (6, 5): 1, (9, 9): 2, (7, 8): -1}})
    members = view(run)
    assert {x for x, _ in members} == {4, 5, 6, 9}
    assert len({m for x, m in members if x != 9}) == 1
    assert len({m for _, m in members}) == 2


def test_pairs_of_two_types_are_refused() -> None:
    with pytest.raises(SchemaError, match="equivalence classes need two columns of one type, got"):
        start(lambda c: classes(c.input("a", x=int, y=str)))


@pytest.mark.parametrize("values", [900, 3_000, 12_000])
def test_components_of_all_sizes(values: int) -> None:
    """Chains and random pairs: small components are looked up step by step, large ones at once."""
    draw = random.Random(values)
    chain = [(i, i + 1) for i in range(values // 3)]
    loose = [(draw.randrange(values), draw.randrange(values)) for _ in range(values // 2)]
    present = dict.fromkeys([*chain, *loose], 1)
    run = start(lambda c: classes(c.input("a", schema=COLUMNS)))
    run.step({"a": present})
    for _ in range(12):
        tick = {}
        for _ in range(draw.choice([1, 1, 3, 40])):
            pair = draw.choice([draw.choice(chain), draw.choice(loose), (draw.randrange(values), 7)])
            tick[pair] = -1 if present.get(pair) else 1
        present = {pair: 1 for pair in {**present, **tick} if tick.get(pair, 1) > 0}
        run.step({"a": tick})
        graph = nx.Graph(list(present))
        parts = {frozenset(part) for part in nx.connected_components(graph)}
        found: dict[int, set[int]] = {}
        for value, least in view(run):
            found.setdefault(least, set()).add(value)
        assert {frozenset(part) for part in found.values()} == parts


def test_a_long_chain_in_a_scope() -> None:
    """The pairs arrive one per iteration; a cut removes some and delays the others."""
    circuit = Circuit("test")
    a = circuit.input("a", schema=COLUMNS)
    with circuit.fixpoint("scope") as scope:
        reached = scope.variable("reached", COLUMNS)
        further = reached.join(a, on=[("y", "x")], select=["y", "y_right"]).rename(x="y", y="y_right")
        scope.define(reached, (a.filter(col("x") == 0) + further).distinct())
        inside = classes(reached)
    circuit.output("out", scope.leave(inside))
    run = circuit.start()
    chain = [(i, i + 1) for i in range(400)]
    run.step({"a": dict.fromkeys(chain, 1)})
    assert view(run) == {(i, 0): 1 for i in range(401)}
    run.step({"a": {(200, 201): -1}})
    assert view(run) == {(i, 0): 1 for i in range(201)}
    run.step({"a": {(0, 1): -1, (0, 300): 1}})
    assert view(run) == {(i, 0): 1 for i in (0, *range(300, 401))}
    run.step({"a": {(200, 201): 1, (0, 1): 1}})
    assert view(run) == {(i, 0): 1 for i in range(401)}
