"""Pipelines on shards: the deltas that the executors write are those of one process."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import dbsp
from tests.spark.support import CLOSURE, Arrivals, Collected, Delta, finish

SALES = """
    .decl sold(shop: symbol, amount: number)  .input sold
    .decl shop(name: symbol, region: symbol)  .input shop
    .decl total(region: symbol, euro: number)  .output total
    total(r, n) :- shop(_, r), n = sum euro : { sold(s, euro), shop(s, r) }.
"""
TRIANGLES = """
    .decl e(x: number, y: number)  .input e
    .decl t(x: number, y: number, z: number)  .output t
    t(x, y, z) :- e(x, y), e(y, z), e(z, x).
"""
POINTS_TO = """
    .decl new(v: number, o: number)  .input new
    .decl assign(to: number, from: number)  .input assign
    .decl load(to: number, base: number, f: number)  .input load
    .decl store(base: number, f: number, from: number)  .input store
    .decl pt(v: number, o: number)  .output pt
    .decl heap(o: number, f: number, p: number)  .output heap
    pt(v, o) :- new(v, o).
    pt(v, o) :- assign(v, w), pt(w, o).
    pt(v, p) :- load(v, b, f), pt(b, o), heap(o, f, p).
    heap(o, f, p) :- store(b, f, v), pt(b, o), pt(v, p).
"""
Rows = dict[tuple[Any, ...], int]


def arriving(
    folder: Path, spark: Any, columns: Mapping[str, str], ticks: Sequence[Mapping[str, Rows]]
) -> Any:
    """Return the streaming DataFrames of changes with weights, a micro-batch per tick."""
    frames = {}
    for name, ddl in columns.items():
        arrivals = Arrivals(folder / name, f"{ddl}, weight long")
        for changes in ticks:
            arrivals.put(*((*row, weight) for row, weight in changes.get(name, {}).items()))
        frames[name] = arrivals.frame(spark)
    return frames


def on_shards(
    program: Any, frames: Mapping[str, Any], sinks: Mapping[str, Any], shards: int, checkpoint: Path | None
) -> dbsp.spark.Pipeline:
    pipeline = dbsp.spark.stream(program).option("shards", shards)
    for name, frame in frames.items():
        pipeline.source(name, frame, encoding="weight")
    for name, sink in sinks.items():
        pipeline.sink(name, sink)
    return pipeline if checkpoint is None else pipeline.option("checkpointLocation", str(checkpoint))


def alone(program: Any, ticks: Sequence[Mapping[str, Rows]]) -> dict[str, list[tuple[int, Delta]]]:
    """Return by output the deltas of a run in one process, with their ticks."""
    run = program.start()
    expected: dict[str, list[tuple[int, Delta]]] = {name: [] for name in run.outputs}
    for changes in ticks:
        result = run.step(changes)
        for name, delta in result.items():
            if delta:
                expected[name].append((result.number, delta.to_dict()))
    return expected


def edges(draw: random.Random, nodes: int, number: int) -> Rows:
    return {(draw.randrange(nodes), draw.randrange(nodes)): draw.choice([1, 1, -1]) for _ in range(number)}


def sales(draw: random.Random, tick: int) -> dict[str, Rows]:
    sold = {(f"s{draw.randrange(6)}", draw.randrange(50)): draw.choice([1, 2, -1]) for _ in range(40)}
    shops = {(f"s{n}", f"r{n % 3}"): 1 for n in range(6)} if tick == 0 else {(f"s{tick}", f"r{tick % 3}"): -1}
    return {"sold": sold, "shop": shops}


def points_to(draw: random.Random, tick: int) -> dict[str, Rows]:
    def some(*arity: int) -> Rows:
        return {tuple(draw.randrange(n) for n in arity): draw.choice([1, 1, -1]) for _ in range(6)}

    return {"new": some(6, 6), "assign": some(6, 6), "load": some(6, 6, 2), "store": some(6, 2, 6)}


CASES = {
    "sales": (SALES, sales, {"sold": "shop string, amount long", "shop": "name string, region string"}),
    "closure": (CLOSURE, lambda draw, tick: {"edge": edges(draw, 8, 10)}, {"edge": "x long, y long"}),
    "triangles": (TRIANGLES, lambda draw, tick: {"e": edges(draw, 6, 20)}, {"e": "x long, y long"}),
    "points-to": (
        POINTS_TO,
        points_to,
        {"new": "v long, o long", "assign": "to long, from long"}
        | {"load": "to long, base long, f long", "store": "base long, f long, from long"},
    ),
}


@pytest.mark.parametrize(
    ("case", "shards"),
    [("sales", 2), ("sales", 3), ("closure", 1), ("closure", 2), ("triangles", 3), ("points-to", 2)],
)
def test_programs_agree_with_one_process(spark: Any, tmp_path: Path, case: str, shards: int) -> None:
    text, drawn, columns = CASES[case]
    draw = random.Random(case)
    ticks = [drawn(draw, tick) for tick in range(3)]
    program = dbsp.compile(text)
    expected = alone(program, ticks)
    sinks = {name: Collected() for name in expected}
    frames = arriving(tmp_path, spark, columns, ticks)
    finish(on_shards(program, frames, sinks, shards, None))
    assert {name: sink.ticks for name, sink in sinks.items()} == expected
    assert sum(len(found) for found in expected.values()) >= 3, expected
