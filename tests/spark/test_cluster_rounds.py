"""Recursions with exchanges inside, on executors: rounds, and attempts that fail between them.

Needs no JVM.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dbsp.spark.cluster.segment_state import forget_runs
from tests.shards.closure_circuit import RandomEdges, closure
from tests.spark.fake_session import fake_tasks
from tests.spark.test_cluster_faults import Life
from tests.spark.test_cluster_run import Changes


class Rounds(Life):
    """A run whose recursions have exchanges inside."""

    scopes = "exchange"


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake_tasks(monkeypatch)
    yield
    forget_runs()


def tick(life: Life, changes: Changes) -> None:
    life.expect(changes)
    life.apply(changes)


@pytest.mark.parametrize("place", ["local", "memory"])
def test_attempts_that_are_lost_repeated_or_run_twice(place: str, tmp_path: Path) -> None:
    draw = random.Random(place)
    life, edges = Rounds(closure(), 3, place, tmp_path, 4000, draw), RandomEdges(draw)
    for _ in range(8):
        tick(life, edges.change())
        if draw.random() < 0.2:
            life.many = life.started()
    life.check()
    attempts = life.session.attempts
    assert attempts.lost and attempts.doubled and attempts.forgotten
