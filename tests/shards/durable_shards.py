"""Shards in threads whose ticks are durable in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dbsp
from dbsp import Circuit, Run, Schema
from dbsp.circuit.graph import Graph
from dbsp.durable.step_memory import signature
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.ports.output import Output
from dbsp.operators.shards.exchange import Exchange
from dbsp.operators.streams.builder import Stream
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.shard_store import ShardStore
from tests.reference import Z
from tests.shards.thread_link import Abandoned, ThreadShards


def words() -> Circuit:
    """Count the numbers of each word, and return the rows of the tick before."""
    circuit = Circuit("words")
    rows: Stream = circuit.input("a", s=str, x=int, kind="set")
    circuit.output("counts", rows.group_by("s").agg(n=dbsp.count(), top=dbsp.col("x").max()))
    circuit.output("before", rows.delay())
    return circuit


def distributed_words(dealt: tuple[int, ...] = (1,)) -> Graph:
    """Return that circuit: rows are dealt by number, and counted on the shard of the word."""
    physical = words().circuit("physical")
    aggregate = next(node.operator for node in physical.nodes if "Aggregate" in node.operator.name)
    graph = Graph("words")
    columns = Schema.of(s=str, x=int)
    rows = graph.add_source(DealtInput("a", columns, kind="set", dealt=dealt))
    graph.connect(rows, graph.add(Arrange((0, 1)), rows))
    moved = graph.add(Exchange((0,)), rows)
    counts = graph.add(aggregate, moved, graph.add(Arrange((0, 1)), moved))
    graph.add(Output("counts", counts.schema), counts, graph.add(Arrange((0, 1, 2)), counts))
    before = graph.add_source(Delay(columns))
    graph.connect(before, rows)
    graph.add(Output("before", columns), before, graph.add(Arrange((0, 1)), before))
    return graph


def changes_of(tick: int, words_in_all: int = 11) -> dict[str, Any]:
    """The changes of a tick: some rows appear, those of an earlier tick disappear."""
    rows: dict[tuple[str, int], int] = {}
    for n in range(8):
        rows[(f"word {(tick * 7 + n) % words_in_all}", tick * 8 + n)] = 1
        if tick > 3 and n % 2:
            rows[(f"word {((tick - 3) * 7 + n) % words_in_all}", (tick - 3) * 8 + n)] = -1
    return {"a": rows}


def expected(tick: int) -> list[dict[str, Z]]:
    """The views after each tick up to this one, of a run in one process."""
    run = words().start()
    found = [_views(run)]
    for each in range(1, tick + 1):
        run.step(changes_of(each))
        found.append(_views(run))
    return found


def _views(run: Run) -> dict[str, Z]:
    return {name: run.view(name).to_dict() for name in run.outputs}


class DurableShards(ThreadShards):
    """A run on shards in threads with a folder; `step` returns when the tick is durable."""

    def __init__(self, graph: Graph, shards: int, folder: Path | ShardFolder, **options: Any) -> None:
        super().__init__(graph, shards)
        self.stores: list[ShardStore] = []
        self.attempts = 0
        self.repeated: list[int] = []
        """The ticks that the first shard has repeated."""
        self.folder = folder if isinstance(folder, ShardFolder) else ShardFolder(folder, **options)
        try:
            self.folder.expect(signature(graph), graph.name, shards)
            self.stores = self.folder.recover(self._start)
        except BaseException:
            self.close()
            raise

    @property
    def tick(self) -> int:
        return self.folder.tick

    def _start(self, tick: int) -> list[ShardStore]:
        """Open the stores of all shards, which repeat ticks together."""
        self.runs = [Run(run.graph, link=run.scope.link) for run in self.runs]
        self.meeting.renew()
        self.repeated.clear()
        stores: list[ShardStore] = []
        try:
            stores = [
                ShardStore(self.folder.place(shard, tick), self._decide(shard), self._repeat)
                for shard in range(len(self.runs))
            ]
            self._together(
                [
                    lambda store=store, run=run: store.attach(run)
                    for store, run in zip(stores, self.runs, strict=True)
                ]
            )
        except BaseException:
            for store in stores:
                store.close()
            raise
        for run, link in zip(self.runs, self.links, strict=True):
            link.interner = run.interner
        return stores

    def _repeat(self, run: Run, tick: int) -> None:
        link = self.links[run.scope.link.shard]
        link.interner, link.calls = run.interner, 0
        if link.shard == 0:
            self.repeated.append(tick)

    def _decide(self, shard: int) -> Any:
        def decide(run: Any) -> bool:
            link = self.links[shard]
            link.record()
            if shard == 0:
                self.folder.commit(run.tick + 1, self.attempts)
            link.record()
            return True

        return decide

    def step(self, changes: Mapping[str, Any] | None = None) -> dict[str, Z]:
        self.attempts += 1
        if self.folder.snapshot_due():
            for store in self.stores:
                store.order_snapshot(self.folder.plan.common)
        result = super().step(changes)
        self.folder.note([store.status() for store in self.stores])
        return result

    def snapshot(self) -> None:
        for store in self.stores:
            store.snapshot_now(self.folder.plan.common)
        self.folder.note([store.status() for store in self.stores])

    def wait(self) -> None:
        """Wait for the snapshots in the background, and take them over with an empty tick."""
        for store in self.stores:
            store.wait()

    def _together(self, actions: Sequence[Any]) -> None:
        def act(action: Any) -> None:
            try:
                action()
            except BaseException:
                self.meeting.abandon()
                raise

        with ThreadPoolExecutor(len(actions)) as threads:
            errors = [future.exception() for future in [threads.submit(act, action) for action in actions]]
        found = [error for error in errors if error is not None]
        if found:
            raise next((error for error in found if not isinstance(error, Abandoned)), found[0])

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.folder.close()
