"""Recursions with exchanges inside, on executors: rounds, and attempts that fail between them.

Needs no JVM.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dbsp import Circuit, count
from dbsp.circuit.graph import Graph
from dbsp.spark.cluster.segment_state import forget_runs
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


def closure() -> Graph:
    """The pairs of connected nodes, and how many end at each node."""
    circuit = Circuit("closure")
    edge = circuit.input("edge", x=int, y=int)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", {"x": int, "y": int})
        ends = path.rename(z="y").join(path.rename(z="x"), on="z").project("x", "y")
        scope.define(path, (edge + ends).distinct())
    paths = scope.leave(path)
    circuit.output("path", paths)
    circuit.output("ends", paths.group_by("y").agg(n=count()))
    return circuit.circuit("physical")


class Edges:
    """Random changes of a set of edges."""

    def __init__(self, draw: random.Random, nodes: int = 8) -> None:
        self._draw = draw
        self._nodes = nodes
        self._present: set[tuple[int, int]] = set()

    def change(self, number: int = 4) -> Changes:
        """Insert absent edges, and retract present ones."""
        draw, nodes = self._draw, self._nodes
        rows = {(draw.randrange(nodes), draw.randrange(nodes)) for _ in range(number)}
        changes = {row: -1 if row in self._present else 1 for row in rows}
        self._present ^= rows
        return {"edge": changes}


def tick(life: Life, changes: Changes) -> None:
    life.expect(changes)
    life.apply(changes)


@pytest.mark.parametrize("place", ["local", "memory"])
def test_attempts_that_are_lost_repeated_or_run_twice(place: str, tmp_path: Path) -> None:
    draw = random.Random(place)
    life, edges = Rounds(closure(), 3, place, tmp_path, 4000, draw), Edges(draw)
    for _ in range(8):
        tick(life, edges.change())
        if draw.random() < 0.2:
            life.many = life.started()
    life.check()
    attempts = life.session.attempts
    assert attempts.lost and attempts.doubled and attempts.forgotten
