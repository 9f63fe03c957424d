"""Strategies of property tests: deltas, ticks, and other splits of the same changes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from .reference import Row, Z, add, consolidate

Tick = dict[str, Z]
"""The changes of one tick by input, without inputs that do not change."""

small = st.integers(0, 4)
"""Few values, so that equal rows and keys are frequent."""

weights = st.sampled_from([1, 1, 1, -1, -1, -1, 2, -2, 3, -7])
heavy_weights = st.sampled_from([1, -1, 2, -3, 10**6, -(10**6), 2**40, -(2**40)])

nullable = st.none() | small
words = st.sampled_from(["", "a", "b", "ab", "z", "é", "Z"])
floats = st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, -0.1, 1e16, -1e16, 1.0, 3.5, 1e-9])


def rows(*columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Row]:
    return st.tuples(*columns)


def deltas(
    row: st.SearchStrategy[Row], weight: st.SearchStrategy[int] = weights, max_size: int = 6
) -> st.SearchStrategy[Z]:
    """Draw a Z-set of random rows, possibly empty."""
    return st.lists(st.tuples(row, weight), max_size=max_size).map(consolidate)


def ticks(
    inputs: Mapping[str, st.SearchStrategy[Row]],
    weight: st.SearchStrategy[int] = weights,
    max_ticks: int = 7,
    max_size: int = 6,
) -> st.SearchStrategy[list[Tick]]:
    """Draw a sequence of ticks; some are empty, some omit an input, some undo an earlier tick."""
    change = st.fixed_dictionaries(
        {}, optional={name: deltas(row, weight, max_size) for name, row in inputs.items()}
    )
    undo = st.integers(1, max_ticks)
    return st.lists(change | undo, max_size=max_ticks).map(_with_undone)


def _with_undone(entries: Sequence[Tick | int]) -> list[Tick]:
    """Replace each number n by the exact opposite of the n-th tick before it."""
    done: list[Tick] = []
    for entry in entries:
        if isinstance(entry, int):
            past = done[-entry] if entry <= len(done) else {}
            entry = {name: {row: -weight for row, weight in delta.items()} for name, delta in past.items()}
        done.append(entry)
    return done


def set_ticks(
    inputs: Mapping[str, st.SearchStrategy[Row]], max_ticks: int = 7, max_size: int = 6
) -> st.SearchStrategy[list[Tick]]:
    """Draw ticks of insertions and retractions, for relations with set semantics."""
    return ticks(inputs, st.sampled_from([1, 1, -1]), max_ticks, max_size)


def totals(sequence: Sequence[Tick]) -> Tick:
    """Return the sum of all ticks, by input."""
    names = {name for tick in sequence for name in tick}
    return {name: add(*(tick.get(name, {}) for tick in sequence)) for name in names}


@st.composite
def resplit(draw: st.DrawFn, sequence: Sequence[Tick]) -> list[Tick]:
    """Draw other ticks with the same sum: split the weights and redistribute the parts."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    pieces: list[tuple[str, Row, int]] = []
    for tick in sequence:
        for name, delta in tick.items():
            for row, weight in delta.items():
                part = rng.choice([0, 1, -1, weight // 2])
                pieces += [(name, row, part), (name, row, weight - part)]
    rng.shuffle(pieces)
    redistributed: list[Tick] = [{} for _ in range(rng.randint(1, 6))]
    for name, row, weight in pieces:
        tick = rng.choice(redistributed)
        tick[name] = add(tick.get(name, {}), {row: weight})
    return redistributed
