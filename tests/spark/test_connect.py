"""Pipelines of Spark Connect: the circuit runs in processes of the server.

One process runs all scenarios of `tests.spark.connect_client`; the tests compare what it found with
the results of one process without Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import dbsp
from benchmarks.fake_spark import PAIRS, TWO, FakeFrame
from dbsp import CheckpointError, SetupError
from dbsp.spark.connect_batches import ConnectBatches
from dbsp.spark.local_session import _connected
from dbsp.spark.query_reports import error_in_text
from tests.spark.lives import ticks
from tests.spark.support import CLOSURE

ROOT = Path(__file__).parents[2]


def found_in(folder: Path) -> dict[str, Any]:
    """Run all scenarios in one process; return what they found."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    client = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", str(folder)],
        cwd=folder,
        # Ports that are free: several servers can run on the machine of the tests.
        env={**os.environ, "PYTHONPATH": paths, "SPARK_TESTING": "1"},
        capture_output=True,
        text=True,
    )
    assert client.returncode == 0, client.stderr[-4000:]
    read: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return read


def test_pipelines_of_spark_connect(tmp_path: Path) -> None:
    """One test, since the process with a server takes half a minute."""
    found = found_in(tmp_path)
    # The facts and two micro-batches; one after a restart; one of a query that was stopped.
    check_ticks_arrive_once(found, "restarts", [0, 0, 0, 3, 4])
    check_ticks_arrive_once(found, "shards", [0, 0, 0, 3])
    check_sources_circuits_and_batches(found)
    check_errors_reach_the_client(found)
    check_refusals_at_the_start(found)


def outcome(found: dict[str, Any], scenario: str) -> Any:
    value = found[scenario]
    if isinstance(value, dict) and "raised" in value:
        raise AssertionError(value["raised"])
    return value


def deltas() -> dict[int, list[list[int]]]:
    """Return the deltas of `path` by tick, of a run in this process."""
    run = dbsp.compile(CLOSURE + "edge(0, 1).").start()
    by_tick = {1: [[0, 1, 1]]}
    for edge in [(1, 2), (2, 3), (3, 4), (4, 5)]:
        result = run.step({"edge": [edge]})
        by_tick[result.number] = sorted([*row, weight] for row, weight in result["path"].to_dict().items())
    return by_tick


def check_ticks_arrive_once(found: dict[str, Any], scenario: str, started: list[int]) -> None:
    """In processes of the server; `started` has the first tick of the process of each tick."""
    has = outcome(found, scenario)
    expected = dict(list(deltas().items())[: len(started)])
    rows = sorted([tick, *row] for tick, delta in expected.items() for row in delta)
    assert has["folder"] == rows
    assert has["table"] == rows
    assert [(call["tick"], call["rows"]) for call in has["calls"]] == list(expected.items())
    processes = [call["process"] for call in has["calls"]]
    assert has["client"] not in processes
    assert [processes.index(process) for process in processes] == started


def check_sources_circuits_and_batches(found: dict[str, Any]) -> None:
    assert outcome(found, "functions") == [[2, 2, 1]]
    assert outcome(found, "several") == [[1, 2, 6, "b", 1], [2, 1, 5, "c", 1]]
    assert outcome(found, "batch") == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]


def check_errors_reach_the_client(found: dict[str, Any]) -> None:
    has = outcome(found, "failing")
    message = (
        "relation 'edge': column 'y': expected int, got None; to allow None, declare the column optional"
    )
    assert has["error"] == f"{message} [missing-value]"
    assert (has["class"], has["code"]) == ("InputError", "missing-value")
    assert f"dbsp.errors.InputError: {message} [missing-value]" in has["exception"]
    assert has["ticks"].startswith(
        "the process of the Spark Connect server that runs the circuit has the metrics"
    )

    has = outcome(found, "failing_sink")
    assert "(DataFrame, 1) raised OSError: the disk is full [user-function]" in has["error"]
    assert [(call["tick"], call["rows"]) for call in has["calls"]] == list(deltas().items())[:2]


def check_refusals_at_the_start(found: dict[str, Any]) -> None:
    has = outcome(found, "refused")
    assert "cannot be sent to the server of Spark Connect (TypeError: cannot pickle" in has["pickle"]
    assert has["pickle"].endswith("[not-picklable]")
    assert has["option"] == "the option 'sync' expects 'true' or 'false', got 'maybe' [invalid-option]"
    assert "got s3://bucket/out [unsupported-location]" in has["target"]
    assert has["shards"].startswith(
        "the executors of the Spark Connect server need a folder that they share with the driver; set"
        ' option("checkpointLocation", folder)'
    )
    assert "got s3://bucket/state [unsupported-location]" in has["location"]
    assert "expected a streaming DataFrame, got a batch DataFrame" in has["batch"]
    for feed, what in (("feed", "run"), ("database", "connection")):
        assert has[feed].startswith(
            f"the {what} of this process cannot be used in a process of the Spark Connect server"
        )


# --- without a server -----------------------------------------------------------------------------


def batches(folder: Path | None, **settings: Any) -> ConnectBatches:
    pipeline = (
        dbsp.spark.stream(TWO).source("e", FakeFrame()).sink("a", folder.parent / "a" if folder else "x/a")
    )
    parts = pipeline._parts
    sources = parts.source_operators()
    location = None if folder is None else str(folder)
    return ConnectBatches(parts, sources, dict.fromkeys(sources, PAIRS), {}, location, **settings)


def test_a_server_with_another_version_is_refused() -> None:
    with pytest.raises(
        SetupError, match=r"the client of Spark Connect runs dbsp 0 on Python 3.9, its server dbsp"
    ):
        batches(None, version="dbsp 0 on Python 3.9")(FakeFrame(), 0)


def test_a_server_that_does_not_see_the_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"expected Spark's file 'metadata' in .*folder-not-shared"):
        batches(tmp_path / "checkpoint")(FakeFrame(), 0)


def test_a_new_process_waits_for_the_previous_one(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id": "the id of the query"}')
    holder = batches(checkpoint)
    holder(FakeFrame((0, 0)), 0)
    assert FakeFrame.sparkSession.conf["spark.connect.session.planCache.enabled"] == "false"
    ending = threading.Timer(0.5, lambda: holder._driver.close())  # type: ignore[union-attr]
    ending.start()
    try:
        batches(checkpoint)(FakeFrame((1, 1)), 1)
    finally:
        ending.join()
    assert ticks(tmp_path / "a") == {1: [(0, 0, 1)], 2: [(1, 1, 1)]}


def test_missing_packages_are_named() -> None:
    class Builder:
        def remote(self, url: str) -> Any:
            raise ImportError("No module named 'grpc'")

    with pytest.raises(SetupError, match=r"No module named 'grpc'.*dbsp-circuits.spark-connect"):
        _connected(Builder(), "sc://host", {})


def test_errors_in_the_text_of_a_stack() -> None:
    stack = "Traceback (most recent call last):\n  File 'a.py', line 3\n"
    raised = "dbsp.errors.UserFunctionError: f raised x [user-function]"
    text = f"{stack}dbsp.errors.InputError: cause [a-b]\n{stack}{raised}\n SQLSTATE: 1"
    error = error_in_text(text)
    assert (type(error), str(error)) == (dbsp.UserFunctionError, "f raised x [user-function]")
    assert error_in_text(f"{stack}ValueError: no\n SQLSTATE: 1") is None
    assert error_in_text(f"{stack}ValueError: no\n SQLSTATE: 1\ndbsp.errors.InputError: later") is None
    assert error_in_text("dbsp.errors.wrong_argument: no class") is None
