"""A log of changes: what the ticks of a run change, its integral, and other splits of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dbsp.errors import ArgumentError, shorten
from dbsp.testing.checked_engine import Row, Weights, weights_of

Tick = dict[str, Weights]
"""The changes of one tick by input."""
Log = list[Tick]


def log_of(changes: Iterable[Mapping[str, object]]) -> Log:
    """Return a log with every Z-set as a dict."""
    return [
        {name: _delta_of(delta, name, number) for name, delta in tick.items()}
        for number, tick in enumerate(changes, start=1)
    ]


def _delta_of(delta: object, name: str, number: int) -> Weights:
    try:
        weights = weights_of(delta)
    except TypeError:
        weights = None
    if weights is None or not all(type(weight) is int for weight in weights.values()):
        given = shorten(repr(delta))
        message = f"expected a Z-set as the changes of {name!r} in tick {number}, got {given}; give "
        raise ArgumentError(message + "a dict from rows to weights, or a list of rows")
    return weights


class Contents(dict[str, Weights]):
    """The contents of inputs; an input that never changed is empty."""

    def __missing__(self, name: str) -> Weights:
        return {}


def applied(contents: Contents, tick: Tick, sets: Collection[str]) -> Contents:
    """Return the contents after a tick. Each row of an input in `sets` is present or absent: a
    positive weight asserts it, a negative one retracts it."""
    after = Contents(contents)
    for name, delta in tick.items():
        weights = dict(after[name])
        for row, weight in delta.items():
            total = (1 if weight > 0 else 0) if name in sets else weights.get(row, 0) + weight
            if total:
                weights[row] = total
            else:
                weights.pop(row, None)
        after[name] = weights
    return after


def rows_of(log: Log) -> list[tuple[int, str, Row, int]]:
    """Return every change of the log: its tick, input, row and weight."""
    return [
        (number, name, row, weight)
        for number, tick in enumerate(log)
        for name, delta in tick.items()
        for row, weight in delta.items()
    ]


def in_one_tick(log: Log, sets: Collection[str]) -> Log:
    """Return one tick that leads from empty inputs to the contents after the log."""
    contents = Contents()
    for tick in log:
        contents = applied(contents, tick, sets)
    return [dict(contents)]


def is_proper(log: Log, sets: Collection[str]) -> bool:
    """Return whether the log deletes only rows that are there, and inserts those of an input in
    `sets` only where they are not."""
    contents = Contents()
    for tick in log:
        contents = applied(contents, tick, ())
        for name in tick:
            weights = contents[name].values()
            if min(weights, default=0) < 0 or (name in sets and max(weights, default=0) > 1):
                return False
    return True


def splits_of(log: Log, sets: Collection[str]) -> Iterable[tuple[str, Log]]:
    """Yield the log in ticks of other sizes, each with its description."""
    yield "in one tick", in_one_tick(log, sets)
    yield "with a tick for every row", [{name: {row: weight}} for _, name, row, weight in rows_of(log)]
    yield "with empty ticks between", [tick for each in log for tick in ({}, each, {})]


def log_text(log: Sequence[Tick]) -> str:
    """Return Python source that makes the log."""
    lines = "".join(f"    {tick!r},\n" for tick in log)
    return f"changes = [\n{lines}]"
