"""Recursions with exchanges inside, on Spark's executors: the results are those of one process."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import CheckpointError, EvaluationError
from tests.shards.closure_circuit import RandomEdges, closure, undefined_at
from tests.spark.support import Arrivals, Collected, finish
from tests.spark.test_cluster_run import Compared
from tests.spark.test_cluster_stream import CASES, alone, arriving, on_shards

pytestmark = pytest.mark.spark

PATHS = """
    .decl edge(x: number, y: number)  .input edge
    .decl path(x: number, y: number)  .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), path(y, z), x != z.
"""


class Rounds(Compared):
    """A run whose recursions have exchanges inside."""

    scopes = "exchange"


@pytest.mark.parametrize("shards", [1, 3])
def test_a_closure(spark: Any, tmp_path: Path, shards: int) -> None:
    compared = Rounds(spark, closure(), shards, tmp_path)
    edges = RandomEdges(random.Random(shards), 5)
    for _ in range(2):
        compared.tick(edges.change())
    rounds = [facts["rounds"] for facts in compared.many.segment_facts() if "rounds" in facts]
    assert len(rounds) == shards and all(rounds) == (shards > 1)


def once(flag: Path) -> Callable[[Any], bool]:
    """Return a condition that ends the process, the first time that it reads a pair of nodes."""

    def holds(row: Any) -> bool:
        if flag.exists():
            flag.unlink()
            os._exit(9)
        return True

    return holds


def test_a_process_that_ends_in_a_round_and_a_driver_that_continues(spark: Any, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    compared = Rounds(spark, closure(once(flag)), 2, tmp_path)
    compared.tick({"edge": {(1, 2): 1}})
    flag.touch()
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        compared.many.step([compared.frame("edge", {(2, 3): 1})])
    assert not flag.exists() and compared.many.tick == 1
    assert list((tmp_path / "state" / "rounds").glob("2/*"))
    compared.many = compared.started()
    compared.tick({"edge": {(2, 3): 1, (3, 1): 1}})
    assert not list((tmp_path / "state" / "rounds").iterdir())


def test_an_error_of_the_program_in_a_round(spark: Any, tmp_path: Path) -> None:
    compared = Rounds(spark, closure(undefined_at(5)), 2, tmp_path)
    compared.tick({"edge": {(3, 4): 1}})
    with pytest.raises(EvaluationError) as expected:
        compared.one.step({"edge": {(4, 5): 1}})
    with pytest.raises(EvaluationError) as found:
        compared.many.step([compared.frame("edge", {(4, 5): 1})])
    assert (found.value.code, found.value.message) == (expected.value.code, expected.value.message)
    compared.tick({"edge": {(4, 6): 1, (3, 4): -1}})


def test_a_pipeline_whose_recursion_exchanges_rows(spark: Any, tmp_path: Path) -> None:
    text, drawn, columns = CASES["points-to"]
    draw = random.Random(7)
    ticks = [drawn(draw, tick) for tick in range(2)]
    program = dbsp.compile(text)
    expected = alone(program, ticks)
    sinks = {name: Collected() for name in expected}
    frames = arriving(tmp_path, spark, columns, ticks)
    query = finish(on_shards(program, frames, sinks, 2, None).option("scopes", "exchange"))
    assert {name: sink.ticks for name, sink in sinks.items()} == expected
    first, second = ([f for f in tick["segments"] if "rounds" in f] for tick in dbsp.spark.ticks(query))
    assert {facts["shard"] for facts in first} == {facts["shard"] for facts in second} == {0, 1}
    assert min(facts["rounds"] for facts in first) > 2 and {facts["jobs"] for facts in first} != {1}


def test_the_choice_belongs_to_the_state(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "edge", "x long, y long")
    arrivals.put((1, 2), (2, 3))

    def start(scopes: str, text: str = PATHS) -> None:
        pipeline = dbsp.spark.stream(dbsp.compile(text)).source("edge", arrivals.frame(spark))
        pipeline.options(shards=2, scopes=scopes, checkpointLocation=tmp_path / "checkpoint")
        finish(pipeline.sink("path", tmp_path / "path"))

    start("exchange")
    assert {tuple(row)[:2] for row in spark.read.parquet(f"{tmp_path}/path").collect()} == {
        (1, 2),
        (1, 3),
        (2, 3),
    }
    with pytest.raises(
        CheckpointError, match="was written with the option 'scopes' as 'exchange', got 'g"
    ) as e:
        start("gather")
    assert e.value.code == "checkpoint-other-shards"
    with pytest.raises(CheckpointError, match="has the state of another query"):
        start("gather", PATHS + ".decl more(x: number) .output more\nmore(x) :- edge(x, x).")


def test_run_takes_scopes(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, 2), (2, 3)], "x long, y long")
    views = dbsp.spark.run(dbsp.compile(PATHS), {"edge": rows}, shards=2, scopes="exchange", folder=tmp_path)
    assert {tuple(row) for row in views["path"].collect()} == {(1, 2), (2, 3), (1, 3)}
