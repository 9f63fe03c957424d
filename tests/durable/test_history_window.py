"""Which snapshots a window of the past needs, also those of versions that wrote no times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.durable.history_window import HistoryWindow, clock
from dbsp.durable.moments import PastMoment, shown_time


@dataclass(frozen=True)
class Snapshot:
    tick: int
    time: float | None = None


def test_a_duration_and_its_units() -> None:
    for text, seconds in (
        ("90 s", 90),
        ("30min", 1800),
        ("2 Hours", 7200),
        ("1.5 d", 129_600),
        ("1 week", 604_800),
    ):
        assert HistoryWindow.of(text) == HistoryWindow(seconds=seconds)
    assert HistoryWindow.of(70) == HistoryWindow(ticks=70)
    assert not HistoryWindow.of(0) and not HistoryWindow.of("0 days")


def test_a_snapshot_without_a_time_covers_no_duration() -> None:
    window = HistoryWindow.of("1 hour")
    assert not window.begins_at(Snapshot(5), 9, 1e9)
    assert window.begins_at(Snapshot(5, 1e9 - 3600), 9, 1e9)
    assert not window.begins_at(Snapshot(5, 1e9 - 3599), 9, 1e9)
    assert window.wants(Snapshot(7, 1e9), Snapshot(5))
    assert not PastMoment.of("2100-01-01").includes(Snapshot(5))
    assert PastMoment.of(5).includes(Snapshot(5))
    assert shown_time(None) == "at an unknown time"


def test_busy_times_have_more_snapshots() -> None:
    window = HistoryWindow.of("64 hours")
    assert not window.wants(Snapshot(9_999, 3599), Snapshot(0, 0))
    assert window.wants(Snapshot(9_999, 3600), Snapshot(0, 0))
    assert window.wants(Snapshot(10_000, 1), Snapshot(0, 0))
    assert HistoryWindow.of(10**9).wants(Snapshot(10_000), Snapshot(0))
    assert not HistoryWindow.of(10**9).wants(Snapshot(9_999), Snapshot(0))


@given(st.integers(0, 10**16))
def test_a_time_is_the_same_as_a_datetime(microseconds: int) -> None:
    """The time of a tick as a datetime means this tick, and not the one before it."""
    time = microseconds / 1e6
    assert PastMoment.of(datetime.fromtimestamp(time, UTC)).includes(Snapshot(1, time))


def test_the_clock_has_whole_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_795_371_774.9689991)
    assert clock() == 1_795_371_774.968999
