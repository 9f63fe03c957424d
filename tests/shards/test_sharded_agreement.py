"""Distributed circuits on any number of shards return what the circuit returns in one process."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.fault_circuits import CIRCUITS, PATHS, FaultCircuit
from dbsp import Circuit
from dbsp.operators.streams.join_methods import HOWS, How
from dbsp.runtime.agreement import random_changes
from tests.profiles import examples
from tests.random_circuits import BINARY, UNARY, Choices, build, choices
from tests.random_datalog import INPUTS, programs
from tests.shards.compared_shards import ComparedShards, fail_at_every_call
from tests.shards.supersteps import SuperstepShards

PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*.dl"))
SHARDS = st.sampled_from([1, 2, 3, 5])
SEEDS = st.integers(0, 2**16)

Ticks = list[dict[str, dict[tuple[Any, ...], int]]]
NUMBERS = st.integers(0, 3)
ROWS = st.tuples(NUMBERS, st.none() | NUMBERS, st.sampled_from(["a", "b", "c"]))
WEIGHTS = st.sampled_from([1, 1, 1, 2, -1, -2])


def some(number: int) -> settings:
    return settings(
        max_examples=examples(number),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def without_negative(ticks: Ticks, name: str) -> Ticks:
    """Drop changes that make a weight negative: a recursion over such rows need not end."""
    present: dict[tuple[Any, ...], int] = {}
    for tick in ticks:
        rows = {
            row: weight for row, weight in tick.get(name, {}).items() if weight + present.get(row, 0) >= 0
        }
        for row, weight in rows.items():
            present[row] = present.get(row, 0) + weight
        if name in tick:
            tick[name] = rows
    return ticks


CHANGES = st.dictionaries(ROWS, WEIGHTS, max_size=12)
CIRCUIT_TICKS = st.lists(
    st.fixed_dictionaries({}, optional={"a": CHANGES, "b": CHANGES}), min_size=2, max_size=6
)


def sets(arity: int) -> st.SearchStrategy[dict[tuple[int, ...], int]]:
    return st.dictionaries(st.tuples(*[NUMBERS] * arity), st.sampled_from([1, 1, -1]), max_size=10)


PROGRAM_TICKS = st.lists(
    st.fixed_dictionaries({}, optional={name: sets(arity) for name, arity in INPUTS.items()}),
    min_size=2,
    max_size=5,
)


def follow(compared: ComparedShards, ticks: Iterable[dict[str, Any]]) -> ComparedShards:
    for tick in ticks:
        compared.tick(tick)
    return compared


# --- random circuits and programs -----------------------------------------------------------------


@some(25)
@given(choices(), CIRCUIT_TICKS, SHARDS, SEEDS)
def test_random_circuits(chosen: Choices, ticks: Ticks, shards: int, seed: int) -> None:
    compared = ComparedShards(build(chosen).circuit("physical"), shards, seed)
    follow(compared, without_negative(ticks, "a"))


@some(25)
@given(
    programs() | programs(cyclic=True) | programs(kinds=True) | programs(kinds=True, records=True),
    st.sampled_from(["auto", "binary", "wcoj"]),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    PROGRAM_TICKS,
    SHARDS,
    SEEDS,
)
def test_random_programs(text: str, strategy: Any, mode: Any, ticks: Ticks, shards: int, seed: int) -> None:
    program = dbsp.compile(text, strategy, recursion=mode)
    compared = ComparedShards(program.circuit("physical"), shards, seed)
    follow(compared, [program.facts, *ticks])


def test_a_multiway_join_with_a_constant() -> None:
    rules = """
        .decl a(x: number, y: number) .input a
        .decl r(x: number, z: number) .output r
        r(x, z) :- a(x, y), a(y, z), a(0, z).
    """
    compared = ComparedShards(dbsp.compile(rules, "wcoj").circuit("physical"), 3)
    edges = {(x, y): 1 for x in range(3) for y in range(3)}
    follow(compared, [{"a": edges}, {"a": {(0, 1): -1}}, {"a": {(0, 1): 1, (1, 1): -1}}])


def test_a_choice_by_two_domains_in_a_recursion() -> None:
    """Its rows are compared with all others, so a column that the rules keep does not divide it."""
    rules = """
        .decl a(x: number, y: number) .input a
        .decl p(x: number, y: number) choice-domain y, x .output p
        p(x, y) :- a(y, x).
        p(v, v) :- p(y, y), v = (2 band y) % 4, v = y.
    """
    compared = ComparedShards(dbsp.compile(rules).circuit("physical"), 3)
    rows = [(x, y) for x in range(4) for y in range(4)]
    first = {"a": dict.fromkeys(rows[::2], 1)}
    follow(compared, [first, {"a": dict.fromkeys(rows[1::3], 1)}, {"a": dict.fromkeys(rows[::4], -1)}])


def refuse_zero(row: Any) -> bool:
    if row.y == 0:
        raise ValueError("zero")
    return True


def following(circuit: Circuit, ticks: Ticks) -> None:
    for shards in (2, 3, 5):
        follow(ComparedShards(circuit.circuit("physical"), shards, shards), ticks)


def test_a_key_moves_from_one_join_partner_to_another() -> None:
    """The rows of a key are on one shard, whatever else the readers want."""
    circuit = Circuit("moves")
    a = circuit.input("a", s=str, x=int, key=["s"])
    circuit.output("joined", a.join(circuit.input("b", x=int, t=str), on=["x"]))
    b = {(x, str(x)): 1 for x in range(6)}
    places = [{("p", n): 1, ("q", n * 2): 1} for n in range(3)]
    following(circuit, [{"b": b}, *({"a": change} for change in places), {"a": {("p", 0): -1}}])


@pytest.mark.parametrize("refuse", [refuse_zero, 1 / dbsp.col("y") > 0])
def test_rows_that_cancel_do_not_raise(refuse: Any) -> None:
    """Rows of several shards cancel before an operator that raises an error for them."""
    circuit = Circuit("cancels")
    a = circuit.input("a", x=int, y=int)
    circuit.output("groups", a.group_by("x").agg(n=dbsp.count()))
    circuit.output("passed", a.select("y").filter(refuse))
    moved = {(x, 0): 1 if x % 2 else -1 for x in range(8)}
    following(circuit, [{"a": moved}, {"a": {(1, 3): 1}}, {"a": {(4, 0): 1}}])


def test_a_delayed_stream_is_placed_for_its_readers() -> None:
    circuit = Circuit("delays")
    a, b = circuit.input("a", x=int, s=str), circuit.input("b", s=str, t=str)
    groups = a.group_by("x").agg(s=dbsp.col("s").max())
    circuit.output("late", groups.delay().join(b, on=["s"]))
    rows = {(x, "abcde"[x % 5]): 1 for x in range(20)}
    more = {(x, "z"): 1 for x in range(9)}
    words = {(s, s): 1 for s in "abcdez"}
    following(circuit, [{"a": rows, "b": words}, {}, {"a": more}, {}, {"b": {("z", "z"): -1}}])


def test_a_column_that_is_selected_twice() -> None:
    circuit = Circuit("twice")
    a, b = circuit.input("a", x=int, y=int), circuit.input("b", x=int, y=int)
    twice = a.distinct().map(u=dbsp.col("x"), v=dbsp.col("x"), w=dbsp.col("y"))
    circuit.output("joined", twice.join(b, on=[("v", "x")]))
    circuit.output("groups", twice.group_by("u").agg(n=dbsp.count()))
    circuit.output("same", twice.filter(dbsp.col("v") > 2).group_by("v", "u").agg(n=dbsp.count()))
    rows = {(x, x % 3): 1 for x in range(12)}
    following(circuit, [{"a": rows, "b": rows}, {"a": {(1, 1): -1}}])


@pytest.mark.parametrize("how", HOWS)
def test_a_join_with_a_condition(how: How) -> None:
    circuit = Circuit("conditions")
    a, b = circuit.input("a", k=int, x=int), circuit.input("b", k=int, x=int)
    circuit.output("joined", a.join(b, on="k", how=how, where=a["x"] < b["x"]))
    circuit.output("other", a.join(b, left_on="x", right_on="k", how=how, where=b["x"] > 1))
    rows = {(k, x): 1 + x % 2 for k in range(6) for x in range(4)}
    less = {(k, x): -1 for k in range(4) for x in range(1, 4)}
    following(circuit, [{"a": rows}, {"b": {(2, 1): 1, (3, 9): 2}}, {"b": rows, "a": less}, {"b": less}])


def test_expressions_over_aggregates_and_lists() -> None:
    circuit = Circuit("expressions")
    x = dbsp.col("x")
    a = circuit.input("a", k=int, x=int, l=list[int], p={"s": str, "n": int})
    spread = a.group_by("k").agg(spread=x.max() - x.min(), mean=x.sum() / dbsp.count(), ones=(x > 1).sum())
    circuit.output("spread", spread)
    elements = a.explode("l", position="at").unnest("p")
    circuit.output("element", elements.select("k", "l", "at", "s", twice=dbsp.col("n") * 2))
    circuit.output("count", elements.group_by("l").agg(n=dbsp.col("l").count() + dbsp.count()))
    rows = {(k, x, tuple(range(x)), ("ab"[k % 2], k)): 1 for k in range(5) for x in range(4)}
    following(circuit, [{"a": rows}, {"a": dict.fromkeys(list(rows)[::3], -1)}, {"a": rows}])


def test_rows_that_cancel_are_not_late() -> None:
    """A row that arrives on one shard and is retracted on another does not arrive."""
    circuit = Circuit("closes")
    a = circuit.input("a", x=int, time=int)
    marked = a.watermark("time", 0)
    circuit.output("groups", a.group_by("x").agg(n=dbsp.count()))
    ends = a.select("time").window("time", 10).group_by("window_start", "window_end")
    circuit.output("final", ends.final(marked.watermark, "window_end", n=dbsp.count()))
    late = {(x, 3): 1 if x % 2 else -1 for x in range(8)}
    following(circuit, [{"a": {(x, 5): 1 for x in range(3)}}, {"a": {(1, 30): 1}}, {"a": late}])


def test_constants_joined_with_constants() -> None:
    circuit = Circuit("constants")
    one, two = (circuit.constant([(1, s), (2, s)], {"x": int, "s": str}) for s in "ab")
    circuit.output("constant", one.join(two, on=["x"]))
    circuit.output("seen", circuit.input("a", x=int, t=str).join(one.join(two, on=["x"]), on=["x"]))
    following(circuit, [{}, {"a": {(1, "z"): 1, (2, "z"): 2}}, {"a": {(1, "z"): -1}}])


def test_an_asof_join_on_columns_in_another_order() -> None:
    circuit = Circuit("asof")
    a, b = (circuit.input(name, x=int, y=int, t=int) for name in "ab")
    circuit.output("at", a.asof_join(b, left="t", right="t", on=[("y", "x"), ("x", "y")]))
    circuit.output("groups", a.group_by("y").agg(n=dbsp.count()))
    rows = {(x, y, x * y): 1 for x in range(4) for y in range(4)}
    following(circuit, [{"a": rows}, {"b": {(y, x, t): n for (x, y, t), n in rows.items()}}])


# --- every operator, every program ----------------------------------------------------------------


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_every_operator(name: str) -> None:
    draw = random.Random(name)
    for shards in (2, 3):
        chosen = [(name, 1, 2), (name, 0, 1)]
        compared = ComparedShards(build(chosen).circuit("physical"), shards, shards)
        ticks = [random_changes(draw, compared.one.inputs, 4) for _ in range(6)]
        follow(compared, [*without_negative(ticks, "a"), {}])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_program(path: Path) -> None:
    program = dbsp.compile(path)
    physical = program.circuit_for(program.plans, 500).circuit("physical")
    draw = random.Random(path.stem)
    compared = ComparedShards(physical, 3, 1)
    follow(compared, [program.facts])
    follow(compared, [random_changes(draw, compared.one.inputs, 3) for _ in range(5)])


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_every_stateful_operator(circuit: FaultCircuit) -> None:
    compared = ComparedShards(circuit.start().graph, 3, 7)
    follow(compared, [circuit.first, *map(circuit.tick, range(8)), {}])


# --- delays and faults ----------------------------------------------------------------------------


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_late_shards_return_the_same(circuit: FaultCircuit) -> None:
    compared = ComparedShards(circuit.start().graph, 3, 8, delays=True)
    follow(compared, [circuit.first, *map(circuit.tick, range(2))])


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_a_fault_at_every_call_changes_nothing(circuit: FaultCircuit) -> None:
    compared = ComparedShards(circuit.start().graph, 2, 9)
    for tick in (circuit.first, *map(circuit.tick, range(3))):
        fail_at_every_call(compared.many, partial(compared.many.step, tick))
        compared.tick(tick)


def test_a_fault_at_every_vote_and_exchange_of_a_scope_changes_nothing() -> None:
    compared = SuperstepShards(dbsp.compile(PATHS).circuit("physical"), 3)
    chain = {"edge": [(i, i + 1) for i in range(6)]}
    for tick in (chain, {"edge": [(9, 1)]}, {"edge": {(2, 3): -1}}, {"edge": {(2, 3): 1, (9, 1): -1}}):
        assert fail_at_every_call(compared.many, partial(compared.many.step, tick)) > 8
        compared.tick(tick)
    assert "restarted" in compared.modes
