"""Recursion through aggregates: shortest paths, components and rounds of messages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, count, lit
from tests.operators.recursion.nested_scopes import ALL, PAIR, X, Y, follow, graph_ticks
from tests.profiles import examples
from tests.reference import Row
from tests.strategies import Tick, rows, set_ticks, small

pytestmark = pytest.mark.usefixtures("every_recursion")


EDGE = {"x": int, "y": int, "w": int}


def shortest(circuit: Circuit) -> Stream:
    """The length of the shortest path from node 0 to every node: min in recursion."""
    edge = circuit.input("edge", schema=EDGE, kind="set")
    with circuit.fixpoint("distances", max_iterations=500) as scope:
        far = scope.variable("far", {"node": int, "d": int})
        step = far.join(edge, on=[("node", "x")], select=["y", "d", "w"])
        ways = step.map(node=Y, d=col("d") + col("w"))
        start = circuit.constant([(0, 0)], {"node": int, "d": int})
        scope.define(far, (start + ways).group_by("node").agg(d=col("d").min()))
    return scope.leave(far)


def shortest_model(edge: set[Row]) -> set[Row]:
    far = {0: 0}
    while True:
        best = dict(far)
        for x, y, w in edge:
            if x in far:
                best[y] = min(best.get(y, far[x] + w), far[x] + w)
        if best == far:
            return set(far.items())
        far = best


@settings(max_examples=examples(40))
@given(set_ticks({"edge": rows(small, small, st.integers(1, 3))}, max_ticks=5, max_size=8))
def test_shortest_paths(sequence: list[Tick]) -> None:
    follow(shortest, shortest_model, sequence)


@pytest.mark.parametrize("seed", range(3))
def test_shortest_paths_on_larger_graphs(seed: int) -> None:
    """Edges on many shortest paths are deleted and inserted again."""
    follow(shortest, shortest_model, graph_ticks(25, 45, 25, seed, weight=9))


def test_shortest_paths_in_every_stage() -> None:
    follow(shortest, shortest_model, graph_ticks(8, 14, 8, 5, weight=5), ALL)


def test_a_cut_off_cycle_has_no_shortest_path() -> None:
    """Its nodes would derive each other with growing lengths; they must disappear at once."""
    cycle = {(1, 2, 1): 1, (2, 3, 1): 1, (3, 1, 1): 1}
    (run,) = follow(
        shortest, shortest_model, [{"edge": {(0, 1, 1): 1} | cycle}, {"edge": {(0, 1, 1): -1}}, {}]
    )
    assert run.view("out").rows() == [(0, 0)]


def components(circuit: Circuit) -> Stream:
    """The least node of the component of every node, by labels that spread along the edges."""
    edge = circuit.input("edge", schema=PAIR, kind="set")
    both = (edge + edge.map(x=Y, y=X)).distinct()
    nodes = both.select("x").distinct().map(node=X, label=X)
    with circuit.fixpoint("labels") as scope:
        labels = scope.variable("labels", {"node": int, "label": int})
        spread = labels.join(both, on=[("node", "x")], select=["y", "label"]).rename(node="y")
        scope.define(labels, (nodes + spread).group_by("node").agg(label=col("label").min()))
    return scope.leave(labels)


def components_model(edge: set[Row]) -> set[Row]:
    label = {node: node for pair in edge for node in pair}
    changed = True
    while changed:
        changed = False
        for x, y in edge:
            least = min(label[x], label[y])
            if (label[x], label[y]) != (least, least):
                label[x] = label[y] = least
                changed = True
    return set(label.items())


@settings(max_examples=examples(40))
@given(set_ticks({"edge": rows(st.integers(0, 6), st.integers(0, 6))}, max_ticks=6))
def test_components(sequence: list[Tick]) -> None:
    follow(components, components_model, sequence)


@pytest.mark.parametrize("seed", range(3))
def test_components_that_split_and_merge(seed: int) -> None:
    follow(components, components_model, graph_ticks(40, 45, 25, seed))


def test_components_in_every_stage() -> None:
    follow(components, components_model, graph_ticks(9, 10, 8, 2), ALL)


@settings(max_examples=examples(25))
@given(set_ticks({"edge": rows(small, small)}, max_ticks=5))
def test_several_aggregates_inside_a_scope(sequence: list[Tick]) -> None:
    """Rounds of totals: a count, a sum and a maximum of the previous round."""

    def build(circuit: Circuit) -> Stream:
        edge = circuit.input("edge", schema=PAIR, kind="set")
        schema = {"round": int, "x": int, "v": int}
        with circuit.fixpoint("totals") as scope:
            totals = scope.variable("totals", schema)
            sent = totals.filter(col("round") < 3).join(edge, on=["x"], select=["round", "y", "v"])
            received = sent.group_by("round", "y").agg(n=count(), t=col("v").sum(), top=col("v").max())
            v = (col("n") + col("t").fill_null(0) + col("top")) % 7
            following = received.map(round=col("round") + 1, x=Y, v=v)
            begin = edge.select("x").distinct().map(round=lit(0), x=X, v=X)
            scope.define(totals, (begin + following).distinct())
        return scope.leave(totals)

    def model(edge: set[Row]) -> set[Row]:
        now = {x: x for x, _ in edge}
        totals = {(0, x, v) for x, v in now.items()}
        for n in range(1, 4):
            sent: dict[int, list[int]] = {}
            for x, y in edge:
                if x in now:
                    sent.setdefault(y, []).append(now[x])
            now = {y: (len(vs) + sum(vs) + max(vs)) % 7 for y, vs in sent.items()}
            totals |= {(n, x, v) for x, v in now.items()}
        return totals

    follow(build, model, sequence, ALL)
