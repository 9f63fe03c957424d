"""The run of one segment of a distributed circuit on one shard.

A tick of a segment receives the rows that other segments have sent, and returns the rows that it
sends. The rows travel as messages (`dbsp.shards.row_messages`).

A segment with a scope that has exchanges inside *waits*: `begin` returns what the first round sends
to each shard, `resume` takes the answers of all shards and returns what the next round sends, and
so on until the tick ends (`dbsp.shards.segment_link`). Meanwhile the run is in the middle of the
tick, on a thread of its own; `abandon` rolls the tick back. The messages and the answers of all
rounds are the journal of the tick: another run in the same state takes them with `step` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dbsp.circuit.graph import Graph
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.durable.state_image import read_image, write_image
from dbsp.errors import expect_present
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.shards.row_messages import read_rows
from dbsp.shards.segment_link import Answers, MovedRows, SegmentLink
from dbsp.shards.suspendable_call import SuspendableCall

_ROUND = "#round "
"""How the names of answers begin in a journal; no input has such a name."""


@dataclass(frozen=True, slots=True)
class SegmentStep:
    """What a segment has done until it waits, or until the tick ends."""

    sent: list[MovedRows]
    """What the round sends; at the end of the tick, what the exchanges between segments send."""
    result: TickResult | None
    """The deltas of the outputs; None if the segment waits."""


class SegmentRun:
    """A run of the circuit of a segment, for one shard of a number of shards."""

    def __init__(
        self,
        graph: Graph,
        shard: int,
        shards: int,
        image: Path | None = None,
        memory_limit: int | None = None,
    ) -> None:
        """Start without rows, or with the state that `write` has written to the folder `image`."""
        self.memory_limit = memory_limit
        self._interner = Interner()
        self._link = SegmentLink(graph, shard, shards, self._interner)
        self._call: SuspendableCall[TickResult] | None = None
        self._received: dict[str, Sequence[bytes]] = {}
        self._ended = 0
        if image is None:
            self.run = Run(graph, interner=self._interner, memory_limit=memory_limit, link=self._link)
        else:
            self.run = read_image(image, graph, self._interner, self._link, memory_limit)

    @property
    def received(self) -> Mapping[str, Sequence[bytes]]:
        """What the latest tick has received so far, as `step` takes it: inputs and answers."""
        return self._received

    @property
    def tick(self) -> int:
        """The number of ticks that have ended."""
        return self.run.tick if self._call is None else self._ended

    @property
    def rounds(self) -> int:
        """The number of rounds of the latest tick whose answers have arrived."""
        return self._link.round

    @property
    def digest(self) -> str:
        """A digest of the votes of the latest tick; equal on all shards that decided the same."""
        return self._link.digest.hex()

    def write(self, image: Path, sync: bool = False) -> None:
        """Write the state to an empty folder. O(state). Raises CheckpointError."""
        write_image(self.run, image, sync)

    def step(self, received: Mapping[str, Sequence[bytes]]) -> tuple[list[MovedRows], TickResult]:
        """Apply a whole tick: the messages by input, and the answers of all rounds.

        Returns what is sent, and the deltas of outputs. Raises as `Run.step`; the run is then as
        before the tick.
        """
        inputs, rounds = _parted(received)
        staged = self._staged(inputs, rounds)
        self._link.begin(rounds)
        result = self.run.step_staged(staged)
        return self._link.take(), result

    def begin(self, received: Mapping[str, Sequence[bytes]], rounds: Sequence[Answers] = ()) -> SegmentStep:
        """Apply the messages of a tick by input, and the answers of its first rounds.

        Raises as `step`.
        """
        staged = self._staged(received, rounds)
        self._ended = self.run.tick
        call = self._call = SuspendableCall(lambda: self.run.step_staged(staged), self._link.shard)
        self._link.begin(rounds, call.ask)
        call.start()
        return self._taken(call)

    def resume(self, answers: Answers) -> SegmentStep:
        """Take the answers of the round in which the run waits. Raises as `step`."""
        self._add(self._link.round, answers)
        call = expect_present(self._call, "the tick of a segment that waits")
        call.answer(answers)
        return self._taken(call)

    def abandon(self) -> None:
        """Roll back the tick in which the run waits, if it does."""
        call, self._call = self._call, None
        if call is not None:
            call.abandon()

    def _taken(self, call: SuspendableCall[TickResult]) -> SegmentStep:
        if not call.ended:
            return SegmentStep(call.question, None)
        self._call = None
        return SegmentStep(self._link.take(), call.result())

    def _staged(self, received: Mapping[str, Sequence[bytes]], rounds: Sequence[Answers]) -> dict[str, Batch]:
        self.abandon()
        self._received = dict(received)
        for number, answers in enumerate(rounds):
            self._add(number, answers)
        staged: dict[str, Batch] = {}
        for name, messages in received.items():
            batch = read_rows(messages, self.run.inputs[name], self._interner)
            if batch is not None:
                staged[name] = batch
        return staged

    def _add(self, number: int, answers: Answers) -> None:
        for name, messages in answers.items():
            self._received[f"{_ROUND}{number}: {name}"] = messages


def _parted(
    received: Mapping[str, Sequence[bytes]],
) -> tuple[dict[str, Sequence[bytes]], list[dict[str, Sequence[bytes]]]]:
    """Return the messages by input, and the answers by round."""
    inputs: dict[str, Sequence[bytes]] = {}
    rounds: list[dict[str, Sequence[bytes]]] = []
    for name, messages in received.items():
        if name.startswith(_ROUND):
            number, _, answer = name.removeprefix(_ROUND).partition(": ")
            rounds += ({} for _ in range(len(rounds), int(number) + 1))
            rounds[int(number)][answer] = messages
        else:
            inputs[name] = messages
    return inputs, rounds
