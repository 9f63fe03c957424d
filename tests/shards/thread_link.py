"""Shards in threads of one process: a `ShardLink` without processes, packets and sockets.

Every shard is a `Run` with its own interner in its own thread. All calls of all shards meet at one
barrier: the n-th call of one shard is compared with the n-th calls of the others, so a shard that
takes another way fails the tick at once. A shard that fails releases the others, so no test hangs.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dbsp import Run
from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import Exchanged, SentRows, ShardLink
from dbsp.data.batch import Batch, combine
from dbsp.data.interner import Interner
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema
from dbsp.data.value_hashes import ValueHashes
from dbsp.operators.ports.input import DealtInput
from dbsp.runtime.program_update import ProposedUpdate
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.update_report import Updated
from dbsp.shards.common_decision import CommonUpdate
from tests.reference import Z, add

T = TypeVar("T")


class Abandoned(Exception):
    """Another shard has failed, so this one cannot complete the tick."""


class Fault(Exception):
    """A failure that a test has ordered."""


class Meeting:
    """The place where the threads of all shards meet and exchange messages."""

    def __init__(self, shards: int) -> None:
        self._barrier = threading.Barrier(shards)
        self._calls: list[str] = [""] * shards
        self._messages: list[Any] = [None] * shards
        self._reading = threading.Lock()

    def meet(self, shard: int, call: str, message: Any, read: Callable[[list[Any]], T]) -> T:
        """Return `read` of the messages of all shards, which pass them to the same call.

        No shard continues before all have read, so what a message refers to may change afterwards.
        """
        self._calls[shard], self._messages[shard] = call, message
        self._wait()
        if len(set(self._calls)) > 1:
            raise AssertionError(f"the shards make different calls: {self._calls}")
        with self._reading:
            result = read(list(self._messages))
        self._wait()
        return result

    def abandon(self) -> None:
        """Release the shards that wait, now and later, until `renew` is called."""
        self._barrier.abort()

    def renew(self) -> None:
        """Allow new meetings. No shard may be waiting."""
        self._barrier.reset()

    def _wait(self) -> None:
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise Abandoned("another shard has failed") from None


class ThreadLink(ShardLink):
    """The link of one shard.

    `delays` makes the shard late at random at each call. `fault` is the number of the call of a
    tick, from 1 on, that raises Fault instead; the record of the tick is its last call.
    """

    def __init__(self, shard: int, shards: int, meeting: Meeting, interner: Interner) -> None:
        self.shard = shard
        self.shards = shards
        self.delays: random.Random | None = None
        self.fault = 0
        self.calls = 0
        """The number of calls in this tick."""
        self.sent: Counter[str] = Counter()
        """By exchange, the number of rows that this shard has sent to the others."""
        self.interner = interner
        self.meeting = meeting

    def exchange(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Batch | None:
        assert len(parts) == self.shards, f"{node} sends {len(parts)} parts to {self.shards} shards"
        self.sent[node] += sum(len(part) for shard, part in enumerate(parts) if part and shard != self.shard)

        def read(messages: list[tuple[Sequence[Batch | None], Interner]]) -> Batch | None:
            received = [
                (recode_rows(part.rows, schema, interner, schema, self.interner), part.weights)
                for theirs, interner in messages
                if (part := theirs[self.shard]) is not None
            ]
            return combine(received)

        return self._call(f"exchange of {node}", (parts, self.interner), read)

    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        for stream in sent:
            parts = [part for shard, part in enumerate(stream.parts) if part and shard != self.shard]
            self.sent[node] += sum(map(len, parts))

        def read(messages: list[tuple[Sequence[SentRows], Sequence[int], Interner]]) -> Exchanged:
            streams: list[list[Batch | None]] = []
            for number, own in enumerate(sent):
                streams.append([])
                for theirs, _, interner in messages:
                    part, schema = theirs[number].parts[self.shard], own.schema
                    assert theirs[number].schema.types == schema.types, f"{node} sends other columns"
                    if part is not None:
                        rows = recode_rows(part.rows, schema, interner, schema, self.interner)
                        part = Batch(rows, part.weights)
                    streams[-1].append(part)
            return Exchanged(streams, [tuple(theirs) for _, theirs, _ in messages])

        call = f"exchange of {len(sent)} streams and {len(numbers)} numbers of {node}"
        return self._call(call, (sent, numbers, self.interner), read)

    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        return self._call(f"vote of {len(numbers)} numbers", tuple(map(int, numbers)), lambda votes: votes)

    def record(self) -> None:
        """Wait until every shard has computed the tick."""
        self._call("record", None, lambda messages: None)

    def _call(self, call: str, message: Any, read: Callable[[list[Any]], T]) -> T:
        self.calls += 1
        if self.calls == self.fault:
            raise Fault(f"shard {self.shard} fails at call {self.calls}: {call}")
        if self.delays is not None and self.delays.random() < 0.5:
            time.sleep(self.delays.random() / 500)
        return self.meeting.meet(self.shard, f"{call}, call {self.calls}", message, read)


class CommonCommit:
    """The log of the run of one shard: no shard commits a tick before all have computed it."""

    id = "threads"
    label: Any = None
    result: TickResult | None = None

    def __init__(self, link: ThreadLink) -> None:
        self._link = link

    def begin(self, run: Any) -> None:
        pass

    def record(self, tick: int, staged: Mapping[str, Batch], run: Any, label: Any) -> None:
        self._link.record()

    def check_label(self, label: Any) -> None:
        pass

    def record_part(self, tick: int, staged: Mapping[str, Batch], run: Any) -> None:
        raise AssertionError("shards in threads have no transactions")

    def discard_parts(self) -> None:
        pass

    def recorded(self, tick: int) -> bool:
        return False

    def committed(self, result: TickResult, label: Any) -> None:
        pass

    def begin_update(self, run: Any) -> CommonUpdate:
        def decide(run: Any, done: Updated) -> bool:
            self._link.record()
            return True

        return CommonUpdate(decide)

    def snapshot(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def close(self) -> None:
        pass


class ThreadShards:
    """A run of a distributed circuit on shards in threads of this process.

    With `arrival`, the rows of a change arrive in random order, so the shards give other ids to the
    interned values than one process does. With `delays`, the shards are late at random at each
    call.
    """

    def __init__(
        self, graph: Graph, shards: int, *, arrival: random.Random | None = None, delays: int | None = None
    ) -> None:
        self._front = Run(graph)
        """Encodes and nets the changes; never stepped."""
        self.meeting = Meeting(shards)
        self._arrival = arrival
        self.links: list[ThreadLink] = []
        self.runs: list[Run] = []
        self.absent: dict[str, int] = {}
        """By input, the retractions of absent rows in the latest tick."""
        self.present: dict[str, int] = {}
        """By input, the assertions of present rows in the latest tick."""
        for shard in range(shards):
            interner = Interner()
            link = ThreadLink(shard, shards, self.meeting, interner)
            if delays is not None:
                link.delays = random.Random(delays * shards + shard)
            run = Run(graph, interner=interner, link=link)
            run.log = CommonCommit(link)
            self.links.append(link)
            self.runs.append(run)
        self._dealt = dealing(graph)
        assert set(self._dealt) == set(self._front.inputs), "an input of the circuit is not dealt to shards"

    def step(self, changes: Mapping[str, Any] | None = None) -> dict[str, Z]:
        """Apply the changes as one tick; return the deltas that are not empty.

        If a shard raises, every shard rolls the tick back, and the error of the first shard that
        has failed by itself is raised.
        """
        staged, _ = self._front.net(self._in_any_order(changes or {}))
        return self.step_staged(staged, self._front.interner)

    def step_staged(self, staged: Mapping[str, Batch], interner: Interner) -> dict[str, Z]:
        """Apply batches of codes of an interner as one tick, as `step` does."""
        dealt = self._deal(staged, interner, self._front, self._dealt)
        self.meeting.renew()
        with ThreadPoolExecutor(len(self.runs)) as threads:
            changed = frozenset(staged)
            futures = [threads.submit(self._step, shard, part, changed) for shard, part in enumerate(dealt)]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, Abandoned)), errors[0])
        results = [future.result() for future in futures]
        self.absent = _counted([result.absent for result in results])
        self.present = _counted([result.present for result in results])
        deltas = {name: add(*(result[name].to_dict() for result in results)) for name in self.runs[0].outputs}
        return {name: delta for name, delta in deltas.items() if delta}

    def switch(self, graph: Graph) -> None:
        """Let all shards switch to another distributed circuit together, or none.

        A fault at a call of a shard is counted as in a tick.
        """
        self.meeting.renew()
        with ThreadPoolExecutor(len(self.runs)) as threads:
            futures = [threads.submit(self._switch, shard, graph) for shard in range(len(self.runs))]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, Abandoned)), errors[0])
        self._dealt = dealing(graph)

    def update(self, graph: Graph, facts: Mapping[str, Any]) -> tuple[dict[str, Z], list[Updated]]:
        """Let all shards continue with the circuit of another program together, or none.

        Returns the deltas that are not empty, and the reports of the shards. A fault is counted as
        in a tick.
        """
        front = Run(graph)
        dealt = self._deal(front.net(facts)[0], front.interner, front, dealing(graph))
        changed = frozenset(name for name, change in facts.items() if change)
        self.meeting.renew()
        with ThreadPoolExecutor(len(self.runs)) as threads:
            futures = [
                threads.submit(self._update, shard, graph, part, changed) for shard, part in enumerate(dealt)
            ]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, Abandoned)), errors[0])
        self._front, self._dealt = front, dealing(graph)
        reports = [future.result() for future in futures]
        deltas = {
            name: add(*(report.deltas[name].to_dict() for report in reports)) for name in self.runs[0].outputs
        }
        return {name: delta for name, delta in deltas.items() if delta}, reports

    def _update(
        self, shard: int, graph: Graph, staged: Mapping[str, Batch], changed: frozenset[str]
    ) -> Updated:
        link, run = self.links[shard], self.runs[shard]
        link.calls = 0

        def encode() -> Mapping[str, Batch] | None:
            link.changed = changed or None
            return staged if changed else None

        try:
            return run.switch_program(ProposedUpdate(graph, "", {}, None, {}, lambda: None), encode)
        except BaseException:
            self.meeting.abandon()
            raise
        finally:
            link.changed = None

    def _switch(self, shard: int, graph: Graph) -> None:
        link = self.links[shard]
        link.calls = 0
        try:
            self.runs[shard].switch_circuit(graph, lambda transplant: link.record())
        except BaseException:
            self.meeting.abandon()
            raise

    def view(self, name: str) -> Z:
        return add(*(run.view(name).to_dict() for run in self.runs))

    def views(self) -> dict[str, Z]:
        return {name: self.view(name) for name in self.runs[0].outputs}

    @property
    def sent(self) -> Counter[str]:
        """By exchange, the number of rows that went from one shard to another."""
        return sum((link.sent for link in self.links), Counter[str]())

    def _step(self, shard: int, staged: Mapping[str, Batch], changed: frozenset[str]) -> TickResult:
        link = self.links[shard]
        link.calls, link.changed = 0, changed
        try:
            return self.runs[shard].step_staged(staged)
        except BaseException:
            self.meeting.abandon()
            raise
        finally:
            link.changed = None

    def _in_any_order(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._arrival is None:
            return changes
        shuffled: dict[str, Any] = {}
        for name in self._arrival.sample(list(changes), len(changes)):
            change = changes[name]
            if isinstance(change, Mapping):
                change = dict(self._arrival.sample(list(change.items()), len(change)))
            shuffled[name] = change
        return shuffled

    def _deal(
        self,
        staged: Mapping[str, Batch],
        source: Interner,
        front: Run,
        dealt: Mapping[str, tuple[int, ...]],
    ) -> list[dict[str, Batch]]:
        """Return by shard the rows of each input that are dealt to it, under its interner."""
        shards = len(self.runs)
        parts: list[dict[str, Batch]] = [{} for _ in self.runs]
        for name, batch in staged.items():
            schema = front.inputs[name]
            places = ValueHashes(source).shards(batch.rows, dealt[name], schema.types, shards)
            for shard, run in enumerate(self.runs):
                here = places == shard
                rows = recode_rows(batch.rows[here], schema, source, schema, run.interner)
                part = combine([(rows, batch.weights[here])])
                if part is not None:
                    parts[shard][name] = part
        return parts


def dealing(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return by input the columns by which its rows are dealt."""
    return {
        node.operator.relation: node.operator.dealt
        for node in graph.nodes
        if isinstance(node.operator, DealtInput)
    }


def _counted(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))
