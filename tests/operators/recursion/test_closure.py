"""Transitive closures of every form under changes: weights, cycles, dense components and chains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Run, Stream
from tests import reference
from tests.harness import apply_set, final_views, follow, start, view
from tests.operators.recursion.closures import (
    EDGE,
    PAIR,
    SETS,
    STEPS,
    closure,
    compose,
    edges,
    reachable,
    then,
)
from tests.reference import Z, add, distinct
from tests.strategies import Tick, resplit, ticks

pytestmark = pytest.mark.usefixtures("every_recursion")


@pytest.mark.parametrize("step", STEPS)
@given(sequence=SETS)
def test_closure_over_several_ticks_with_deletions(step: str, sequence: list[Tick]) -> None:
    follow(
        lambda c: closure(c, edges(c), STEPS[step]),
        lambda inputs: reachable(inputs["edge"]),
        sequence,
        sets={"edge"},
    )


@given(ticks({"edge": PAIR}))
def test_closure_of_a_bag(sequence: list[Tick]) -> None:
    """Edges of any weights: only edges of positive weight count."""
    follow(
        lambda c: closure(c, edges(c, "zset").distinct(), STEPS["non-linear"]),
        lambda inputs: reachable(distinct(inputs["edge"])),
        sequence,
    )


@given(ticks({"edge": PAIR}))
def test_weights_inside_a_scope(sequence: list[Tick]) -> None:
    """The union in the body adds raw weights: a negative edge may cancel a derivation."""
    follow(
        lambda c: closure(c, edges(c, "zset"), STEPS["right linear"]),
        lambda inputs: reference.fixpoint(
            lambda x: {"p": distinct(add(inputs["edge"], compose(x["p"], inputs["edge"])))}, ["p"], cap=200
        )["p"],
        [{"edge": {row: abs(w) for row, w in tick.get("edge", {}).items()}} for tick in sequence],
    )


@pytest.mark.parametrize("step", ["right linear", "non-linear"])
@given(sequence=ticks({"edge": PAIR}), data=st.data())
def test_any_split_of_the_changes_gives_the_same_view(
    step: str, sequence: list[Tick], data: st.DataObject
) -> None:
    def build(c: Circuit) -> Stream:
        return closure(c, edges(c, "zset").distinct(), STEPS[step])

    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12))
def test_number_of_paths_in_a_dag(listed: list[tuple[int, int]]) -> None:
    """Bags without distinct converge on a graph without cycles; weights count paths."""
    sequence: list[Tick] = [{"edge": {(min(a, b), max(a, b) + 1): 1}} for a, b in listed]

    def build(c: Circuit) -> Stream:
        e = edges(c, "zset")
        with c.fixpoint("paths") as scope:
            p = scope.variable("p", EDGE)
            scope.define(p, e + then(p, e))
        return scope.leave(p)

    def model(inputs: dict[str, Z]) -> Z:
        e = inputs["edge"]
        return reference.fixpoint(lambda x: {"p": add(e, compose(x["p"], e))}, ["p"])["p"]

    follow(build, model, sequence + [{"edge": dict.fromkeys(tick["edge"], -1)} for tick in sequence[::2]])


def graph_run(step: str) -> Run:
    return start(lambda c: closure(c, edges(c), STEPS[step]))


@pytest.mark.parametrize("step", STEPS)
def test_non_linear_closure_with_several_ticks(step: str) -> None:
    """Outputs for the same future iteration must accumulate."""
    run = graph_run(step)
    run.step({"edge": [(0, 3), (2, 0), (4, 2)]})
    delta = run.step({"edge": [(0, 4)]})["out"].to_dict()
    assert delta[2, 2] == 1
    assert view(run) == reachable(dict.fromkeys([(0, 3), (2, 0), (4, 2), (0, 4)], 1))


@pytest.mark.parametrize("step", STEPS)
def test_zombie_cycles(step: str) -> None:
    """Base {0}, edges 0 -> 1 -> 2 -> 1; without 0 -> 1 the cycle must not support itself."""

    def build(c: Circuit) -> dict[str, Stream]:
        e = edges(c)
        base = c.input("base", x=int, kind="set")
        with c.fixpoint("reach") as scope:
            r = scope.variable("r", {"x": int})
            scope.define(r, (base + e.join(r, on=["x"], select=["y"])).distinct())
        return {"reach": scope.leave(r), "closure": closure(c, e, STEPS[step])}

    run = start(build)
    run.step({"base": [(0,)], "edge": [(0, 1), (1, 2), (2, 1)]})
    assert view(run, "reach") == {(0,): 1, (1,): 1, (2,): 1}
    result = run.step({"edge": {(0, 1): -1}})
    assert result["reach"].to_dict() == {(1,): -1, (2,): -1}
    assert view(run, "reach") == {(0,): 1}
    assert view(run, "closure") == dict.fromkeys([(1, 2), (2, 1), (1, 1), (2, 2)], 1)
    run.step({"edge": {(0, 1): 1, (2, 1): -1}})
    assert view(run, "reach") == {(0,): 1, (1,): 1, (2,): 1}


@pytest.mark.parametrize("step", STEPS)
def test_deletion_inside_a_dense_component(step: str) -> None:
    dense = [(a, b) for a in range(6) for b in range(6) if a != b]
    run = graph_run(step)
    run.step({"edge": dense})
    present: Z = dict.fromkeys(dense, 1)
    for edge in [(0, 1), (1, 0), (2, 3), (5, 0), (4, 0), (3, 0), (2, 0)]:
        run.step({"edge": {edge: -1}})
        present = apply_set(present, {edge: -1})
        assert view(run) == reachable(present), edge
    for edge in dense[::-1]:
        run.step({"edge": {edge: -1}})
        present = apply_set(present, {edge: -1})
    assert view(run) == present == {}
    run.compact()
    assert run.state_rows == 0


@pytest.mark.slow
def test_deletion_and_insertion_in_a_long_chain() -> None:
    chain = [(i, i + 1) for i in range(60)]
    run = graph_run("right linear")
    run.step({"edge": chain})
    assert len(run.view("out")) == 60 * 61 // 2
    run.step({"edge": {(10, 11): -1}})
    assert len(run.view("out")) == 10 * 11 // 2 + 49 * 50 // 2
    run.step({"edge": {(10, 11): 1, (20, 21): -1}})
    run.step({"edge": [(20, 21), (60, 0)]})
    assert len(run.view("out")) == 61 * 61
    run.step({"edge": {(60, 0): -1}})
    assert view(run) == reachable(dict.fromkeys(chain, 1))


def test_a_shortcut_is_inserted_and_deleted() -> None:
    """A row stays derived while its first iteration changes."""
    run = graph_run("right linear")
    run.step({"edge": [(0, 1), (1, 2), (2, 3), (3, 4)]})
    assert run.step({"edge": [(0, 4)]})["out"].to_dict() == {}
    assert run.step({"edge": {(0, 4): -1}})["out"].to_dict() == {}
    assert run.step({"edge": {(1, 2): -1, (0, 4): 1}})["out"].to_dict() == dict.fromkeys(
        [(0, 2), (0, 3), (1, 2), (1, 3), (1, 4)], -1
    )
