"""The benchmark of Spark compares equal work. Times are not tested."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from benchmarks.report import print_driven, print_passing
from benchmarks.spark import FLOOR, Driven, Passing, measure_driven, measure_passing
from benchmarks.spark_rivals import closure
from benchmarks.spark_shards import measure_spark_shards
from benchmarks.spark_shards_report import print_spark_shards


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_rows_pass_in_every_way(spark: Any) -> None:
    passings = list(measure_passing(spark, (10,), batches=1, rounds=0, warm_up=0))
    ways = ["no function", FLOOR, "to a function", "to a folder"]
    assert [one.way for one in passings][:4] == ways
    assert all(one.seconds > 0 for one in passings)
    assert all(len(one.parts) == (0 if one.way in ways[:2] else 3) for one in passings)
    console = Console(file=io.StringIO(), width=190)
    print_passing(console, passings)
    assert all(one.way in printed(console) for one in passings)


def test_workloads_have_the_same_result_through_spark(spark: Any) -> None:
    driven = [one for name in ("w1", "w2") for one in measure_driven(spark, name, "tiny", 2, rounds=0)]
    assert [(one.workload, one.phase) for one in driven] == [
        ("w1", "load"),
        ("w1", "batch"),
        ("w2", "load"),
        ("w2", "batch"),
    ]
    assert driven[0].rows == 550
    console = Console(file=io.StringIO(), width=190)
    assert print_driven(console, driven)
    assert "DIFFERS" not in printed(console)


def test_the_report_marks_different_results() -> None:
    console = Console(file=io.StringIO(), width=190)
    assert not print_driven(console, [Driven("w1", "tiny", "load", 1, 0.25, 0.5, 1.0, False)])
    print_passing(console, [Passing(1_000, "to a folder", 0.125, 0.025, (0.1, 0.02, 0.005))])
    for words in ("DIFFERS", "+250.0 ms", "+25.0 ms", "8,000"):
        assert words in printed(console)


def test_shards_on_spark_and_jobs_by_hand_have_the_same_result(spark: Any) -> None:
    (measured,) = measure_spark_shards(spark, {"w1": 500}, ticks={1: 1, 100: 1})
    shards, alone, recomputed, by_hand, empty = measured
    assert shards.outcome is not None
    assert shards.outcome.rows > 1
    assert {each.outcome for each in (alone, recomputed, by_hand)} == {shards.outcome}
    assert (shards.rows, shards.levels, empty.way) == (550, 2, "empty job of 2 levels")
    assert [len(times) for times in shards.worked.values()] == [2, 2]
    assert all(each.peaks.python > 1e7 and each.peaks.java > 1e8 for each in measured[:4])
    assert [len(shards.ticks[size].wall) for size in (1, 100)] == [2, 3]
    assert [len(recomputed.ticks[size].wall) for size in recomputed.ticks] == [1]
    assert all(shards.ticks[size].processor_seconds > 0 for size in (1, 100))
    console = Console(file=io.StringIO(), width=190)
    assert print_spark_shards(console, measured)
    assert all(each.way in printed(console) for each in measured)
    assert not print_spark_shards(console, [shards, replace(alone, outcome=None)])
    assert "the results differ" in printed(console)


def test_the_loop_of_frames_finds_the_closure_of_a_cycle(spark: Any) -> None:
    edges = spark.createDataFrame([(0, 1), (1, 2), (2, 1), (2, 3)], "x long, y long")
    rows = {tuple(row) for row in closure(edges).collect()}
    assert rows == {(x, y) for x in (0, 1, 2) for y in (1, 2, 3)}
