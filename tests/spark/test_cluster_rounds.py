"""Recursions with exchanges inside, on executors: rounds, and attempts that fail between them.

Needs no JVM.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dbsp import CheckpointError, EvaluationError, InvariantError
from dbsp.shards.segment_link import Answers, MovedRows, RoundsDifferError, SegmentLink
from dbsp.spark.cluster import cluster_run, tick_jobs
from dbsp.spark.cluster.commits import ClusterCommit
from dbsp.spark.cluster.segment_state import forget_runs
from dbsp.spark.cluster.suspended_ticks import Suspension
from dbsp.spark.cluster.tick_jobs import TickJobs
from tests.shards.closure_circuit import RandomEdges, closure, undefined_at
from tests.spark.fake_session import fake_tasks
from tests.spark.test_cluster_faults import Life
from tests.spark.test_cluster_run import Changes


class Rounds(Life):
    """A run whose recursions have exchanges inside."""

    scopes = "exchange"

    def tick(self, changes: Changes) -> None:
        self.expect(changes)
        self.apply(changes)

    def waited(self) -> tuple[int, int]:
        """Return the rounds and the jobs of the recursion in the latest tick."""
        (found,) = {
            (facts["rounds"], facts["jobs"]) for facts in self.many.segment_facts() if "rounds" in facts
        }
        return found

    def round_files(self) -> list[str]:
        return self.many.query.folder.names("rounds")


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fake_tasks(monkeypatch)
    monkeypatch.setattr(cluster_run, "_REPETITIONS", 1)  # a repetition would hide a defect
    yield
    forget_runs()


def chain(nodes: int) -> Changes:
    return {"edge": {(node, node + 1): 1 for node in range(nodes)}}


@pytest.mark.parametrize("place", ["local", "memory"])
def test_attempts_that_are_lost_repeated_or_run_twice(place: str, tmp_path: Path) -> None:
    draw = random.Random(place)
    life, edges = Rounds(closure(), 2, place, tmp_path, 6000, draw), RandomEdges(draw)
    for _ in range(4):
        life.tick(edges.change())
        if draw.random() < 0.3:
            life.many = life.started()
    life.check()
    attempts = life.session.attempts
    assert attempts.lost > 9 and attempts.doubled > 9 and attempts.forgotten > 9


def test_a_tick_takes_as_many_jobs_as_its_rounds_need(tmp_path: Path) -> None:
    life = Rounds(closure(), 2, "local", tmp_path)
    life.tick(chain(4))
    rounds, jobs = life.waited()
    assert 2 + 4 < rounds <= 2 + 4 + 8 and jobs == 3
    life.tick({"edge": {(0, 1): -1}})
    assert life.waited()[1] == 2  # the two phases of a deletion have more rounds
    life.tick({"edge": {(1, 2): -1}})
    assert life.waited()[1] == 1  # as many stages as the tick before has needed
    life.tick({})
    assert life.waited() == (1, 1)
    life.many = life.started()
    life.tick({"edge": {(0, 1): 1}})
    assert life.waited()[1] > 1  # a new driver does not know the rounds
    life.check()


def test_a_worker_that_has_missed_rounds_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round is in another process; each process continues from the last round that it has."""
    from dbsp.spark.cluster import segment_state

    kept: list[dict[Any, Any]] = [{}, {}]
    processes = [0, 1]
    read: list[str] = []
    unchanged = segment_state.read_journal

    def noted(folder: Any, place: Any, file: str) -> Any:
        read.append(file)
        return unchanged(folder, place, file)

    life = Rounds(closure(), 2, "local", tmp_path)
    stages = TickJobs.stages

    def in_turn(jobs: TickJobs) -> Any:
        for number, task in enumerate(stages(jobs)):
            monkeypatch.setattr(segment_state, "_KEPT", kept[processes[number % len(processes)]])
            yield task

    monkeypatch.setattr(TickJobs, "stages", in_turn)
    monkeypatch.setattr("dbsp.spark.cluster.suspended_ticks.read_journal", noted)
    life.tick(chain(6))
    rounds, _ = life.waited()
    assert len(read) == len(set(read)), "a process has read the same round twice"
    assert rounds <= len(read) <= 2 * (rounds + 1)
    life.tick({"edge": {(2, 3): -1}})
    # A tick that fails between two jobs: the first process keeps runs that wait in it.
    life.many = life.started()
    with monkeypatch.context() as patch, pytest.raises(CheckpointError, match="no space"):
        patch.setattr(TickJobs, "take", _fail)
        life.apply({"edge": {(7, 8): 1, (8, 9): 1}})
    assert [len(each.files) for each in kept[0].values() if each.files] == [2, 2]
    processes[:] = [1, 1, 1, 0]  # the first process does the second round
    life.tick({"edge": {(2, 3): 1, (0, 1): -1}})
    life.check()
    for each in kept:
        monkeypatch.setattr(segment_state, "_KEPT", each)
        forget_runs()


def _fail(*_: Any) -> None:
    raise CheckpointError("no space", code="checkpoint-write")


def test_files_of_rounds_are_removed(tmp_path: Path) -> None:
    life = Rounds(closure(), 2, "local", tmp_path)
    life.tick(chain(4))
    assert life.round_files() == []
    for late in (1, 2):  # attempts of ticks that have ended, and one of the next tick
        life.many.query.folder.write(f"rounds/{late}/late", b"")
    life.many.query.folder.write("rounds/3/dead", b"")
    life.tick({})
    assert life.round_files() == ["3"]
    life.many = life.started()
    life.tick({})
    assert life.round_files() == []
    life.check()


