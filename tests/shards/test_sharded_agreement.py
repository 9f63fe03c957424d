"""Distributed circuits on any number of shards return what the circuit returns in one process.

`DBSP_TEST_SCALE` multiplies the number of random examples.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.fault_circuits import CIRCUITS, FaultCircuit
from dbsp.runtime.agreement import random_changes
from tests.random_circuits import BINARY, UNARY, Choices, build, choices
from tests.random_datalog import INPUTS, programs
from tests.shards.compared_shards import ComparedShards, FaultyShards

PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*.dl"))
SCALE = float(os.environ.get("DBSP_TEST_SCALE", "1"))
SHARDS = st.sampled_from([1, 2, 3, 5])
SEEDS = st.integers(0, 2**16)

Ticks = list[dict[str, dict[tuple[Any, ...], int]]]
NUMBERS = st.integers(0, 3)
ROWS = st.tuples(NUMBERS, st.none() | NUMBERS, st.sampled_from(["a", "b", "c"]))
WEIGHTS = st.sampled_from([1, 1, 1, 2, -1, -2])


def some(examples: int) -> settings:
    return settings(
        max_examples=max(1, int(examples * SCALE)),
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
    compared = FaultyShards(circuit.start().graph, 2, 9)
    follow(compared, [circuit.first, *map(circuit.tick, range(3))])
