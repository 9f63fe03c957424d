"""After kills of executors, workers, drivers and servers of runs on shards, every tick is exact."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.sharded_report import print_spark_kills
from benchmarks.spark_kills import SparkKilled, measure_spark_kills


@pytest.mark.crash
def test_killed_at_random() -> None:
    """Run one kill; `python -m benchmarks spark-kills` runs thirty."""
    done = measure_spark_kills(1, seed=15, modes=["run"])
    assert done.problems == []
    assert done.kills.total() == 1 and done.ticks > 1
    assert print_spark_kills(Console(file=io.StringIO()), done)


@pytest.mark.crash
def test_a_server_of_spark_connect_is_killed() -> None:
    """A query that is started again with a new server continues."""
    done = measure_spark_kills(1, seed=1, modes=["connect"])
    assert done.problems == []
    assert done.kills == {"connect: server": 1} and done.ticks > 1


def test_a_wrong_tick_is_printed() -> None:
    printed = io.StringIO()
    wrong = SparkKilled(problems=["tick 3 of totals: expected {}, got {(1,): 1}"])
    assert not print_spark_kills(Console(file=printed, width=200), wrong)
    assert "1 wrong" in printed.getvalue() and "got {(1,): 1}" in printed.getvalue()
