"""Distributed circuits return what the physical circuit returns, on any number of shards."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dbsp import from_json
from dbsp.circuit.graph import Graph
from dbsp.operators.stages.passes.distribute import distribute
from tests.random_circuits import FUNCTIONS, Choices, build, choices
from tests.shards.compared_shards import ComparedShards

SHARDS = (1, 2, 3, 5)


def random_ticks(seed: int, ticks: int) -> list[dict[str, dict[Any, int]]]:
    """Return changes of 'a' and 'b' of `tests.random_circuits`; no weight becomes negative."""
    draw = random.Random(seed)
    held: dict[str, dict[Any, int]] = {"a": {}, "b": {}}
    changes = []
    for _ in range(ticks):
        tick: dict[str, dict[Any, int]] = {}
        for name, rows in held.items():
            change = {row: -weight for row, weight in rows.items() if draw.random() < 0.3}
            for _ in range(draw.randrange(6)):
                row = draw.randrange(5), draw.choice([None, 0, 1, 2, 3]), draw.choice("abc")
                change.setdefault(row, 1 + (name == "a" and draw.randrange(2)))
            for row, weight in change.items():
                present = rows.get(row, 0) + weight if name == "a" else max(weight, 0)
                rows[row] = present
            held[name] = {row: weight for row, weight in rows.items() if weight}
            tick[name] = change
        changes.append(tick)
    return changes


def compare(physical: Graph, shards: int, ticks: list[dict[str, Any]], seed: int = 0) -> ComparedShards:
    """Run a circuit on shards, which check the places of their rows, beside one process."""
    compared = ComparedShards(physical, shards, seed, checked=True)
    for tick in ticks:
        compared.tick(tick)
    return compared


@given(choices(), st.integers(0, 999), st.sampled_from(SHARDS))
def test_random_circuits(chosen: Choices, seed: int, shards: int) -> None:
    compare(build(chosen).circuit("physical"), shards, random_ticks(seed, 4), seed)


@given(choices())
def test_distributed_circuits_go_through_json(chosen: Choices) -> None:
    graph = distribute(build(chosen).circuit("physical"), checked=True)
    again = from_json(graph.to_json(), functions=FUNCTIONS)
    assert again.content_hash() == graph.content_hash()


def test_the_distributed_circuit_depends_on_the_query_only() -> None:
    circuit = build([("join", 0, 1), ("closed", 0, 1), ("grouped", 0, 0)])
    first, second = (circuit.circuit("distributed").content_hash() for _ in range(2))
    assert first == second
