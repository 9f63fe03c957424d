"""The folder of a sharded run, started with another number of shards."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import dbsp
from dbsp import CheckpointError, Circuit, Run
from dbsp.shards import resharding
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.sharded_run import ShardedRun
from tests.harness import deltas_of, views
from tests.shards.durable_shards import changes_of, distributed_words


def orders() -> Circuit:
    """Inputs of all kinds, a join, aggregates and a recursion."""
    circuit = Circuit("orders")
    sale = circuit.input("sale", id=int, item=str, kind="set")
    price = circuit.input("price", item=str, cents=int, key=["item"])
    visit = circuit.input("visit", id=int, page=str)
    link = circuit.input("link", x=int, y=int, kind="set")
    circuit.output("paid", sale.join(price, on="item"))
    circuit.output("counts", sale.group_by("item").agg(n=dbsp.count(), top=dbsp.col("id").max()))
    circuit.output("seen", sale.join(visit, on="id").group_by("page").agg(n=dbsp.count()))
    with circuit.fixpoint("reach") as scope:
        reach = scope.variable("reach", {"x": int, "y": int})
        longer = reach.map(x=dbsp.col("x"), z=dbsp.col("y")).join(
            link.map(z=dbsp.col("x"), y=dbsp.col("y")), on="z"
        )
        scope.define(reach, (link + longer.map(x=dbsp.col("x"), y=dbsp.col("y"))).distinct())
    circuit.output("reached", scope.leave(reach))
    return circuit


GRAPH = orders().circuit("distributed")


def orders_of(tick: int) -> dict[str, Any]:
    chance = random.Random(tick)
    items = [f"item {chance.randrange(20)}" for _ in range(6)]
    return {
        "sale": {(chance.randrange(30), item): chance.choice((1, 1, -1)) for item in items},
        "price": [(item, chance.randrange(100)) for item in set(items[:2])],
        "visit": {(chance.randrange(30), f"page {chance.randrange(9)}"): 1 + chance.randrange(2)},
        "link": {(chance.randrange(9), chance.randrange(9)): chance.choice((1, 1, -1)) for _ in range(3)},
    }


def opened(folder: Path, shards: int, **options: Any) -> ShardedRun:
    return ShardedRun(GRAPH, shards, folder=ShardFolder(folder, sync=False, reshard=True, **options))


def step(run: ShardedRun, one: Run, ticks: int) -> None:
    for tick in range(run.tick + 1, run.tick + ticks + 1):
        assert deltas_of(run.step(orders_of(tick), label=tick)) == deltas_of(one.step(orders_of(tick)))


def test_a_run_continues_with_other_numbers_of_shards(tmp_path: Path) -> None:
    one = orders().start()
    for shards in (2, 3, 1):
        before = one.tick
        with opened(tmp_path, shards, snapshot_every=2) as run:
            assert (run.tick, views(run)) == (before, views(one))
            assert run.log is not None
            assert run.log.label == (before or None)
            step(run, one, 3)
            assert views(run) == views(one)
            stored = [stats.rows for stats in run.stats()]
            assert len(stored) == shards
            assert all(stored)
        assert len(list(tmp_path.glob("shard-*"))) == shards


def test_an_empty_folder_gets_another_number_of_shards(tmp_path: Path) -> None:
    opened(tmp_path, 2).close()
    with opened(tmp_path, 3) as run:
        step(run, orders().start(), 2)
        assert run.tick == 2


def test_nothing_changes_if_it_fails(tmp_path: Path) -> None:
    one = orders().start()
    with opened(tmp_path, 2) as run:
        step(run, one, 3)
    with (
        mock.patch.object(ShardFolder, "adopt", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        opened(tmp_path, 3)
    with opened(tmp_path, 2) as run:
        assert (run.tick, views(run)) == (3, views(one))
        step(run, one, 1)
    with opened(tmp_path, 3) as run:
        assert (run.tick, views(run)) == (4, views(one))


def test_outputs_that_would_differ_are_noticed(tmp_path: Path) -> None:
    with opened(tmp_path, 2) as run:
        step(run, orders().start(), 2)
    genuine = resharding._views
    calls: list[int] = []

    def changed(*args: Any) -> Any:
        calls.append(0)
        return genuine(*args) | {"paid": [len(calls)]}

    with (
        mock.patch.object(resharding, "_views", changed),
        pytest.raises(CheckpointError, match=r"its outputs would differ.*\[checkpoint-other-shards\]"),
    ):
        opened(tmp_path, 3)
    opened(tmp_path, 2).close()


def test_what_depends_on_ticks_is_refused(tmp_path: Path) -> None:
    graph = distributed_words()
    with ShardedRun(graph, 2, folder=ShardFolder(tmp_path, sync=False)) as run:
        run.step(changes_of(1))
    message = (
        r"cannot deal the rows of .* to 3 shards: the state of this node depends on the past ticks; start"
    )
    with pytest.raises(CheckpointError, match=message + " the run with shards=2") as raised:
        ShardedRun(graph, 3, folder=ShardFolder(tmp_path, sync=False, reshard=True))
    assert str(raised.value).startswith("Delay at ")
    assert raised.value.code == "checkpoint-other-shards"
    ShardedRun(graph, 2, folder=ShardFolder(tmp_path, sync=False, reshard=True)).close()


def test_an_input_whose_rows_are_not_kept_is_refused(tmp_path: Path) -> None:
    circuit = Circuit("totals")
    visit = circuit.input("visit", id=int, page=str)
    circuit.output("pages", visit.map(page=dbsp.col("page")).distinct())
    graph = circuit.circuit("distributed")
    with ShardedRun(graph, 2, folder=ShardFolder(tmp_path, sync=False)) as run:
        run.step({"visit": [(1, "a"), (2, "b")]})
    with pytest.raises(
        CheckpointError, match=r"does not keep the rows of the input 'visit'; declare it with"
    ):
        ShardedRun(graph, 1, folder=ShardFolder(tmp_path, sync=False, reshard=True))


def test_damaged_shards_are_not_dealt(tmp_path: Path) -> None:
    with opened(tmp_path, 2) as run:
        step(run, orders().start(), 2)
    shutil.rmtree(tmp_path / "shard-1")
    with pytest.raises(CheckpointError, match=r"shard-1.*\[checkpoint-unreadable\]"):
        opened(tmp_path, 3)
