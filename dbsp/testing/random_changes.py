"""Random changes, reproducible by their seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dbsp.errors import ArgumentError, wrong_argument
from dbsp.testing.change_log import Contents, Log, Tick, applied, is_proper
from dbsp.testing.checked_engine import Weights


def random_changes(
    inputs: Mapping[str, Sequence[Sequence[Any]]],
    ticks: int = 20,
    rows: int = 5,
    seed: int = 0,
    sets: Collection[str] = (),
    negative: bool = False,
) -> Log:
    """Return random changes: insertions, deletions, repeated rows, empty ticks and undone ticks.

    Few values for each column make equal rows and equal keys frequent, where engines err.

    Parameters:
        inputs: By input, the values of each of its columns.
        ticks: The number of ticks.
        rows: The largest number of rows of one input that a tick changes.
        seed: Equal seeds return equal changes.
        sets: The inputs whose rows are inserted only where they are not present.
        negative: Whether the weight of a row of the other inputs may become negative. Otherwise
            only rows that are present are deleted.

    Returns:
        A list with the changes of each tick: by input, a dict from rows to weights.

    Raises:
        ArgumentError: A column has no values, or a number is negative.

    Examples:
        >>> from dbsp.testing import random_changes
        >>> changes = random_changes({"edge": (range(3), range(3))}, ticks=3, seed=4)
        >>> len(changes), changes == random_changes({"edge": (range(3), range(3))}, ticks=3, seed=4)
        (3, True)
    """
    for name, columns in inputs.items():
        if not all(len(values) for values in columns):
            raise ArgumentError(f"expected values for each column of {name!r}, got none for one of them")
    for what, number in (("ticks", ticks), ("rows", rows)):
        if type(number) is not int:
            raise wrong_argument(what, "an int", number)
        if number < 0:
            raise ArgumentError(f"expected a number of {what}, got {number}")
    chosen = random.Random(seed)
    contents = Contents()
    log: Log = []
    while len(log) < ticks:
        kind = chosen.random()
        if kind < 0.1:
            tick: Tick = {}
        elif kind < 0.25 and log:
            tick = _undone(chosen.choice(log[-3:]))
        else:
            tick = {
                name: _delta(chosen, columns, contents[name], rows, _weights(name in sets, negative))
                for name, columns in inputs.items()
                if chosen.random() < 0.8
            }
        limited = [name for name in tick if name in sets or not negative]
        if is_proper([{name: each[name] for name in limited} for each in (contents, tick)], sets):
            contents = applied(contents, tick, ())
            log.append(tick)
    return log


def _weights(is_set: bool, negative: bool) -> Sequence[int]:
    if is_set:
        return (1,)
    return (1, 1, 1, 1, 2, 3, -1, -2) if negative else (1, 1, 1, 1, 2, 3)


def _delta(
    chosen: random.Random,
    columns: Sequence[Sequence[Any]],
    present: Weights,
    rows: int,
    weights: Sequence[int],
) -> Weights:
    delta: Weights = {}
    for _ in range(chosen.randint(0, rows)):
        if present and chosen.random() < 0.45:
            delta[chosen.choice(list(present))] = -1
            continue
        row = tuple(chosen.choice(values) for values in columns)
        delta[row] = chosen.choice(weights)
    return delta


def _undone(tick: Tick) -> Tick:
    return {name: {row: -weight for row, weight in delta.items()} for name, delta in tick.items()}
