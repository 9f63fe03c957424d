"""A process is killed between a tick and its delivery: it arrives once. Needs no JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fake_spark import Received
from dbsp.durable.tick_journal import TickJournal
from dbsp.spark.sink_delivery import SinkDelivery
from tests.spark.lives import Life, live, ticks


class Kill(BaseException):
    """The end of the process."""


def row(*numbers: int) -> list[tuple[int, ...]]:
    return [(n, n, 1) for n in numbers]


def killed(
    life: Life, batch: int, monkeypatch: pytest.MonkeyPatch, where: Any, call: Callable[..., Any]
) -> None:
    """Apply a micro-batch with `call` as the method `where`, a class and a name."""
    with monkeypatch.context() as patched:
        patched.setattr(SinkDelivery, "close", lambda self: None)  # a killed process closes nothing
        patched.setattr(*where, call)
        with pytest.raises(RuntimeError, match="Kill"):
            life.batches(batch)


def without_delivery(self: SinkDelivery, *_: Any) -> None:
    raise Kill


def with_snapshot(self: SinkDelivery, *_: Any) -> None:
    assert self._run.log is not None
    self._run.log.snapshot()
    raise Kill


def to_one_sink(self: SinkDelivery, deltas: Any, tick: int, jobs: Any) -> None:
    assert self._run.log is not None
    self._run.log.snapshot()
    self._write(self.sinks[0], deltas[self.sinks[0].output], tick, jobs)
    raise Kill


@pytest.mark.parametrize("every", [1, 2, 100])
@pytest.mark.parametrize("emit", [without_delivery, with_snapshot, to_one_sink])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_kill_between_a_tick_and_its_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, emit: Callable[..., Any], batch: int
) -> None:
    seen = Received()
    sinks = {"a": tmp_path / "a", "b": seen}
    killed(
        Life(tmp_path, sinks, every=every).batches(*range(batch)),
        batch,
        monkeypatch,
        (SinkDelivery, "emit"),
        emit,
    )
    live(tmp_path, sinks, batch, batch + 1, every=every)
    expected = {n + 1: row(n) for n in range(batch + 2)}
    assert ticks(tmp_path / "a") == expected
    assert seen.ticks == expected


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_kill_after_the_snapshot_at_the_beginning_of_a_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """The state ends with a snapshot of a tick that was delivered; it does not arrive twice."""

    def kill(self: TickJournal, *_: Any) -> None:
        raise Kill

    seen = Received()
    sinks = {"a": tmp_path / "a", "b": seen}
    life = Life(tmp_path, sinks, every=1).batches(*range(batch))
    killed(life, batch, monkeypatch, (TickJournal, "write"), kill)
    live(tmp_path, sinks, batch, every=1)
    expected = {n + 1: row(n) for n in range(batch + 1)}
    assert ticks(tmp_path / "a") == expected
    assert seen.ticks == expected


@pytest.mark.parametrize("emit", [without_delivery, with_snapshot])
def test_a_sink_that_is_left_out_after_a_kill_before_its_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emit: Callable[..., Any]
) -> None:
    seen = Received()
    sinks = {"a": tmp_path / "a", "b": seen}
    killed(Life(tmp_path, sinks).batches(0), 1, monkeypatch, (SinkDelivery, "emit"), emit)
    live(tmp_path, "a", 1, 2)
    live(tmp_path, sinks, 3)
    assert ticks(tmp_path / "a") == {n + 1: row(n) for n in range(4)}
    assert seen.ticks == {1: row(0), 3: row(1, 2), 4: row(3)}


def test_the_facts_of_a_program_arrive_after_a_kill_before_the_first_batch(tmp_path: Path) -> None:
    """The facts are the first tick, which takes place before any micro-batch."""
    import dbsp
    from benchmarks.fake_spark import FakeFrame, driver_of

    program = dbsp.compile(
        ".decl e(x: number, y: number)\n.input e\n.decl a(x: number, y: number)\n.output a\n"
        "a(x, y) :- e(x, y).\na(7, 7).\n"
    )
    pipeline = dbsp.spark.stream(program).source("e", FakeFrame()).sink("a", tmp_path / "a")
    driver = driver_of(pipeline, tmp_path / "checkpoint")
    assert driver.run.log is not None
    driver.run.log.snapshot()
    driver.run.log.close()
    driver = driver_of(pipeline, tmp_path / "checkpoint")
    driver(FakeFrame((0, 0)), 0)
    driver.close()
    assert ticks(tmp_path / "a") == {1: row(7), 2: row(0)}
