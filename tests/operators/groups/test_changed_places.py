"""Ranks and shifts that recompute a part of a partition, compared with Python lists."""

from __future__ import annotations

import random
from collections.abc import Mapping
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream
from dbsp.operators.groups import neighbours_step
from dbsp.operators.groups.group_step import GroupsStep
from tests.harness import follow, start, view
from tests.strategies import Tick, nullable, resplit, rows, ticks, words

from .test_ranking import COLUMNS, ranked, shifted

ROW = rows(st.integers(0, 1), nullable, words)
WEIGHTS = st.sampled_from([1, 1, 1, 2, -1, -1, 3, -3])


def build(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    return {
        "lag": a.lag("s", by="x", partition=["k"]),
        "lead": a.lead("x", 2, by=["x", "s"], partition=["k"]),
        "down": a.lag("x", 3, by="x", descending=True),
        "turned": a.lead("s", by=["k", "x"], descending=[True, False]),
        "rank": a.rank(by="x", partition=["k"]),
        "fall": a.rank(by=["x", "s"], partition=["k"], descending=[True, False]),
        "number": a.row_number(by="x"),
        "down_number": a.row_number(by=["x", "k"], descending=True),
        "dense": a.dense_rank(by="x", partition=["k"]),
        "down_dense": a.dense_rank(by=["x", "k"], descending=True),
        "dense_words": a.dense_rank(by=["x", "s"], partition=["k"]),
    }


def model(inputs: Mapping[str, dict[tuple[object, ...], int]]) -> dict[str, dict[tuple[object, ...], int]]:
    a = inputs["a"]
    return {
        "lag": shifted(2, 1, [0], [(1, False)])(a),
        "lead": shifted(1, -2, [0], [(1, False), (2, False)])(a),
        "down": shifted(1, 3, [], [(1, True)])(a),
        "turned": shifted(2, -1, [], [(0, True), (1, False)])(a),
        "rank": ranked("rank", [0], [(1, False)])(a),
        "fall": ranked("rank", [0], [(1, True), (2, False)])(a),
        "number": ranked("row_number", [], [(1, False)])(a),
        "down_number": ranked("row_number", [], [(1, True), (0, True)])(a),
        "dense": ranked("dense_rank", [0], [(1, False)])(a),
        "down_dense": ranked("dense_rank", [], [(1, True), (0, True)])(a),
        "dense_words": ranked("dense_rank", [0], [(1, False), (2, False)])(a),
    }


@given(ticks({"a": ROW}, WEIGHTS, max_ticks=6, max_size=4))
def test_equals_the_batch_definition_tick_by_tick(sequence: list[Tick]) -> None:
    with patch.object(neighbours_step, "LARGE", 0):
        follow(build, model, sequence)


def test_each_row_goes_and_comes_back() -> None:
    """Random changes seldom retract a row of a partition that has rows on both of its sides."""
    held = [(k, x, s) for k in range(2) for x in (None, 1, 2, 3) for s in "ab"]
    weights: list[dict[tuple[object, ...], int]] = [dict.fromkeys(held, 1)]
    for at, row in enumerate(held):
        weights += [{row: -1}, {row: 1}, {row: 2}, {row: -2}]
        other = held[at - 5]
        weights += [{row: -1, other: -1}, {row: 1}, {other: 1}, {row: -1, (0, 2, "aa"): 1}]
        absent = row[0], 9, "zz"  # it does not count before or after
        weights += [{row: 1, (0, 2, "aa"): -1}, {row: -1, absent: -1}, {row: 1, absent: 1}]
    with patch.object(neighbours_step, "LARGE", 0):
        follow(build, model, [{"a": changes} for changes in weights])


@given(ticks({"a": ROW}, WEIGHTS, max_ticks=4), st.data())
def test_large_and_small_ticks_keep_the_same_state(sequence: list[Tick], data: st.DataObject) -> None:
    run = start(build)
    total: dict[str, dict[tuple[object, ...], int]] = {"a": {}}
    for number, tick in enumerate(data.draw(resplit(sequence))):
        with patch.object(neighbours_step, "LARGE", 10**6 * (number % 2)):
            run.step(tick)
    for tick in sequence:
        for row, weight in tick.get("a", {}).items():
            total["a"][row] = total["a"].get(row, 0) + weight
    total["a"] = {row: weight for row, weight in total["a"].items() if weight}
    expected = model(total)
    assert {name: view(run, name) for name in run.outputs} == expected


@pytest.mark.parametrize("name", ["lag", "rank", "dense_rank"])
def test_a_large_partition_is_not_read(name: str) -> None:
    """A tick that moves a row by one place reads and emits a few rows of 20,000."""
    draw = random.Random(1)

    def only(c: Circuit) -> Stream:
        a = c.input("a", n=int, x=int)
        return a.lag("n", by="x") if name == "lag" else getattr(a, name)(by="x")

    run = start(only)
    held = list(range(20_000))
    run.step({"a": [(n, 10 * n) for n in held]})
    with patch.object(GroupsStep, "history", side_effect=AssertionError("a partition was read")):
        for _ in range(20):
            n = draw.choice(held[5:-5])
            out = run.step({"a": {(n, 10 * n): -1, (n, 10 * n + 11): 1}})["out"].to_dict()
            assert 0 < len(out) <= 6
            run.step({"a": {(n, 10 * n): 1, (n, 10 * n + 11): -1}})
    expected = {(n, 10 * n, n - 1 if n else None) if name == "lag" else (n, 10 * n, n + 1) for n in held}
    assert set(view(run)) == expected
