"""Scopes with exchanges inside: all shards make the decisions that one process makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, IterationLimitError, Stream
from dbsp.circuit.shard_link import Alone, ShardLink
from dbsp.data.schema import Schema
from dbsp.operators.linear.union import Union
from dbsp.operators.ports.constant import Constant
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.recursion import modes
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.recursion.replicated_streams import is_replicated
from dbsp.operators.recursion.shared_decisions import decisions
from dbsp.operators.shards.exchange import Broadcast, Exchange, Owned, unplaced
from dbsp.operators.traces.arrange import Arrange
from tests.operators.recursion.closures import EDGE, SETS, STEPS, closure, edges, then
from tests.operators.recursion.nested_scopes import alternating, graph_ticks
from tests.operators.recursion.reachability import MODES, reach, then_from
from tests.operators.recursion.test_recursive_aggregates import shortest
from tests.profiles import examples
from tests.random_datalog import INPUTS, programs
from tests.shards.supersteps import SuperstepShards, with_exchanges
from tests.strategies import Tick, rows, set_ticks, small

pytestmark = pytest.mark.usefixtures("eager")

Build = Callable[[Circuit], Stream]
some = settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
SHARDS = st.sampled_from([1, 2, 3, 5])


def physical(build: Build) -> dbsp.Circuit:
    circuit = Circuit("test")
    circuit.output("out", build(circuit))
    return circuit.circuit("physical")


def follow(build: Build, ticks: list[Tick], shards: int) -> SuperstepShards:
    compared = SuperstepShards(physical(build), shards, seed=len(ticks))
    for tick in ticks:
        compared.tick(tick)
    return compared


# --- agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@some
@given(SETS, SHARDS)
def test_closures(step: Callable[[Stream, Stream], Stream], sequence: list[Tick], shards: int) -> None:
    follow(lambda c: closure(c, edges(c), step), sequence, shards)


@pytest.mark.parametrize("mode", MODES)
@some
@given(
    set_ticks({"edge": rows(small, small), "start": rows(small), "shut": rows(small)}, max_ticks=8),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 100.0]),
    st.sampled_from([0.0, 1.0, 100.0]),
    SHARDS,
)
def test_every_mode_and_every_change_of_it(
    mode: str, sequence: list[Tick], share: float, budget: float, removal: float, shards: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modes, "REMOVAL", removal)
        patch.setattr(modes, "SHARE", share)
        patch.setattr(modes, "BUDGET", budget)
        compared = follow(lambda c: reach(c, mode), sequence, shards)
        assert compared.modes


@pytest.mark.parametrize(("build", "weight"), [(alternating, None), (shortest, 9)])
@pytest.mark.parametrize("shards", [2, 3])
def test_nested_scopes_and_aggregates(build: Build, weight: int | None, shards: int) -> None:
    ticks = graph_ticks(9, 14, 6, shards, weight)
    if build is alternating:
        others = graph_ticks(9, 9, 6, 7)
        ticks = [{"a": a["edge"], "b": b["edge"]} for a, b in zip(ticks, others, strict=True)]
    follow(build, ticks, shards)


def test_same_generation_and_mutual_recursion() -> None:
    program = dbsp.compile("""
        .decl parent(x: symbol, y: symbol)
        .decl person(x: symbol)
        .decl same(x: symbol, y: symbol)
        .decl odd(x: symbol, y: symbol)
        .decl even(x: symbol, y: symbol)
        .decl alone(x: symbol)
        .input parent, person
        same(x, x) :- person(x).
        same(x, y) :- parent(x, p), same(p, q), parent(y, q).
        odd(x, y) :- parent(x, y).
        odd(x, z) :- even(x, y), parent(y, z).
        even(x, z) :- odd(x, y), parent(y, z).
        alone(x) :- person(x), !odd(x, _).
        .output same, odd, even, alone
    """)
    draw = random.Random(3)
    for shards in (2, 3):
        compared = SuperstepShards(program.circuit("physical"), shards, shards)
        compared.tick({"person": [(str(n),) for n in range(12)]})
        for _ in range(8):
            pairs = [(str(draw.randrange(6)), str(draw.randrange(6))) for _ in range(6)]
            compared.tick({"parent": {pair: draw.choice([1, 1, -1]) for pair in pairs}})
        assert "restarted" in compared.modes


def sets(arity: int) -> st.SearchStrategy[dict[tuple[int, ...], int]]:
    return st.dictionaries(st.tuples(*[st.integers(0, 3)] * arity), st.sampled_from([1, 1, -1]), max_size=10)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow])
@given(
    programs() | programs(cyclic=True),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    st.lists(
        st.fixed_dictionaries({}, optional={name: sets(arity) for name, arity in INPUTS.items()}),
        min_size=2,
        max_size=5,
    ),
    SHARDS,
)
def test_random_programs(text: str, mode: Any, ticks: list[Tick], shards: int) -> None:
    program = dbsp.compile(text, "binary", recursion=mode)
    compared = SuperstepShards(program.circuit("physical"), shards)
    for tick in [program.facts, *ticks]:
        compared.tick(tick)


# --- single decisions -----------------------------------------------------------------------------


def paths(c: Circuit) -> Stream:
    return closure(c, edges(c), then)


@pytest.mark.usefixtures("iterations_at_first_deletion")
@pytest.mark.parametrize("shards", [2, 3])
def test_the_first_deletion_and_a_large_one_restart_all_shards(shards: int) -> None:
    compared = SuperstepShards(physical(paths), shards)
    compared.tick({"edge": [(i, i + 1) for i in range(30)]})
    compared.tick({"edge": [(40, 41)]})
    assert compared.modes == "['insert-only']"
    compared.tick({"edge": {(40, 41): -1}})
    assert compared.modes == "['incremental, restarted once']"
    compared.tick({"edge": {(i, i + 1): -1 for i in range(20, 25)}})
    assert compared.modes == "['incremental, restarted 2 times']"
    compared.tick({})


@pytest.mark.usefixtures("iterations_at_first_deletion")
def test_no_shard_stops_at_its_own_budget() -> None:
    """One shard finds most matches of a tick whose sum exceeds the budget; all restart together."""
    circuit = Circuit("test")
    edge, start = (circuit.input(name, schema=EDGE, kind="set") for name in ("edge", "start"))
    with circuit.fixpoint("paths") as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (start + then(path, edge)).distinct())
    circuit.output("out", scope.leave(path))
    compared = SuperstepShards(circuit.circuit("physical"), 3)
    near, far, others = range(100, 130), range(200, 230), range(1_000, 9_000)
    links = [(0, x) for x in near] + [(x, y) for x in near for y in far]
    compared.tick({"edge": links, "start": [(x, 0) for x in range(300, 330)] + [(x, x) for x in others]})
    compared.tick({"start": {(others[0], others[0]): -1}})
    assert compared.modes == "['incremental, restarted once']"
    compared.tick({"start": {(x, 0): -1 for x in range(301, 330)}})
    assert compared.modes == "['incremental, restarted 2 times']"
    compared.tick({"start": {(others[5], others[5]): -1}})


def test_a_cut_chain_converges_at_once_on_all_shards() -> None:
    compared = SuperstepShards(physical(lambda c: reach(c, "incremental")), 3)
    compared.tick({"edge": [(i, i + 1) for i in range(60)], "start": [(0,)]})
    compared.tick({"edge": {(10, 11): -1}})
    iterations = [run.iterations()["reach"] for run in (compared.one, *compared.many.runs)]
    assert max(iterations) < 15
    compared.tick({"edge": {(5, 6): -1, (10, 11): 1}})
    compared.tick({"edge": [(5, 6)]})
    assert len(compared.one.view("out")) == 61


@pytest.mark.usefixtures("iterations_at_first_deletion")
def test_too_many_iterations_fail_on_all_shards() -> None:
    def build(c: Circuit) -> Stream:
        edge = edges(c)
        with c.fixpoint("path", max_iterations=6) as scope:
            path = scope.variable("path", EDGE)
            scope.define(path, (edge + then(path, edge)).distinct())
        return scope.leave(path)

    compared = SuperstepShards(physical(build), 3)
    compared.tick({"edge": [(1, 2), (2, 3), (7, 8)]})
    with pytest.raises(IterationLimitError, match="has not converged after 6 iterations"):
        compared.many.step({"edge": [(i, i + 1) for i in range(3, 12)]})
    compared.tick({"edge": {(7, 8): -1} | {(i, i + 1): 1 for i in range(3, 12)}})  # fails in both
    compared.tick({"edge": {(7, 8): -1}})
    assert compared.modes == "['incremental, restarted once']"


def test_an_evaluation_error_of_one_shard_undoes_the_tick() -> None:
    program = dbsp.compile("""
        .decl s(x: number)
        .decl r(x: number)
        .input s
        r(x) :- s(x).
        r(12 / x - 1) :- r(x), x < 12.
        .output r
    """)
    compared = SuperstepShards(program.circuit("physical"), 3)
    compared.tick({"s": [(4,), (6,)]})
    compared.tick({"s": [(11,)]})  # 12 / 11 - 1 = 0, then 12 / 0
    compared.tick({"s": {(4,): -1}})


# --- who votes ------------------------------------------------------------------------------------


def test_a_negative_weight_on_one_shard_changes_the_mode_of_all() -> None:
    """With negative weights the body is not monotone, so no shard may continue insert-only."""

    def build(c: Circuit) -> Stream:
        edge, start = edges(c, "zset"), c.input("start", x=int)
        with c.fixpoint("reach", recursion="insert-only") as scope:
            found = scope.variable("found", start.schema)
            scope.define(found, (start + then_from(found, edge)).distinct())
        return scope.leave(found)

    compared = SuperstepShards(physical(build), 3)
    compared.tick({"edge": [(i, i + 1) for i in range(9)], "start": [(0,)]})
    assert compared.modes == "['insert-only']"
    compared.tick({"edge": {(4, 5): -2}})
    assert compared.modes == "['incremental, restarted once']"
    compared.tick({"edge": {(4, 5): 2}})


class Votes(ShardLink):
    """The link of one of two shards of which the other votes in the same way."""

    shards = 2

    def __init__(self, shard: int) -> None:
        self.shard = shard

    def exchange(self, node: str, parts: Any, schema: Schema) -> Any:
        raise AssertionError("no test exchanges rows")

    def exchange_all(self, node: str, sent: Any, numbers: Any) -> Any:
        raise AssertionError("no test exchanges rows")

    def vote(self, numbers: Any) -> list[tuple[int, ...]]:
        return [tuple(numbers)] * 2


def body_of(graph: dbsp.Circuit) -> Any:
    (body,) = [node.operator.body for node in graph.nodes if isinstance(node.operator, Fixpoint)]
    return body


def test_only_scopes_with_exchanges_on_several_shards_vote() -> None:
    alone = physical(paths)
    exchanged = with_exchanges(alone)
    assert not decisions(body_of(alone), Votes(0)).shared
    assert not decisions(body_of(exchanged), Alone()).shared
    shared = decisions(body_of(exchanged), Votes(0))
    assert shared.shared and shared.totals((3, -4)) == [6, -8]
    assert shared.step((1,), None) == ([2], None) and shared.step((), 7) == ([], 7)
    assert shared.any(True) and not shared.any(False)


def test_rows_that_every_shard_has_count_once() -> None:
    graph = dbsp.circuit.graph.Graph("test")
    schema = Schema.of(x=int)
    dealt = graph.add_source(DealtInput("a", schema))
    fact = graph.add_source(Constant((((1,), 1),), schema))
    everywhere = graph.add(Broadcast(), dealt)
    streams = {
        dealt: False,
        fact: True,
        graph.add(Owned(()), fact): False,
        everywhere: True,
        graph.add(Union(), everywhere, fact): True,
        graph.add(Union(), everywhere, dealt): False,
        graph.add(Exchange((0,)), everywhere): False,
    }
    assert {stream: is_replicated(stream.node) for stream in streams} == streams
    assert unplaced(everywhere.node) == unplaced(dealt.node) != unplaced(fact.node)
    orders = [unplaced(graph.add(Arrange((0,)), stream).node) for stream in (dealt, everywhere)]
    assert orders[0] == orders[1] != unplaced(dealt.node)
    shared = [decisions(body_of(with_exchanges(physical(paths))), Votes(shard)) for shard in (0, 1)]
    assert [each.counts(everywhere.node) for each in shared] == [True, False]
    assert [each.counts(dealt.node) for each in shared] == [True, True]