@pytest.mark.parametrize("after", [False, True])
def test_a_file_system_that_fails(after: bool, tmp_path: Path) -> None:
    """Each tick fails at a later call, and is repeated by the same run or by the next process."""
    draw = random.Random(11)
    life, edges = Rounds(closure(), 2, "local", tmp_path, 4000), RandomEdges(draw, 4)
    failures = 0
    for call in range(2, 60, 9):
        changes = edges.change(2)
        life.expect(changes)
        before = life.many.tick
        life.faults.arm(call, after)
        try:
            life.apply(changes)
        except (CheckpointError, OSError) as error:
            assert f"call {call}" in str(error)
            failures += 1
            life.faults.disarm()
            if draw.random() < 0.5:
                forget_runs()
                life.many = life.started()
            if life.many.tick == before:
                life.apply(changes)
        life.faults.disarm()
        assert life.many.tick == before + 1
    life.check()
    assert failures > 3


def test_an_error_of_the_program_in_a_round(tmp_path: Path) -> None:
    life = Rounds(closure(undefined_at(5)), 2, "local", tmp_path)
    life.tick({"edge": {(3, 4): 1}})
    with pytest.raises(EvaluationError, match="division by zero"):
        life.apply({"edge": {(4, 5): 1}})
    assert life.many.tick == 1
    life.tick({"edge": {(2, 3): 1}})
    life.check()


# --- votes ----------------------------------------------------------------------------------------


def other_votes(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    """Let the first shard see another vote of the second one, in as many attempts as `left` has."""
    changed: list[int] = []
    unchanged = SegmentLink._answers

    def answers(link: SegmentLink, numbers: Sequence[int], packed: Any) -> Answers:
        ask = link._ask

        def asked(sent: list[MovedRows]) -> Any:
            assert ask is not None
            first = numbers and link.round and link.round == (changed or [link.round])[0]
            if link.shard == 1 and first and left:
                changed.append(left.pop() or link.round)
                at, rows = next((at, rows) for at, rows in enumerate(sent) if rows.shard == 0)
                work = rows.message[:24] + bytes([rows.message[24] ^ 1]) + rows.message[25:]
                sent[at] = MovedRows(rows.exchange, 0, work)
            return ask(sent)

        monkeypatch.setattr(link, "_ask", None if ask is None else asked)
        try:
            return unchanged(link, numbers, packed)
        finally:
            link._ask = ask

    monkeypatch.setattr(SegmentLink, "_answers", answers)


def test_a_tick_whose_shards_decide_differently_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Rounds(closure(), 2, "local", tmp_path)
    monkeypatch.setattr(cluster_run, "_REPETITIONS", 3)
    left = [0] * 2
    other_votes(monkeypatch, left)
    life.tick(chain(3))
    assert not left
    left += [0] * 3
    with pytest.raises(RoundsDifferError, match="have seen different votes"):
        life.apply({"edge": {(3, 4): 1}})
    assert not left and life.many.tick == 1
    life.check()


def jobs_of(life: Rounds) -> TickJobs:
    run = life.many
    return TickJobs(run.query, run.segments, (), ClusterCommit(), {})


def test_the_votes_of_the_last_round_are_compared(tmp_path: Path) -> None:
    life = Rounds(closure(), 2, "local", tmp_path)
    facts = [{"level": 1, "shard": shard, "rounds": 3, "digest": f"{shard}"} for shard in range(2)]
    with pytest.raises(RoundsDifferError, match="different votes in tick 1"):
        jobs_of(life).take(facts)
    jobs_of(life).take([each | {"digest": "0"} for each in facts])


def test_a_job_that_steps_nothing_is_a_defect(tmp_path: Path) -> None:
    life = Rounds(closure(), 2, "local", tmp_path)
    with pytest.raises(InvariantError, match="expected a job that steps a segment, got none in tick 1"):
        jobs_of(life).take([])


def test_a_segment_that_waits_on_some_shards_only(tmp_path: Path) -> None:
    life = Rounds(closure(), 2, "local", tmp_path)
    waits = {"waiting": {"files": ["a"], "sent_bytes": 0, "opening_seconds": 0, "seconds": 0}, "at": [1, 0]}
    with pytest.raises(RoundsDifferError, match="different votes in tick 1"):
        jobs_of(life).take([waits])


def test_stages_of_the_next_job_double_up_to_a_limit(tmp_path: Path) -> None:
    life = Rounds(closure(), 2, "local", tmp_path)
    jobs, counts = jobs_of(life), []
    names: list[str] = []
    for done in (1, 3, 7, 15, 31, 63):
        tasks = [task for task in jobs.stages() if ", round " in task.name]
        counts.append(len(tasks))
        names.append(tasks[0].name.rpartition(", ")[2])
        assert jobs.stages()[-1].ends_job
        files = [f"{number}" for number in range(done)]
        facts = {"files": files, "sent_bytes": 0, "opening_seconds": 0, "seconds": 0}
        jobs.take([{"waiting": facts, "at": [1, shard]} for shard in range(2)])
    assert counts == [2, 4, 8, 16, tick_jobs.MOST_ROUNDS, tick_jobs.MOST_ROUNDS]
    assert names == ["round 1", "round 1", "round 3", "round 7", "round 15", "round 31"]


def test_suspensions_travel() -> None:
    suspension = Suspension(("rounds/1/a", "rounds/1/b"), 5, 0.25, 0.5)
    assert Suspension.decoded(suspension.encoded()) == suspension and suspension.round == 1
