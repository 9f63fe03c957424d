"""Segments that wait in rounds: they suspend, continue, are abandoned, and fail."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from dbsp import EvaluationError, InvariantError, ShardError
from dbsp.data.interner import Interner
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.stages.segments import segments_of
from dbsp.shards.segment_link import MovedRows, RoundsDifferError, SegmentLink
from dbsp.shards.segment_run import SegmentRun
from dbsp.shards.suspendable_call import SuspendableCall
from dbsp.shards.transport import ShardAborted
from tests.shards.closure_circuit import RandomEdges, closure, undefined_at
from tests.shards.segment_shards import ComparedSegments, SegmentShards


def compared(condition: Any = None) -> ComparedSegments:
    return ComparedSegments(closure(condition), 2, 1, scopes="exchange")


def waiting(shards: SegmentShards) -> list[SegmentRun]:
    """Return the runs of the segment that waits."""
    return shards.runs_of("path")


def threads() -> int:
    return sum(thread.name.startswith("tick of shard") for thread in threading.enumerate())


def test_a_recursion_takes_rounds_and_runs_are_lost_between_them() -> None:
    closures = ComparedSegments(closure(), 3, 5, scopes="exchange")
    (segment,) = (segment for segment in closures.many.segments if segment.waits)
    assert "path" in segment.outputs
    edges, rounds = RandomEdges(random.Random(2)), []
    for _ in range(5):
        closures.tick(edges.change())
        rounds.append(closures.many.rounds)
    assert closures.many.lost > 3 and max(rounds) > 8, (closures.many.lost, rounds)
    assert sum(map(bool, (run.run.view("path") for run in waiting(closures.many)))) > 1
    assert threads() == 0


def test_without_work_the_shards_vote_once() -> None:
    closures = compared()
    closures.tick({"edge": {(1, 2): 1}})
    closures.tick({})
    assert closures.many.rounds == 1


def test_a_single_shard_does_not_wait() -> None:
    graph = distribute(closure(), scopes="exchange", inner_exchanges=False)
    for segment in segments_of(graph):
        step = SegmentRun(segment.graph, 0, 1).begin({})
        assert step.result is not None


def test_an_abandoned_tick_is_rolled_back() -> None:
    closures = compared()
    closures.tick({"edge": {(n, n + 1): 1 for n in range(6)}})
    one, other = waiting(closures.many)
    before = one.run.view("path").to_dict()
    first = [run.begin({}) for run in (one, other)]
    assert [step.result for step in first] == [None, None] and threads() == 2
    assert one.tick == 1
    one.abandon()
    one.abandon()  # nothing waits any more
    assert (one.tick, one.run.view("path").to_dict(), threads()) == (1, before, 1)
    journal = {**one.received, **answers([[*first[0].sent, *first[1].sent]], 0)}
    one.step(journal)  # what it has received is the journal of the tick
    assert (one.tick, one.rounds) == (2, 1)
    closures.many.forget()
    assert threads() == 0
    closures.tick({"edge": {(2, 3): -1, (6, 7): 1}})


def answers(rounds: list[list[MovedRows]], shard: int) -> dict[str, list[bytes]]:
    """Return the answers of rounds for a shard as a journal has them."""
    found: dict[str, list[bytes]] = {}
    for number, moved in enumerate(rounds):
        for rows in moved:
            if rows.shard == shard:
                found.setdefault(f"#round {number}: {rows.exchange}", []).append(rows.message)
    return found


def test_an_error_in_the_middle_of_a_scope() -> None:
    """The shards that wait are rolled back, and the next tick is right."""
    closures = compared(undefined_at(5))
    closures.tick({"edge": {(n, n + 1): 1 for n in range(3)}})
    for _ in range(2):
        with pytest.raises(EvaluationError, match="division by zero"):
            closures.many.step({"edge": {(3, 4): 1, (4, 5): 1}})
        assert closures.many.rounds > 2 and threads() == 0
        closures.tick({"edge": {(4, 5): 1, (6, 7): 1}})
        closures.tick({"edge": {(4, 5): -1, (6, 7): -1}})
    closures.tick({"edge": {(3, 4): 1, (4, 5): 1}})  # the same error in one process


# --- the link -------------------------------------------------------------------------------------


def link_of(*rounds: dict[str, list[bytes]]) -> SegmentLink:
    """Return the link of the first of two shards in a tick with known answers."""
    link = SegmentLink(closure(), 0, 2, Interner())
    link.begin(rounds)
    return link


def header(vote: int, digest: bytes = bytes(16)) -> bytes:
    return digest + vote.to_bytes(8, "little")


def test_votes_are_those_of_the_journal() -> None:
    link = link_of({"from 0": [header(7)], "from 1": [header(9)]})
    assert link.vote((1,)) == [(7,), (9,)]  # not the vote of the shard that computes it again
    other = link_of({"from 0": [header(7)], "from 1": [header(8)]})
    other.vote((7,))
    assert (link.round, other.round) == (1, 1) and link.digest != other.digest


def test_shards_that_have_seen_different_votes() -> None:
    others: list[dict[str, list[bytes]]] = [{"from 1": [header(1, b"x" * 16)]}, {}]
    for other in others:  # another digest; it has ended the scope
        with pytest.raises(RoundsDifferError, match="have seen different votes before round 0") as error:
            link_of({"from 0": [header(1)], **other}).vote((1,))
        assert isinstance(error.value, ShardError) and error.value.code == "rounds-differ"


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ([], "expected the answers of round 0 in the journal"),
        ([{"from 0": [header(1)], "from 1": [header(1)] * 2}], "a header of shard 1 in round 0, got 2"),
        ([{"from 0": [header(1)], "from 1": [bytes(16)]}], "the shards do different calls in round 0"),
    ],
)
def test_answers_that_do_not_fit(rounds: list[Any], message: str) -> None:
    with pytest.raises(InvariantError, match=message):
        link_of(*rounds).vote((1,))


def test_exchanges_inside_of_joins_are_refused() -> None:
    with pytest.raises(InvariantError, match="without exchanges inside of joins, got a join"):
        link_of().exchange_all("a join", (), ())


# --- calls on another thread ----------------------------------------------------------------------


def call_of(function: Callable[[Callable[[Any], Any]], Any]) -> SuspendableCall[Any]:
    call: SuspendableCall[Any] = SuspendableCall(lambda: function(call.ask), 3)
    return call


def test_a_call_asks_and_ends() -> None:
    call = call_of(lambda ask: ask("a") + ask("b"))
    call.start()
    assert (call.question, call.ended) == ("a", False)
    call.answer(1)
    assert (call.question, call.ended) == ("b", False)
    call.answer(2)
    assert call.ended and call.result() == 3


def test_a_call_raises_what_its_function_raises() -> None:
    call = call_of(lambda ask: 1 // ask("zero"))
    call.start()
    call.answer(0)
    with pytest.raises(ZeroDivisionError):
        call.result()


def test_an_interrupt_of_the_caller_abandons_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    released, found = threading.Event(), []

    def function(ask: Callable[[Any], Any]) -> None:
        released.wait()
        try:
            ask("nobody")
        except ShardAborted as error:
            found.append(error.shard)

    class Interrupted(threading.Semaphore):
        def acquire(self, *given: Any, **named: Any) -> bool:
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            return super().acquire(*given, **named)

    call = call_of(function)
    monkeypatch.setattr(call, "_reported", Interrupted(0))
    with pytest.raises(KeyboardInterrupt):
        call.start()
    released.set()
    call.abandon()
    assert found == [3] and call.ended
