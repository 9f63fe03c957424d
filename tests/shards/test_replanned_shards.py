"""Shards in threads that switch to another circuit: exact, and all of them or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, CircuitError
from dbsp.operators.stages.passes.distribute import distribute
from tests.random_datalog import programs
from tests.shards.compared_shards import ComparedShards, fail_at_every_call
from tests.shards.test_sharded_agreement import PROGRAM_TICKS, SEEDS, SHARDS, Ticks, follow, some
from tests.shards.thread_link import dealing

CHANGES: list[dict[str, Any]] = [
    {name: {(x % 5, f"{x}"): 1 for x in range(start, start + 20)} for start, name in enumerate("abc")},
    {"a": {(x % 5, f"{x}"): -1 for x in range(0, 20, 3)}, "b": {(7, "7"): 1}},
    {"c": {(x, f"{x}"): 1 for x in range(9)}, "a": {(7, "7"): 1}},
]


def wedges(first: str, kind: str = "set", without: str = "") -> Circuit:
    """Join a, b and c in one of two orders, without the rows of c of a text."""
    circuit = Circuit("wedges")
    a = circuit.input("a", x=int, s=str, kind=kind)
    b = circuit.input("b", y=int, s=str, kind=kind)
    c = circuit.input("c", y=int, t=str, kind=kind)
    c = c.filter(dbsp.col("t") != without) if without else c
    found = a.join(b, on="s").join(c, on="y") if first == "ab" else a.join(b.join(c, on="y"), on="s")
    circuit.output("ends", found.select("x", "t"))
    circuit.output("groups", found.group_by("t").agg(n=dbsp.count()))
    return circuit


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_all_shards_switch_together(shards: int) -> None:
    compared = ComparedShards(wedges("ab").circuit("physical"), shards)
    dealt = set()
    for changes, first in zip(CHANGES, ("bc", "ab", "bc"), strict=True):
        compared.tick(changes)
        compared.switch(wedges(first).circuit("physical"))
        dealt.add(tuple(sorted(dealing(compared.graph).items())))
    compared.tick({"b": CHANGES[0]["b"]})
    compared.tick({"b": dict.fromkeys(CHANGES[0]["b"], -1)})
    assert len(dealt) == 2, "both circuits deal the rows by the same columns"


def test_a_switch_before_the_first_tick() -> None:
    compared = ComparedShards(wedges("ab").circuit("physical"), 2)
    compared.switch(wedges("bc").circuit("physical"))
    follow(compared, CHANGES)


def test_rows_that_are_kept_elsewhere_are_moved() -> None:
    """A plain Z-set input has no arrangement of its own: the rows are behind an exchange."""
    compared = ComparedShards(wedges("ab", "zset").circuit("physical"), 3)
    compared.tick(CHANGES[0])
    compared.switch(wedges("bc", "zset").circuit("physical"))
    follow(compared, CHANGES[1:])


@some(12)
@given(
    programs() | programs(cyclic=True) | programs(kinds=True, records=True),
    st.permutations(["binary", "wcoj", "auto"]),
    PROGRAM_TICKS,
    SHARDS,
    SEEDS,
)
def test_random_programs_switch(text: str, order: list[Any], ticks: Ticks, shards: int, seed: int) -> None:
    first, second, _ = (dbsp.compile(text, strategy) for strategy in order)
    compared = ComparedShards(first.circuit("physical"), shards, seed)
    half = len(ticks) // 2
    follow(compared, [first.facts, *ticks[:half]])
    compared.switch(second.circuit("physical"))
    follow(compared, ticks[half:])


@some(12)
@given(
    programs(cyclic=True) | programs(cyclic=True, kinds=True),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    PROGRAM_TICKS,
    SHARDS,
    SEEDS,
)
def test_gathered_recursions_are_exchanged(
    text: str, mode: Any, ticks: Ticks, shards: int, seed: int
) -> None:
    program = dbsp.compile(text, recursion=mode)
    compared = ComparedShards(program.circuit("physical"), shards, seed)
    half = len(ticks) // 2
    follow(compared, [program.facts, *ticks[:half]])
    compared.switch(program.circuit("physical"), scopes="exchange")
    follow(compared, ticks[half:])


NONLINEAR = """
    .decl edge(x: number, y: number) .input edge
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), path(y, z), x + z != 100.
"""


def test_a_recursion_is_exchanged_with_deletions_around() -> None:
    physical = dbsp.compile(NONLINEAR).circuit("physical")
    compared = ComparedShards(physical, 3)
    follow(compared, [{"edge": {(n, n + 1): 1 for n in range(12)}}, {"edge": {(5, 6): -1, (12, 0): 1}}])
    assert compared.many.runs[0].state_rows > 10 * compared.many.runs[1].state_rows
    calls = fail_at_every_call(
        compared.many, lambda: compared.many.switch(distribute(physical, scopes="exchange"))
    )
    assert calls > 8
    compared.switch(physical, scopes="exchange")
    rows = [run.state_rows for run in compared.many.runs]
    assert max(rows) < 3 * min(rows)
    follow(compared, [{"edge": {(2, 3): -1}}, {"edge": {(5, 6): 1}}, {"edge": {(12, 0): -1, (2, 3): 1}}])


def test_a_failure_on_any_shard_leaves_the_circuit_on_all() -> None:
    compared = ComparedShards(wedges("ab").circuit("physical"), 3)
    compared.tick(CHANGES[0])
    other = wedges("bc").circuit("physical")
    before = compared.graph
    calls = fail_at_every_call(compared.many, lambda: compared.many.switch(distribute(other)))
    assert calls > 3
    assert all(run.graph is before for run in compared.many.runs)
    compared.tick(CHANGES[1])
    compared.switch(other)
    compared.tick(CHANGES[2])


def test_another_query_is_refused_on_all_shards() -> None:
    """The views are compared as sums over the shards, so it does not matter where rows are."""
    compared = ComparedShards(wedges("ab").circuit("physical"), 2)
    compared.tick(CHANGES[0])
    with pytest.raises(CircuitError, match="output 'ends' would have other rows") as error:
        compared.many.switch(wedges("bc", without="3").circuit("distributed"))
    assert error.value.code == "different-circuits"
    follow(compared, CHANGES[1:])
