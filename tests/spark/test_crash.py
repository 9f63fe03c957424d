"""After kills of driver and JVM, every micro-batch is one tick, and every tick is exact."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.report import print_crashes
from benchmarks.spark_crash import compare, measure_crashes
from tests.profiles import PROFILE


@pytest.mark.crash
def test_killed_at_random(tmp_path: Path) -> None:
    """Run two kills, in a check one; `python -m benchmarks spark-crash` runs thirty."""
    folder = tmp_path / "crash"
    kinds = ("driver",) if PROFILE == "ci" else ("driver", "jvm")
    crashes = measure_crashes(len(kinds), folder, seed=5, files=(3, 6))
    assert crashes.problems == []
    assert crashes.kills == dict.fromkeys(kinds, 1)
    assert crashes.with_running_queries >= 1

    printed = io.StringIO()
    print_crashes(Console(file=printed, width=190), crashes)
    assert "every micro-batch is one tick, in all three chains, and every tick is exact" in printed.getvalue()

    # The comparison detects differences.
    latest = max((folder / "rows").glob("tick-*.parquet"))
    shutil.copy(latest, folder / "rows" / "tick-000000009999.parquet")
    with open(folder / "calls", "a") as calls:
        calls.write("1 1\n")
    shutil.rmtree(max((folder / "log" / "ticks").iterdir()))
    max((folder / "fact-paths").glob("tick-*.parquet")).unlink()
    problems = {problem.split(":")[0] for problem in compare(folder, crashes.files)}
    assert problems >= {
        "the folder 'rows'",
        "the sum of the folder 'rows'",
        "the checksums of the folder 'rows'",
        "the order of the calls",
        "the ticks of the log",
        "the folder 'fact-paths'",
    }
    assert not problems & {"the folder 'path'", "the rest of the inbox"}
