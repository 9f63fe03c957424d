"""Circuits stepped segment by segment return what they return in one process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from benchmarks.fault_circuits import CIRCUITS, FaultCircuit
from dbsp import CircuitError
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.stages.segments import segments_of
from dbsp.runtime.agreement import random_changes
from tests.random_circuits import BINARY, UNARY, Choices, build, choices
from tests.random_datalog import programs
from tests.shards.segment_shards import ComparedSegments
from tests.shards.test_sharded_agreement import (
    CIRCUIT_TICKS,
    PROGRAM_TICKS,
    PROGRAMS,
    SEEDS,
    SHARDS,
    Ticks,
    follow,
    some,
    without_negative,
)


@some(25)
@given(choices(), CIRCUIT_TICKS, SHARDS, SEEDS)
def test_random_circuits(chosen: Choices, ticks: Ticks, shards: int, seed: int) -> None:
    compared = ComparedSegments(build(chosen).circuit("physical"), shards, seed)
    follow(compared, without_negative(ticks, "a"))


@some(25)
@given(
    programs() | programs(cyclic=True) | programs(kinds=True, records=True),
    st.sampled_from(["auto", "binary", "wcoj"]),
    PROGRAM_TICKS,
    SHARDS,
    SEEDS,
)
def test_random_programs(text: str, strategy: Any, ticks: Ticks, shards: int, seed: int) -> None:
    program = dbsp.compile(text, strategy)
    compared = ComparedSegments(program.circuit("physical"), shards, seed)
    follow(compared, [program.facts, *ticks])


@some(25)
@given(
    programs(cyclic=True) | programs(kinds=True, records=True),
    st.sampled_from(["binary", "wcoj"]),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    PROGRAM_TICKS,
    st.sampled_from([1, 2, 3]),
    SEEDS,
)
def test_random_recursions_with_exchanges(
    text: str, strategy: Any, mode: Any, ticks: Ticks, shards: int, seed: int
) -> None:
    program = dbsp.compile(text, strategy, recursion=mode)
    compared = ComparedSegments(program.circuit("physical"), shards, seed, scopes="exchange")
    follow(compared, [program.facts, *ticks])


@some(20)
@given(choices(), CIRCUIT_TICKS, SHARDS, SEEDS)
def test_equal_rows_of_an_output_are_on_one_shard(
    chosen: Choices, ticks: Ticks, shards: int, seed: int
) -> None:
    physical = build(chosen).circuit("physical")
    compared = ComparedSegments(physical, shards, seed, whole_outputs=True)
    follow(compared, without_negative(ticks, "a"))


def test_an_output_of_a_projection_is_exchanged() -> None:
    circuit = dbsp.Circuit("projection")
    circuit.output("b", circuit.input("a", x=int, y=int).select("y"))
    compared = ComparedSegments(circuit.circuit("physical"), 3, whole_outputs=True)
    assert len(compared.many.segments) == 2
    compared.tick({"a": [(x, 1) for x in range(9)]})
    compared.tick({"a": {(x, 1): -1 for x in range(5)} | {(x, 1): 1 for x in range(10, 15)}})


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_every_operator(name: str) -> None:
    draw = random.Random(name)
    compared = ComparedSegments(build([(name, 1, 2), (name, 0, 1)]).circuit("physical"), 3, 2)
    ticks = [random_changes(draw, compared.one.inputs, 4) for _ in range(6)]
    follow(compared, [*without_negative(ticks, "a"), {}])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_program(path: Path) -> None:
    program = dbsp.compile(path)
    compared = ComparedSegments(program.circuit_for(program.plans, 500).circuit("physical"), 2, 1)
    draw = random.Random(path.stem)
    follow(compared, [program.facts])
    follow(compared, [random_changes(draw, compared.one.inputs, 3) for _ in range(5)])


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_every_stateful_operator(circuit: FaultCircuit) -> None:
    compared = ComparedSegments(circuit.start().graph, 3, 7)
    follow(compared, [circuit.first, *map(circuit.tick, range(8)), {}])


def test_a_multiway_join_is_divided_by_a_variable() -> None:
    rules = """
        .decl e(x: number, y: number) .input e
        .decl t(x: number, y: number, z: number) .output t
        t(x, y, z) :- e(x, y), e(y, z), e(z, x).
    """
    reasons: list[str] = []
    physical = dbsp.compile(rules, "wcoj").circuit("physical")
    distribute(physical, reasons, inner_exchanges=False)
    assert any("the join is divided by " in reason for reason in reasons), reasons
    compared = ComparedSegments(physical, 3)
    edges = {(x, y): 1 for x in range(5) for y in range(5) if x != y}
    follow(compared, [{"e": edges}, {"e": {(0, 1): -1}}, {"e": {(0, 1): 1, (2, 3): -1}}])
    found = [run.run.view("t").to_dict() for run in compared.many.runs_of("t")]
    assert sum(map(bool, found)) > 1, "all triangles are on one shard"


def test_an_exchange_inside_of_a_node_is_refused() -> None:
    rules = """
        .decl e(x: number, y: number) .input e
        .decl t(x: number, y: number, z: number) .output t
        t(x, y, z) :- e(x, y), e(y, z), e(z, x).
    """
    graph = dbsp.compile(rules, "wcoj").circuit("distributed")
    with pytest.raises(CircuitError, match="expected a circuit without exchanges inside") as error:
        segments_of(graph)
    assert error.value.code == "not-shardable"
