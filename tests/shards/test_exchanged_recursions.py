"""Recursions without a pivot in processes: gathered while they fit, then in supersteps."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import dbsp
from dbsp import ArgumentError, CheckpointError, Circuit, Run
from dbsp.circuit.graph import Graph
from dbsp.circuit.operator_roles import RowMoving
from dbsp.durable.shards_header import ShardsHeader
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.sharded_run import ShardedRun
from tests.harness import deltas_of, views
from tests.shards.test_replanned_shards import NONLINEAR

PROGRAM = dbsp.compile(NONLINEAR)
LIMIT = 2 * 65_536
"""The state after the first tick fits into a half of it, and that after the second does not."""


def changes(tick: int) -> dict[str, Any]:
    edges = {(tick * 20 + n, tick * 20 + n + 1): 1 for n in range(20)}
    return {"edge": {**edges, **({(tick * 10, tick * 10 + 1): -1} if tick else {})}}


def exchanges(graph: Graph) -> bool:
    """Return whether a recursion of a circuit exchanges rows."""
    bodies = [body for node in graph.nodes for body in node.operator.children()]
    return any(isinstance(node.operator, RowMoving) for body in bodies for node in body.walk())


def step(one: Run, many: ShardedRun, tick: int) -> None:
    assert deltas_of(many.step(changes(tick))) == deltas_of(one.step(changes(tick)))
    assert (views(many), many.tick) == (views(one), one.tick)


def test_a_recursion_that_outgrows_the_first_shard() -> None:
    one = PROGRAM.start()
    with PROGRAM.start(shards=2, memory_limit=LIMIT) as many:
        found = []
        for tick in range(4):
            step(one, many, tick)
            found.append(exchanges(many.graph))
            if not tick:
                assert "runs on the first shard; the state has" in many.explain()
                assert "and is exchanged beyond 64.0 KB" in many.explain()
        assert found == sorted(found)
        assert found[0] is False
        assert found[-1] is True
        assert "exchanges rows in supersteps of all shards; the first shard has no room" in many.explain()
        graph = many.graph
        many.replan(one.graph)
        assert many.graph.same_as(graph), "the recursion is gathered again"
        many.step({"edge": dict.fromkeys(one.asserted("edge").rows(), -1)})
        many.step({"edge": [(1, 2)]})
        assert many.graph.same_as(graph)
        assert many.view("path").rows() == [(1, 2)]


def test_the_choice_of_the_user() -> None:
    one = PROGRAM.start()
    with (
        PROGRAM.start(shards=2, memory_limit=LIMIT, scopes="gather") as gathered,
        PROGRAM.start(shards=2, scopes="exchange") as exchanged,
    ):
        for tick in range(3):
            result = deltas_of(one.step(changes(tick)))
            assert deltas_of(gathered.step(changes(tick))) == result
            assert deltas_of(exchanged.step(changes(tick))) == result
        assert (exchanges(gathered.graph), exchanges(exchanged.graph)) == (False, True)
        assert 'runs on the first shard; scopes="gather"' in gathered.explain()
        assert 'in supersteps of all shards; scopes="exchange"' in exchanged.explain()
        exchanged.replan(one.graph)
        assert exchanges(exchanged.graph)


@pytest.mark.parametrize("start", [PROGRAM.start, PROGRAM.circuit("query").start])
def test_wrong_choices(start: Any) -> None:
    with pytest.raises(ArgumentError, match="scopes= needs shards=, the number of processes"):
        start(scopes="gather")
    with pytest.raises(ArgumentError, match="scopes= expects one of 'gather', 'exchange', got 'all'"):
        start(shards=2, scopes="all")


def test_a_checkpoint_continues_with_supersteps(tmp_path: Path) -> None:
    """Copies of the folder are what a crash at that moment would leave."""
    one = PROGRAM.start()
    genuine = ShardFolder.switch
    switches = []

    def switch(self: ShardFolder, header: ShardsHeader) -> None:
        shutil.copytree(tmp_path / "run", tmp_path / "before")
        genuine(self, header)
        shutil.copytree(tmp_path / "run", tmp_path / "after")
        os.kill(processes[1], signal.SIGKILL)
        switches.append(one.tick)

    with (
        PROGRAM.start(shards=2, memory_limit=LIMIT, checkpoint=tmp_path / "run") as many,
        mock.patch.object(ShardFolder, "switch", switch),
    ):
        processes = [stats.process for stats in many.stats()]
        for tick in range(4):
            step(one, many, tick)
        assert exchanges(many.graph)
    assert len(switches) == 1
    for name in ("before", "after"):
        with PROGRAM.start(shards=2, memory_limit=LIMIT, checkpoint=tmp_path / name) as many:
            assert exchanges(many.graph) == (name == "after")
            other = PROGRAM.start()
            for tick in range(4):
                if tick < switches[0]:
                    other.step(changes(tick))
                else:
                    step(other, many, tick)
            assert views(many) == views(one)


def test_a_gathered_checkpoint_is_exchanged_on_demand(tmp_path: Path) -> None:
    one = PROGRAM.start()
    with PROGRAM.start(shards=2, checkpoint=tmp_path) as many:
        step(one, many, 0)
    with PROGRAM.start(shards=2, checkpoint=tmp_path, scopes="exchange") as many:
        step(one, many, 1)
        assert exchanges(many.graph)
    with PROGRAM.start(shards=2, checkpoint=tmp_path, scopes="gather") as many:
        assert exchanges(many.graph)
        step(one, many, 2)


def test_a_tick_does_not_begin_when_the_switch_fails(tmp_path: Path) -> None:
    one = PROGRAM.start()
    with PROGRAM.start(shards=2, checkpoint=tmp_path) as many:
        step(one, many, 0)
    full = CheckpointError("the disk is full", code="checkpoint-write")
    with PROGRAM.start(shards=2, checkpoint=tmp_path, scopes="exchange") as many:
        with (
            mock.patch.object(ShardFolder, "switch", side_effect=[full]),
            pytest.raises(CheckpointError, match="the disk is full"),
        ):
            many.step(changes(1))
        assert (views(many), many.tick) == (views(one), 1)
        assert not exchanges(many.graph)
        step(one, many, 1)
        assert exchanges(many.graph)


def test_state_that_cannot_be_rebuilt_stays_gathered() -> None:
    """A delay after the recursion depends on the past ticks, so it cannot be in another circuit."""

    def delayed() -> Circuit:
        circuit = Circuit("delayed")
        edge = circuit.input("edge", x=int, y=int, kind="set")
        with circuit.fixpoint("path") as scope:
            path = scope.variable("path", {"x": int, "y": int})
            ends = path.map(x=dbsp.col("x"), z=dbsp.col("y")).join(
                path.map(z=dbsp.col("x"), y=dbsp.col("y")), on="z"
            )
            scope.define(path, (edge + ends.map(x=dbsp.col("x"), y=dbsp.col("y"))).distinct())
        circuit.output("path", scope.leave(path).delay())
        return circuit

    one = delayed().start()
    with delayed().start(shards=2, memory_limit=LIMIT) as many:
        for tick in range(4):
            step(one, many, tick)
        assert not exchanges(many.graph)
        assert "the state is too large, but stays: the output of this node depends on" in many.explain()
