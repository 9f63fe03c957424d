"""An abort may arrive at any moment, also while an error ends the tick of a shard."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dbsp.shards import shard_process
from dbsp.shards.abortable_link import ABORT_SIGNAL, AbortableLink
from dbsp.shards.shard_commands import Failed, StepTick
from dbsp.shards.shard_process import Shard


class LateAbort(AbortableLink):
    """The abort arrives when the tick has failed, before `end_computing` has any effect."""

    def end_computing(self) -> None:
        signal.raise_signal(ABORT_SIGNAL)
        super().end_computing()


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(ABORT_SIGNAL)
    yield
    signal.signal(ABORT_SIGNAL, before)


def test_an_abort_while_an_error_ends_the_tick(handler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(*_: object) -> None:
        raise ValueError("the tick fails")

    sent: list[Any] = []
    recovered: list[bool] = []
    nothing = SimpleNamespace(shard=0, shards=2, begin=lambda generation: None, abort=lambda: None)
    shard = object.__new__(Shard)
    link = LateAbort(nothing)  # type: ignore[arg-type]
    link.install()
    shard._link, shard._late = link, None
    shard._exchanges = nothing  # type: ignore[assignment]
    shard._channel = SimpleNamespace(send=sent.append)  # type: ignore[assignment]
    shard.run = SimpleNamespace(recover=lambda: recovered.append(True))  # type: ignore[assignment]
    monkeypatch.setattr(shard, "_compute", compute)
    monkeypatch.setattr(shard_process, "ship_error", repr)
    command = StepTick(epoch=1, generation=1, staged=(), packets=(), changed=frozenset())
    shard._act_together(command, ())
    assert recovered == [True]
    assert sent == [Failed("ValueError('the tick fails')")]  # type: ignore[arg-type]
