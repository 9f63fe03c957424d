"""Make a log of changes smaller while it still shows a failure.

Parts are removed by delta debugging: halves first, then smaller parts (Zeller and Hildebrandt,
"Simplifying and Isolating Failure-Inducing Input", 2002, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dbsp.testing.change_log import Log, rows_of
from dbsp.testing.checked_engine import Row

T = TypeVar("T")


def smallest(log: Log, fails: Callable[[Log], bool], attempts: int) -> Log:
    """Return a log with fewer ticks, fewer rows and smaller weights that still fails.

    `fails` is called `attempts` times at most. Without that limit, the result has no tick and no
    row that can be left out alone, and no weight that can be 1, -1, 2 or -2.
    """
    left = attempts

    def still_fails(smaller: Log) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(smaller)

    before: Log | None = None
    while log != before and left > 0:
        before = log
        log = _fewer(log, still_fails)
        log = _fewer_rows(log, still_fails)
        log = _without_opposites(log, still_fails)
        log = _smaller_weights(log, still_fails)
    return log


def _fewer(parts: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Leave out parts: halves first, then shorter stretches, then single ones."""
    size = len(parts) // 2
    while size:
        start = 0
        while start < len(parts):
            rest = parts[:start] + parts[start + size :]
            if rest and fails(rest):
                parts = rest
            else:
                start += size
        size //= 2
    return parts


def _fewer_rows(log: Log, fails: Callable[[Log], bool]) -> Log:
    def with_rows(rows: Sequence[tuple[int, str, Row, int]]) -> Log:
        ticks: Log = [{} for _ in log]
        for number, name, row, weight in rows:
            ticks[number].setdefault(name, {})[row] = weight
        return ticks

    return with_rows(_fewer(rows_of(log), lambda rows: fails(with_rows(rows))))


def _without_opposites(log: Log, fails: Callable[[Log], bool]) -> Log:
    """Leave out an insertion and a deletion of the same row together."""
    rows = rows_of(log)
    for number, (tick, name, row, weight) in enumerate(rows):
        for later, later_name, later_row, later_weight in rows[number + 1 :]:
            if (name, row) == (later_name, later_row) and weight * later_weight < 0:
                common = min(abs(weight), abs(later_weight)) * (1 if weight > 0 else -1)
                smaller = _with(
                    _with(log, tick, name, row, weight - common), later, name, row, later_weight + common
                )
                if fails(smaller):
                    return _without_opposites(smaller, fails)
    return log


def _with(log: Log, number: int, name: str, row: Row, weight: int) -> Log:
    """Return the log with another weight of one change, which 0 leaves out."""
    changed = dict(log[number])
    changed[name] = {**log[number][name], row: weight}
    if not weight:
        del changed[name][row]
    return [*log[:number], changed, *log[number + 1 :]]


def _smaller_weights(log: Log, fails: Callable[[Log], bool]) -> Log:
    for number, name, row, weight in rows_of(log):
        for size in range(1, min(abs(weight), 3)):
            smaller = _with(log, number, name, row, size if weight > 0 else -size)
            if fails(smaller):
                log = smaller
                break
    return log
